//! A request's body, with its timeout and a record of whether it was read to the end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::Phase;
use crate::web::budget::Reservation;

/// A request's body that fails if it takes too long or if its sender exceeds the byte budget.
pub(super) struct TimedBody {
    body: Incoming,
    time: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    phase: Arc<Phase>,
    reservation: Arc<Reservation>,
}

impl TimedBody {
    pub(super) const fn new(
        body: Incoming,
        time: Duration,
        phase: Arc<Phase>,
        reservation: Arc<Reservation>,
    ) -> Self {
        Self {
            body,
            time,
            deadline: None,
            phase,
            reservation,
        }
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        if !http_body::Body::is_end_stream(&self.body) {
            self.phase.unread.store(true, Ordering::Relaxed);
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let kept = self.reservation.reserve(bytes).map_err(Into::into);
                Poll::Ready(Some(kept.map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let time = self.time;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(time)));
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
