//! The gateway's lives: it is killed with `kill -9` and started again on the same folder while payers continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::fallback::judge::WAITING;
use crate::harness::{Answer, Server};
use crate::world::wanted;

/// An advance by a day performs all due work of thousands of payments.
const ADVANCE_TIMEOUT: Duration = Duration::from_secs(900);

/// A gateway with its simulators, in one folder.
pub(crate) struct Lives {
    /// The current server. `None` between a kill and the next start.
    server: watch::Sender<Option<Arc<Server>>>,
    /// Base URLs of all lives: payers have addresses from earlier ones.
    bases: Mutex<Vec<String>>,
    kills: AtomicUsize,
    /// Keeps connections open, so that a run does not use up the system's ports.
    http: reqwest::Client,
}

impl Lives {
    /// Starts the first life on a fresh folder, with this `kassette.toml`.
    pub(crate) async fn begin(settings: &str) -> Self {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(ADVANCE_TIMEOUT)
            .build()
            .unwrap();
        let first = Server::simulating(&wanted(), settings).await;
        let lives = Self {
            server: watch::Sender::new(None),
            bases: Mutex::default(),
            kills: AtomicUsize::new(0),
            http,
        };
        lives.live(first);
        lives
    }

    fn live(&self, mut server: Server) {
        server.http = self.http.clone();
        self.bases.lock().push(server.base().to_owned());
        self.server.send_replace(Some(Arc::new(server)));
    }

    /// Waits for a running server.
    pub(crate) async fn server(&self) -> Arc<Server> {
        let mut server = self.server.subscribe();
        let server = server.wait_for(Option::is_some).await.unwrap().clone();
        server.unwrap()
    }

    /// Kills the server and starts it again. The simulated clock returns to the system's time.
    pub(crate) async fn kill(&self) {
        self.kill_before(async |_| ()).await;
    }

    /// Like `kill`, but the clock continues from its previous time, because real providers' clocks are not set
    /// back.
    pub(crate) async fn kill_in_time(&self) {
        let before = self.server().await.now().await;
        let catch_up = async |server: &Server| {
            let behind = before - server.now().await;
            server.advance(u64::try_from(behind).unwrap_or(0)).await;
        };
        self.kill_before(catch_up).await;
    }

    async fn kill_before(&self, live: impl AsyncFnOnce(&Server)) {
        let server = self.server.send_replace(None).unwrap();
        let folder = server.kill();
        self.kills.fetch_add(1, Ordering::Relaxed);
        let next = Server::in_folder(folder).await;
        live(&next).await;
        self.live(next);
    }

    pub(crate) fn kills(&self) -> usize {
        self.kills.load(Ordering::Relaxed)
    }

    pub(crate) async fn fault(&self, account: &str, fault: &str, times: u32) {
        self.server().await.fault(account, fault, times).await;
    }

    pub(crate) async fn advance(&self, seconds: u64) {
        self.server().await.advance(seconds).await;
    }

    /// Calls the admin API as an operator. `None` if there was no response.
    pub(crate) async fn operate(&self, path: &str, body: &serde_json::Value) -> Option<Answer> {
        let server = self.server().await;
        let request = self.http.post(format!("{}{path}", server.admin_base()));
        let request = request.bearer_auth(server.operator_token());
        self.send(request.json(body)).await
    }

    /// Advances the clock, if the gateway is running.
    pub(crate) async fn nudge(&self, seconds: u64) {
        let body = json!({ "advance_seconds": seconds });
        let _ = self.operate("/dev/clock", &body).await;
    }

    /// Waits until everything has ended: late callbacks, queries, attempts, payments, and the last scheduled
    /// query, after which a person decides.
    pub(crate) async fn reconcile(&self) {
        const DAY: u64 = 24 * 3600;
        /// Maximum number of additional days: an advance does not wait for all due work, so thousands of payments
        /// need several days.
        const MOST_DAYS: usize = 60;
        for seconds in [11, 301, 3600, 3600, DAY, DAY, DAY, DAY, DAY, DAY, DAY] {
            self.advance(seconds).await;
        }
        for _ in 0..MOST_DAYS {
            if !self.a_payment_waits().await {
                return;
            }
            self.advance(DAY).await;
        }
    }

    /// Whether a payment has neither ended nor is in review.
    async fn a_payment_waits(&self) -> bool {
        let server = self.server().await;
        for status in WAITING {
            let path = format!("/payments?limit=1&status={status}");
            let listed = server.admin("GET", &path, None).await.expect(200).json();
            if !listed["payments"].as_array().unwrap().is_empty() {
                return true;
            }
        }
        false
    }

    /// Sends a request of a payer or a shop. `None` if there was no response.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        let response = request.send().await.ok()?;
        Some(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.ok()?,
        })
    }

    /// A request to the current address that corresponds to this URL.
    pub(crate) async fn to(&self, method: reqwest::Method, url: &str) -> reqwest::RequestBuilder {
        let base = self.server().await.base().to_owned();
        let bases = self.bases.lock().clone();
        let path = bases.iter().find_map(|old| url.strip_prefix(old.as_str()));
        let url = path.map_or_else(|| url.to_owned(), |path| format!("{base}{path}"));
        // The gateway accepts only forms from its own pages.
        self.http.request(method, url).header("origin", base)
    }

    /// Calls the API as a shop. `None` if there was no response.
    pub(crate) async fn call(
        &self,
        key: &str,
        path: &str,
        body: &serde_json::Value,
    ) -> Option<Answer> {
        let url = format!("{}{path}", self.server().await.base());
        let request = self.http.post(url).bearer_auth(key).json(body);
        self.send(request).await
    }

    /// Decides a review as an operator. Any outcome is accepted: the payment may not be in review, or the gateway
    /// is killed.
    pub(crate) async fn decide(&self, payment: &str, decision: &str) {
        let body = json!({ "decision": decision, "actor": "ann", "reason": "drawn" });
        let path = format!("/payments/{payment}/review");
        if let Some(answer) = self.operate(&path, &body).await {
            assert!(
                [200, 202, 409].contains(&answer.status),
                "{decision}: {answer:?}"
            );
        }
    }

    /// Status of a payment in the merchant API. `None` if there was no response.
    pub(crate) async fn status(&self, key: &str, payment: &str) -> Option<String> {
        let url = format!("{}/api/v1/payments/{payment}", self.server().await.base());
        let answer = self.send(self.http.get(url).bearer_auth(key)).await?;
        let found = answer.json().get("status").cloned().unwrap_or(json!(null));
        found.as_str().map(str::to_owned)
    }
}
