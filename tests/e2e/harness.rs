//! The real binary over real sockets: start it, talk to it, kill it, start it again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longest that a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running `kassette dev` on a folder of its own.
pub struct Server {
    child: Option<Child>,
    folder: Arc<tempfile::TempDir>,
    ready: Value,
    pub http: reqwest::Client,
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The answer again, if its status is this one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The Error shape: exactly `{"error": "..."}`.
    #[track_caller]
    pub fn error(&self) -> String {
        let body = self.json();
        let object = body
            .as_object()
            .unwrap_or_else(|| panic!("no object: {body}"));
        assert_eq!(object.len(), 1, "nothing but the error: {body}");
        body["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no error text: {body}"))
            .to_owned()
    }
}

/// One server that tests share which only add payments of their own.
pub async fn shared() -> &'static Server {
    static SHARED: OnceCell<Server> = OnceCell::const_new();
    SHARED.get_or_init(Server::start).await
}

impl Server {
    /// Starts on a fresh folder.
    pub async fn start() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let plugins = folder.path().join("data/plugins");
        std::fs::create_dir_all(&plugins).unwrap();
        for guest in kassette_build::guests() {
            std::fs::copy(&guest.path, plugins.join(format!("{}.wasm", guest.slot))).unwrap();
        }
        Self::start_in(folder).await
    }

    /// Starts on a folder that another server left behind.
    pub async fn start_in(folder: Arc<tempfile::TempDir>) -> Self {
        let ready_file = folder.path().join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let log = std::fs::File::create(folder.path().join("log.txt")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args([
                "dev",
                "--no-watch",
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                "127.0.0.1:0",
            ])
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .arg("--ready-file")
            .arg(&ready_file)
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self {
            child: Some(child),
            folder,
            ready: Value::Null,
            http: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
        };
        server.ready = server.wait_ready(&ready_file).await;
        server
    }

    async fn wait_ready(&mut self, file: &Path) -> Value {
        let began = Instant::now();
        loop {
            if let Ok(bytes) = std::fs::read(file) {
                return serde_json::from_slice(&bytes).unwrap();
            }
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "not ready:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What it printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log.txt")).unwrap_or_default()
    }

    /// Ends it at once, as `kill -9` does, and gives back its folder.
    pub fn kill(mut self) -> Arc<tempfile::TempDir> {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        Arc::clone(&self.folder)
    }

    /// Tells it to stop and waits until it has; gives back its folder.
    pub async fn stop(mut self) -> Arc<tempfile::TempDir> {
        let mut child = self.child.take().unwrap();
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

    pub fn base(&self) -> &str {
        self.ready["base_url"].as_str().unwrap()
    }

    pub fn admin_base(&self) -> &str {
        self.ready["admin_url"].as_str().unwrap()
    }

    /// Root of the admin listener.
    pub fn admin_root(&self) -> &str {
        self.admin_base().strip_suffix("/admin/v1").unwrap()
    }

    pub fn ready(&self) -> &Value {
        &self.ready
    }

    pub fn test_key(&self) -> &str {
        self.ready["merchants"][0]["test_key"].as_str().unwrap()
    }

    pub fn live_key(&self) -> &str {
        self.ready["merchants"][0]["live_key"].as_str().unwrap()
    }

    pub fn operator_token(&self) -> &str {
        self.ready["operator_token"].as_str().unwrap()
    }

    pub fn plugin_dir(&self) -> PathBuf {
        PathBuf::from(self.ready["plugin_dir"].as_str().unwrap())
    }

    /// Sends a request and reads the answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer {
            status,
            headers,
            text: response.text().await.unwrap(),
        }
    }

    /// POST of JSON to the public API with a key.
    pub async fn post(&self, key: &str, path: &str, body: &Value) -> Answer {
        let url = format!("{}{path}", self.base());
        self.send(self.http.post(url).bearer_auth(key).json(body))
            .await
    }

    /// GET of the public API with a key.
    pub async fn get(&self, key: &str, path: &str) -> Answer {
        let url = format!("{}{path}", self.base());
        self.send(self.http.get(url).bearer_auth(key)).await
    }

    /// A call of the admin API as the operator of `dev`.
    pub async fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.admin_as(self.operator_token(), method, path, body)
            .await
    }

    /// A call of the admin API as anybody.
    pub async fn admin_as(
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
        self.send(request).await
    }

    /// Moves the clock of gateway and simulators.
    pub async fn advance(&self, seconds: u64) {
        self.admin(
            "POST",
            "/dev/clock",
            Some(&json!({ "advance_seconds": seconds })),
        )
        .await
        .expect(200);
    }

    /// Spoils the next calls of a simulated account.
    pub async fn fault(&self, provider_id: &str, fault: &str, times: u32) {
        let body = json!({ "provider_id": provider_id, "fault": fault, "times": times });
        let answer = self.admin("POST", "/dev/faults", Some(&body)).await;
        assert!(answer.status / 100 == 2, "{}", answer.text);
    }

    /// What a simulator believes about an attempt's payment.
    pub async fn books(&self, provider_id: &str) -> Vec<Value> {
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

    /// Creates a payment; `more` overrides or adds fields.
    pub async fn create(&self, key: &str, more: Value) -> Value {
        let mut body = new_payment();
        merge(&mut body, more);
        let answer = self.post(key, "/api/v1/payments", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()
    }

    /// A direct payment, started: the payment and where its payer goes.
    pub async fn started(&self, key: &str, method: &str, more: Value) -> (Value, String) {
        let mut fields = json!({ "checkout_mode": "direct", "payment_method": method });
        merge(&mut fields, more);
        let payment = self.create(key, fields).await;
        let url = self.start(key, &payment, method).await.expect(200).json()["redirect_url"]
            .as_str()
            .unwrap()
            .to_owned();
        (payment, url)
    }

    /// A start through the API.
    pub async fn start(&self, key: &str, payment: &Value, method: &str) -> Answer {
        let body = json!({ "payment_id": payment["payment_id"], "payment_method": method });
        self.post(key, "/api/v1/payments/start", &body).await
    }

    /// The payment as it is now.
    pub async fn payment(&self, key: &str, payment: &Value) -> Value {
        let id = payment["payment_id"].as_str().unwrap();
        self.get(key, &format!("/api/v1/payments/{id}"))
            .await
            .expect(200)
            .json()
    }

    /// The payment as operators see it.
    pub async fn inside(&self, payment: &Value) -> Value {
        let id = payment["payment_id"].as_str().unwrap();
        self.admin("GET", &format!("/payments/{id}"), None)
            .await
            .expect(200)
            .json()
    }

    /// Waits until the payment has this status.
    pub async fn until(&self, key: &str, payment: &Value, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let now = self.payment(key, payment).await;
            if now["status"] == status {
                return now;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "waited for {status}, but is {now}\n{}",
                self.inside(payment).await
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a question about the server is answered with something.
    pub async fn wait_for<T, F: Future<Output = Option<T>>>(
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
                began.elapsed() < PATIENCE,
                "waited in vain for {what}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The payer opens the provider's page and presses a button; answers where the browser goes.
    pub async fn pay(&self, redirect_url: &str, outcome: &str) -> Answer {
        let page = self.send(self.http.get(redirect_url)).await.expect(200);
        let form = Form::first(&page.text, redirect_url);
        let mut fields = form.hidden;
        fields.push(("outcome".to_owned(), outcome.to_owned()));
        self.send(self.http.post(form.action).form(&fields)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A form of a page: where it goes and what it carries.
pub struct Form {
    pub action: String,
    pub hidden: Vec<(String, String)>,
}

impl Form {
    /// The first form of a page. Our pages and the simulators' are written by us, so a plain search
    /// reads them.
    pub fn first(html: &str, page_url: &str) -> Self {
        Self::nth(html, page_url, 0)
    }

    /// The form at a place of the page.
    pub fn nth(html: &str, page_url: &str, place: usize) -> Self {
        let form = html
            .split("<form")
            .nth(place + 1)
            .unwrap_or_else(|| panic!("no form {place} on the page:\n{html}"))
            .split("</form>")
            .next()
            .unwrap();
        let action = attribute(form, "action").unwrap_or_default();
        let hidden = form
            .split("<input")
            .skip(1)
            .filter(|input| attribute(input, "type").as_deref() == Some("hidden"))
            .filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)))
            .collect();
        let base: url::Url = page_url.parse().unwrap();
        Self {
            action: base.join(&action).unwrap().into(),
            hidden,
        }
    }
}

/// An attribute of the first tag of a fragment.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let tag = tag.split('>').next()?;
    let from = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = tag[from..].split('"').next()?;
    Some(
        value
            .replace("&amp;", "&")
            .replace("&#38;", "&")
            .replace("&quot;", "\"")
            .replace("&#34;", "\""),
    )
}

/// Overlays fields.
pub fn merge(body: &mut Value, more: Value) {
    if let (Value::Object(body), Value::Object(more)) = (body, more) {
        body.extend(more);
    }
}

/// A request that is right in every field, with references of its own.
pub fn new_payment() -> Value {
    json!({
        "order_id": format!("order-{}", unique()),
        "idempotency_key": format!("key-{}", unique()),
        "amount": "49.90",
        "currency": "EUR",
    })
}

/// A word that no other test uses.
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}
