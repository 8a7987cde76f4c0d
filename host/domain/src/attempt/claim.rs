//! Claims on an attempt, and pauses between retries.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// First pause after a query without effect; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum such pause: an outage of hours causes few requests, and its end is noticed within minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Number of retries, about a day of such pauses, after which the pause is one day.
const RETRIES_OF_A_DAY: u8 = 150;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A task's exclusive right to call the provider about an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Time until which a task has claimed the attempt.
    busy_until: Option<Time>,
    /// Time until which a start may have been in flight.
    last_sent: Time,
    /// Time before which captures and closes are not tried again, because the last query had no effect.
    hold_until: Option<Time>,
    /// Number of consecutive tries without effect.
    retries: u8,
}

impl Claim {
    /// The claim of an attempt that is about to be started.
    pub(crate) const fn of_start(until: Time) -> Self {
        Self {
            busy_until: Some(until),
            last_sent: until,
            hold_until: None,
            retries: 0,
        }
    }

    /// Time until which a task has claimed the attempt. `None` if unclaimed. A task that was lost leaves a time in
    /// the past.
    pub const fn busy_until(&self) -> Option<Time> {
        self.busy_until
    }

    /// Time before which captures and closes are not tried again, because the last query had no effect.
    pub const fn hold_until(&self) -> Option<Time> {
        self.hold_until
    }

    pub(crate) const fn last_sent(&self) -> Time {
        self.last_sent
    }

    /// Time from which the attempt can be captured or closed.
    pub(crate) fn ready_at(&self) -> Time {
        let busy = self.busy_until.unwrap_or_default();
        busy.max(self.hold_until.unwrap_or_default())
    }

    pub(crate) const fn take(&mut self, until: Time) {
        self.busy_until = Some(until);
    }

    /// Claims the attempt for a start.
    pub(crate) const fn take_for_start(&mut self, until: Time) {
        self.busy_until = Some(until);
        self.last_sent = until;
    }

    pub(crate) const fn release(&mut self) {
        self.busy_until = None;
    }

    pub(crate) const fn start_answered(&mut self, now: Time) {
        self.last_sent = now;
    }

    /// Allows the next try at once and resets the retry count.
    pub(crate) const fn retry_now(&mut self) {
        self.hold_until = None;
        self.retries = 0;
    }

    pub(crate) const fn lift_hold(&mut self) {
        self.hold_until = None;
    }

    /// Resets the retry count.
    pub(crate) const fn reset_retries(&mut self) {
        self.retries = 0;
    }

    /// Ends the claim and the retry pause of an attempt that has ended.
    pub(crate) const fn end(&mut self) {
        self.busy_until = None;
        self.retry_now();
    }

    /// Counts a try without effect. Returns the time after the pause that follows.
    pub(crate) fn next_try(&mut self, now: Time) -> Time {
        let at = now.after(pause(self.retries));
        self.retries = self.retries.saturating_add(1);
        at
    }

    /// Starts a retry pause for captures and closes, unless one is running.
    pub(crate) fn hold(&mut self, now: Time) {
        if self.hold_until.is_none_or(|until| until <= now) {
            self.hold_until = Some(self.next_try(now));
        }
    }

    pub(crate) const fn hold_at(&mut self, until: Time) {
        self.hold_until = Some(until);
    }
}

/// The pause after `retries` tries without effect.
fn pause(retries: u8) -> Duration {
    if retries > RETRIES_OF_A_DAY {
        return DAY;
    }
    FIRST_PAUSE
        .saturating_mul(1_u32.checked_shl(retries.into()).unwrap_or(u32::MAX))
        .min(LONGEST_PAUSE)
}
