//! Circuit breaker for an endpoint that keeps failing.
//!
//! Decided 2026-11-27: if several nodes serve a database, each has its own circuits. With shared ones, a node
//! whose own network fails would hold back events that the others can deliver. The cost: each node tries a
//! failing receiver.

use std::time::Duration;

use kassette_domain::time::Time;

/// Failures in a row that open the circuit: more than a restart of the receiver causes.
const FAILURES: u32 = 5;
/// Duration of the first opening. Doubles with each failed attempt, up to the maximum hold.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// The circuit of one endpoint. Closed: attempts start. Open: they wait. Half open, after the pause: one
/// attempt at a time starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circuit {
    failures: u32,
    /// Number of openings since the last success.
    opened: u32,
    open_until: Option<Time>,
    /// Time of the first opening since the last success.
    since: Option<Time>,
}

/// State of an endpoint's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// All attempts start.
    Closed,
    /// No attempt starts, because the endpoint kept failing.
    Open,
    /// One attempt at a time starts, to test whether the endpoint works again.
    HalfOpen,
}

impl CircuitState {
    /// Name in the admin API and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Reason why an attempt does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Until(Time),
    /// Another attempt is testing the endpoint.
    ForTheOther,
}

impl Circuit {
    pub(super) const fn is_closed(&self) -> bool {
        self.open_until.is_none()
    }

    /// Time of the first opening since the last success. `None` while it is closed.
    pub(super) const fn since(&self) -> Option<Time> {
        self.since
    }

    pub(super) fn state(&self, now: Time) -> CircuitState {
        match self.open_until {
            None => CircuitState::Closed,
            Some(until) if now < until => CircuitState::Open,
            Some(_) => CircuitState::HalfOpen,
        }
    }

    /// Whether an attempt that was due at `due_at` may start. An attempt is held back for at most `hold`
    /// after that time. `is_trying` means that another attempt is running.
    pub(super) fn may_start(
        &self,
        now: Time,
        due_at: Time,
        hold: Duration,
        is_trying: bool,
    ) -> Result<(), Wait> {
        let forced_at = due_at.after(hold);
        match self.open_until {
            None => Ok(()),
            Some(_) if forced_at <= now => Ok(()),
            Some(until) if now < until => Err(Wait::Until(until.min(forced_at))),
            Some(_) if is_trying => Err(Wait::ForTheOther),
            Some(_) => Ok(()),
        }
    }

    pub(super) const fn succeeded(&mut self) {
        *self = Self {
            failures: 0,
            opened: 0,
            open_until: None,
            since: None,
        };
    }

    pub(super) fn failed(&mut self, now: Time, hold: Duration) {
        self.failures = self.failures.saturating_add(1);
        let is_open = self.open_until.is_some_and(|until| now < until);
        if self.failures >= FAILURES && !is_open {
            let pause = FIRST_PAUSE
                .saturating_mul(1 << self.opened.min(8))
                .min(hold);
            self.open_until = Some(now.after(pause));
            self.opened = self.opened.saturating_add(1);
            self.since.get_or_insert(now);
        }
    }

    /// The receiver asked for a pause with `Retry-After`, which applies to all waiting deliveries: opens the
    /// circuit for that time, up to the maximum hold.
    pub(super) fn asked_to_wait(&mut self, now: Time, pause: Duration, hold: Duration) {
        self.failed(now, hold);
        let until = now.after(pause.min(hold));
        self.open_until = Some(self.open_until.map_or(until, |open| open.max(until)));
        self.since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Time {
        Time::from_secs(1_800_000_000 + seconds)
    }

    fn open() -> Circuit {
        let mut circuit = Circuit::default();
        for _ in 0..FAILURES {
            assert_eq!(circuit.state(at(0)), CircuitState::Closed);
            circuit.failed(at(0), HOLD);
        }
        circuit
    }

    #[test]
    fn who_asks_for_time_gets_it_for_all_that_waits() {
        let mut circuit = Circuit::default();
        circuit.asked_to_wait(at(0), Duration::from_secs(20), HOLD);
        assert_eq!(circuit.state(at(19)), CircuitState::Open);
        assert_eq!(
            circuit.may_start(at(0), at(0), HOLD, false),
            Err(Wait::Until(at(20)))
        );
        assert_eq!(circuit.may_start(at(20), at(0), HOLD, false), Ok(()));
        // At most the hold, and at least as long as it was asked before.
        circuit.asked_to_wait(at(20), Duration::from_secs(7200), HOLD);
        circuit.asked_to_wait(at(21), Duration::from_secs(1), HOLD);
        assert_eq!(circuit.state(at(79)), CircuitState::Open);
        assert_eq!(circuit.state(at(80)), CircuitState::HalfOpen);
        circuit.succeeded();
        assert!(circuit.is_closed());
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_try_after_a_pause() {
        let mut circuit = open();
        assert_eq!(circuit.state(at(9)), CircuitState::Open);
        let waits = Err(Wait::Until(at(10)));
        assert_eq!(circuit.may_start(at(9), at(5), HOLD, false), waits);
        assert_eq!(circuit.state(at(10)), CircuitState::HalfOpen);
        assert_eq!(circuit.may_start(at(10), at(5), HOLD, false), Ok(()));
        let other = Err(Wait::ForTheOther);
        assert_eq!(circuit.may_start(at(10), at(5), HOLD, true), other);
        circuit.failed(at(10), HOLD);
        assert_eq!(circuit.state(at(29)), CircuitState::Open);
        assert_eq!(circuit.state(at(30)), CircuitState::HalfOpen);
        circuit.succeeded();
        assert_eq!(circuit.may_start(at(30), at(30), HOLD, true), Ok(()));
        circuit.failed(at(31), HOLD);
        assert_eq!(circuit.state(at(31)), CircuitState::Closed);
    }

    #[test]
    fn nothing_is_held_back_for_more_than_the_hold() {
        let mut circuit = open();
        for try_at in [10, 30, 70, 130, 190] {
            circuit.failed(at(try_at), HOLD);
        }
        assert_eq!(circuit.state(at(249)), CircuitState::Open);
        assert_eq!(circuit.state(at(250)), CircuitState::HalfOpen);
        let due = at(195);
        let soon = at(254);
        circuit.failed(at(250), HOLD);
        assert_eq!(
            circuit.may_start(soon, due, HOLD, true),
            Err(Wait::Until(at(255)))
        );
        assert_eq!(circuit.may_start(at(255), due, HOLD, true), Ok(()));
        assert_eq!(open().may_start(at(1), at(1), Duration::ZERO, true), Ok(()));
    }
}
