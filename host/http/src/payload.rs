//! The body of a request, which records whether its connection has taken it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

#[derive(Debug)]
pub(crate) struct Payload {
    /// `None` for an empty body, and after the body was taken.
    rest: Option<Bytes>,
    taken: HandedOver,
}

/// Whether the connection has taken the body of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedOver(Arc<AtomicBool>);

impl HandedOver {
    pub(crate) fn yet(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Payload {
    pub(crate) fn new(body: Bytes) -> Self {
        Self {
            rest: (!body.is_empty()).then_some(body),
            taken: HandedOver::default(),
        }
    }

    pub(crate) fn taken(&self) -> HandedOver {
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
