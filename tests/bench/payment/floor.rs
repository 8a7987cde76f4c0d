//! Minimum cost of a whole payment on this machine: a server that sends the same requests and events as the
//! gateway does for a payment, over open connections, and appends to a raw log instead of committing.
//!
//! It first records one payment as a proxy between a gateway, its provider and its receiver. Then it repeats the
//! recorded messages for each payment that is created, with other ids, tokens and times. It reaches the provider
//! over TLS if there is a [`SecureProvider`].

use std::collections::HashMap;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::receiver::HOOK;
use crate::floor::{serve_on, serve_on_loopback};
use crate::store::group::Group;
use crate::store::raw;
use crate::{client, requests};

/// Argument that starts this program as such a floor.
pub(crate) const ARGUMENT: &str = "payment-floor";
/// Path that starts the recording. The body is a [`Between`].
const LEARN: &str = "/floor/learn";
/// Path that ends the recording and starts the repetition. The body is a [`Learned`].
const REPLAY: &str = "/floor/replay";
/// Path that returns the address for events during the recording. It is another one, because the gateway sends no
/// event to an address of a provider.
const EVENTS: &str = "/floor/events";
/// Prefix of the paths of callbacks.
const CALLBACKS: &str = "/callbacks/";
/// Headers that belong to a connection and are not forwarded.
const HOP: [http::HeaderName; 4] = [HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING];
/// Minimum length of a token that can vary. Shorter ones belong to the protocol.
const LEAST_WORD: usize = 8;
/// Minimum length of a signature: a hash of 32 bytes in Base64.
const LEAST_SIGNATURE: usize = 44;
/// Bytes of the page to which the payer returns.
const PAGE: usize = 4096;

/// The two ends of the proxy.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Between {
    gateway: SocketAddr,
    provider: SocketAddr,
}

/// The recorded payment as its merchant knows it, and the address for events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Learned {
    pub(crate) payment_id: String,
    pub(crate) redirect_url: String,
    pub(crate) receiver: SocketAddr,
    /// The provider's API over TLS.
    pub(crate) secure: Option<SecureProvider>,
}

/// A provider's TLS server, and the certificate of its authority in DER.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SecureProvider {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Vec<u8>,
}

type SecureClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A recorded request.
#[derive(Clone)]
struct Message {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: String,
}

/// A recorded message.
enum Heard {
    /// A request to the provider, with the body of its response.
    Asked(Message, String),
    /// A callback, as text.
    Told(String),
    /// An event.
    Delivered(Message),
}

/// A callback (empty for the start) and the messages that follow it.
struct Part {
    told: String,
    acts: Vec<Heard>,
}

/// All messages of a payment.
struct Script {
    learned: Learned,
    provider: SocketAddr,
    /// Address and client for the provider over TLS.
    secure: Option<(SocketAddr, SecureClient)>,
    /// Id of the recorded attempt.
    attempt: String,
    /// The start, then one part per callback.
    parts: Vec<Part>,
}

/// A payment in progress.
struct Paying {
    /// Tokens of the recorded payment, with those that replace them.
    words: tokio::sync::Mutex<Vec<(String, String)>>,
    /// Number of callbacks received.
    told: AtomicUsize,
}

struct Floor {
    client: Client<HttpConnector, Full<Bytes>>,
    log: Group<Vec<u8>>,
    between: Mutex<Option<Between>>,
    heard: Mutex<Vec<Heard>>,
    script: OnceLock<Script>,
    payments: Mutex<HashMap<String, Arc<Paying>>>,
}

/// Prints the address and serves until the process is killed.
pub(crate) fn serve() {
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let floor = Arc::new(Floor {
        client: Client::builder(TokioExecutor::new()).build(connector()),
        log: raw::start(file),
        between: Mutex::default(),
        heard: Mutex::default(),
        script: OnceLock::new(),
        payments: Mutex::default(),
    });
    let events = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = events.local_addr().unwrap().to_string();
    let router = Router::new()
        .route("/api/v1/payments", post(create))
        .route("/api/v1/payments/start", post(start))
        .route(LEARN, post(stand_between))
        .route(REPLAY, post(begin))
        .route(EVENTS, get(move || ready(address.clone())))
        .fallback(other)
        .with_state(floor);
    let same = router.clone();
    std::thread::spawn(move || serve_on(events, same));
    serve_on_loopback(router);
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    connector
}

impl SecureProvider {
    fn client(&self) -> SecureClient {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone().into()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(connector());
        Client::builder(TokioExecutor::new()).build(connector)
    }
}

/// Starts the recording between a gateway and its provider.
pub(crate) fn learn(floor: SocketAddr, gateway: SocketAddr, provider: SocketAddr) {
    tell(floor, LEARN, &Between { gateway, provider });
}

/// Starts to repeat the recorded messages.
pub(crate) fn replay(floor: SocketAddr, learned: &Learned) {
    tell(floor, REPLAY, learned);
}

/// Address for events during the recording.
pub(crate) fn events(floor: SocketAddr) -> SocketAddr {
    let (_, address) = client::once(floor, &requests::get("", EVENTS));
    String::from_utf8(address).unwrap().parse().unwrap()
}

fn tell(floor: SocketAddr, path: &str, what: &impl Serialize) {
    let body = serde_json::to_string(what).unwrap();
    let (status, _) = client::once(floor, &requests::post("", path, &body));
    assert_eq!(status, 200);
}

async fn stand_between(State(floor): State<Arc<Floor>>, Json(between): Json<Between>) {
    *floor.between.lock() = Some(between);
}

async fn begin(State(floor): State<Arc<Floor>>, Json(learned): Json<Learned>) {
    let between = floor.between.lock().take().unwrap();
    let heard = std::mem::take(&mut *floor.heard.lock());
    let script = Script::new(learned, between.provider, heard);
    assert!(floor.script.set(script).is_ok(), "learned twice");
}

async fn create(State(floor): State<Arc<Floor>>, body: Bytes) -> (StatusCode, Json<Value>) {
    let create: Value = serde_json::from_slice(&body).unwrap();
    let script = floor.script.get().unwrap();
    let mut id = [0; 16];
    getrandom::fill(&mut id).unwrap();
    let id = hex::encode(id);
    let words = [&script.attempt, &script.learned.payment_id];
    let paying = Paying {
        words: words.map(|word| (word.clone(), id.clone())).to_vec().into(),
        told: AtomicUsize::new(0),
    };
    floor.payments.lock().insert(id.clone(), Arc::new(paying));
    floor.log.submit(body.into()).await;
    let payment =
        json!({ "payment_id": id, "order_id": create["order_id"], "amount": create["amount"] });
    (StatusCode::CREATED, Json(payment))
}

async fn start(State(floor): State<Arc<Floor>>, body: Bytes) -> Json<Value> {
    let start: Value = serde_json::from_slice(&body).unwrap();
    let payment = start["payment_id"].as_str().unwrap();
    let paying = floor.payments.lock().get(payment).cloned().unwrap();
    // The gateway also stores the attempt before it calls the provider.
    floor.log.submit(body.into()).await;
    floor.act(0, &paying).await;
    let script = floor.script.get().unwrap();
    let page = filled(&script.learned.redirect_url, &paying.words.lock().await);
    Json(json!({ "payment_id": payment, "redirect_url": page }))
}

/// Handles callbacks and the payer's return; during the recording, all messages to forward.
async fn other(State(floor): State<Arc<Floor>>, request: Request) -> Response {
    let message = Message::read(request).await;
    let between = floor.between.lock().clone();
    let Some(between) = between else {
        if message.target.starts_with(CALLBACKS) {
            floor.told(message.text()).await;
            return StatusCode::OK.into_response();
        }
        return "x".repeat(PAGE).into_response();
    };
    let (to, at) = {
        let mut heard = floor.heard.lock();
        let (to, what) = if message.target == HOOK {
            (None, Heard::Delivered(message.clone()))
        } else if message.target.starts_with(CALLBACKS) {
            (Some(between.gateway), Heard::Told(message.text()))
        } else {
            (
                Some(between.provider),
                Heard::Asked(message.clone(), String::new()),
            )
        };
        heard.push(what);
        (to, heard.len() - 1)
    };
    let Some(to) = to else {
        return StatusCode::OK.into_response();
    };
    let (status, headers, body) = floor.send(to, &message).await;
    if let Some(Heard::Asked(_, answer)) = floor.heard.lock().get_mut(at) {
        answer.clone_from(&body);
    }
    (status, headers, Body::from(body)).into_response()
}

impl Script {
    fn new(learned: Learned, provider: SocketAddr, heard: Vec<Heard>) -> Self {
        // Each module starts an attempt with the attempt's id as the idempotency key.
        let key = heard.iter().find_map(|heard| match heard {
            Heard::Asked(message, _) => message.headers.get("idempotency-key"),
            _ => None,
        });
        let attempt = key.unwrap().to_str().unwrap().to_owned();
        let mut parts = vec![Part {
            told: String::new(),
            acts: Vec::new(),
        }];
        for heard in heard {
            // Requests for tokens and probes belong to the account, not to a payment.
            let is_own = match &heard {
                Heard::Asked(message, answer) => {
                    message.text().contains(&attempt) || answer.contains(&attempt)
                }
                Heard::Told(told) => told.contains(&attempt),
                Heard::Delivered(event) => event.body.contains(&learned.payment_id),
            };
            match heard {
                _ if !is_own => {}
                Heard::Told(told) => parts.push(Part {
                    told,
                    acts: Vec::new(),
                }),
                act => parts.last_mut().unwrap().acts.push(act),
            }
        }
        let secure = learned
            .secure
            .as_ref()
            .map(|provider| (provider.address, provider.client()));
        Self {
            learned,
            provider,
            secure,
            attempt,
            parts,
        }
    }

    /// Number of the part whose callback is most similar.
    fn part_of(&self, told: &str) -> usize {
        let alike = |part: &Part| {
            let pairs = words(&part.told).zip(words(told));
            pairs.filter(|(known, new)| known == new).count()
        };
        let parts = self.parts.iter().enumerate().skip(1);
        let closest = parts.max_by_key(|(_, part)| alike(part));
        closest.map_or(0, |(number, _)| number)
    }
}

impl Floor {
    async fn send(&self, to: SocketAddr, message: &Message) -> (StatusCode, HeaderMap, String) {
        message.send(&self.client, "http", to).await
    }

    async fn ask_provider(&self, message: &Message) -> (StatusCode, HeaderMap, String) {
        let script = self.script.get().unwrap();
        match &script.secure {
            Some((address, client)) => message.send(client, "https", *address).await,
            None => self.send(script.provider, message).await,
        }
    }

    /// Handles a callback: logs it before returning, and acts on it afterwards.
    async fn told(self: &Arc<Self>, told: String) {
        let paying = {
            let payments = self.payments.lock();
            words(&told).find_map(|word| Some((word.to_owned(), payments.get(word).cloned()?)))
        };
        self.log.submit(told.clone().into()).await;
        // Unknown if the payment has ended, for example after a repeated callback.
        let Some((id, paying)) = paying else { return };
        let floor = Arc::clone(self);
        tokio::spawn(async move {
            let script = floor.script.get().unwrap();
            let number = script.part_of(&told);
            note(
                &script.parts[number].told,
                &told,
                &mut *paying.words.lock().await,
            );
            floor.act(number, &paying).await;
            if paying.told.fetch_add(1, Ordering::Relaxed) + 2 == script.parts.len() {
                floor.payments.lock().remove(&id);
            }
        });
    }

    /// Sends the messages of a part.
    async fn act(self: &Arc<Self>, number: usize, paying: &Paying) {
        let script = self.script.get().unwrap();
        let mut words = paying.words.lock().await;
        for act in &script.parts[number].acts {
            match act {
                Heard::Asked(message, answer) => {
                    let message = message.filled(&words);
                    // The gateway also stores a capture before it sends it.
                    if number > 0 && message.method != Method::GET {
                        self.log.submit(message.text().into()).await;
                    }
                    let (status, _, now) = self.ask_provider(&message).await;
                    assert!(status.is_success(), "{status} {now}");
                    note(answer, &now, &mut words);
                    self.log.submit(now.into()).await;
                }
                Heard::Delivered(event) => {
                    let (event, floor) = (event.filled(&words), Arc::clone(self));
                    tokio::spawn(async move {
                        let receiver = floor.script.get().unwrap().learned.receiver;
                        floor.send(receiver, &event).await;
                        floor.log.submit(event.body.into()).await;
                    });
                }
                Heard::Told(_) => {}
            }
        }
    }
}

impl Message {
    async fn read(request: Request) -> Self {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let mut headers = head.headers;
        HOP.iter().for_each(|name| drop(headers.remove(name)));
        Self {
            method: head.method,
            target: head.uri.path_and_query().unwrap().to_string(),
            headers,
            body: String::from_utf8(body.into()).unwrap(),
        }
    }

    async fn send<C: Connect + Clone + Send + Sync + 'static>(
        &self,
        client: &Client<C, Full<Bytes>>,
        scheme: &str,
        to: SocketAddr,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = http::Request::new(Full::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = format!("{scheme}://{to}{}", self.target).parse().unwrap();
        *request.headers_mut() = self.headers.clone();
        let (head, body) = client.request(request).await.unwrap().into_parts();
        let mut headers = head.headers;
        HOP.iter().for_each(|name| drop(headers.remove(name)));
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.into()).unwrap();
        (head.status, headers, body)
    }

    /// Target and body, to compare or log.
    fn text(&self) -> String {
        format!("{}\n{}", self.target, self.body)
    }

    /// The message for another payment.
    fn filled(&self, words: &[(String, String)]) -> Self {
        let headers = self.headers.iter().map(|(name, value)| {
            let value = filled(value.to_str().unwrap(), words);
            (name.clone(), HeaderValue::try_from(value).unwrap())
        });
        Self {
            method: self.method.clone(),
            target: filled(&self.target, words),
            headers: headers.collect(),
            body: filled(&self.body, words),
        }
    }
}

/// Replaces the recorded tokens of a text.
fn filled(text: &str, words: &[(String, String)]) -> String {
    let replace = |text: String, (known, new): &(String, String)| text.replace(known, new);
    words.iter().fold(text.to_owned(), replace)
}

/// Records the tokens that differ between a recorded text and the current one.
fn note(known: &str, now: &str, noted: &mut Vec<(String, String)>) {
    for (known, new) in words(known).zip(words(now)) {
        let is_new = known.len() >= LEAST_WORD && known != new;
        if is_new && noted.iter().all(|(noted, _)| noted != known) {
            noted.push((known.to_owned(), new.to_owned()));
        }
    }
}

/// Tokens of a text without Base64 signatures, whose number of tokens varies.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_signature = |quoted: &&str| quoted.len() >= LEAST_SIGNATURE && quoted.ends_with('=');
    let others = text.split('"').filter(move |quoted| !is_signature(quoted));
    others
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')))
}
