//! Configuration files: `kassette.toml`, `methods/*.toml`, `providers/*.toml`, `releases/*.toml`.
//!
//! All values are checked when the files are read. An error names the file and the correction, and the running
//! configuration stays in effect. `config/README.md` documents the settings.

mod access;
mod account;
mod dev;
#[cfg(test)]
mod documented;
mod limits;
mod main_file;
mod rates;
mod releases;
mod restart;
mod start;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kassette_domain::id::AccountId;
use kassette_domain::method::MethodId;
use kassette_domain::release::Release;
use kassette_domain::setting;
use kassette_gateway::settings::{Account, Settings};
use kassette_gateway::workers::{SettingsFile, SettingsProblem, SettingsRefused};
use kassette_http::CertificateDer;
use serde::de::DeserializeOwned;

use crate::listen::certificates;

pub(crate) use dev::RATE_LIMIT as DEV_RATE_LIMIT;
pub(crate) use main_file::{MainFile, url_of_environment};
pub(crate) use rates::{guard, read_rates};
pub(crate) use start::problems as start_problems;
pub(crate) use watch::watch;

/// Folders of a configuration.
const FOLDERS: [&str; 3] = ["methods", "providers", "releases"];
/// Maximum number of files per folder. More indicate a mistake, such as the wrong folder.
const MAX_FILES: usize = 1000;
/// Maximum size of a configuration file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A problem with a configuration file.
#[derive(Debug, thiserror::Error)]
#[error("{path}{}: {why}", .line.map_or(String::new(), |line| format!(":{line}")))]
pub(crate) struct ConfigError {
    /// The file or folder.
    pub(crate) path: String,
    /// Line number, starting at 1. `None` if unknown.
    pub(crate) line: Option<usize>,
    /// The problem and its correction.
    pub(crate) why: String,
}

impl ConfigError {
    fn new(path: &Path, why: impl ToString) -> Self {
        Self {
            path: path.display().to_string(),
            line: None,
            why: why.to_string(),
        }
    }

    /// Locates a problem with the settings of a method or an account.
    pub(crate) fn of_settings(folder: &Path, problem: &SettingsProblem) -> Self {
        let path = match &problem.of {
            SettingsFile::Method(id) => folder.join("methods").join(format!("{id}.toml")),
            SettingsFile::Account(id) => folder.join("providers").join(format!("{id}.toml")),
        };
        // Only the clause before the colon names the setting. The rest is explanation.
        let clause = problem.why.split(": ").next().unwrap_or_default();
        Self::new(&path, &problem.why).placed_by(clause)
    }

    /// Adds the line of the first setting that the problem mentions.
    fn placed(self) -> Self {
        let why = self.why.clone();
        self.placed_by(&why)
    }

    /// Adds the line of the first setting that `text` mentions.
    fn placed_by(mut self, text: &str) -> Self {
        if self.line.is_none()
            && let Ok(file) = std::fs::read_to_string(&self.path)
        {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            let words = text.split(|c| !is_name(c)).filter(|word| !word.is_empty());
            self.line = words
                .map(|word| word.trim_end_matches('.'))
                .find_map(|word| line_of(&file, word));
        }
        self
    }
}

/// Line number, starting at 1, of a setting (`name` or `table.name`) or of the header of a table of that name.
pub(crate) fn line_of(text: &str, setting: &str) -> Option<usize> {
    let mut table = String::new();
    (1..).zip(text.lines()).find_map(|(number, line)| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            table = name.split(']').next().unwrap_or_default().replace('"', "");
            let is_it = table == setting || table.rsplit('.').next() == Some(setting);
            return is_it.then_some(number);
        }
        let name = line.split_once('=')?.0.trim().trim_matches('"');
        let is_it = match setting.rsplit_once('.') {
            Some((of, last)) => table == of && name == last,
            None => name == setting,
        };
        is_it.then_some(number)
    })
}

/// Formats the reasons why settings were rejected, with files and lines.
pub(crate) fn refusal(folder: &Path, refused: &SettingsRefused) -> String {
    match refused {
        SettingsRefused::Problems(problems) => {
            let placed = problems.iter().map(|problem| {
                let placed = ConfigError::of_settings(folder, problem);
                placed.to_string()
            });
            placed.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

/// Settings of `kassette.toml` that may differ between the nodes of one store.
const OF_A_NODE: [&str; 12] = [
    "listen",
    "admin_listen",
    "admin_hosts",
    "data_dir",
    "plugin_dir",
    "master_key_file",
    "tls_cert",
    "tls_key",
    "admin_tls_cert",
    "admin_tls_key",
    "log",
    "store",
];

/// Content of a folder's files by relative path, without comments and without the settings of `OF_A_NODE`, so
/// that nodes with the same configuration return equal maps. Unreadable files are skipped.
pub(crate) fn shared_parts(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let below = FOLDERS
        .iter()
        .flat_map(|name| files(&folder.join(name)).unwrap_or_default());
    let all = below.chain([folder.join("kassette.toml")]);
    let parts = all.filter_map(|path| {
        let name = path.strip_prefix(folder).ok()?.display().to_string();
        let mut table: toml::Table = std::fs::read_to_string(&path).ok()?.parse().ok()?;
        if name == "kassette.toml" {
            table.retain(|setting, _| !OF_A_NODE.contains(&setting));
        }
        Some((name, table.to_string().into_bytes()))
    });
    parts.collect()
}

/// Names and values of settings, as a module receives them.
type Values = Vec<(String, String)>;

/// The whole configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// `kassette.toml`.
    pub(crate) main: MainFile,
    /// Folder that the configuration was read from. Relative paths in `kassette.toml` start here.
    pub(crate) folder: PathBuf,
    /// `methods/*.toml`.
    pub(crate) methods: BTreeMap<MethodId, Values>,
    /// `providers/*.toml`.
    pub(crate) accounts: BTreeMap<AccountId, Account>,
    /// `releases/*.toml`. `None` if the folder does not exist.
    pub(crate) releases: Option<Vec<Release>>,
    /// Certificates of `webhooks.test_ca_file`.
    pub(crate) test_authorities: Vec<CertificateDer<'static>>,
    /// Certificates of `provider_ca_file`.
    pub(crate) provider_authorities: Vec<CertificateDer<'static>>,
}

/// Rules that a configuration is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Real money: no simulated live account, no loopback, no plain http, no file that others can write, and no
    /// secret that others can read.
    Serve,
    /// One machine without real money.
    Dev,
}

impl Config {
    /// Reads a folder.
    ///
    /// # Errors
    /// The first problem found.
    pub(crate) fn read(folder: &Path, profile: Profile) -> Result<Self, ConfigError> {
        let (config, errors) = Self::read_all(folder, profile);
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(config),
        }
    }

    /// Reads only `kassette.toml`, for callers that need nothing else.
    ///
    /// # Errors
    /// The problem with the file.
    pub(crate) fn read_main(folder: &Path) -> Result<MainFile, ConfigError> {
        parse(&folder.join("kassette.toml"))
    }

    /// Reads a folder as far as possible and returns all problems with the rest.
    pub(crate) fn read_all(folder: &Path, profile: Profile) -> (Self, Vec<ConfigError>) {
        let mut errors = Vec::new();
        let path = folder.join("kassette.toml");
        let mut main = MainFile::default();
        if path.exists() || profile == Profile::Serve {
            match parse(&path) {
                Ok(read) => main = read,
                Err(error) => errors.push(error),
            }
        }
        let addresses = [main.rates.problem(profile), main.alerts_problem(profile)];
        let addresses = addresses.into_iter().flatten();
        let addresses = addresses.map(|why| ConfigError::new(&path, why));
        let problems = main.problems(&path).into_iter().chain(addresses);
        errors.extend(problems.map(ConfigError::placed));
        let mut listed = |folder: &Path| {
            files(folder).unwrap_or_else(|error| {
                errors.push(error);
                Vec::new()
            })
        };
        let (method_files, account_files) = (
            listed(&folder.join("methods")),
            listed(&folder.join("providers")),
        );
        let mut methods = BTreeMap::new();
        for path in method_files {
            match read_method(&path) {
                Ok((method, settings)) => {
                    methods.insert(method, settings);
                }
                Err(wrong) => errors.extend(wrong.into_iter().map(ConfigError::placed)),
            }
        }
        let mut accounts = BTreeMap::new();
        for path in account_files {
            match account::read(&path, &stem(&path), profile) {
                Ok(account) => {
                    accounts.insert(account.id.clone(), account);
                }
                Err(wrong) => errors.extend(wrong.into_iter().map(ConfigError::placed)),
            }
        }
        let (releases, wrong) = releases::read(&folder.join("releases"));
        errors.extend(wrong);
        let [test_authorities, provider_authorities] =
            main.authority_files().map(|(name, file)| {
                authorities(folder, name, file).unwrap_or_else(|error| {
                    errors.push(error);
                    Vec::new()
                })
            });
        let config = Self {
            main,
            folder: folder.to_owned(),
            methods,
            accounts,
            releases,
            test_authorities,
            provider_authorities,
        };
        if profile == Profile::Serve {
            errors.extend(access::problems(&config));
        }
        (config, errors)
    }

    /// Resolves a path of the main file, which is relative to the folder.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// The latest plugin release for shops. `dev` has a default if there is no `releases` folder.
    fn release(&self, profile: Profile) -> Option<Release> {
        match (&self.releases, profile) {
            (None, Profile::Dev) => dev::release(),
            (releases, _) => Release::latest(releases.iter().flatten()).cloned(),
        }
    }

    /// Settings for the gateway.
    pub(crate) fn settings(&self, public_url: &str, profile: Profile) -> Settings {
        let payments = &self.main.payments;
        Settings {
            public_url: public_url.trim_end_matches('/').to_owned(),
            payment_life: payments.life(),
            attempt_life: payments.attempt_life(),
            start_deadline: payments.start_deadline(),
            provider_deadline: payments.provider_deadline(),
            listing_deadline: payments.listing_deadline(),
            live_default: profile == Profile::Dev,
            plain_loopback: profile == Profile::Dev,
            rate_limit: match profile {
                Profile::Serve => self.main.rate_limit,
                Profile::Dev => dev::RATE_LIMIT,
            },
            health_max_age: payments.health_max_age(),
            health_probe_every: payments.health_probe_every(),
            queries: payments.queries(),
            webhooks: self.main.webhooks.settings(
                &self.main.retention,
                &self.main.outgoing,
                profile == Profile::Dev,
                self.test_authorities.clone(),
            ),
            retention: self.main.retention.rules(),
            listing_sample_percent: self.main.retention.listing_sample_percent,
            record_conversations: self.main.plugins.record_conversations,
            alerts_url: self.main.alerts_url(profile),
            trial_limits: self.main.plugins.trial_limits(),
            is_staging_required: self.main.plugins.uploads == main_file::Uploads::ShadowFirst,
            release: self.release(profile),
            methods: self.methods.clone(),
            accounts: self.accounts.clone(),
        }
    }
}

/// Reads the authorities from the file of a setting. Empty if no file is set.
fn authorities(
    folder: &Path,
    setting: &str,
    file: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let Some(path) = file else {
        return Ok(Vec::new());
    };
    let read = certificates(&folder.join(path));
    read.map_err(|why| {
        let why = format!("{setting}: {}: {why}", path.display());
        ConfigError::new(&folder.join("kassette.toml"), why).placed()
    })
}

/// Reads the settings of a method. The stem of the file name is the method.
fn read_method(path: &Path) -> Result<(MethodId, Values), Vec<ConfigError>> {
    let unnamed = || {
        let why = "is named after no payment method; name it like ideal.toml";
        vec![ConfigError::new(path, why)]
    };
    let method = MethodId::parse(&stem(path)).ok_or_else(unnamed)?;
    let table = parse(path).map_err(|error| vec![error])?;
    Ok((method, account::settings(path, table)?))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// End of the stem of a sample, which is to be copied and is never read.
const SAMPLE: &str = ".example";

/// Returns the `*.toml` files of a folder, sorted by name, without samples (`*.example.toml`) and hidden files.
/// Empty if the folder does not exist.
fn files(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).map_err(|error| ConfigError::new(folder, error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| ConfigError::new(folder, error))?
            .path();
        let stem = stem(&path);
        let other = stem.starts_with('.') || stem.ends_with(SAMPLE);
        if !other && path.extension().is_some_and(|ending| ending == "toml") {
            found.push(path);
        }
    }
    if found.len() > MAX_FILES {
        return Err(ConfigError::new(
            folder,
            format!("holds more than {MAX_FILES} files"),
        ));
    }
    found.sort();
    Ok(found)
}

/// Reads a TOML file.
fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let length = std::fs::metadata(path)
        .map_err(|error| ConfigError::new(path, error))?
        .len();
    if length > MAX_BYTES {
        return Err(ConfigError::new(path, "is larger than 1 MiB"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::new(path, error))?;
    toml::from_str(&text).map_err(|error| {
        // The complete error would print the line, which can contain a secret.
        let before = |span: std::ops::Range<usize>| text.get(..span.start);
        let line = error.span().and_then(before);
        ConfigError {
            line: line.map(|before| before.matches('\n').count() + 1),
            ..ConfigError::new(path, in_words(error.message()))
        }
    })
}

/// Message of the TOML reader. An unknown field is reported with the most similar known name.
fn in_words(message: &str) -> String {
    // "unknown field `x`, expected one of `a`, `b`"
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names
        .next()
        .filter(|_| message.starts_with("unknown field"));
    let nearest = unknown.and_then(|name| Some((name, setting::nearest(name, names)?)));
    // Without a similar name, the reader's message lists all names.
    match nearest {
        Some((name, nearest)) => format!("{name} is unknown: is {nearest} meant?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::{MerchantId, ResellerId};
    use kassette_domain::key::KeyOwner;

    use super::*;

    #[test]
    fn nodes_that_differ_in_what_is_their_own_are_configured_alike() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            shared_parts(folder.path())
        };
        write("methods/ideal.toml", "note = 1");
        let one = write(
            "kassette.toml",
            "listen = \"127.0.0.1:1\"\ndrain_seconds = 5\n[store]\nnode = \"a\"",
        );
        let other = write(
            "kassette.toml",
            "# another\ndrain_seconds = 5\nlisten = \"127.0.0.1:2\"\n[store]\nnode = \"b\"",
        );
        assert_eq!(one, other);
        assert_ne!(other, write("kassette.toml", "drain_seconds = 6"));
        let before = shared_parts(folder.path());
        assert_ne!(before, write("methods/ideal.toml", "note = 2"));
        assert_ne!(before, write("providers/acme.toml", ""));
    }

    use base64::Engine as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            set_mode(&path, 0o600);
        }
        folder
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    const ACCOUNT: &str = r#"
module = "sandbox"
name = "Sandbox"
environment = "test"
simulated = true
merchants = "all"
hosts = ["127.0.0.1:9"]
redirect_hosts = ["127.0.0.1:9"]
[settings]
base-url = "http://127.0.0.1:9"
[secrets.callback]
value = "s3cret"
[methods.ideal]
priority = 5
fee_basis_points = 150
fee_fixed = { EUR = "0.25" }
limits = { EUR = { min = "0.50", max = "1000.00" } }
"#;

    #[test]
    fn a_folder_is_read_into_settings() {
        let folder = folder(&[
            ("kassette.toml", "public_url = \"https://pay.example\"\n"),
            ("methods/ideal.toml", "preferred = \"mollie-live\"\n"),
            ("providers/sandbox-test.toml", ACCOUNT),
        ]);
        let config = Config::read(folder.path(), Profile::Serve).unwrap();
        let settings = config.settings("https://pay.example/", Profile::Serve);
        assert_eq!(settings.public_url, "https://pay.example");
        assert_eq!(
            settings.methods[&MethodId::Ideal],
            [("preferred".to_owned(), "mollie-live".to_owned())]
        );
        let account = &settings.accounts[&AccountId::parse("sandbox-test").unwrap()];
        assert_eq!(account.methods[&MethodId::Ideal].priority, 5);
        assert!(!settings.live_default);
    }

    #[test]
    fn hosts_that_test_events_may_go_to_are_read_with_their_authorities() {
        let text = "public_url = \"https://pay.example\"\n[webhooks]\n\
                    test_hosts = [{ host = \"staging.internal\", merchants = [7] }, { host = \"Hooks:8443\", merchants = [7, 8], resellers = [2] }]\ntest_ca_file = \"ca.pem\"\n";
        let key = rcgen::KeyPair::generate().unwrap();
        let authority = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        let authority = authority.self_signed(&key).unwrap();
        let text_of = base64::engine::general_purpose::STANDARD.encode(authority.der());
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text_of}\n-----END CERTIFICATE-----\n");
        let folder = folder(&[("kassette.toml", text), ("ca.pem", &pem)]);
        let config = Config::read(folder.path(), Profile::Serve).unwrap();
        let webhooks = config
            .settings("https://pay.example", Profile::Serve)
            .webhooks;
        let hosts: Vec<String> = webhooks
            .test_hosts
            .iter()
            .map(|host| host.host.to_string())
            .collect();
        assert_eq!(hosts, ["staging.internal", "hooks:8443"]);
        let merchant = |id| KeyOwner::Merchant(MerchantId(id));
        let reseller = KeyOwner::Reseller(ResellerId(2));
        assert_eq!(webhooks.test_hosts[0].owners, [merchant(7)]);
        let both = [merchant(7), merchant(8), reseller];
        assert_eq!(webhooks.test_hosts[1].owners, both);
        assert_eq!(webhooks.test_authorities, [authority.der().clone()]);
        // A user who can write this file decides which receivers the gateway trusts.
        set_mode(&folder.path().join("ca.pem"), 0o666);
        let error = Config::read(folder.path(), Profile::Serve).unwrap_err();
        assert!(error.path.ends_with("ca.pem"), "{error}");
        std::fs::write(folder.path().join("ca.pem"), "no certificate").unwrap();
        let error = Config::read(folder.path(), Profile::Dev).unwrap_err();
        assert!(
            error.to_string().contains("holds no certificate"),
            "{error}"
        );
        assert_eq!(error.line, Some(4));
    }

    #[test]
    fn a_sample_is_no_account() {
        let folder = folder(&[
            ("kassette.toml", "public_url = \"https://pay.example\"\n"),
            (
                "providers/stripe.example.toml",
                "nothing that could be read",
            ),
        ]);
        let config = Config::read(folder.path(), Profile::Serve).unwrap();
        let settings = config.settings("https://pay.example/", Profile::Serve);
        assert!(settings.accounts.is_empty());
    }

    #[test]
    fn unknown_fields_are_named_and_secrets_never_printed() {
        let folder = folder(&[(
            "providers/a.toml",
            &ACCOUNT.replace("value = \"s3cret\"", "valeu = \"s3cret\""),
        )]);
        let error = Config::read(folder.path(), Profile::Dev)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("valeu") && error.contains("a.toml"),
            "{error}"
        );
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn every_problem_is_told_with_its_file_and_line() {
        let folder = folder(&[
            (
                "kassette.toml",
                "public_url = \"https://pay.example\"\n\n[payments]\nlife_seconds = 1\n[store]\ncache_mib = 1\n",
            ),
            ("methods/Cash.toml", ""),
            ("providers/a.toml", &ACCOUNT.replace("\"all\"", "\"some\"")),
            ("providers/b.toml", &ACCOUNT.replace("\"0.50\"", "\"x\"")),
            ("providers/c.toml", "module = 7\n"),
            ("providers/d.toml", ACCOUNT),
        ]);
        let (config, errors) = Config::read_all(folder.path(), Profile::Serve);
        let told: Vec<(String, Option<usize>)> = errors
            .iter()
            .map(|error| {
                let name = Path::new(&error.path).file_name().unwrap();
                (name.to_string_lossy().into_owned(), error.line)
            })
            .collect();
        let expected = [
            ("kassette.toml", Some(4)),
            ("kassette.toml", Some(6)),
            ("Cash.toml", None),
            ("a.toml", Some(6)),
            ("b.toml", Some(13)),
            ("c.toml", Some(1)),
        ];
        let expected = expected.map(|(name, line)| (name.to_owned(), line));
        assert_eq!(told, expected, "{errors:?}");
        assert_eq!(config.accounts.len(), 1, "what is right is read");
    }

    #[test]
    fn a_simulated_account_in_live_is_refused_when_serving() {
        let live = ACCOUNT
            .replace("\"test\"", "\"live\"")
            .replace("merchants = \"all\"", "merchants = [1]");
        let folder = folder(&[
            ("kassette.toml", "public_url = \"https://pay.example\"\n"),
            ("providers/a.toml", &live),
        ]);
        let error = Config::read(folder.path(), Profile::Serve)
            .unwrap_err()
            .to_string();
        assert!(error.contains("simulated"), "{error}");
        assert!(Config::read(folder.path(), Profile::Dev).is_ok());
    }

    #[test]
    fn a_secret_that_would_not_be_removed_from_answers_is_refused_in_live() {
        let problem = |environment: &str, name: &str, value: &str| {
            let account = ACCOUNT
                .replace("\"test\"", &format!("{environment:?}"))
                .replace("simulated = true", "")
                .replace("merchants = \"all\"", "merchants = [1]")
                .replace("s3cret", value);
            let named = account.replace("[secrets.callback]", &format!("[secrets.{name}]"));
            let dir = folder(&[
                ("kassette.toml", "public_url = \"https://pay.example\"\n"),
                ("providers/a.toml", &named),
            ]);
            let read = Config::read(dir.path(), Profile::Serve);
            read.err().map(|error| error.to_string())
        };
        let (short, long) = ("123456789012345", "1234567890123456");
        let why = problem("live", "api-key", short).unwrap();
        assert!(
            why.contains("16 characters") && !why.contains(short),
            "{why}"
        );
        assert_eq!(problem("live", "api-key", long), None);
        assert_eq!(problem("test", "api-key", short), None);
        assert_eq!(problem("live", "api-user", short), None);
    }

    #[test]
    fn a_live_account_for_everybody_must_say_that_it_is_the_platform_s() {
        let live = ACCOUNT
            .replace("\"test\"", "\"live\"")
            .replace("simulated = true", "");
        let dir = folder(&[("providers/a.toml", &live)]);
        let error = Config::read(dir.path(), Profile::Dev)
            .unwrap_err()
            .to_string();
        assert!(error.contains("platform_account"), "{error}");
        let said = live.replace(
            "merchants = \"all\"",
            "merchants = \"all\"\nplatform_account = true",
        );
        let dir = folder(&[("providers/a.toml", &said)]);
        assert!(Config::read(dir.path(), Profile::Dev).is_ok());
    }

    #[test]
    fn serving_needs_an_https_origin() {
        for url in [
            "http://pay.example",
            "https://pay.example/path",
            "https://u@pay.example",
            "pay",
        ] {
            let folder = folder(&[("kassette.toml", &format!("public_url = \"{url}\"\n"))]);
            let config = Config::read(folder.path(), Profile::Serve).unwrap();
            assert!(config.main.public_origin().is_err(), "{url}");
        }
    }

    /// Problems with a folder's permissions, as relative paths with the `chmod` mode that corrects each.
    fn exposed(folder: &Path, profile: Profile) -> Vec<String> {
        let told = |error: ConfigError| {
            let path = Path::new(&error.path).strip_prefix(folder).unwrap();
            let command = error.why.split_once("chmod ").unwrap().1;
            let mode = command.split_once(" on it").unwrap().0;
            format!("{} {mode}", path.display())
        };
        let (_, errors) = Config::read_all(folder, profile);
        errors.into_iter().map(told).collect()
    }

    #[test]
    fn what_others_may_write_is_refused_when_serving() {
        let main = "public_url = \"https://pay.example\"\n";
        let with_env = ACCOUNT.replace("value = \"s3cret\"", "env = \"PATH\"");
        let folder = folder(&[
            ("kassette.toml", main),
            ("methods/ideal.toml", ""),
            ("providers/a.toml", &with_env),
            ("releases/none.txt", ""),
        ]);
        let files = ["kassette.toml", "methods/ideal.toml", "providers/a.toml"];
        for file in files {
            set_mode(&folder.path().join(file), 0o644);
        }
        for name in ["", "methods", "providers", "releases"] {
            set_mode(&folder.path().join(name), 0o755);
        }
        assert!(exposed(folder.path(), Profile::Serve).is_empty());
        for name in files
            .into_iter()
            .chain(["", "methods", "providers", "releases"])
        {
            let path = folder.path().join(name);
            let before = std::fs::metadata(&path).unwrap().permissions();
            for more in [0o020, 0o002] {
                set_mode(&path, before.mode() | more);
                assert_eq!(
                    exposed(folder.path(), Profile::Serve),
                    [format!("{name} go-w")]
                );
                assert!(exposed(folder.path(), Profile::Dev).is_empty());
            }
            set_mode(&path, before.mode());
        }
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused_when_serving() {
        let with_file = ACCOUNT.replace("value = \"s3cret\"", "file = \"../secret\"");
        let rotating = ACCOUNT.replace(
            "value = \"s3cret\"",
            "env = \"PATH\"\nold_value = \"s3cret\"",
        );
        let main = "public_url = \"https://pay.example\"\ntls_cert = \"cert\"\ntls_key = \"key\"\nadmin_tls_cert = \"cert\"\nadmin_tls_key = \"admin-key\"\n";
        let folder = folder(&[
            ("kassette.toml", main),
            ("providers/inline.toml", ACCOUNT),
            ("providers/rotating.toml", &rotating),
            ("providers/file.toml", &with_file),
            ("secret", "s3cret\n"),
            ("key", ""),
            ("admin-key", ""),
        ]);
        set_mode(&folder.path().join("providers/file.toml"), 0o644);
        assert!(exposed(folder.path(), Profile::Serve).is_empty());
        for (name, told) in [
            ("providers/inline.toml", "providers/inline.toml"),
            ("providers/rotating.toml", "providers/rotating.toml"),
            ("secret", "providers/file.toml"),
            ("key", "key"),
            ("admin-key", "admin-key"),
        ] {
            let path = folder.path().join(name);
            for (mode, command) in [(0o644, "600"), (0o604, "600"), (0o620, "go-w")] {
                set_mode(&path, mode);
                let found = exposed(folder.path(), Profile::Serve);
                assert_eq!(found, [format!("{told} {command}")]);
                assert!(exposed(folder.path(), Profile::Dev).is_empty());
            }
            set_mode(&path, 0o600);
        }
    }

    #[test]
    fn a_data_directory_that_others_may_write_is_a_problem() {
        let folder = folder(&[("store/db", ""), ("modules/none", "")]);
        set_mode(&folder.path().join("store/db"), 0o666);
        for path in [
            folder.path().join(""),
            folder.path().join("store"),
            folder.path().join("modules"),
        ] {
            for (mode, problems) in [(0o755, 0), (0o700, 0), (0o775, 1), (0o703, 1)] {
                set_mode(&path, mode);
                let found = access::data_problems(folder.path());
                assert_eq!(found.len(), problems, "{found:?}");
                let here = path.display().to_string();
                assert!(found.iter().all(|problem| problem.path == here));
            }
            set_mode(&path, 0o700);
        }
        assert!(access::data_problems(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn modules_that_others_may_write_are_a_problem() {
        let folder = folder(&[("method.ideal.wasm", ""), ("notes.txt", "")]);
        set_mode(&folder.path().join("notes.txt"), 0o666);
        assert!(access::plugin_problems(folder.path()).is_empty());
        for path in [
            folder.path().join("method.ideal.wasm"),
            folder.path().to_owned(),
        ] {
            set_mode(&path, 0o777);
            let found = access::plugin_problems(folder.path());
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].path, path.display().to_string());
            set_mode(&path, 0o700);
        }
        assert!(access::plugin_problems(&folder.path().join("none")).is_empty());
    }
}
