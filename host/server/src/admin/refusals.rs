//! Refused tokens, as the log tells of them.

use std::mem;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::extract::ConnectInfo;
use http::request::Parts;
use parking_lot::Mutex;

/// Shortest time between two lines: guessing must not fill the log.
const EVERY: Duration = Duration::from_secs(1);

/// Counts requests that were refused for their token between two lines of the log.
#[derive(Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    told_at: Option<Instant>,
    untold: u64,
}

impl Refusals {
    /// Counts a refused request; the log gets a line, with its sender's address, at most once a second.
    pub(super) fn tell(&self, parts: &Parts) {
        let now = Instant::now();
        let refused = {
            let mut state = self.0.lock();
            state.untold += 1;
            if state
                .told_at
                .is_some_and(|at| now.duration_since(at) < EVERY)
            {
                return;
            }
            state.told_at = Some(now);
            mem::take(&mut state.untold)
        };
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let address = peer.map(|ConnectInfo(peer)| peer.ip().to_string());
        tracing::info!(
            client.address = address.unwrap_or_default(),
            refused,
            "an operator token was refused: it is missing, unknown, removed or expired"
        );
    }
}
