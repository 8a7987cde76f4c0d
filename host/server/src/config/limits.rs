//! `[limits]` of `kassette.toml`: limits of concurrency on the public listener.

use std::time::Duration;

use serde::Deserialize;

use crate::admission::InFlightLimits;
use crate::listen::{Caps, IDLE};

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    connections: usize,
    /// Maximum number of connections from one address.
    connections_per_address: usize,
    /// Time that a connection may stay open without a request.
    idle_seconds: u64,
    /// Maximum numbers of requests in flight.
    pub(crate) in_hand: InFlightLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let caps = Caps::default();
        Self {
            connections: caps.overall,
            connections_per_address: caps.per_address,
            idle_seconds: IDLE.as_secs(),
            in_hand: InFlightLimits::default(),
        }
    }
}

impl Limits {
    /// Limits of connections on the public listener.
    pub(crate) fn caps(&self) -> Caps {
        Caps {
            overall: self.connections,
            per_address: self.connections_per_address,
            ..Caps::default()
        }
    }

    /// Time that a connection of the public listener may stay open without a request.
    pub(crate) const fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }

    /// The first setting outside its range, with the range.
    pub(super) fn problem(&self) -> Option<String> {
        /// Linux allows a process about a million descriptors by default.
        const MOST: usize = 1_000_000;
        /// One hour. Clients that keep connections longer check whether they are still open.
        const LONGEST_IDLE: u64 = 3600;
        /// Less than the store's queue holds, so that the store hardly ever rejects an admitted request.
        const TOGETHER: usize = 4000;
        let InFlightLimits {
            reads,
            writes,
            modules,
            starts,
            exchanges,
            callbacks,
        } = self.in_hand;
        let waiting_for_the_store = [writes, starts, exchanges, callbacks]
            .into_iter()
            .fold(0, usize::saturating_add);
        if waiting_for_the_store > TOGETHER {
            return Some(format!(
                "limits.in_hand: writes, starts, exchanges and callbacks together must be at most \
                 {TOGETHER}"
            ));
        }
        if !(1..=LONGEST_IDLE).contains(&self.idle_seconds) {
            return Some(format!(
                "limits.idle_seconds = {} must be between 1 and {LONGEST_IDLE}",
                self.idle_seconds
            ));
        }
        [
            ("connections", self.connections),
            ("connections_per_address", self.connections_per_address),
            ("in_hand.reads", reads),
            ("in_hand.writes", writes),
            ("in_hand.modules", modules),
            ("in_hand.starts", starts),
            ("in_hand.exchanges", exchanges),
            ("in_hand.callbacks", callbacks),
        ]
        .into_iter()
        .find(|(_, value)| !(1..=MOST).contains(value))
        .map(|(name, value)| format!("limits.{name} = {value} must be between 1 and {MOST}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        toml::from_str::<Limits>(text).unwrap().problem()
    }

    #[test]
    fn what_is_not_said_has_its_default_and_the_defaults_fit() {
        assert_eq!(problem(""), None);
        assert_eq!(problem("[in_hand]\nwrites = 64"), None);
        let usual = Limits::default().idle();
        assert!(
            usual > Duration::from_secs(60),
            "balancers keep theirs for a minute"
        );
        let limits: Limits = toml::from_str("connections = 7").unwrap();
        assert_eq!(
            (limits.caps().overall, limits.in_hand),
            (7, InFlightLimits::default())
        );
    }

    #[test]
    fn a_limit_that_lets_nobody_in_or_more_than_the_store_takes_is_refused() {
        for (text, name) in [
            ("connections = 0", "connections"),
            ("connections_per_address = 0", "connections_per_address"),
            ("idle_seconds = 0", "idle_seconds"),
            ("idle_seconds = 3601", "idle_seconds"),
            ("[in_hand]\nreads = 0", "in_hand.reads"),
            ("[in_hand]\nwrites = 5000", "writes"),
        ] {
            let why = problem(text).unwrap();
            assert!(why.contains(name), "{why}");
        }
    }
}
