//! A proxy between the gateway and a provider's simulator that changes answers to what the real provider sends.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Change to the simulator's response to a request. Places are JSON pointers.
#[derive(Clone, Copy)]
pub(crate) enum Edit {
    /// The payload replaces the response, except for these fields of the simulator's.
    Whole(&'static [&'static str]),
    /// The same for an object inside the response.
    At(&'static str, &'static [&'static str]),
    /// A part of the payload is inserted into the response; in a list it becomes the only entry.
    Part {
        from: &'static str,
        to: &'static str,
    },
    /// A JSON value is inserted into the response.
    Set(&'static str, &'static str),
    /// The payload's own bytes and status, without a request to the simulator.
    Instead,
    /// This JSON, without a request to the simulator.
    Json(&'static str),
}

/// Edits by request, such as `GET /v1/disputes`: method and a part of the URL.
pub(crate) type Edits = &'static [(&'static str, Edit)];

/// A payload that contains the references of the tested payment.
#[derive(Clone)]
pub(crate) struct Payload {
    pub(crate) status: u16,
    /// The collected bytes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) json: Value,
}

/// A running proxy. It lives as long as the runtime in which it was started.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    upstream: String,
    http: reqwest::Client,
    armed: Mutex<Option<(Edits, Payload)>>,
    requests: Mutex<u64>,
}

impl Stub {
    pub(crate) async fn before(upstream: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Arc::new(Inner {
            upstream: format!("http://{upstream}"),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            armed: Mutex::default(),
            requests: Mutex::default(),
        });
        let address = listener.local_addr().unwrap();
        let routes = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, inner }
    }

    /// Changes responses from now on.
    pub(crate) fn arm(&self, edits: Edits, payload: Payload) {
        *self.inner.armed.lock() = Some((edits, payload));
    }

    /// Passes responses on unchanged again.
    pub(crate) fn disarm(&self) {
        *self.inner.armed.lock() = None;
    }

    pub(crate) fn requests(&self) -> u64 {
        *self.inner.requests.lock()
    }
}

async fn pass(
    State(inner): State<Arc<Inner>>,
    verb: Method,
    uri: Uri,
    mut headers: HeaderMap,
    body: Bytes,
) -> Response {
    *inner.requests.lock() += 1;
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let armed = inner.armed.lock().clone();
    let (edits, payload) = armed.map_or((None, None), |(edits, payload)| {
        let fits = |(request, _): &&(&str, Edit)| {
            let (wanted, part) = request.split_once(' ').unwrap();
            wanted == verb.as_str() && path.contains(part)
        };
        let edits: Vec<Edit> = edits.iter().filter(fits).map(|(_, edit)| *edit).collect();
        (Some(edits), Some(payload))
    });
    let edits = edits.unwrap_or_default();
    let json = [(header::CONTENT_TYPE, "application/json")];
    match (edits.as_slice(), &payload) {
        ([Edit::Instead, ..], Some(payload)) => {
            let status = StatusCode::from_u16(payload.status).unwrap();
            return (status, json, payload.bytes.clone()).into_response();
        }
        ([Edit::Json(text), ..], _) => return (json, *text).into_response(),
        _ => {}
    }
    for own in [header::HOST, header::CONTENT_LENGTH, header::CONNECTION] {
        headers.remove(own);
    }
    let url = format!("{}{path}", inner.upstream);
    let request = inner.http.request(verb, url).headers(headers).body(body);
    let Ok(answer) = request.send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.bytes().await.unwrap_or_default();
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    let Some(payload) = payload.filter(|_| !edits.is_empty() && status.is_success()) else {
        return (status, headers, bytes).into_response();
    };
    let mut told: Value = serde_json::from_slice(&bytes).unwrap();
    for edit in edits {
        apply(&mut told, edit, &payload.json);
    }
    (status, headers, told.to_string()).into_response()
}

fn apply(told: &mut Value, edit: Edit, payload: &Value) {
    match edit {
        Edit::Whole(own) => apply(told, Edit::At("", own), payload),
        Edit::At(place, own) => {
            let object = told.pointer_mut(place).unwrap();
            let simulated = std::mem::replace(object, payload.clone());
            for place in own {
                if let Some(value) = simulated.pointer(place) {
                    put(object, place, value.clone());
                }
            }
        }
        Edit::Part { from, to } => put(told, to, payload.pointer(from).unwrap().clone()),
        Edit::Set(place, text) => put(told, place, serde_json::from_str(text).unwrap()),
        Edit::Instead | Edit::Json(_) => panic!("an answer without the simulator is not edited"),
    }
}

/// Sets the value at a place, and creates missing objects on the way.
fn put(root: &mut Value, place: &str, value: Value) {
    let mut at = root;
    for name in place.split('/').skip(1) {
        at = match name.parse::<usize>() {
            Ok(number) if at.is_array() => &mut at[number],
            _ => &mut at[name],
        };
    }
    let in_a_list = at.is_array() && value.is_object();
    *at = if in_a_list { json!([value]) } else { value };
}
