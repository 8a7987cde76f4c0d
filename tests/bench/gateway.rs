//! `kassette serve` as in production, in a separate process: a merchant with a test key, the sandbox as its
//! provider, and default settings except the rate limit. Some benchmarks need `kassette dev` instead.

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

/// Maximum duration of a start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Setting without an effective rate limit.
const NO_LIMIT: &str = "rate_limit = { per_second = 1_000_000, burst = 1_000_000 }";
/// Rate limit of a merchant that no benchmark reaches.
pub(crate) const UNLIMITED: (u32, u32) = (1_000_000, 1_000_000);
/// Rate limit of a merchant whose policy does not set one.
pub(crate) const DEFAULT_LIMIT: (u32, u32) = (50, 100);
/// The account of a simulator in a separate process.
pub(crate) const ACCOUNT: &str = "sandbox-test";
/// The merchant's verified domain.
pub(crate) const DOMAIN: &str = "shop.example";

/// Name of the database in PostgreSQL.
const DATABASE: &str = "kassette";

/// Whether gateways store payments in PostgreSQL, from `KASSETTE_TEST_STORE`.
fn on_postgres() -> bool {
    std::env::var("KASSETTE_TEST_STORE").is_ok_and(|store| store == "postgres")
}

/// A PostgreSQL server that syncs commits, with an empty database.
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

/// A vendor's simulator in a separate process, with one account.
pub(crate) struct Simulator {
    child: Child,
    place: SimulatorPlace,
    /// Address of the vendor's API.
    pub(crate) address: SocketAddr,
}

/// Arguments of a simulator.
struct SimulatorPlace {
    module: String,
    account: String,
    /// Folder of its books.
    folder: PathBuf,
    /// URL of the gateway for callbacks.
    gateway: String,
}

impl SimulatorPlace {
    /// Starts the process. On a folder that was used before, it listens on the same ports.
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
    /// The file with the books of its account.
    pub(crate) fn books(&self) -> PathBuf {
        let name = format!("{}.jsonl", self.place.account);
        self.place.folder.join(name)
    }

    /// Sends a signal to the process, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let told = Command::new("kill").args(["-s", name, &process]).status();
        assert!(told.is_ok_and(|told| told.success()));
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the simulator again on its folder, and waits until it listens on its address.
    pub(crate) fn start_again(&mut self) {
        self.child = self.place.spawn(None);
        let began = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let account = &self.place.account;
            assert!(
                began.elapsed() < START_TIMEOUT,
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
    /// Simulators in separate processes.
    simulators: Vec<Simulator>,
    /// The database, if payments are in PostgreSQL.
    database: Option<PrivateServer>,
    folder: TempDir,
    ready: Value,
    token: String,
    /// Address of the public API.
    pub(crate) address: SocketAddr,
    /// The merchant's API key.
    pub(crate) key: String,
    /// Time from the start of the process until it was ready.
    pub(crate) started_in: Duration,
}

impl Gateway {
    /// Starts on a new folder. `settings` are lines of `kassette.toml`.
    pub(crate) fn fresh(settings: &str) -> Self {
        Self::with(&format!("{NO_LIMIT}\n{settings}"))
    }

    /// Starts with the default limits for strangers, and with the simulator in a separate process, so that the
    /// gateway's memory does not include it.
    pub(crate) fn limited() -> Self {
        let mut gateway = Self::with("sandbox = false");
        gateway.simulate("sandbox", ACCOUNT, &Via::Straight);
        gateway
    }

    /// Starts `kassette dev`, which may send webhooks to this machine, with a module whose vendor is simulated in
    /// a separate process and reached as `via` says.
    pub(crate) fn paying(module: &str, account: &str, via: &Via<'_>) -> Self {
        let mut gateway = Self::dev(module, via);
        gateway.simulate(module, account, via);
        gateway
    }

    /// Starts the same with several modules, each with its account.
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

    /// Address of the first simulator's API.
    pub(crate) fn provider(&self) -> Option<SocketAddr> {
        self.simulators.first().map(|simulator| simulator.address)
    }

    /// Takes the simulators, in the order in which they were started.
    pub(crate) fn take_simulators(&mut self) -> Vec<Simulator> {
        std::mem::take(&mut self.simulators)
    }

    /// Starts a simulator and waits until the gateway has loaded its account.
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
            assert!(began.elapsed() < START_TIMEOUT, "{why}");
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

    /// Kills the gateway. Its simulators run until the returned value is dropped.
    pub(crate) fn leave(mut self) -> Self {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self
    }

    /// The provider accounts from the admin API.
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

    /// `kassette dev` with simulated accounts in both environments, and a merchant with a live key.
    pub(crate) fn simulated() -> Self {
        let mut gateway = Self::dev("sandbox", &Via::Straight);
        gateway.key = gateway.merchant("live", UNLIMITED);
        gateway
    }

    /// `kassette dev` with this number of nodes on a separate PostgreSQL.
    pub(crate) fn cluster(nodes: usize) -> Self {
        let count = nodes.to_string();
        Self::dev_with(
            "sandbox",
            &Via::Straight,
            &["--store", "postgres", "--nodes", &count],
        )
    }

    /// Addresses of a cluster's nodes.
    pub(crate) fn nodes(&self) -> Vec<SocketAddr> {
        let nodes = self.ready["nodes"].as_array().unwrap().iter();
        let address = |node: &Value| {
            let url = node["base_url"].as_str().unwrap();
            url.strip_prefix("http://").unwrap().parse().unwrap()
        };
        nodes.map(address).collect()
    }

    /// `kassette dev` with simulated accounts of some vendors.
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
                ended.is_none() && began.elapsed() < START_TIMEOUT,
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

    /// Stops the gateway in order and starts it again on the same folder.
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

    /// Uploads a slot's own module with another digest as a candidate in shadow mode. Returns the digest.
    pub(crate) fn stage(&self, slot: &str) -> Value {
        let path = format!("/plugins/{slot}?mode=shadow");
        self.send("POST", &path, "application/wasm", &self.other(slot))["candidate"]["digest"]
            .clone()
    }

    /// Replays all recorded decisions of a slot with the same module. Returns their number.
    pub(crate) fn replay(&self, slot: &str) -> u64 {
        let path = format!("/plugins/{slot}/replay?last=1000000");
        let diff = self.send("POST", &path, "application/wasm", &self.other(slot));
        diff["decisions"].as_u64().unwrap()
    }

    /// A slot's module with another digest, because of a custom section that the host ignores.
    fn other(&self, slot: &str) -> Vec<u8> {
        let plugins = self.folder.path().join("plugins");
        let module = std::fs::read(plugins.join(format!("{slot}.wasm"))).unwrap();
        [module, vec![0, 3, 1, b'm', 0]].concat()
    }

    /// A slot's current module.
    pub(crate) fn module(&self, slot: &str) -> Vec<u8> {
        let plugins = Path::new(self.ready["plugin_dir"].as_str().unwrap());
        std::fs::read(plugins.join(format!("{slot}.wasm"))).unwrap()
    }

    /// Activates another module in a slot.
    pub(crate) fn replace(&self, slot: &str, module: &[u8]) {
        let path = format!("/plugins/{slot}?mode=activate");
        self.send("POST", &path, "application/wasm", module);
    }

    /// Starts `kassette payment export`, which prints one JSON object per movement of money.
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

    /// Creates a merchant with a rate limit (requests per second and burst) and returns its API key.
    pub(crate) fn merchant(&self, environment: &str, limit: (u32, u32)) -> String {
        let methods = json!({ "ideal": { "enabled": true } });
        let path = self.open_merchant(limit, &methods);
        self.issue_key(&path, environment)
    }

    /// Creates a merchant whose test payments with a method use one account, and whose events go to each of
    /// `hooks`. Returns its API key.
    pub(crate) fn shop(&self, method: &str, account: &str, hooks: &[String]) -> String {
        let to_it = json!({ "enabled": true, "providers": [account] });
        let path = self.open_merchant(UNLIMITED, &json!({ method: to_it }));
        for hook in hooks {
            let endpoint = json!({ "url": hook, "environment": "test" });
            self.admin("POST", &format!("{path}/webhook-endpoints"), &endpoint);
        }
        self.issue_key(&path, "test")
    }

    /// Creates a merchant with a verified domain. Returns its path in the admin API.
    fn open_merchant(&self, (per_second, burst): (u32, u32), methods: &Value) -> String {
        let merchant = self.admin(
            "POST",
            "/merchants",
            &json!({
                "name": "Bench",
                "live_approved": true,
                "actor": "ann",
                "reason": "a bench",
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

    /// The response of `/metrics`.
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

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Peak resident memory in bytes.
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

/// Metrics in Prometheus' text format.
pub(crate) struct Metrics(String);

impl Metrics {
    /// Sum of a metric's samples whose labels contain a text.
    pub(crate) fn sum(&self, name: &str, labels: &str) -> f64 {
        let samples = self.0.lines().filter_map(|line| line.strip_prefix(name));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels));
        let values = samples.filter_map(|rest| rest.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum()
    }

    /// Buckets of a histogram whose labels contain a text: upper bound and cumulative count.
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

/// Processor time that a process has used so far, with all its threads, including ended ones.
pub(crate) fn process_time(process: u32) -> Duration {
    /// Unit of the kernel's counter on all machines that Linux supports.
    const TICKS_A_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The process name is in parentheses and may contain any characters; numbers follow it.
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
