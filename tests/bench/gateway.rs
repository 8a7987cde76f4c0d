//! `kassette serve`, as in production, in a process of its own: a merchant with a test key, the
//! sandbox as its provider, default settings but for the rate limit.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kassette_store::postgres::private::{PrivateOptions, PrivateServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client;
use super::payment::{Via, learn};
use super::serving::{kassette, operator, prepare};

/// How long a start may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// No request of a benchmark meets a rate limit: those are not measured.
const NO_LIMIT: &str = "rate_limit = { per_second = 1_000_000, burst = 1_000_000 }";
/// A merchant whose requests are measured meets no rate limit.
pub(crate) const UNLIMITED: (u32, u32) = (1_000_000, 1_000_000);
/// What a merchant has whose policy names no rate limit.
pub(crate) const DEFAULT_LIMIT: (u32, u32) = (50, 100);
/// The account of a simulator in a process of its own.
pub(crate) const ACCOUNT: &str = "sandbox-test";
/// The merchant's verified domain.
pub(crate) const DOMAIN: &str = "shop.example";

/// The database of a gateway that has one.
const DATABASE: &str = "kassette";

/// Whether gateways keep payments in PostgreSQL, as `KASSETTE_TEST_STORE` says.
fn on_postgres() -> bool {
    std::env::var("KASSETTE_TEST_STORE").is_ok_and(|store| store == "postgres")
}

/// A server that syncs what it commits, with an empty database.
fn database(folder: &Path) -> PrivateServer {
    let server = PrivateServer::start(&PrivateOptions {
        folder: folder.join("postgres"),
        disposable: false,
        settings: vec!["max_connections=200".into(), "shared_buffers=256MB".into()],
    });
    let server = server.unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(server.make_database(DATABASE)).unwrap();
    server
}

/// A vendor's simulator in a process of its own, with one account.
pub(crate) struct Simulator {
    child: Child,
    place: SimulatorPlace,
    /// Where it takes requests.
    pub(crate) address: SocketAddr,
}

/// What a simulator is started with.
struct SimulatorPlace {
    module: String,
    account: String,
    /// Its books.
    folder: PathBuf,
    /// The gateway that it calls back.
    gateway: String,
}

impl SimulatorPlace {
    /// Starts the process. One that was started on the folder before takes the same ports again.
    fn spawn(&self, account_file: Option<&Path>) -> Child {
        let mut sim = Command::new(env!("CARGO_BIN_EXE_kassette"));
        sim.args(["sim", "--listen", "127.0.0.1:0", "--module", &self.module])
            .args(["--provider-id", &self.account, "--gateway", &self.gateway])
            .arg("--data-dir")
            .arg(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(file) = account_file {
            sim.arg("--account-file").arg(file);
        }
        sim.spawn().unwrap()
    }
}

impl Simulator {
    /// The file of its account's books.
    pub(crate) fn books(&self) -> PathBuf {
        let name = format!("{}.jsonl", self.place.account);
        self.place.folder.join(name)
    }

    /// Sends the process a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let told = Command::new("kill").args(["-s", name, &process]).status();
        assert!(told.is_ok_and(|told| told.success()));
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on its folder, and waits until it takes requests where it did before.
    pub(crate) fn start_again(&mut self) {
        self.child = self.place.spawn(None);
        let began = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let account = &self.place.account;
            assert!(
                began.elapsed() < PATIENCE,
                "{account} is not back at its address"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A running gateway.
pub(crate) struct Gateway {
    child: Child,
    /// Its providers, where they are processes of their own.
    simulators: Vec<Simulator>,
    /// Its database, where it keeps payments in one.
    database: Option<PrivateServer>,
    folder: TempDir,
    ready: Value,
    token: String,
    /// Where the public API listens.
    pub(crate) address: SocketAddr,
    /// A merchant's test key.
    pub(crate) key: String,
    /// From the start of the process to its first answer.
    pub(crate) started_in: Duration,
}

impl Gateway {
    /// Starts on a fresh folder. `settings` are lines of `kassette.toml`.
    pub(crate) fn fresh(settings: &str) -> Self {
        Self::with(&format!("{NO_LIMIT}\n{settings}"))
    }

    /// The same with the usual limits for strangers, and a simulator in a process of its own: its memory is
    /// not the gateway's.
    pub(crate) fn limited() -> Self {
        let mut gateway = Self::with("sandbox = false");
        gateway.simulate("sandbox", ACCOUNT, &Via::Straight);
        gateway
    }

    /// `kassette dev`, whose events may go to this machine, with a module whose vendor is simulated in a process
    /// of its own; by the way that is said.
    pub(crate) fn paying(module: &str, account: &str, via: &Via<'_>) -> Self {
        let mut gateway = Self::dev(module, via);
        gateway.simulate(module, account, via);
        gateway
    }

    /// The same with several modules, each with its account.
    pub(crate) fn paying_all<'a>(
        accounts: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Self {
        let modules: Vec<&str> = accounts.clone().map(|(module, _)| module).collect();
        let mut gateway = Self::dev(&modules.join(","), &Via::Straight);
        for (module, account) in accounts {
            gateway.simulate(module, account, &Via::Straight);
        }
        gateway
    }

    /// Where its first provider takes requests.
    pub(crate) fn provider(&self) -> Option<SocketAddr> {
        self.simulators.first().map(|simulator| simulator.address)
    }

    /// Hands its simulators over, in the order in which they were started.
    pub(crate) fn take_simulators(&mut self) -> Vec<Simulator> {
        std::mem::take(&mut self.simulators)
    }

    /// Starts a simulator that calls back, and waits until the gateway has taken its account over.
    fn simulate(&mut self, module: &str, account: &str, via: &Via<'_>) {
        let folder = self.folder.path();
        let providers = folder.join("config/providers");
        std::fs::create_dir_all(&providers).unwrap();
        let written = folder.join("account.toml");
        let gateway = match via {
            Via::Floor(floor) => format!("http://{floor}"),
            Via::Straight | Via::Tls(_) => format!("http://{}", self.address),
        };
        let place = SimulatorPlace {
            module: module.to_owned(),
            account: account.to_owned(),
            folder: folder.join(format!("simulator-{account}")),
            gateway,
        };
        let child = place.spawn(Some(&written));
        let began = Instant::now();
        let waited = |why: &str| {
            assert!(began.elapsed() < PATIENCE, "{why}");
            std::thread::sleep(Duration::from_millis(20));
        };
        while !written.exists() {
            waited("the simulator does not start");
        }
        let mut text = std::fs::read_to_string(&written).unwrap();
        let file: toml::Table = text.parse().unwrap();
        let host = file["hosts"][0].as_str().unwrap();
        let provider: SocketAddr = host.parse().unwrap();
        self.simulators.push(Simulator {
            child,
            place,
            address: provider,
        });
        match via {
            Via::Straight => {}
            Via::Floor(floor) => {
                learn(*floor, self.address, provider);
                text = text.replace(host, &floor.to_string());
            }
            Via::Tls(tls) => {
                let secure = tls.before(provider).to_string();
                text = text.replace(&format!("http://{host}"), &format!("https://{secure}"));
                text = text.replace(host, &secure);
            }
        }
        std::fs::write(&written, text).unwrap();
        std::fs::rename(&written, providers.join(format!("{account}.toml"))).unwrap();
        while !self.accounts().contains(account) {
            waited("the account is not taken over");
        }
    }

    /// Ends the gateway; its simulator goes on for as long as what is answered lives.
    pub(crate) fn leave(mut self) -> Self {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self
    }

    /// The provider accounts, as the admin API lists them.
    fn accounts(&self) -> String {
        self.admin("GET", "/providers", &Value::Null).to_string()
    }

    fn with(settings: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let database = on_postgres().then(|| database(folder.path()));
        let url = database.as_ref().map(|server| server.url(DATABASE));
        let url = url.map_or_else(String::new, |url| format!("store.url = {url:?}\n"));
        prepare(folder.path(), &format!("{url}{settings}"));
        if database.is_some() {
            let migrated = kassette(folder.path(), "migrate").status();
            assert!(migrated.is_ok_and(|migrated| migrated.success()));
        }
        let token = operator(folder.path());
        let mut gateway = Self::start(folder, token, String::new());
        gateway.database = database;
        gateway.key = gateway.merchant("test", UNLIMITED);
        gateway
    }

    /// `kassette dev` with simulated accounts in both environments, and a key of a merchant in live.
    pub(crate) fn simulated() -> Self {
        let mut gateway = Self::dev("sandbox", &Via::Straight);
        gateway.key = gateway.merchant("live", UNLIMITED);
        gateway
    }

    /// `kassette dev` with so many nodes on a PostgreSQL of its own.
    pub(crate) fn cluster(nodes: usize) -> Self {
        let count = nodes.to_string();
        Self::dev_with(
            "sandbox",
            &Via::Straight,
            &["--store", "postgres", "--nodes", &count],
        )
    }

    /// Where the nodes of a cluster listen.
    pub(crate) fn nodes(&self) -> Vec<SocketAddr> {
        let nodes = self.ready["nodes"].as_array().unwrap().iter();
        let address = |node: &Value| {
            let url = node["base_url"].as_str().unwrap();
            url.strip_prefix("http://").unwrap().parse().unwrap()
        };
        nodes.map(address).collect()
    }

    /// `kassette dev` with the accounts of one vendor.
    fn dev(module: &str, via: &Via<'_>) -> Self {
        let store: &[&str] = match on_postgres() {
            true => &["--store", "postgres"],
            false => &[],
        };
        Self::dev_with(module, via, store)
    }

    fn dev_with(module: &str, via: &Via<'_>, store: &[&str]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = folder.path().join("config");
        std::fs::create_dir(&config).unwrap();
        if let Via::Tls(tls) = via {
            let authority = folder.path().join("provider-ca.pem");
            tls.server.write_authority(&authority);
            let settings = format!("provider_ca_file = {authority:?}\n");
            std::fs::write(config.join("kassette.toml"), settings).unwrap();
        }
        let mut dev = Command::new(env!("CARGO_BIN_EXE_kassette"));
        dev.args(["dev", "--no-watch", "--simulate", module])
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .arg("--config")
            .arg(config)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(store);
        let mut gateway = Self::run(dev, folder, String::new(), String::new());
        gateway.token = gateway.ready["operator_token"].as_str().unwrap().to_owned();
        gateway
    }

    fn start(folder: TempDir, token: String, key: String) -> Self {
        Self::run(kassette(folder.path(), "serve"), folder, token, key)
    }

    fn run(mut command: Command, folder: TempDir, token: String, key: String) -> Self {
        let ready_file = folder.path().join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let log = std::fs::File::create(folder.path().join("log.txt")).unwrap();
        let began = Instant::now();
        let mut child = command
            .arg("--ready-file")
            .arg(&ready_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let ready: Value = loop {
            if let Ok(bytes) = std::fs::read(&ready_file) {
                break serde_json::from_slice(&bytes).unwrap();
            }
            let ended = child.try_wait().unwrap();
            let log = folder.path().join("log.txt");
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "the gateway does not start:\n{}",
                std::fs::read_to_string(log).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(1));
        };
        Self {
            started_in: began.elapsed(),
            child,
            simulators: Vec::new(),
            database: None,
            folder,
            address: ready["listen"].as_str().unwrap().parse().unwrap(),
            ready,
            token,
            key,
        }
    }

    /// Stops it in order and starts it again on the same folder.
    pub(crate) fn restart(mut self) -> Self {
        self.stop();
        let folder = std::mem::replace(&mut self.folder, TempDir::new().unwrap());
        let database = self.database.take();
        let mut again = Self::start(folder, self.token.clone(), self.key.clone());
        again.database = database;
        again
    }

    fn stop(&mut self) {
        let told = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(told.is_ok_and(|told| told.success()));
        let _ = self.child.wait();
    }

    /// Calls the admin API.
    pub(crate) fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        self.send(method, path, "application/json", body.as_bytes())
    }

    /// Puts the module of a slot on trial beside itself, under another digest.
    pub(crate) fn stage(&self, slot: &str) -> Value {
        let path = format!("/plugins/{slot}?mode=shadow");
        self.send("POST", &path, "application/wasm", &self.other(slot))["candidate"]["digest"]
            .clone()
    }

    /// Has the same module make all recorded decisions of the slot again: how many there are.
    pub(crate) fn replay(&self, slot: &str) -> u64 {
        let path = format!("/plugins/{slot}/replay?last=1000000");
        let diff = self.send("POST", &path, "application/wasm", &self.other(slot));
        diff["decisions"].as_u64().unwrap()
    }

    /// The module of a slot under another digest: a custom section means nothing.
    fn other(&self, slot: &str) -> Vec<u8> {
        let plugins = self.folder.path().join("plugins");
        let module = std::fs::read(plugins.join(format!("{slot}.wasm"))).unwrap();
        [module, vec![0, 3, 1, b'm', 0]].concat()
    }

    /// The module of a slot, as it serves now.
    pub(crate) fn module(&self, slot: &str) -> Vec<u8> {
        let plugins = Path::new(self.ready["plugin_dir"].as_str().unwrap());
        std::fs::read(plugins.join(format!("{slot}.wasm"))).unwrap()
    }

    /// Has another module serve in a slot.
    pub(crate) fn replace(&self, slot: &str, module: &[u8]) {
        let path = format!("/plugins/{slot}?mode=activate");
        self.send("POST", &path, "application/wasm", module);
    }

    /// What moved on all payments, an object a line, as it is written.
    pub(crate) fn export(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args(["payment", "export", "--json", "--admin-url"])
            .arg(self.ready["admin_url"].as_str().unwrap())
            .env("KASSETTE_OPERATOR_TOKEN", &self.token)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Value {
        let url = self.ready["admin_url"].as_str().unwrap();
        let (host, base) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let head = format!(
            "{method} /{base}{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        let (status, answer) = client::once(host.parse().unwrap(), &request);
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        assert!(status / 100 == 2, "{method} {path}: {status} {answer}");
        answer
    }

    /// A merchant with a rate limit: requests a second, and at once; answers its key of an environment.
    pub(crate) fn merchant(&self, environment: &str, limit: (u32, u32)) -> String {
        let methods = json!({ "ideal": { "enabled": true } });
        let path = self.open_merchant(limit, &methods);
        self.issue_key(&path, environment)
    }

    /// A merchant whose test payments by a method go to one account, and whose events go to each of `hooks`;
    /// answers its key.
    pub(crate) fn shop(&self, method: &str, account: &str, hooks: &[String]) -> String {
        let to_it = json!({ "enabled": true, "providers": [account] });
        let path = self.open_merchant(UNLIMITED, &json!({ method: to_it }));
        for hook in hooks {
            let endpoint = json!({ "url": hook, "environment": "test" });
            self.admin("POST", &format!("{path}/webhook-endpoints"), &endpoint);
        }
        self.issue_key(&path, "test")
    }

    /// Makes a merchant with a verified domain; answers its path.
    fn open_merchant(&self, (per_second, burst): (u32, u32), methods: &Value) -> String {
        let merchant = self.admin(
            "POST",
            "/merchants",
            &json!({
                "name": "Bench",
                "live_approved": true,
                "fx_rates": { "EUR": "1.08" },
                "policy": {
                    "rate_limit": { "per_second": per_second, "burst": burst },
                    "methods": methods,
                },
            }),
        );
        let path = format!("/merchants/{}", merchant["merchant_id"]);
        self.admin(
            "POST",
            &format!("{path}/domains"),
            &json!({ "domain": DOMAIN }),
        );
        path
    }

    fn issue_key(&self, merchant: &str, environment: &str) -> String {
        let key = self.admin(
            "POST",
            &format!("{merchant}/keys"),
            &json!({ "environment": environment }),
        );
        key["key"].as_str().unwrap().to_owned()
    }

    /// What `/metrics` shows.
    pub(crate) fn metrics(&self) -> Metrics {
        let url = self.ready["admin_url"].as_str().unwrap();
        let host = url.split('/').nth(2).unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let (status, text) = client::once(host.parse().unwrap(), request.as_bytes());
        assert_eq!(status, 200);
        Metrics(String::from_utf8(text).unwrap())
    }

    /// Processor time used so far.
    pub(crate) fn cpu(&self) -> Duration {
        process_time(self.child.id())
    }

    /// Resident memory now, bytes.
    pub(crate) fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most that was resident so far, bytes.
    pub(crate) fn resident_most(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap() << 10
    }
}

/// Metrics in Prometheus' text form.
pub(crate) struct Metrics(String);

impl Metrics {
    /// The sum of a metric's samples whose labels hold a text.
    pub(crate) fn sum(&self, name: &str, labels: &str) -> f64 {
        let samples = self.0.lines().filter_map(|line| line.strip_prefix(name));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels));
        let values = samples.filter_map(|rest| rest.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum()
    }

    /// The upper bounds of a histogram's buckets whose labels hold a text, and how many samples stand below each.
    pub(crate) fn buckets(&self, name: &str, labels: &str) -> Vec<(f64, f64)> {
        let prefix = format!("{name}_bucket{{");
        let lines = self.0.lines().filter(|line| line.starts_with(&prefix));
        let lines = lines.filter(|line| line.contains(labels));
        let bucket = |line: &str| {
            let (_, bound) = line.split_once("le=\"")?;
            let (bound, _) = bound.split_once('"')?;
            let (_, count) = line.rsplit_once(' ')?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        };
        lines.filter_map(bucket).collect()
    }
}

/// Processor time that a process has used so far, with all its threads, those that ended too.
pub(crate) fn process_time(process: u32) -> Duration {
    /// What the kernel counts in, on every machine that Linux still runs on.
    const TICKS_A_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name stands in parentheses and may hold anything; what follows it are numbers.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS_A_SECOND)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
