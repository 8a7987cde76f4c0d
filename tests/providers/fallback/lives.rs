//! The gateway through its lives: killed with `kill -9`, started again on the same folder, while payers
//! go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::fallback::judge::WAITING;
use crate::harness::{Answer, Server};
use crate::world::wanted;

/// An advance of a day does everything that thousands of payments have due.
const PATIENCE: Duration = Duration::from_secs(900);

/// One gateway with its simulators, in one folder.
pub(crate) struct Lives {
    /// The server of now; none between a kill and the next start.
    server: watch::Sender<Option<Arc<Server>>>,
    /// Where its lives have listened: payers hold addresses of earlier ones.
    bases: Mutex<Vec<String>>,
    kills: AtomicUsize,
    /// Connections stay open: a run's requests must not use up the system's ports.
    http: reqwest::Client,
}

impl Lives {
    /// The first life, on a fresh folder with a `kassette.toml`.
    pub(crate) async fn begin(settings: &str) -> Self {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
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

    /// The server of now, once there is one.
    pub(crate) async fn server(&self) -> Arc<Server> {
        let mut server = self.server.subscribe();
        let server = server.wait_for(Option::is_some).await.unwrap().clone();
        server.unwrap()
    }

    /// Ends it at once and starts it again.
    pub(crate) async fn kill(&self) {
        let server = self.server.send_replace(None).unwrap();
        let folder = server.kill();
        self.kills.fetch_add(1, Ordering::Relaxed);
        self.live(Server::in_folder(folder).await);
    }

    pub(crate) fn kills(&self) -> usize {
        self.kills.load(Ordering::Relaxed)
    }

    /// Orders a fault.
    pub(crate) async fn fault(&self, account: &str, fault: &str, times: u32) {
        self.server().await.fault(account, fault, times).await;
    }

    /// Moves the clock.
    pub(crate) async fn advance(&self, seconds: u64) {
        self.server().await.advance(seconds).await;
    }

    /// Moves the clock where the gateway is there to hear it.
    pub(crate) async fn nudge(&self, seconds: u64) {
        let server = self.server().await;
        let request = self.http.post(format!("{}/dev/clock", server.admin_base()));
        let body = json!({ "advance_seconds": seconds });
        let request = request.bearer_auth(server.operator_token()).json(&body);
        let _ = self.send(request).await;
    }

    /// Lets everything come to its end: late callbacks, questions, attempts' ends, payments' ends, and
    /// the last question of the schedule, after which a person looks.
    pub(crate) async fn reconcile(&self) {
        const DAY: u64 = 24 * 3600;
        /// A jump of the clock waits for what is due no longer than it must: thousands of payments
        /// take some days more than one does.
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

    /// Whether a payment is neither over nor with an operator.
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

    /// Sends a request of a payer or a shop; none where it was not answered.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        let response = request.send().await.ok()?;
        Some(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.ok()?,
        })
    }

    /// A request to where an address leads now.
    pub(crate) async fn to(&self, method: reqwest::Method, url: &str) -> reqwest::RequestBuilder {
        let base = self.server().await.base().to_owned();
        let bases = self.bases.lock().clone();
        let path = bases.iter().find_map(|old| url.strip_prefix(old.as_str()));
        let url = path.map_or_else(|| url.to_owned(), |path| format!("{base}{path}"));
        // Forms of our own pages are taken from our own pages alone.
        self.http.request(method, url).header("origin", base)
    }

    /// A call of a shop; none where it was not answered.
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

    /// An operator's decision about a review, whatever the answer: there may be none to decide, or the
    /// gateway is killed.
    pub(crate) async fn decide(&self, payment: &str, decision: &str) {
        let server = self.server().await;
        let url = format!("{}/payments/{payment}/review", server.admin_base());
        let body = json!({ "decision": decision, "actor": "ann", "reason": "drawn" });
        let request = self.http.post(url).bearer_auth(server.operator_token());
        if let Some(answer) = self.send(request.json(&body)).await {
            assert!(
                [200, 202, 409].contains(&answer.status),
                "{decision}: {answer:?}"
            );
        }
    }

    /// A payment as operators see it.
    pub(crate) async fn status(&self, key: &str, payment: &str) -> Option<String> {
        let url = format!("{}/api/v1/payments/{payment}", self.server().await.base());
        let answer = self.send(self.http.get(url).bearer_auth(key)).await?;
        let found = answer.json().get("status").cloned().unwrap_or(json!(null));
        found.as_str().map(str::to_owned)
    }
}
