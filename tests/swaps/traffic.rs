//! Callers of the gateway, and its metrics and memory.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::harness::{Server, merge, new_payment};

/// An HTTP client that keeps its connections open, because thousands of requests would otherwise use up the
/// system's ports.
pub(crate) struct Caller<'a> {
    server: &'a Server,
    http: reqwest::Client,
    key: &'a str,
    /// Number of requests with the expected status.
    pub(crate) answered: AtomicU64,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(server: &'a Server, key: &'a str) -> Self {
        Self {
            server,
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(crate::harness::TEST_TIMEOUT)
                .build()
                .unwrap(),
            key,
            answered: AtomicU64::new(0),
        }
    }

    async fn call(&self, request: reqwest::RequestBuilder, status: u16) -> Value {
        let answer = self.server.send(request).await;
        if answer.status != status {
            println!("{}", complaints(self.server));
        }
        let answer = answer.expect(status);
        self.answered.fetch_add(1, Ordering::Relaxed);
        answer.json()
    }

    /// Methods offered for 49.90 EUR.
    pub(crate) async fn listing(&self) -> Vec<Value> {
        let path = "/api/v1/methods?currency=EUR&amount=49.90";
        let url = format!("{}{path}", self.server.base());
        let listing = self.call(self.http.get(url).bearer_auth(self.key), 200);
        listing.await["methods"].as_array().unwrap().clone()
    }

    /// Creates and starts a direct payment. Returns the payment and the URL for its payer.
    pub(crate) async fn started(&self, method: &str) -> (Value, String) {
        let mut body = new_payment();
        let direct = json!({ "checkout_mode": "direct", "payment_method": method });
        merge(&mut body, direct);
        let payment = self.post("/api/v1/payments", &body, 201).await;
        let start = json!({ "payment_id": payment["payment_id"], "payment_method": method });
        let started = self.post("/api/v1/payments/start", &start, 200).await;
        let url = started["redirect_url"].as_str().unwrap().to_owned();
        (payment, url)
    }

    async fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        let url = format!("{}{path}", self.server.base());
        let request = self.http.post(url).bearer_auth(self.key).json(body);
        self.call(request, status).await
    }

    /// A payment from the admin API.
    pub(crate) async fn inside(&self, payment: &Value) -> Value {
        let id = payment["payment_id"].as_str().unwrap();
        let url = format!("{}/payments/{id}", self.server.admin_base());
        let token = self.server.operator_token();
        self.call(self.http.get(url).bearer_auth(token), 200).await
    }
}

/// The last warnings and errors in the gateway's log, to explain a failure.
fn complaints(server: &Server) -> String {
    let log = server.log();
    let bad = |line: &&str| line.contains("WARN") || line.contains("ERROR");
    let mut lines: Vec<_> = log.lines().rev().filter(bad).take(20).collect();
    lines.reverse();
    lines.join("\n")
}

/// Checks that no call of a module failed. The message of a failure contains the log lines.
pub(crate) async fn assert_no_faults(server: &Server) {
    let faults = server.counted("kassette_plugin_faults_total", "").await;
    let log = server.log();
    let failed = log.lines().filter(|line| line.contains("plugin.fault"));
    assert_eq!(faults, 0, "{:#?}", failed.collect::<Vec<_>>());
}

/// Resident memory of the gateway, in KiB.
pub(crate) fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().parse().unwrap()
}

/// A simulated account in a separate process.
pub(crate) struct Simulator(Child);

impl Simulator {
    /// Starts the simulator. It writes an account file, from which the gateway loads the account.
    pub(crate) fn start(server: &Server, id: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args(["sim", "--listen", "127.0.0.1:0", "--provider-id", id])
            .args(["--gateway", server.base()])
            .arg("--data-dir")
            .arg(server.folder().join("second"))
            .arg("--account-file")
            .arg(server.folder().join(format!("config/providers/{id}.toml")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
