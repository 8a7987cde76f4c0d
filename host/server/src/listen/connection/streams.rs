//! The requests of one HTTP/2 connection that are under way, as far as its time-outs care.

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

/// Bytes of an answer for which a peer may send two window updates.
const UPDATED: usize = 4 << 10;
/// Bytes of an answer that a peer has to take within the time-out, or all that is left: a byte now and then
/// must not hold an answer.
pub(crate) const LEAST_TAKEN: usize = 16 << 10;

/// The requests under way; at most as many as the connection has streams.
pub(super) struct OpenStreams(Mutex<State>);

struct State {
    begun: u64,
    /// Those that are not over, each with what the peer has taken of its answer; none while it is our turn.
    open: HashMap<u64, Option<AnswerProgress>>,
    /// Since when there has been none, where there is none.
    idle_since: Instant,
}

/// What a peer has taken of an answer, and since when: counted anew after each [`LEAST_TAKEN`] bytes.
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

    /// How many are under way.
    pub(super) fn open(&self) -> usize {
        self.0.lock().open.len()
    }

    /// When the peer will have been too slow, and with what: no request, or an answer of which it takes
    /// too little. None while it is our turn. What the connection itself exchanges, as pings, makes no
    /// difference.
    pub(super) fn late_at(&self, times: &Timeouts) -> Option<(Instant, Wait)> {
        let state = self.0.lock();
        if state.open.is_empty() {
            return Some((state.idle_since + times.idle, Wait::Request));
        }
        let waiting = state.open.values().flatten().map(|taken| taken.since).min();
        waiting.map(|since| (since + times.write, Wait::Answer))
    }
}

/// One request; over on drop, be it answered or given up.
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

    /// It is our turn.
    fn ours(&self) {
        let mut state = self.phase.streams.0.lock();
        state.open.insert(self.number, None);
    }

    /// It is the peer's turn, which has taken so many more bytes of the answer.
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

/// An answer that is not sent yet: one of its connection's streams, and the bytes that it holds.
struct Unsent {
    stream: OpenStream,
    _reservation: Arc<Reservation>,
}

/// The body of an answer. On HTTP/2 it is watched, and held, until the connection has sent the last of
/// its pieces: the HTTP library takes whole pieces from a body, whatever room the peer leaves.
pub(super) struct Answer {
    body: Body,
    unsent: Option<Arc<Unsent>>,
    _turn: Option<Turn>,
}

/// It is our turn on a connection of HTTP/1, until an answer that is still being made is whole or given up.
struct Turn(Arc<Phase>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.set(Phase::IDLE);
    }
}

impl Answer {
    /// One that [`Timed`](super) watches, because its connection sends nothing else; whole already.
    pub(super) const fn whole(body: Body) -> Self {
        Self {
            body,
            unsent: None,
            _turn: None,
        }
    }

    /// The same, while it is being made: an export may take longer than a connection may be idle.
    pub(super) const fn streamed(body: Body, phase: Arc<Phase>) -> Self {
        Self {
            body,
            unsent: None,
            _turn: Some(Turn(phase)),
        }
    }

    /// One of several on a connection.
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
                // All pieces are sent: it is our turn.
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

/// Data of an answer; dropped once they are sent.
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

    /// The connection takes bytes as the peer makes room for them.
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(unsent) = &self.unsent {
            unsent.stream.peers(count);
        }
    }
}
