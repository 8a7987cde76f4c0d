//! Acts of operators, and expiry.

use std::time::Duration;

use super::moves::StepLog;
use super::{NewDecision, PaymentAggregate, Refusal, StepOutcome};
use crate::attempt::AuthorizationWatch;
use crate::id::AttemptId;
use crate::payment::{Resolution, ReviewCause, Status};
use crate::provider::Payer;
use crate::time::Time;

/// Time before an authorization's end at which it is put on the work list.
pub(super) const WARNED_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// Owner of the API key used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiCaller {
    Merchant,
    Reseller,
}

/// A decision that does not come from the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operator decides a review.
    Review(Box<NewDecision>),
    /// An operator sends a payment to review that is processing, or waiting for proof.
    ToReview,
    /// An operator cancels a payment that is created, or pending without an open attempt.
    Cancel,
    /// The merchant or a reseller cancels it through the API.
    CancelByApi(ApiCaller),
    /// A waiting decline is carried out, because the provider gave no answer for long enough.
    CarryOut,
    /// The authorization of this attempt ends soon, or has ended.
    Authorization(AttemptId),
    /// The payment has expired: created, or pending without an open attempt.
    Expire,
}

impl PaymentAggregate {
    pub(super) fn act(&mut self, act: Act, log: &mut StepLog<'_>) -> Result<StepOutcome, Refusal> {
        let cause = match &act {
            Act::Review(new) if new.resolution == Resolution::Approve => "operator: approved",
            Act::Review(_) => "operator: declined",
            Act::ToReview => "operator: sent to review",
            Act::Cancel => "operator: cancelled",
            Act::CancelByApi(ApiCaller::Merchant) => "merchant: cancelled",
            Act::CancelByApi(ApiCaller::Reseller) => "reseller: cancelled",
            Act::CarryOut => "operator: the decision was carried out",
            Act::Authorization(_) => "the authorization ends",
            Act::Expire => "its time has passed",
        };
        cause.clone_into(&mut log.cause);
        match act {
            Act::Review(new) => self.decide(*new, log),
            Act::ToReview => self.send_to_review(log),
            Act::Cancel | Act::CancelByApi(_) => self.drop_unpaid(Status::Cancelled, log),
            // The step itself carries out a waiting decision.
            Act::CarryOut => Ok(StepOutcome::Done),
            Act::Authorization(id) => self.authorization_ends(id, log),
            // The worker was early, or its clock was set back.
            Act::Expire if log.now < self.payment.expires_at && !self.payment.status.is_final() => {
                Ok(StepOutcome::Nothing)
            }
            Act::Expire => self.drop_unpaid(Status::Expired, log),
        }
    }

    /// Lets an operator decide in place of the provider.
    fn send_to_review(&mut self, log: &mut StepLog<'_>) -> Result<StepOutcome, Refusal> {
        let status = self.payment.status;
        if !matches!(status, Status::Processing | Status::VerificationPending) {
            return Err(Refusal::WrongStatus(status));
        }
        self.review(ReviewCause::Operator, log);
        Ok(StepOutcome::Done)
    }

    /// Warns of an authorization that ends within a day. After the end the provider is queried: it may have
    /// captured or held the money, so our clock cannot end the attempt.
    fn authorization_ends(
        &mut self,
        id: AttemptId,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        let attempt = &mut self.attempts[i];
        let Some(end) = attempt.authorization_end() else {
            return Ok(StepOutcome::Nothing);
        };
        match attempt.authorization {
            AuthorizationWatch::None | AuthorizationWatch::Warned if log.now >= end => {
                attempt.authorization = AuthorizationWatch::Asked;
                attempt.queries.ask_by(log.now);
            }
            AuthorizationWatch::None if log.now >= end.before(WARNED_BEFORE) => {
                attempt.authorization = AuthorizationWatch::Warned;
            }
            _ => return Ok(StepOutcome::Nothing),
        }
        Ok(StepOutcome::Done)
    }

    /// Ends a payment that no payer is paying.
    fn drop_unpaid(&mut self, to: Status, log: &mut StepLog<'_>) -> Result<StepOutcome, Refusal> {
        let status = self.payment.status;
        if !matches!(status, Status::Created | Status::Pending) {
            return Err(Refusal::WrongStatus(status));
        }
        if let Some(open) = self.open_attempt() {
            return Err(Refusal::ProviderFirst(open.id));
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
        if let Some(notes) = &mut self.payment.notes {
            notes.is_erased = true;
        }
        for attempt in &mut self.attempts {
            attempt.payer = Payer::default();
            attempt.answers.clear();
            attempt.returned = None;
            attempt.particulars.instrument = None;
        }
        StepOutcome::Done
    }
}
