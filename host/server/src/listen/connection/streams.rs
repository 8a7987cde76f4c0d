//! Requests in flight on an HTTP/2 connection, as far as timeouts depend on them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Phase, Timeouts, Wait};
use crate::web::budget::Reservation;

/// Bytes of a response for which a peer may send two window updates.
const UPDATED: usize = 4 << 10;
/// Bytes of a response that a peer has to read within the timeout, unless fewer are left. A byte now and then must
/// not keep a response alive.
pub(crate) const LEAST_TAKEN: usize = 16 << 10;

/// The requests in flight, at most one per stream.
pub(super) struct OpenStreams(Mutex<State>);

struct State {
    begun: u64,
    /// Open requests by number. `None` while it is the server's turn, else the peer's progress with the response.
    open: HashMap<u64, Option<AnswerProgress>>,
    /// Start of the current period without requests. Valid only while `open` is empty.
    idle_since: Instant,
}

/// Number of bytes of a response that the peer has read since `since`. Restarts after every [`LEAST_TAKEN`] bytes.
struct AnswerProgress {
    since: Instant,
    bytes: usize,
}

impl OpenStreams {
    pub(super) fn none() -> Self {
        Self(Mutex::new(State {
            begun: 0,
            open: HashMap::new(),
            idle_since: Instant::now(),
        }))
    }

    /// Number of open requests.
    pub(super) fn open(&self) -> usize {
        self.0.lock().open.len()
    }

    /// Time at which the peer will be too slow, and with what: sending a request, or reading a response. `None`
    /// while it is the server's turn. Frames of the connection itself, such as pings, have no effect.
    pub(super) fn late_at(&self, times: &Timeouts) -> Option<(Instant, Wait)> {
        let state = self.0.lock();
        if state.open.is_empty() {
            return Some((state.idle_since + times.idle, Wait::Request));
        }
        let waiting = state.open.values().flatten().map(|taken| taken.since).min();
        waiting.map(|since| (since + times.write, Wait::Answer))
    }
}

/// An open request. Dropping it ends the request, completed or not.
pub(super) struct OpenStream {
    phase: Arc<Phase>,
    number: u64,
}

impl OpenStream {
    pub(super) fn begin(phase: &Arc<Phase>) -> Self {
        let mut state = phase.streams.0.lock();
        state.begun += 1;
        let number = state.begun;
        state.open.insert(number, None);
        Self {
            phase: Arc::clone(phase),
            number,
        }
    }

    /// Records that it is the server's turn.
    fn ours(&self) {
        let mut state = self.phase.streams.0.lock();
        state.open.insert(self.number, None);
    }

    /// Records that it is the peer's turn, and that it has read `bytes` more of the response.
    fn peers(&self, bytes: usize) {
        let mut state = self.phase.streams.0.lock();
        let since = Instant::now();
        let taken = state.open.entry(self.number).or_insert(None);
        let taken = taken.get_or_insert(AnswerProgress { since, bytes: 0 });
        taken.bytes = taken.bytes.saturating_add(bytes);
        if taken.bytes >= LEAST_TAKEN {
            *taken = AnswerProgress { since, bytes: 0 };
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut state = self.phase.streams.0.lock();
        state.open.remove(&self.number);
        if state.open.is_empty() {
            state.idle_since = Instant::now();
        }
    }
}

/// A response that is still being sent: its stream and its reservation.
struct Unsent {
    stream: OpenStream,
    _reservation: Arc<Reservation>,
}

/// Body of a response. On HTTP/2, its timeouts run and its bytes stay reserved until the connection has sent the
/// last piece, because hyper takes whole pieces from a body regardless of the peer's window.
pub(super) struct Answer {
    body: Body,
    unsent: Option<Arc<Unsent>>,
    _turn: Option<Turn>,
}

/// Marks an HTTP/1 connection as idle when a streamed response is complete or abandoned.
struct Turn(Arc<Phase>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.set(Phase::IDLE);
    }
}

impl Answer {
    /// A complete HTTP/1 response. [`Timed`](super) watches it, because the connection sends nothing else.
    pub(super) const fn whole(body: Body) -> Self {
        Self {
            body,
            unsent: None,
            _turn: None,
        }
    }

    /// An HTTP/1 response that is still being produced. An export may take longer than the idle timeout.
    pub(super) const fn streamed(body: Body, phase: Arc<Phase>) -> Self {
        Self {
            body,
            unsent: None,
            _turn: Some(Turn(phase)),
        }
    }

    /// One of several responses on an HTTP/2 connection.
    pub(super) fn shared(body: Body, stream: OpenStream, reservation: Arc<Reservation>) -> Self {
        stream.peers(0);
        let unsent = Some(Arc::new(Unsent {
            stream,
            _reservation: reservation,
        }));
        Self {
            body,
            unsent,
            _turn: None,
        }
    }
}

impl http_body::Body for Answer {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(unsent) = &self.unsent {
            match &polled {
                Poll::Ready(Some(Ok(frame))) => {
                    unsent.stream.peers(0);
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    let updates = 2 + 2 * (bytes / UPDATED);
                    (unsent.stream.phase).grant(i64::try_from(updates).unwrap_or(i64::MAX));
                }
                // All pieces have been sent, so it is the server's turn.
                Poll::Pending if Arc::strong_count(unsent) == 1 => unsent.stream.ours(),
                _ => {}
            }
        }
        let piece = |bytes| Piece {
            bytes,
            unsent: self.unsent.clone(),
        };
        polled.map_ok(|frame| frame.map_data(piece))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of a response's body. Dropped after it has been sent.
pub(super) struct Piece {
    bytes: Bytes,
    unsent: Option<Arc<Unsent>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    /// The connection takes bytes when the peer's window allows.
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(unsent) = &self.unsent {
            unsent.stream.peers(count);
        }
    }
}
