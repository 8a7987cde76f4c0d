//! `[limits]` of `kassette.toml`: how much at once, on the public listener.

use serde::Deserialize;

use crate::admission::InFlightLimits;
use crate::listen::Caps;

/// How much at once, on the public listener.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    connections: usize,
    /// Connections from one address.
    connections_per_address: usize,
    /// Requests in hand.
    pub(crate) in_hand: InFlightLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let caps = Caps::default();
        Self {
            connections: caps.overall,
            connections_per_address: caps.per_address,
            in_hand: InFlightLimits::default(),
        }
    }
}

impl Limits {
    /// The caps of the public listener.
    pub(crate) fn caps(&self) -> Caps {
        Caps {
            overall: self.connections,
            per_address: self.connections_per_address,
            ..Caps::default()
        }
    }

    /// The first setting outside of its range, with the range.
    pub(super) fn problem(&self) -> Option<String> {
        /// No process has more descriptors.
        const MOST: usize = 1_000_000;
        /// Together below the store's queue, so that no admitted request is refused there.
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
            ("[in_hand]\nreads = 0", "in_hand.reads"),
            ("[in_hand]\nwrites = 5000", "writes"),
        ] {
            let why = problem(text).unwrap();
            assert!(why.contains(name), "{why}");
        }
    }
}
