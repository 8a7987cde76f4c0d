//! The client: judge, connect or reuse, send once, read within limits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT,
};
use http::{HeaderValue, Method, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::connect::{Sender, connect};
use crate::destination::{Guard, Refused};
use crate::exchange::{NoAnswer, NotSent, Request, Response, SendError};
use crate::network::{Network, System};
use crate::pool::{Origin, Pool};
use crate::tls::Trust;

/// What we call ourselves.
const AGENT: &str = concat!("kassette/", env!("CARGO_PKG_VERSION"));

/// Headers that steer the connection: only the client sets them.
const OURS: [HeaderName; 8] = [
    HOST,
    CONTENT_LENGTH,
    CONNECTION,
    TRANSFER_ENCODING,
    TE,
    TRAILER,
    UPGRADE,
    EXPECT,
];

/// The guarded client. Clones share guard and connections and cost nothing.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    guard: Guard,
    network: Arc<dyn Network>,
    tls: Option<TlsConnector>,
    pool: Pool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("guard", &self.inner.guard)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client behind a guard, on the system's network, that trusts the public authorities.
    pub fn new(guard: Guard) -> Self {
        Self::over(guard, Arc::new(System::default()), Trust::Public)
    }

    /// A client on another network, or with other authorities.
    pub fn over(guard: Guard, network: Arc<dyn Network>, trust: Trust) -> Self {
        Self {
            inner: Arc::new(Inner {
                guard,
                network,
                tls: crate::tls::connector(trust),
                pool: Pool::default(),
            }),
        }
    }

    /// The guard that destinations are judged by.
    pub fn guard(&self) -> Guard {
        self.inner.guard
    }

    /// Whether a URL may be a destination, before any name is resolved.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn judge_url(&self, url: &Url) -> Result<(), Refused> {
        self.inner.guard.judge_url(url)
    }

    /// Sends one request and reads the answer. Needs a Tokio runtime with time and I/O.
    ///
    /// A GET whose kept connection turns out to be closed is sent once more on a new one; anything
    /// that could change something goes out at most once.
    ///
    /// # Errors
    /// [`SendError::NotSent`] where surely nothing left this host, else [`SendError::NoAnswer`].
    pub async fn send(&self, request: Request<'_>) -> Result<Response, SendError> {
        self.judge(&request).map_err(SendError::NotSent)?;
        let left = AtomicBool::new(false);
        let deadline = request.deadline;
        match tokio::time::timeout(deadline, self.exchange(&request, &left)).await {
            Ok(outcome) => outcome,
            Err(_) if left.load(Ordering::Relaxed) => Err(SendError::NoAnswer(NoAnswer::Deadline)),
            Err(_) => Err(SendError::NotSent(NotSent::Deadline)),
        }
    }

    fn judge(&self, request: &Request<'_>) -> Result<(), NotSent> {
        self.inner.guard.judge_url(&request.url)?;
        if request
            .hosts
            .is_some_and(|hosts| !hosts.iter().any(|host| host.matches(&request.url)))
        {
            return Err(NotSent::NotAllowed);
        }
        if OURS.iter().any(|name| request.headers.contains_key(name)) {
            return Err(NotSent::Malformed("a header that only the host sets"));
        }
        Ok(())
    }

    /// Takes a kept connection or makes one, and hands the request over.
    async fn exchange(
        &self,
        request: &Request<'_>,
        left: &AtomicBool,
    ) -> Result<Response, SendError> {
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        let origin = Origin::of(&request.url);
        if let Some(sender) = self.inner.pool.take(&origin, !safe) {
            match self.once(sender, &origin, request, left).await {
                Err(SendError::NotSent(NotSent::Unusable)) => {}
                Err(SendError::NoAnswer(NoAnswer::Broken)) if safe => {}
                outcome => return outcome,
            }
            left.store(false, Ordering::Relaxed);
        }
        let inner = &self.inner;
        // In a box: it is large, seldom needed, and would be moved about with every request.
        let sender = Box::pin(connect(&request.url, &*inner.network, inner.tls.as_ref()))
            .await
            .map_err(SendError::NotSent)?;
        self.once(sender, &origin, request, left).await
    }

    /// Hands the request to one connection, reads the answer, keeps the connection.
    async fn once(
        &self,
        mut sender: Sender,
        origin: &Origin,
        request: &Request<'_>,
        left: &AtomicBool,
    ) -> Result<Response, SendError> {
        let message = message(request, &sender).map_err(SendError::NotSent)?;
        let unusable = SendError::NotSent(NotSent::Unusable);
        match &mut sender {
            Sender::H1(sender) => sender.ready().await,
            Sender::H2(sender) => sender.ready().await,
        }
        .map_err(|_| unusable.clone())?;
        left.store(true, Ordering::Relaxed);
        // The message comes back only where not a byte of it was written.
        let broken = |returned: bool| {
            if returned {
                unusable.clone()
            } else {
                SendError::NoAnswer(NoAnswer::Broken)
            }
        };
        let answer = match &mut sender {
            Sender::H1(sender) => sender
                .try_send_request(message)
                .await
                .map_err(|mut error| broken(error.take_message().is_some()))?,
            Sender::H2(sender) => sender
                .try_send_request(message)
                .await
                .map_err(|mut error| broken(error.take_message().is_some()))?,
        };
        let (head, body) = answer.into_parts();
        let (body, truncated) = read(body, request.max_response).await?;
        if !truncated {
            self.keep(origin.clone(), sender);
        }
        Ok(Response {
            status: head.status,
            headers: head.headers,
            body,
            truncated,
        })
    }

    /// Puts a connection back once it is ready for the next request; the peer may close it instead.
    fn keep(&self, origin: Origin, sender: Sender) {
        let inner = Arc::clone(&self.inner);
        match sender {
            Sender::H1(mut sender) => {
                tokio::spawn(async move {
                    if sender.ready().await.is_ok() {
                        inner.pool.put(origin, Sender::H1(sender));
                    }
                });
            }
            shared @ Sender::H2(_) => inner.pool.put(origin, shared),
        }
    }
}

/// The message in the form of the connection's protocol version.
fn message(request: &Request<'_>, sender: &Sender) -> Result<http::Request<Full<Bytes>>, NotSent> {
    let url = &request.url;
    let malformed = |_| NotSent::Malformed("the address");
    let mut message = http::Request::new(Full::new(request.body.clone()));
    *message.method_mut() = request.method.clone();
    *message.headers_mut() = request.headers.clone();
    match sender {
        Sender::H1(_) => {
            *message.uri_mut() = target(url).parse::<Uri>().map_err(malformed)?;
            let host = HeaderValue::from_str(authority(url))
                .map_err(|_| NotSent::Malformed("the host"))?;
            message.headers_mut().insert(HOST, host);
        }
        Sender::H2(_) => {
            let absolute = format!("{}://{}{}", url.scheme(), authority(url), target(url));
            *message.uri_mut() = absolute.parse::<Uri>().map_err(malformed)?;
            *message.version_mut() = Version::HTTP_2;
        }
    }
    message
        .headers_mut()
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(AGENT));
    Ok(message)
}

/// Path and query.
fn target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// Host, and the port where it is not the scheme's own.
fn authority(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}

/// Reads at most `limit` bytes; whether there was more.
async fn read(mut body: Incoming, limit: usize) -> Result<(Bytes, bool), SendError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| SendError::NoAnswer(NoAnswer::Broken))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let room = limit - whole.len();
        whole.extend_from_slice(data.get(..room).unwrap_or(&data));
        if data.len() > room {
            return Ok((whole.freeze(), true));
        }
    }
    Ok((whole.freeze(), false))
}
