//! What a whole payment costs at least on this machine: a server that sends the very requests and events of one
//! payment that the gateway has made, over kept connections, and appends to a raw log where the gateway commits.
//!
//! It learns that payment by standing between a gateway, its provider and its receiver. Afterwards it does what it
//! has heard for each payment that is created, with the words that differ: ids, tokens, times. It goes to the provider
//! over TLS where that has a [`SecureProvider`].

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

/// Starts this program as such a floor.
pub(crate) const ARGUMENT: &str = "payment-floor";
/// Has it learn from now on; takes a [`Between`].
const LEARN: &str = "/floor/learn";
/// Has it do what it has learned; takes a [`Learned`].
const REPLAY: &str = "/floor/replay";
/// Says where it takes events while it learns: no event goes to the address of a provider.
const EVENTS: &str = "/floor/events";
/// Where callbacks go.
const CALLBACKS: &str = "/callbacks/";
/// Headers of a connection, not of a message.
const HOP: [http::HeaderName; 4] = [HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING];
/// Shorter words are those of the protocol.
const LEAST_WORD: usize = 8;
/// Of a hash of 32 bytes.
const LEAST_SIGNATURE: usize = 44;
/// What a page that the payer returns to holds, bytes.
const PAGE: usize = 4096;

/// Between whom it stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Between {
    gateway: SocketAddr,
    provider: SocketAddr,
}

/// The payment that was learned, as its merchant knows it, and where events are to go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Learned {
    pub(crate) payment_id: String,
    pub(crate) redirect_url: String,
    pub(crate) receiver: SocketAddr,
    /// Where the provider takes requests over TLS.
    pub(crate) secure: Option<SecureProvider>,
}

/// A provider's server with TLS, and the authority that it is believed by, in DER.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SecureProvider {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Vec<u8>,
}

type SecureClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A request.
#[derive(Clone)]
struct Message {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: String,
}

/// What was heard, in its order.
enum Heard {
    /// A request to the provider, with its answer.
    Asked(Message, String),
    /// A callback.
    Told(String),
    /// An event.
    Delivered(Message),
}

/// A callback, none for the start, and what the gateway did then.
struct Part {
    told: String,
    acts: Vec<Heard>,
}

/// All that is done for a payment.
struct Script {
    learned: Learned,
    provider: SocketAddr,
    /// What reaches it over TLS.
    secure: Option<(SocketAddr, SecureClient)>,
    /// The attempt of the payment that was learned.
    attempt: String,
    /// The start, and a part for each callback.
    parts: Vec<Part>,
}

/// A payment under way.
struct Paying {
    /// Words of the payment that was learned, each with this one's.
    words: tokio::sync::Mutex<Vec<(String, String)>>,
    /// Callbacks that have come.
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

/// Serves until it is killed; prints its address.
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

/// Has a floor stand between a gateway and its provider.
pub(crate) fn learn(floor: SocketAddr, gateway: SocketAddr, provider: SocketAddr) {
    tell(floor, LEARN, &Between { gateway, provider });
}

/// Has a floor do from now on what it has heard.
pub(crate) fn replay(floor: SocketAddr, learned: &Learned) {
    tell(floor, REPLAY, learned);
}

/// Where a floor takes events while it learns.
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
    // The attempt is there before the provider is called.
    floor.log.submit(body.into()).await;
    floor.act(0, &paying).await;
    let script = floor.script.get().unwrap();
    let page = filled(&script.learned.redirect_url, &paying.words.lock().await);
    Json(json!({ "payment_id": payment, "redirect_url": page }))
}

/// Callbacks; where the payer returns to; while it learns, everything else that goes through it.
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
        // Each module starts an attempt under a key that is the attempt's id.
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
            // Tokens and probes of the account are no payment's.
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

    /// The part of the callback that is most like this one.
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

    /// A callback: on the disk when this returns, acted upon behind that.
    async fn told(self: &Arc<Self>, told: String) {
        let paying = {
            let payments = self.payments.lock();
            words(&told).find_map(|word| Some((word.to_owned(), payments.get(word).cloned()?)))
        };
        self.log.submit(told.clone().into()).await;
        // Of one that is over, as a repeated callback is.
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

    /// Does what a part says.
    async fn act(self: &Arc<Self>, number: usize, paying: &Paying) {
        let script = self.script.get().unwrap();
        let mut words = paying.words.lock().await;
        for act in &script.parts[number].acts {
            match act {
                Heard::Asked(message, answer) => {
                    let message = message.filled(&words);
                    // Nothing is captured before that is written down.
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

    /// Where it goes and what it holds.
    fn text(&self) -> String {
        format!("{}\n{}", self.target, self.body)
    }

    /// The same of another payment.
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

/// A text of the payment that was learned, as another's.
fn filled(text: &str, words: &[(String, String)]) -> String {
    let replace = |text: String, (known, new): &(String, String)| text.replace(known, new);
    words.iter().fold(text.to_owned(), replace)
}

/// Notes which words of a text differ from those of the one that was learned.
fn note(known: &str, now: &str, noted: &mut Vec<(String, String)>) {
    for (known, new) in words(known).zip(words(now)) {
        let is_new = known.len() >= LEAST_WORD && known != new;
        if is_new && noted.iter().all(|(noted, _)| noted != known) {
            noted.push((known.to_owned(), new.to_owned()));
        }
    }
}

/// The words of a text but signatures in base64, which have now one and now several.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_signature = |quoted: &&str| quoted.len() >= LEAST_SIGNATURE && quoted.ends_with('=');
    let others = text.split('"').filter(move |quoted| !is_signature(quoted));
    others
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')))
}
