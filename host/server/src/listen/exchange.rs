//! The requests of one HTTP/2 connection that are under way, as far as its time-outs care.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::budget::Held;
use super::connection::{Phase, Times};

/// What a peer sends of window updates for a piece of an answer.
const UPDATES: usize = 256;
/// An answer of which no part is worth to be watched.
const SMALL: u64 = 1 << 10;

/// The requests under way; at most as many as the connection has streams.
pub(super) struct Exchanges(Mutex<State>);

struct State {
    begun: u64,
    /// Those that are not over, each with the time since which the peer has taken nothing of its answer;
    /// none while it is our turn.
    open: HashMap<u64, Option<Instant>>,
    /// Since when there has been none, where there is none.
    idle_since: Instant,
}

impl Exchanges {
    pub(super) fn none() -> Self {
        Self(Mutex::new(State {
            begun: 0,
            open: HashMap::new(),
            idle_since: Instant::now(),
        }))
    }

    /// When the peer will have been too slow: no request, or an answer of which it takes nothing. None
    /// while it is our turn. What the connection itself exchanges, as pings, makes no difference.
    pub(super) fn late_at(&self, times: &Times) -> Option<Instant> {
        let state = self.0.lock();
        if state.open.is_empty() {
            return Some(state.idle_since + times.idle);
        }
        let waiting = state.open.values().flatten().min();
        waiting.map(|since| *since + times.write)
    }
}

/// One request; over on drop, be it answered or given up.
pub(super) struct Exchange {
    phase: Arc<Phase>,
    number: u64,
}

impl Exchange {
    pub(super) fn begin(phase: &Arc<Phase>) -> Self {
        let mut state = phase.exchanges.0.lock();
        state.begun += 1;
        let number = state.begun;
        state.open.insert(number, None);
        Self {
            phase: Arc::clone(phase),
            number,
        }
    }

    /// The answer's body of so many bytes, which is watched, and held, until it is sent.
    pub(super) fn answered(self, body: Body, held: Arc<Held>, bytes: u64) -> Body {
        self.turn(Some(Instant::now()));
        held.owe(usize::try_from(bytes).unwrap_or(usize::MAX));
        Body::new(Answer {
            body,
            exchange: self,
            _held: held,
            to_the_end: bytes > SMALL,
        })
    }

    fn turn(&self, peers_since: Option<Instant>) {
        let mut state = self.phase.exchanges.0.lock();
        state.open.insert(self.number, peers_since);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.phase.exchanges.0.lock();
        state.open.remove(&self.number);
        if state.open.is_empty() {
            state.idle_since = Instant::now();
        }
    }
}

/// A body that is asked for its next piece once the peer has room for it, and all before is sent.
struct Answer {
    body: Body,
    exchange: Exchange,
    _held: Arc<Held>,
    /// Its end is told apart from the last data: a body that has ended is dropped, and its data would lie
    /// unseen where the peer takes a part of them.
    to_the_end: bool,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.exchange.turn(polled.is_ready().then(Instant::now));
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.exchange.phase.account(UPDATES);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        !self.to_the_end && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
