//! A small load balancer: it sends each request to the next ready node, over HTTP/1.1.
//!
//! A request is sent to another node only if no part of it has been sent. Connections of clients end at the
//! balancer, so that a draining node completes its requests without effects for clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{Uri, Version};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::messages::Serving;
use crate::proxies::{Proxies, X_FORWARDED_FOR};
use crate::web::ApiError;

/// Interval of checks whether a node is ready.
const LOOK: Duration = Duration::from_millis(100);
/// Timeout of such a check. Short, so that a stopped process (SIGSTOP) is excluded before its heartbeats lapse.
const READY: Duration = Duration::from_secs(1);
/// Timeout of a connection.
const SOON: Duration = Duration::from_secs(2);
/// Maximum time until a node sends the head of a response. A request that moves the clock is answered after all
/// due work.
const ANSWER: Duration = Duration::from_secs(60);
/// Headers that concern one connection, in addition to those that `Connection` names.
const OF_A_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    // The listener handles it.
    EXPECT,
];

/// A listener of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Public,
    Admin,
}

/// A node, as seen by the balancer.
#[derive(Default)]
pub(super) struct Backend {
    at: Mutex<Option<Serving>>,
    ready: AtomicBool,
    kept: [Mutex<Vec<SendRequest<Body>>>; 2],
}

impl Backend {
    /// Sets the node's addresses. `None` after it has ended.
    pub(super) fn is_at(&self, at: Option<Serving>) {
        *self.at.lock() = at;
        self.is_not_ready();
    }

    fn is_not_ready(&self) {
        self.ready.store(false, Ordering::Release);
        for kept in &self.kept {
            kept.lock().clear();
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Checks regularly whether the node is ready, until `stop`.
    pub(super) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            match timeout(READY, self.says_ready()).await {
                Ok(Some(true)) => self.ready.store(true, Ordering::Release),
                _ => self.is_not_ready(),
            }
            let pause = tokio::time::sleep(LOOK);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    async fn says_ready(&self) -> Option<bool> {
        let mut connection = self.connect(Side::Admin).await?;
        let request = Request::get("/readyz").header(HOST, "localhost");
        let answer = connection.send_request(request.body(Body::empty()).ok()?);
        Some(answer.await.ok()?.status().is_success())
    }

    /// A free connection from the pool.
    fn kept(&self, side: Side) -> Option<SendRequest<Body>> {
        let mut kept = self.senders(side).lock();
        kept.retain(|connection| !connection.is_closed());
        let free = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(free))
    }

    fn keep(&self, side: Side, connection: SendRequest<Body>) {
        if self.is_ready() {
            self.senders(side).lock().push(connection);
        }
    }

    const fn senders(&self, side: Side) -> &Mutex<Vec<SendRequest<Body>>> {
        let [public, admin] = &self.kept;
        match side {
            Side::Public => public,
            Side::Admin => admin,
        }
    }

    async fn connect(&self, side: Side) -> Option<SendRequest<Body>> {
        let at = (*self.at.lock())?;
        let address = match side {
            Side::Public => at.listen,
            Side::Admin => at.admin_listen,
        };
        let stream = timeout(SOON, TcpStream::connect(address))
            .await
            .ok()?
            .ok()?;
        let _ = stream.set_nodelay(true);
        let (connection, driver) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(driver);
        Some(connection)
    }

    /// Sends a request to the node. Returns the request if no part of it was sent.
    async fn send(&self, side: Side, mut request: Request) -> Result<Response, Request> {
        let mut kept = self.kept(side);
        loop {
            let is_kept = kept.is_some();
            let connection = match kept.take() {
                Some(connection) => Some(connection),
                None => self.connect(side).await,
            };
            let Some(mut connection) = connection else {
                self.is_not_ready();
                return Err(request);
            };
            match timeout(ANSWER, connection.try_send_request(request)).await {
                Ok(Ok(answer)) => {
                    self.keep(side, connection);
                    return Ok(as_answered(answer.map(Body::new)));
                }
                Ok(Err(mut error)) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Ok(lost(error.into_error())),
                },
                Err(late) => return Ok(lost(late)),
            }
            // A pooled connection may have been closed in the meantime. A new connection shows whether the node is
            // reachable.
            if !is_kept {
                return Err(request);
            }
        }
    }
}

/// The nodes, and the index of the next one.
pub(super) struct Balancer {
    backends: Vec<Arc<Backend>>,
    next: AtomicUsize,
    /// Proxies that are trusted to report a client's address.
    proxies: Proxies,
}

impl Balancer {
    pub(super) const fn new(backends: Vec<Arc<Backend>>, proxies: Proxies) -> Self {
        Self {
            backends,
            next: AtomicUsize::new(0),
            proxies,
        }
    }

    /// A router that forwards all requests.
    pub(super) fn router(self: &Arc<Self>, side: Side) -> Router {
        let balancer = Arc::clone(self);
        Router::new().fallback(
            move |ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request| async move {
                balancer.pass_on(side, peer, request).await
            },
        )
    }

    async fn pass_on(&self, side: Side, peer: SocketAddr, request: Request) -> Response {
        let mut request = self.as_forwarded(peer, request);
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.backends.len().max(1);
        let (before, from) = self.backends.split_at(turn);
        for backend in from.iter().chain(before) {
            if !backend.is_ready() {
                continue;
            }
            match backend.send(side, request).await {
                Ok(answer) => return answer,
                Err(unsent) => request = unsent,
            }
        }
        ApiError::Unavailable("no node is ready".into()).into_response()
    }

    /// The request for a node: with the client's address, and without the headers of the connection.
    fn as_forwarded(&self, peer: SocketAddr, mut request: Request) -> Request {
        let client = self.proxies.client(peer.ip(), request.headers());
        let authority = request.uri().authority().map(ToString::to_string);
        let headers = request.headers_mut();
        without_those_of_a_connection(headers);
        if let Ok(client) = HeaderValue::try_from(client.to_string()) {
            headers.insert(X_FORWARDED_FOR, client);
        }
        // HTTP/2 has the host in the URI.
        let host = authority.and_then(|host| HeaderValue::try_from(host).ok());
        if let (None, Some(host)) = (headers.get(HOST), host) {
            headers.insert(HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        *request.version_mut() = Version::HTTP_11;
        request
    }
}

fn as_answered(mut answer: Response) -> Response {
    without_those_of_a_connection(answer.headers_mut());
    answer
}

fn without_those_of_a_connection(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter();
    let named: Vec<HeaderName> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_A_CONNECTION) {
        headers.remove(name);
    }
}

/// The node may have processed the request.
fn lost(why: impl std::fmt::Display) -> Response {
    ApiError::InDoubt(format!("a node did not answer: {why}")).into_response()
}

#[cfg(test)]
mod tests;
