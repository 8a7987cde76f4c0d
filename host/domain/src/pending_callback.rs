//! Callbacks about references that belong to no attempt yet: a callback can arrive before the result of the start.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::AttemptId;
use crate::lifecycle::{Step, Via};
use crate::provider::Report;
use crate::time::Time;

/// A callback that waits until its reference is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCallback {
    /// `None` if the callback only announces a change.
    pub report: Option<Report>,
    /// Time at which it expires.
    pub until: Time,
}

/// Admission of a callback about an unknown reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The store keeps it.
    New(Box<PendingCallback>),
    /// The store has an equal callback already.
    Kept,
    /// The account or the reference has too many.
    Full,
}

impl PendingCallback {
    /// Time that a callback waits for its reference (decisions, "Provider callbacks").
    pub const KEPT_FOR: Duration = Duration::from_secs(3600);
    /// Maximum number of waiting callbacks of an account: three hours of one a second about unknown payments.
    pub const MAX_PER_ACCOUNT: u32 = 10_000;
    /// Maximum for one reference: a provider's events about one payment before the result of the start.
    pub const MAX_PER_REFERENCE: usize = 32;

    /// Decides about a callback. `waiting` are the callbacks for the same reference, `of_account` is the number of
    /// the account's.
    pub fn admit(
        report: Option<Report>,
        waiting: &[Self],
        of_account: u32,
        now: Time,
    ) -> Admission {
        let alive = || waiting.iter().filter(|each| each.is_alive(now));
        if alive().any(|each| each.report == report) {
            Admission::Kept
        } else if alive().count() >= Self::MAX_PER_REFERENCE || of_account >= Self::MAX_PER_ACCOUNT
        {
            Admission::Full
        } else {
            let until = now.after(Self::KEPT_FOR);
            Admission::New(Box::new(Self { report, until }))
        }
    }

    /// Whether it has not expired.
    pub fn is_alive(&self, now: Time) -> bool {
        now < self.until
    }

    /// The step to apply once its attempt is known.
    pub fn step(self, attempt: AttemptId, now: Time) -> Step {
        match self.report {
            Some(report) => Step::Report {
                attempt,
                report,
                via: Via::Callback,
                asked: None,
            },
            None => Step::AskAt { attempt, at: now },
        }
    }
}
