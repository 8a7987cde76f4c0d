//! A simulator on free ports with a clock that the test controls, a client, and a receiver.
use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode};
use kassette_sim::{BookEntry, Environment, Sim, SimAccount, SimConfig};
use reqwest::{Client, RequestBuilder, Response, redirect::Policy};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

pub(crate) const TEST: &str = "sandbox-test";
pub(crate) const LIVE: &str = "sandbox-live";
pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// Long enough for a loaded machine; a test that reaches it has failed.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A clock that only advances when the test moves it.
#[derive(Clone)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_MS)))
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

pub(crate) fn account(provider_id: &str, environment: Environment) -> SimAccount {
    SimAccount {
        provider_id: provider_id.to_owned(),
        module: "sandbox".to_owned(),
        environment,
        client_id: format!("client-of-{provider_id}"),
        api_key: format!("key-of-{provider_id}"),
        callback_secret: format!("callback-secret-of-{provider_id}"),
        callback_url: None,
        public_base: None,
    }
}

pub(crate) fn config(folder: &Path, clock: &Clock) -> SimConfig {
    let clock = clock.0.clone();
    SimConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: folder.to_owned(),
        accounts: vec![
            account(TEST, Environment::Test),
            account(LIVE, Environment::Live),
        ],
        clock: Arc::new(move || clock.load(Ordering::SeqCst)),
        record: None,
    }
}

pub(crate) async fn start(folder: &Path, clock: &Clock) -> Sim {
    Sim::start(config(folder, clock)).await.unwrap()
}

/// A running simulator with a clock, a folder and a client.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) clock: Clock,
    pub(crate) folder: TempDir,
    pub(crate) http: Client,
    pub(crate) bearer: String,
}

pub(crate) fn client() -> Client {
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .timeout(TEST_TIMEOUT)
        .build()
        .unwrap()
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new();
        let sim = start(folder.path(), &clock).await;
        let http = client();
        let bearer = token(&http, &sim, TEST).await;
        Self {
            sim,
            clock,
            folder,
            http,
            bearer,
        }
    }

    /// Simulates a kill without notification or flush, and a new process on the same folder.
    pub(crate) async fn kill_and_restart(&mut self) {
        let folder = self.folder.path().to_owned();
        let placeholder = tempfile::tempdir().unwrap();
        let other = start(placeholder.path(), &self.clock).await;
        let port = self.sim.addr();
        drop(std::mem::replace(&mut self.sim, other));
        // A real kill ends when the system releases the port.
        while std::net::TcpListener::bind(port).is_err() {
            tokio::task::yield_now().await;
        }
        self.sim = start(&folder, &self.clock).await;
        self.bearer = token(&self.http, &self.sim, TEST).await;
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.sim.api_addr(TEST).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(self.url(path)).bearer_auth(&self.bearer)
    }

    pub(crate) fn post(&self, path: &str, key: &str, body: &Value) -> RequestBuilder {
        self.http
            .post(self.url(path))
            .bearer_auth(&self.bearer)
            .header("idempotency-key", key)
            .json(body)
    }

    pub(crate) async fn create(&self, attempt: &str) -> Value {
        let answer = self
            .post("/v1/sessions", attempt, &payment(attempt))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 201);
        answer.json().await.unwrap()
    }

    pub(crate) async fn read(&self, session: &Value) -> Value {
        let path = format!("/v1/sessions/{}", id(session));
        self.get(&path).send().await.unwrap().json().await.unwrap()
    }

    /// Submits the payer's form.
    pub(crate) async fn choose(&self, session: &Value, outcome: &str) -> Response {
        let url = format!("http://{}/{TEST}/pay", self.sim.addr());
        let form = [("session", token_of(session)), ("outcome", outcome)];
        self.http.post(url).form(&form).send().await.unwrap()
    }

    pub(crate) fn entry(&self) -> BookEntry {
        let mut entries = self.sim.books(TEST).unwrap();
        assert_eq!(entries.len(), 1);
        entries.remove(0)
    }
}

/// Removes the fields that a simulator adds randomly.
pub(crate) fn documented(mut answer: Value) -> Value {
    match &mut answer {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = documented(item.take())),
        Value::Object(fields) => {
            fields.remove("x_not_documented");
            fields
                .values_mut()
                .for_each(|field| *field = documented(field.take()));
        }
        _ => {}
    }
    answer
}

pub(crate) async fn token(http: &Client, sim: &Sim, provider_id: &str) -> String {
    let answer: Value = http
        .post(format!(
            "http://{}/oauth/token",
            sim.api_addr(provider_id).unwrap()
        ))
        .basic_auth(
            format!("client-of-{provider_id}"),
            Some(format!("key-of-{provider_id}")),
        )
        .form(&[("grant_type", "client_credentials")])
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    answer["access_token"].as_str().unwrap().to_owned()
}

pub(crate) fn payment(attempt: &str) -> Value {
    json!({
        "merchant_reference": attempt,
        "amount": { "value": "49.90", "currency": "EUR" },
        "method": "ideal",
        "order": "order-1",
        "merchant": "Demo <shop>",
        "return_url": "http://127.0.0.1:1/return/abc",
        "cancel_url": "http://127.0.0.1:1/cancel/abc?x=1",
        "expires_at": START_MS + 3_600_000,
    })
}

pub(crate) fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

/// The token in a redirect action.
pub(crate) fn token_of(session: &Value) -> &str {
    session["next_action"]["url"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
}

/// A received callback.
pub(crate) struct Arrived {
    pub(crate) signature: String,
    pub(crate) bytes: Bytes,
    pub(crate) body: Value,
}

/// A gateway's callback address that records deliveries and sends the configured answers.
pub(crate) struct Receiver {
    pub(crate) url: String,
    arrivals: mpsc::UnboundedReceiver<Arrived>,
    answers: mpsc::UnboundedSender<StatusCode>,
}

type Shared = (
    mpsc::UnboundedSender<Arrived>,
    Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<StatusCode>>>,
);

impl Receiver {
    pub(crate) async fn new() -> Self {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let (answers, answering) = mpsc::unbounded_channel();
        let shared: Shared = (arrived, Arc::new(tokio::sync::Mutex::new(answering)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/callbacks/{TEST}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(receive).with_state(shared);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self {
            url,
            arrivals,
            answers,
        }
    }

    /// Queues an answer for a delivery; the default answer is 200.
    pub(crate) fn answer(&self, status: u16) {
        self.answers
            .send(StatusCode::from_u16(status).unwrap())
            .unwrap();
    }

    pub(crate) async fn next(&mut self) -> Arrived {
        tokio::time::timeout(TEST_TIMEOUT, self.arrivals.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) fn is_empty(&mut self) -> bool {
        self.arrivals.is_empty()
    }
}

async fn receive(
    State((arrived, answers)): State<Shared>,
    headers: HeaderMap,
    bytes: Bytes,
) -> StatusCode {
    let signature = headers["sandbox-signature"].to_str().unwrap().to_owned();
    let body = serde_json::from_slice(&bytes).unwrap();
    let status = answers.lock().await.try_recv().unwrap_or(StatusCode::OK);
    arrived
        .send(Arrived {
            signature,
            bytes,
            body,
        })
        .unwrap();
    status
}

/// Whether the delivery has a signature by that secret at that time, computed like a receiver does.
pub(crate) fn is_signed(arrived: &Arrived, secret: &str, seconds: u64) -> bool {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(&arrived.bytes);
    let code = hex::encode(mac.finalize().into_bytes());
    arrived.signature == format!("t={seconds},v1={code}")
}
