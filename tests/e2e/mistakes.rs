//! Mistakes of operators, each with three readers: `config check`, `serve`, and a running gateway that reads the
//! file.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::TEST_TIMEOUT;
use crate::serving::{kassette, prepare};

const ACCOUNT: &str = r#"module = "sandbox"
name = "Sandbox"
environment = "test"
simulated = true
merchants = "all"
hosts = ["127.0.0.1:9"]
redirect_hosts = ["127.0.0.1:9"]
[settings]
base-url = "http://127.0.0.1:9"
[secrets.client-id]
value = "id"
[secrets.client-secret]
value = "s3cret"
[secrets.callback-secret]
value = "s3cret"
[methods.ideal]
fee_basis_points = 150
fee_fixed = { EUR = "0.25" }
limits = { EUR = { min = "0.50", max = "1000.00" } }
"#;

/// Mistakes in an account's file: correct text, its replacement, expected message and its line.
const ACCOUNTS: [(&str, &str, &str, u64); 26] = [
    (
        "module =",
        "modul =",
        "modul is unknown: is module meant?",
        1,
    ),
    ("name = \"Sandbox\"", "name = \"\"", "name must be 1-40", 2),
    (
        "\"test\"",
        "\"tset\"",
        "unknown variant `tset`, expected `test` or `live`",
        3,
    ),
    (
        "\"test\"",
        "\"live\"",
        "a simulated account cannot be in the live environment",
        4,
    ),
    (
        "simulated = true",
        "simulated = \"yes\"",
        "expected a boolean",
        4,
    ),
    (
        "\"all\"",
        "\"al\"",
        "must be \"all\" or a list of merchant numbers",
        5,
    ),
    (
        "\"127.0.0.1:9\"]\nredirect",
        "\"https://127.0.0.1:9\"]\nredirect",
        "is no host name",
        6,
    ),
    (
        "redirect_hosts = [\"127.0.0.1:9\"]",
        "redirect_hosts = [\"127.0.0.1:9/pay\"]",
        "is no host name",
        7,
    ),
    (
        "[settings]",
        "verification_url = \"http://x.example\"\n[settings]",
        "must be an https URL",
        8,
    ),
    (
        "[settings]",
        "[setings]",
        "setings is unknown: is settings meant?",
        8,
    ),
    (
        "base-url =",
        "bas-url =",
        "bas-url is unknown: is base-url meant?",
        9,
    ),
    (
        "base-url = \"http://127.0.0.1:9\"",
        "",
        "base-url is missing: Where the account",
        0,
    ),
    (
        "\"http://127",
        "\"htp://127",
        "base-url must be an address",
        9,
    ),
    (
        "base-url =",
        "keep-open-after-decline = \"yes\"\nbase-url =",
        "keep-open-after-decline must be true or false",
        9,
    ),
    (
        "base-url =",
        "keep-open-after-decline = [true]\nbase-url =",
        "keep-open-after-decline must be a text",
        9,
    ),
    (
        "[secrets.client-id]",
        "[secrets.clientid]",
        "clientid is unknown: is client-id meant?",
        10,
    ),
    (
        "[secrets.client-id]\nvalue = \"id\"\n",
        "",
        "client-id is missing: Client id",
        0,
    ),
    (
        "value = \"id\"",
        "valeu = \"id\"",
        "valeu is unknown: is value meant?",
        11,
    ),
    (
        "value = \"id\"",
        "value = \"id\"\nenv = \"ID\"",
        "exactly one of value, env and file",
        10,
    ),
    (
        "value = \"id\"",
        "env = \"KASSETTE_TEST_UNSET\"",
        "variable KASSETTE_TEST_UNSET is not set",
        10,
    ),
    (
        "value = \"id\"",
        "value = \"\"",
        "\"client-id\" is empty",
        10,
    ),
    (
        "[methods.ideal]",
        "[methods.idael]",
        "methods.idael is unknown: is ideal meant?",
        16,
    ),
    (
        "fee_basis_points = 150",
        "fee_basis_points = 15000",
        "at most 10000 (100 %)",
        16,
    ),
    (
        "EUR = \"0.25\"",
        "EURO = \"0.25\"",
        "is no supported currency",
        16,
    ),
    ("\"0.25\"", "\"0,25\"", "amount \"0,25\"", 16),
    (
        "\"0.50\"",
        "\"5000.00\"",
        "the minimum in EUR is above the maximum",
        16,
    ),
];

/// Mistakes in a method's file: method, text of the file, expected message.
const METHODS: [(&str, &str, &str); 12] = [
    (
        "ideal",
        "order = \"cheap\"",
        "order must be priority or priority-success or cost",
    ),
    (
        "ideal",
        "ordr = \"cost\"",
        "ordr is unknown: is order meant?",
    ),
    (
        "ideal",
        "success-floor = 5000",
        "success-floor must be a whole number between 0 and 1000",
    ),
    (
        "ideal",
        "minimum-usd = 5",
        "minimum-usd must be an amount such as 25.00",
    ),
    (
        "ideal",
        "minimum-usd = \"9.00\"\nmaximum-usd = \"1.00\"",
        "minimum-usd is above maximum-usd",
    ),
    (
        "ideal",
        "countries = \"UK\"",
        "countries must be ISO 3166 codes such as NL (the United Kingdom is GB)",
    ),
    (
        "ideal",
        "blocked-countries = \"any\"",
        "disable the method in the merchants' policies",
    ),
    ("ideal", "wero = \"yes\"", "wero must be true or false"),
    (
        "ideal",
        "wero-accounts = \"mollie-lve\"",
        "wero-accounts must be ids of configured accounts",
    ),
    (
        "venmo",
        "payers = \"all\"",
        "payers must be verified or any",
    ),
    (
        "crypto",
        "network-fee-share = 101",
        "network-fee-share must be a whole number between 0 and 100",
    ),
    ("credit-card", "", "is named after no payment method"),
];

/// Mistakes in `kassette.toml`: correct text, its replacement, expected message. If the correct text is empty, the
/// replacement is added as a new line.
const MAIN: [(&str, &str, &str); 39] = [
    ("listen =", "lisen =", "lisen is unknown: is listen meant?"),
    (
        "\"https://pay.example\"",
        "\"https://pay.example",
        "kassette.toml:1:",
    ),
    ("https://pay", "http://pay", "must be an https origin"),
    (
        "pay.example\"",
        "pay.example/shop\"",
        "must be an https origin",
    ),
    (
        "public_url = \"https://pay.example\"\n",
        "",
        "public_url is missing",
    ),
    (
        "listen = \"127.0.0.1:0\"\nadmin",
        "listen = \"8080\"\nadmin",
        "invalid socket address",
    ),
    (
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"",
        "listen = \"127.0.0.1:9\"\nadmin_listen = \"127.0.0.1:9\"",
        "are the same address",
    ),
    (
        "admin_listen = \"127.0.0.1:0\"",
        "admin_listen = \"0.0.0.0:0\"",
        "needs admin_tls_cert and admin_tls_key",
    ),
    ("\"../plugins\"", "\"../modules\"", "is no folder: make it"),
    ("\"../data\"", "\"../master.key\"", "data_dir"),
    ("\"../master.key\"", "\"../masterkey\"", "masterkey"),
    (
        "master_key_file = \"../master.key\"",
        "master_key_file = \"kassette.toml\"",
        "kassette.toml",
    ),
    ("", "tls_cert = \"cert.pem\"", "must be set together"),
    (
        "",
        "tls_cert = \"cert.pem\"\ntls_key = \"key.pem\"",
        "cert.pem",
    ),
    ("", "trusted_proxies = [\"10.0.0.0/33\"]", "10.0.0.0/33"),
    (
        "",
        "[rate_limit]\nper_second = 0\nburst = 1",
        "must be at least 1",
    ),
    ("", "[rate_limit]\nper_second = 5", "missing field `burst`"),
    (
        "",
        "[rate_limit]\nper_second = 5\nburst = 9\nbrust = 9",
        "brust is unknown: is burst meant?",
    ),
    (
        "",
        "[payments]\nlife_seconds = 1",
        "payments.life_seconds = 1 must be between",
    ),
    (
        "",
        "[payments]\nquery_minutes = [3, 1]",
        "each later than the one before",
    ),
    (
        "",
        "[webhooks]\ntimeout_ms = 20000",
        "webhooks.timeout_ms = 20000 must be between",
    ),
    (
        "",
        "[webhooks]\ntest_hosts = [{ host = \"10.0.0.5\", merchants = [1] }]",
        "\"10.0.0.5\" must be one host's name",
    ),
    (
        "",
        "[webhooks]\ntest_hosts = [{ host = \"*.internal\", merchants = [1] }]",
        "\"*.internal\" must be one host's name",
    ),
    (
        "",
        "[webhooks]\ntest_hosts = [{ host = \"localhost:8443\", merchants = [1] }]",
        "\"localhost:8443\" must be one host's name",
    ),
    (
        "",
        "[webhooks]\ntest_hosts = [{ host = \"staging.internal\" }]",
        "name the `merchants` or `resellers` that may use \"staging.internal\"",
    ),
    (
        "",
        "provider_ca_file = \"ca.pem\"",
        "provider_ca_file: ca.pem",
    ),
    (
        "",
        "[webhooks]\ntest_ca_file = \"ca.pem\"",
        "webhooks.test_ca_file: ca.pem",
    ),
    (
        "",
        "[retention]\ndelivery_days = 3",
        "retention.delivery_days = 3 must be 0 (for ever) or between",
    ),
    (
        "",
        "[store]\ncache_mib = 1",
        "store.cache_mib must be between",
    ),
    (
        "",
        "[plugins]\nremembered_mib = 5000",
        "plugins.remembered_mib must be between",
    ),
    (
        "",
        "[plugins]\nrecord_conversations = true\n[retention]\npersonal_data_days = 14",
        "retention.routing_log_days, which must then be between 1 and",
    ),
    (
        "",
        "alerts_url = \"http://chat.example/hooks/T0\"",
        "alerts_url: the address must use https",
    ),
    (
        "",
        "[limits]\nconections = 5",
        "conections is unknown: is connections meant?",
    ),
    (
        "",
        "[log]\nfilter = \"inof\"",
        "must name a level for everything",
    ),
    ("", "[log]\nformat = \"xml\"", "unknown variant `xml`"),
    (
        "",
        "[rates]\nfiel = \"rates.toml\"",
        "fiel is unknown: is file meant?",
    ),
    ("", "[rates]\necb = \"yes\"", "expected a boolean"),
    (
        "",
        "[rates]\necb_url = \"http://mirror.example/ecb.xml\"",
        "rates.ecb_url: the address must use https",
    ),
    (
        "",
        "[rates]\necb_url = \"https://10.0.0.5/ecb.xml\"",
        "rates.ecb_url: the host must be a name",
    ),
];

/// Mistakes in a file of exchange rates: text of the file, expected message and its line.
const RATES: [(&str, &str, u64); 10] = [
    ("[usd_per_unit]\nEUR = \"1.08\"", "missing field `date`", 1),
    (
        "date = 2999-01-01\n[usd_per_unit]\nEUR = \"1.08\"",
        "date = 2999-01-01 is ahead of this machine's clock",
        1,
    ),
    (
        "date = 2020-01-02T10:00:00\n[usd_per_unit]\nEUR = \"1.08\"",
        "a time with its offset",
        1,
    ),
    (
        "date = 2020-01-02\n[usd_per_unit]\nEUR = \"0\"",
        "usd_per_unit.EUR: must be a positive decimal",
        3,
    ),
    (
        "date = 2020-01-02\n[usd_per_unit]\nEUR = \"-1.08\"",
        "usd_per_unit.EUR: must be a positive decimal",
        3,
    ),
    (
        "date = 2020-01-02\n[usd_per_unit]\nEUR = \"1.08000000001\"",
        "with at most ten decimals",
        3,
    ),
    (
        "date = 2020-01-02\n[usd_per_unit]\nEUR = 1.08",
        "must be a text, in quotes",
        3,
    ),
    (
        "date = 2020-01-02\n[usd_per_unit]\nEURO = \"1.08\"",
        "is no supported currency",
        3,
    ),
    (
        "date = 2020-01-02\n[units_per_euro]\nGBP = \"0.83\"",
        "has no rate of USD",
        2,
    ),
    (
        "date = 2020-01-02\n[usd_per_unti]\nEUR = \"1.08\"",
        "usd_per_unti is unknown: is usd_per_unit meant?",
        2,
    ),
];

/// A valid folder for `serve`, with one account.
fn good() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), "sandbox = false");
    for name in ["config/providers", "config/methods"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    write(&folder.path().join("config/providers/good.toml"), ACCOUNT);
    folder
}

/// Writes a file with mode 0600, as operators must for files with secrets.
fn write(path: &Path, text: &str) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600);
    file.open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Mistakes in account and method files: path below `config`, text of the file, expected message.
fn files() -> impl Iterator<Item = (PathBuf, String, &'static str)> {
    let accounts = (1..)
        .zip(ACCOUNTS)
        .map(|(number, (right, wrong, said, _))| {
            let path = Path::new("providers").join(format!("wrong-{number:02}.toml"));
            (path, replaced(ACCOUNT, right, wrong), said)
        });
    let methods = METHODS.into_iter().map(|(method, text, said)| {
        let path = Path::new("methods").join(format!("{method}.toml"));
        (path, text.to_owned(), said)
    });
    accounts.chain(methods)
}

fn replaced(text: &str, right: &str, wrong: &str) -> String {
    assert!(text.contains(right), "{right} is not in it");
    match right {
        "" => format!("{text}{wrong}\n"),
        _ => text.replacen(right, wrong, 1),
    }
}

/// Error output of a command that refuses the configuration.
fn refused(folder: &Path, command: &str) -> String {
    let mut command = kassette(folder, command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[test]
fn mistakes_in_the_main_file_are_refused_by_the_check_and_at_the_start_in_the_same_words() {
    let folder = good();
    let path = folder.path().join("config/kassette.toml");
    let right = std::fs::read_to_string(&path).unwrap();
    for (of, wrong, expected) in MAIN {
        write(&path, &replaced(&right, of, wrong));
        let checked = refused(folder.path(), "config check --without-modules");
        let served = refused(folder.path(), "serve");
        for (command, said) in [("check", &checked), ("serve", &served)] {
            assert!(said.contains(expected), "{command} of {wrong:?}: {said}");
        }
        let lines = checked
            .lines()
            .filter(|line| line.contains("kassette.toml"));
        assert_eq!(lines.count(), 1, "nothing but that: {wrong:?}: {checked}");
    }
}

#[test]
fn every_mistake_in_files_of_accounts_is_told_in_one_check_with_file_and_line() {
    let folder = good();
    for (path, text, _) in files() {
        write(&folder.path().join("config").join(path), &text);
    }
    let mut command = kassette(folder.path(), "config check --json");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = found["problems"].as_array().unwrap();
    let of = |name: &str| -> Vec<&Value> {
        let of = problems.iter();
        of.filter(|problem| problem["path"].as_str().unwrap().ends_with(name))
            .collect()
    };
    for (number, (_, wrong, said, line)) in (1..).zip(ACCOUNTS) {
        let told = of(&format!("wrong-{number:02}.toml"));
        let fits = |problem: &&&Value| problem["why"].as_str().unwrap().contains(said);
        let Some(problem) = told.iter().find(fits) else {
            panic!("{wrong:?}: {told:?}");
        };
        assert_eq!(
            problem["line"].as_u64().unwrap_or_default(),
            line,
            "{wrong:?}: {problem}"
        );
    }
    assert_eq!(of("good.toml"), Vec::<&Value>::new());
}

#[test]
fn mistakes_in_files_of_accounts_and_methods_are_refused_at_the_start() {
    let folder = good();
    for (path, text, expected) in files() {
        let path = folder.path().join("config").join(path);
        write(&path, &text);
        let said = refused(folder.path(), "serve");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            said.contains(expected) && said.contains(name),
            "{text}: {said}"
        );
        std::fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn mistakes_in_a_file_of_exchange_rates_are_told_by_all_three() {
    let folder = good();
    let main = folder.path().join("config/kassette.toml");
    let right = std::fs::read_to_string(&main).unwrap();
    write(&main, &format!("{right}[rates]\nfile = \"rates.toml\"\n"));
    let path = folder.path().join("config/rates.toml");
    let refused_twice = |expected: &str| {
        let mut check = kassette(folder.path(), "config check --without-modules --json");
        let output = check.stdin(Stdio::null()).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let problems = found["problems"].as_array().unwrap().clone();
        assert_eq!(problems.len(), 1, "nothing but that: {found}");
        for said in [problems[0].to_string(), refused(folder.path(), "serve")] {
            assert!(said.contains("rates.toml"), "{said}");
            assert!(said.replace("\\\"", "\"").contains(expected), "{said}");
        }
        problems[0]["line"].as_u64().unwrap_or_default()
    };
    refused_twice("No such file");
    for (wrong, expected, line) in RATES {
        write(&path, wrong);
        assert_eq!(refused_twice(expected), line, "{wrong}");
    }
    write(&path, "date = 2020-01-02\n[usd_per_unit]\nEUR = \"1.08\"\n");
    let mut serving = Serving::start(folder.path()).await;
    for (number, (wrong, expected, _)) in (1..).zip(RATES) {
        write(&path, wrong);
        serving.hang_up();
        let said = |log: &str| {
            let mut lines = log
                .lines()
                .filter(|line| line.contains("SIGHUP: not taken over"));
            lines
                .nth(number - 1)
                .is_some_and(|line| line.replace("\\\"", "\"").contains(expected))
        };
        serving.until(wrong, said).await;
    }
    assert!(serving.0.try_wait().unwrap().is_none());
}

/// Accounts without a file: the built-in sandbox's accounts and the accounts that `dev` simulates.
#[test]
fn the_check_knows_the_accounts_that_run_without_a_file() {
    let folder = good();
    let main = folder.path().join("config/kassette.toml");
    let off = std::fs::read_to_string(&main).unwrap();
    let on = replaced(&off, "sandbox = false", "sandbox = true");
    let method = folder.path().join("config/methods/ideal.toml");
    for (main_file, account, profile, is_there) in [
        (&on, "sandbox-test", "serve", true),
        (&on, "sandbox-live", "serve", false),
        (&on, "mollie-test", "serve", false),
        (&off, "sandbox-test", "serve", false),
        (&off, "sandbox-test", "dev", true),
        (&off, "mollie-live", "dev", true),
        (&off, "mollie-lve", "dev", false),
    ] {
        write(&main, main_file);
        write(&method, &format!("wero-accounts = \"{account}\"\n"));
        let mut check = kassette(folder.path(), &format!("config check --profile {profile}"));
        let output = check.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let case = format!("{account} for {profile}: {said}");
        assert_eq!(output.status.success(), is_there, "{case}");
        let is_told = said.contains("wero-accounts must be ids of configured accounts");
        assert_eq!(is_told, !is_there, "{case}");
    }
}

/// A running gateway and the path of its log.
struct Serving(Child, PathBuf);

impl Serving {
    async fn start(folder: &Path) -> Self {
        let path = folder.join("log.txt");
        let log = std::fs::File::create(&path).unwrap();
        let ready = folder.join("ready.json");
        let child = kassette(folder, "serve")
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let serving = Self(child, path);
        serving.until("it is ready", |_| ready.exists()).await;
        serving
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap()
    }

    /// Sends SIGHUP, on which the gateway reads its files again.
    fn hang_up(&self) {
        let mut kill = std::process::Command::new("kill");
        let told = kill.args(["-HUP", &self.0.id().to_string()]).status();
        assert!(told.unwrap().success());
    }

    async fn until(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !holds(&self.log()) {
            assert!(began.elapsed() < TEST_TIMEOUT, "{what}: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_running_gateway_says_each_mistake_and_keeps_what_it_has() {
    let folder = good();
    let serving = Serving::start(folder.path()).await;
    let again = |log: &str| log.matches("the configuration was read again").count();
    for (path, text, expected) in files() {
        let path = folder.path().join("config").join(path);
        let before = serving.log().len();
        write(&path, &text);
        let said = |log: &str| {
            let mut new = log[before..].lines();
            new.any(|line| {
                // In the JSON log, quotes are escaped.
                let line = line.replace("\\\"", "\"");
                line.contains("was not taken over") && line.contains(expected)
            })
        };
        serving.until(&text, said).await;
        let before = again(&serving.log());
        std::fs::remove_file(path).unwrap();
        serving
            .until("it is mended", |log| again(log) > before)
            .await;
    }
}

/// Only root can change the owner of files. Without root, the test checks the folder as the current user.
#[test]
fn root_checks_a_configuration_as_the_services_user() {
    let folder = good();
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    let give =
        |path: &Path, user: u32| std::os::unix::fs::chown(path, Some(user), Some(user)).is_ok();
    let mut paths = vec![folder.path().to_owned()];
    let mut is_given = true;
    while let Some(path) = paths.pop() {
        is_given &= give(&path, 990);
        let below = std::fs::read_dir(&path).into_iter().flatten().flatten();
        paths.extend(below.map(|entry| entry.path()));
    }
    let check = || {
        let mut command = kassette(folder.path(), "config check --without-modules --json");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), found)
    };
    let (code, found) = check();
    let judged_as = if is_given {
        Value::from(990)
    } else {
        Value::Null
    };
    assert_eq!(
        (code, &found["judged_as"]),
        (Some(0), &judged_as),
        "{found}"
    );
    assert_eq!(found["problems"], Value::Array(Vec::new()));
    // Root can read the file in spite of its owner, but the service would reject it.
    let account = folder.path().join("config/providers/good.toml");
    if give(&account, 991) {
        let (code, found) = check();
        assert_eq!(code, Some(1));
        let why = found["problems"][0]["why"].as_str().unwrap();
        assert!(why.contains("belongs to user 991; run chown"), "{why}");
    }
}
