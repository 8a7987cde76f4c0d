//! What is to be done next about a payment, and when: everything that workers do follows from here.

use std::time::Duration;

use super::Ledger;
use crate::id::AttemptId;
use crate::time::Time;

/// When an attempt is asked about: after 5 minutes, 1 hour, then daily five times.
pub const FIRST_QUERIES: [Duration; 7] = {
    const DAY: u64 = 24 * 3600;
    [
        Duration::from_secs(5 * 60),
        Duration::from_secs(3600),
        Duration::from_secs(DAY),
        Duration::from_secs(2 * DAY),
        Duration::from_secs(3 * DAY),
        Duration::from_secs(4 * DAY),
        Duration::from_secs(5 * DAY),
    ]
};

/// Something that a worker has to do about a payment now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Claim for capture and query with the wish `finish`.
    Capture(AttemptId),
    /// Claim and query with the wish `close`: its time has passed, or another attempt won.
    Close(AttemptId),
    /// Query with the wish `look`, as the schedule says.
    Look(AttemptId),
    /// `Act::Expire`.
    Expire,
}

impl Ledger {
    /// What is to be done now; none where nothing is due. Done again after each step until none.
    pub fn duty(&self, _now: Time) -> Option<Duty> {
        todo!()
    }

    /// When something is due next; none where nothing ever will be. The store keeps one row per
    /// payment in this order. Never before `payment.claimed_until`.
    pub fn due_at(&self) -> Option<Time> {
        todo!()
    }
}
