//! What an operator decides, and expiry.

use super::moves::StepLog;
use super::{NewDecision, PaymentAggregate, Refusal, StepOutcome};
use crate::payment::{Resolution, ReviewCause, Status};
use crate::provider::Payer;
use crate::time::Time;

/// A decision from outside the vendor's world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operator decides a review.
    Review(Box<NewDecision>),
    /// An operator sends a payment to review: processing, or waiting for proof.
    ToReview,
    /// An operator calls the payment off: created, or pending without an open attempt.
    Cancel,
    /// The payment's time has passed: created, or pending without an open attempt.
    Expire,
}

impl PaymentAggregate {
    pub(super) fn act(&mut self, act: Act, log: &mut StepLog<'_>) -> Result<StepOutcome, Refusal> {
        let cause = match &act {
            Act::Review(new) if new.resolution == Resolution::Approve => "operator: approved",
            Act::Review(_) => "operator: declined",
            Act::ToReview => "operator: sent to review",
            Act::Cancel => "operator: cancelled",
            Act::Expire => "its time has passed",
        };
        cause.clone_into(&mut log.cause);
        match act {
            Act::Review(new) => self.decide(*new, log),
            Act::ToReview => self.send_to_review(log),
            Act::Cancel => self.drop_unpaid(Status::Cancelled, log),
            // The worker that asked was early, or its clock was set back.
            Act::Expire if log.now < self.payment.expires_at && !self.payment.status.is_final() => {
                Ok(StepOutcome::Nothing)
            }
            Act::Expire => self.drop_unpaid(Status::Expired, log),
        }
    }

    /// Has an operator decide what the vendor has not.
    fn send_to_review(&mut self, log: &mut StepLog<'_>) -> Result<StepOutcome, Refusal> {
        let status = self.payment.status;
        if !matches!(status, Status::Processing | Status::VerificationPending) {
            return Err(Refusal::WrongStatus(status));
        }
        self.review(ReviewCause::Operator, log);
        Ok(StepOutcome::Done)
    }

    /// Ends a payment that no payer is paying.
    fn drop_unpaid(&mut self, to: Status, log: &mut StepLog<'_>) -> Result<StepOutcome, Refusal> {
        let status = self.payment.status;
        if !matches!(status, Status::Created | Status::Pending) {
            return Err(Refusal::WrongStatus(status));
        }
        if let Some(open) = self.open_attempt() {
            return Err(Refusal::VendorFirst(open.id));
        }
        self.move_to(to, log);
        Ok(StepOutcome::Done)
    }

    pub(super) fn release(&mut self, claimed_until: Time) -> StepOutcome {
        if self.payment.claimed_until != Some(claimed_until) {
            return StepOutcome::Nothing;
        }
        self.payment.claimed_until = None;
        StepOutcome::Done
    }

    pub(super) fn redact(&mut self) -> StepOutcome {
        self.payment.email = None;
        for attempt in &mut self.attempts {
            attempt.payer = Payer::default();
            attempt.answers.clear();
            attempt.returned = None;
        }
        StepOutcome::Done
    }
}
