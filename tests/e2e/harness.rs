//! Starts, stops, kills and restarts the real binary, and sends requests to it over real sockets.

#[path = "compiled_once.rs"]
mod compiled_once;
#[path = "../openapi/contract.rs"]
mod contract;
#[path = "../store.rs"]
mod store;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::contract::{Contract, Exchange};

/// Maximum time that a test waits for a condition or a response.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum duration of a start: several nodes with every module, while other gateways start.
const START: Duration = Duration::from_secs(180);

/// The provider module that most tests use, as the only one.
const SANDBOX: &str = "sandbox";

/// A running `kassette dev`.
pub(crate) struct Server {
    child: Mutex<Option<Child>>,
    watchdog: Mutex<Watchdog>,
    folder: Arc<tempfile::TempDir>,
    ready: Value,
    pub(crate) http: reqwest::Client,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the response if it has this status; panics otherwise.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Value of a header. `None` if it is missing or not text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The Error shape: exactly `{"error": "...", "code": "..."}`, `field` if one is at fault, and `status` in conflicts
    /// about a payment.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        let body = self.json();
        let object = body
            .as_object()
            .unwrap_or_else(|| panic!("no object: {body}"));
        assert!(body["code"].is_string(), "no code: {body}");
        let has = |name: &str| object.get(name).is_some_and(Value::is_string);
        let is_conflict = self.status == 409 && has("status");
        let fields = 2 + usize::from(has("field")) + usize::from(is_conflict);
        assert_eq!(object.len(), fields, "nothing but the error: {body}");
        body["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no error text: {body}"))
            .to_owned()
    }
}

/// The server shared by all tests that only add payments to it.
pub(crate) async fn shared() -> &'static Server {
    static SHARED: OnceCell<Server> = OnceCell::const_new();
    SHARED.get_or_init(Server::fresh).await
}

impl Server {
    pub(crate) async fn fresh() -> Self {
        Self::configured("").await
    }

    /// Starts a server on a fresh folder with this `kassette.toml`.
    pub(crate) async fn configured(main: &str) -> Self {
        Self::simulating(&[SANDBOX], main).await
    }

    /// Like [`Self::configured`], with these provider modules and their simulators.
    pub(crate) async fn simulating(providers: &[&str], main: &str) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let config = folder.path().join("config");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("kassette.toml"), main).unwrap();
        add_modules(folder.path(), providers);
        Self::in_folder(folder).await
    }

    /// Starts a server on a folder that contains at most a configuration.
    pub(crate) async fn with_modules(folder: Arc<tempfile::TempDir>) -> Self {
        add_modules(folder.path(), &[SANDBOX]);
        Self::in_folder(folder).await
    }

    pub(crate) async fn in_folder(folder: Arc<tempfile::TempDir>) -> Self {
        Self::through(Command::new(env!("CARGO_BIN_EXE_kassette")), folder).await
    }

    /// Starts this many nodes behind a balancer, with this `kassette.toml`.
    pub(crate) async fn nodes(nodes: usize, main: &str) -> Self {
        let folder = fresh_folder();
        let config = folder.path().join("config");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("kassette.toml"), main).unwrap();
        let nodes = nodes.to_string();
        let options = ["--store", "postgres", "--nodes", &nodes].map(str::to_owned);
        let command = Command::new(env!("CARGO_BIN_EXE_kassette"));
        Self::with_options(command, folder, options.to_vec()).await
    }

    /// Starts a server by a command that takes the binary's arguments and runs in the same process.
    pub(crate) async fn through(command: Command, folder: Arc<tempfile::TempDir>) -> Self {
        Self::with_options(command, folder, store::options()).await
    }

    async fn with_options(
        mut command: Command,
        folder: Arc<tempfile::TempDir>,
        options: Vec<String>,
    ) -> Self {
        let ready_file = folder.path().join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let log = std::fs::File::create(folder.path().join("log.txt")).unwrap();
        let config = folder.path().join("config");
        std::fs::create_dir_all(config.join("providers")).unwrap();
        let data = folder.path().join("data");
        compiled_once::lend(&data).unwrap();
        if command.get_envs().all(|(name, _)| name != "RUST_LOG") {
            command.env("RUST_LOG", "info");
        }
        let child = command
            .args([
                "dev",
                "--no-watch",
                "--simulate",
                &simulated(folder.path()),
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                "127.0.0.1:0",
            ])
            .arg("--data-dir")
            .arg(&data)
            .arg("--config")
            .arg(config)
            .arg("--ready-file")
            .arg(&ready_file)
            .args(options)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self {
            watchdog: Mutex::new(Watchdog::over(&child, folder.path())),
            child: Mutex::new(Some(child)),
            folder,
            ready: Value::Null,
            http: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .timeout(TEST_TIMEOUT)
                // Each test has its own runtime, and a connection cannot outlive the runtime that opened it.
                .pool_max_idle_per_host(0)
                .build()
                .unwrap(),
        };
        server.ready = server.wait_ready(&ready_file).await;
        compiled_once::keep(&data).unwrap();
        server
    }

    async fn wait_ready(&self, file: &Path) -> Value {
        let began = Instant::now();
        loop {
            if let Ok(bytes) = std::fs::read(file) {
                return serde_json::from_slice(&bytes).unwrap();
            }
            let ended = self.child.lock().as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < START,
                "not ready:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Current content of the ready file, which changes when nodes restart.
    pub(crate) fn ready_now(&self) -> Value {
        let file = self.folder.path().join("ready.json");
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    /// Current entry of a node in the ready file.
    pub(crate) fn told_of(&self, name: &str) -> Value {
        let ready = self.ready_now();
        let nodes = ready["nodes"].as_array().unwrap();
        let found = nodes.iter().find(|node| node["name"] == name);
        found
            .unwrap_or_else(|| panic!("no {name}: {ready}"))
            .clone()
    }

    /// The same server through one of its nodes, without the balancer.
    pub(crate) fn node(&self, name: &str) -> Self {
        let node = self.told_of(name);
        let mut ready = self.ready.clone();
        for address in ["base_url", "admin_url"] {
            ready[address] = node[address].clone();
        }
        Self {
            child: Mutex::new(None),
            watchdog: Mutex::new(Watchdog(None)),
            folder: Arc::clone(&self.folder),
            ready,
            http: self.http.clone(),
        }
    }

    /// ID of the server's process. Panics if it has ended.
    pub(crate) fn pid(&self) -> u32 {
        let mut child = self.child.lock();
        let child = child.as_mut().unwrap();
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it has ended: {}",
            self.log()
        );
        child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log.txt")).unwrap_or_default()
    }

    /// Kills the server like `kill -9` and returns its folder.
    pub(crate) fn kill(&self) -> Arc<tempfile::TempDir> {
        self.watchdog.lock().dismiss();
        let mut child = self.child.lock().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        Arc::clone(&self.folder)
    }

    /// Sends SIGTERM, waits until the server has stopped, and returns its folder.
    pub(crate) async fn stop(&self) -> Arc<tempfile::TempDir> {
        self.watchdog.lock().dismiss();
        let mut child = self.child.lock().take().unwrap();
        let told = Command::new("kill")
            .arg(child.id().to_string())
            .status()
            .unwrap();
        assert!(told.success());
        let status = tokio::task::spawn_blocking(move || child.wait().unwrap())
            .await
            .unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        Arc::clone(&self.folder)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn base(&self) -> &str {
        self.ready["base_url"].as_str().unwrap()
    }

    pub(crate) fn admin_base(&self) -> &str {
        self.ready["admin_url"].as_str().unwrap()
    }

    pub(crate) fn credentials(&self) -> Value {
        let file = self.folder.path().join("data/dev-credentials.json");
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    pub(crate) fn admin_root(&self) -> &str {
        self.admin_base().strip_suffix("/admin/v1").unwrap()
    }

    /// Text of `/metrics`, of all nodes one after the other.
    pub(crate) async fn metrics(&self) -> String {
        let mut pages = String::new();
        for node in self.ready["nodes"].as_array().unwrap() {
            let page = node["admin_url"]
                .as_str()
                .unwrap()
                .replace("/admin/v1", "/metrics");
            pages += &self.send(self.http.get(page)).await.expect(200).text;
        }
        pages
    }

    /// Sum of a counter over all series whose labels contain this text.
    pub(crate) async fn counted(&self, name: &str, label: &str) -> u64 {
        let metrics = self.metrics().await;
        let series = metrics.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(label))
        });
        series
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    pub(crate) fn ready(&self) -> &Value {
        &self.ready
    }

    pub(crate) fn test_key(&self) -> &str {
        self.ready["merchants"][0]["test_key"].as_str().unwrap()
    }

    pub(crate) fn live_key(&self) -> &str {
        self.ready["merchants"][0]["live_key"].as_str().unwrap()
    }

    pub(crate) fn operator_token(&self) -> &str {
        self.ready["operator_token"].as_str().unwrap()
    }

    pub(crate) fn plugin_dir(&self) -> PathBuf {
        PathBuf::from(self.ready["plugin_dir"].as_str().unwrap())
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer {
            status,
            headers,
            text: response.text().await.unwrap(),
        }
    }

    /// POSTs JSON to the public API with a key.
    pub(crate) async fn post(&self, key: &str, path: &str, body: &Value) -> Answer {
        let url = format!("{}{path}", self.base());
        self.send(self.http.post(url).bearer_auth(key).json(body))
            .await
    }

    /// GETs from the public API with a key.
    pub(crate) async fn get(&self, key: &str, path: &str) -> Answer {
        let url = format!("{}{path}", self.base());
        self.send(self.http.get(url).bearer_auth(key)).await
    }

    /// Calls the admin API as the operator of `dev`.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.admin_as(self.operator_token(), method, path, body)
            .await
    }

    /// Calls the admin API with another operator token.
    pub(crate) async fn admin_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let url = format!("{}{path}", self.admin_base());
        let mut request = self
            .http
            .request(method.parse().unwrap(), url)
            .bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        if needs_reason(method, path) {
            request = request
                .header("x-audit-actor", "Tests")
                .header("x-audit-reason", "a test");
        }
        let answer = self.send(request).await;
        let told = serde_json::from_str(&answer.text).ok();
        let exchange = Exchange {
            method,
            path,
            sent: body,
            status: answer.status,
            answered: told.as_ref(),
        };
        if let Err(otherwise) = self.contract().await.check(&exchange) {
            panic!("{method} {path} is not as the document says: {otherwise}");
        }
        answer
    }

    /// OpenAPI document of the admin API, which is the same for every gateway under `dev`.
    async fn contract(&self) -> &'static Contract {
        static CONTRACT: OnceCell<Contract> = OnceCell::const_new();
        let read = async || {
            let url = format!("{}/openapi.json", self.admin_root());
            let answer = self.send(self.http.get(url)).await.expect(200);
            Contract::new(answer.json())
        };
        CONTRACT.get_or_init(read).await
    }

    /// Advances the clock of gateway and simulators.
    pub(crate) async fn advance(&self, seconds: u64) {
        self.admin(
            "POST",
            "/dev/clock",
            Some(&json!({ "advance_seconds": seconds })),
        )
        .await
        .expect(200);
    }

    /// Current time of the test clock, in seconds since 1970.
    pub(crate) async fn now(&self) -> i64 {
        let answer = self
            .admin("GET", "/dev/clock", None)
            .await
            .expect(200)
            .json();
        let now: jiff::Timestamp = answer["now"].as_str().unwrap().parse().unwrap();
        now.as_second()
    }

    /// Applies a fault to the next calls of a simulated account.
    pub(crate) async fn fault(&self, provider_id: &str, fault: &str, times: u32) {
        let body = json!({ "provider_id": provider_id, "fault": fault, "times": times });
        let answer = self.admin("POST", "/dev/faults", Some(&body)).await;
        assert!(answer.status / 100 == 2, "{}", answer.text);
    }

    /// A simulator's books: what the provider recorded about each payment.
    pub(crate) async fn books(&self, provider_id: &str) -> Vec<Value> {
        let answer = self
            .admin(
                "GET",
                &format!("/dev/books?provider_id={provider_id}"),
                None,
            )
            .await
            .expect(200);
        answer.json()["entries"].as_array().unwrap().clone()
    }

    /// Repeats `ask` until it returns a value. Panics after `TEST_TIMEOUT`.
    pub(crate) async fn wait_for<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        mut ask: impl FnMut() -> F,
    ) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "waited in vain for {what}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A folder with this build's modules only.
pub(crate) fn fresh_folder() -> Arc<tempfile::TempDir> {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    add_modules(folder.path(), &[SANDBOX]);
    folder
}

fn add_modules(folder: &Path, providers: &[&str]) {
    let plugins = folder.join("data/plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    for guest in kassette_build::guests_with(providers) {
        std::fs::copy(&guest.path, plugins.join(format!("{}.wasm", guest.slot))).unwrap();
    }
}

/// The providers to simulate, separated by commas: the sandbox and all providers whose module is in the folder.
fn simulated(folder: &Path) -> String {
    let plugins = folder.join("data/plugins");
    let is_there = |module: &str| plugins.join(format!("provider.{module}.wasm")).exists();
    let mut modules = kassette_sim::modules().to_vec();
    modules.retain(|module| *module == SANDBOX || is_there(module));
    modules.join(",")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.watchdog.get_mut().dismiss();
        if let Some(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Kills a server that no test ended and removes its folder. Needed because the shared server is never dropped,
/// and an interrupted run drops nothing.
struct Watchdog(Option<Child>);

impl Watchdog {
    /// The shell waits for the end of its standard input, which closes when this process ends.
    fn over(child: &Child, folder: &Path) -> Self {
        let watchdog = Command::new("sh")
            .args(["-c", "cat >/dev/null; kill -9 \"$0\"; rm -rf \"$1\""])
            .arg(child.id().to_string())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(Some(watchdog))
    }

    /// Must be called before the server is ended, because its process ID may then be reused.
    fn dismiss(&mut self) {
        if let Some(mut watchdog) = self.0.take() {
            let _ = watchdog.kill();
            let _ = watchdog.wait();
        }
    }
}

/// Overrides or adds fields of a JSON object.
pub(crate) fn merge(body: &mut Value, more: Value) {
    if let (Value::Object(body), Value::Object(more)) = (body, more) {
        body.extend(more);
    }
}

/// A request with only valid fields and unique references.
pub(crate) fn new_payment() -> Value {
    json!({
        "order_id": format!("order-{}", unique()),
        "idempotency_key": format!("key-{}", unique()),
        "amount": "49.90",
        "currency": "EUR",
    })
}

/// A text that no other test uses.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Whether a call of the admin API needs a reason unless its body already gives one.
fn needs_reason(method: &str, path: &str) -> bool {
    match method {
        "POST" => path == "/merchants" || path.ends_with("/rotate"),
        "PATCH" => path.starts_with("/merchants/") || path.starts_with("/providers/"),
        "DELETE" => path.starts_with("/keys/"),
        _ => false,
    }
}
