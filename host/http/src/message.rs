//! A request in the form that its connection takes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use url::Url;

use crate::connect::Sender;
use crate::exchange::{NotSent, Request};

/// What we call ourselves.
const AGENT: &str = concat!("kassette/", env!("CARGO_PKG_VERSION"));

/// A request's body.
#[derive(Debug)]
pub(crate) struct Payload {
    /// Nothing once it was taken, and where there is none.
    rest: Option<Bytes>,
    taken: Taken,
}

/// Whether a request's body was handed to its connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<AtomicBool>);

impl Taken {
    pub(crate) fn yet(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Payload {
    pub(crate) fn new(body: Bytes) -> Self {
        Self {
            rest: (!body.is_empty()).then_some(body),
            taken: Taken::default(),
        }
    }

    pub(crate) fn taken(&self) -> Taken {
        self.taken.clone()
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let whole = self.rest.take();
        if whole.is_some() {
            self.taken.0.store(true, Ordering::Relaxed);
        }
        Poll::Ready(whole.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// The message in the form of the connection's protocol version.
pub(crate) fn message(
    request: &Request<'_>,
    sender: &Sender,
) -> Result<http::Request<Payload>, NotSent> {
    let url = &request.url;
    let malformed = |_| NotSent::Malformed("the address");
    let mut message = http::Request::new(Payload::new(request.body.clone()));
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
