//! What an operator decides, and expiry.

use super::{Change, Ledger, Outcome, Refusal};
use crate::payment::Settlement;
use crate::time::Time;

/// A decision from outside the provider's world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operator decides a review.
    Review(ReviewDecision),
    /// An operator calls the payment off: created, or pending without an open attempt.
    Cancel,
    /// The payment's time has passed: created, or pending without an open attempt.
    Expire,
}

/// How a review ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewDecision {
    /// → completed. `settlement` none: what the attempt proves.
    Approve {
        /// What the operator vouches for.
        settlement: Option<Settlement>,
    },
    /// → failed. Money that was taken stands on the work list until it is refunded.
    Decline,
}

impl Ledger {
    pub(super) fn act(
        &mut self,
        _act: Act,
        _now: Time,
        _change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn redact(&mut self) {
        todo!()
    }
}
