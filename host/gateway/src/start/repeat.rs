//! Repeats a start without a caller, and records the outcome of every start.

use kassette_domain::attempt::Choice;
use kassette_domain::id::AttemptId;
use kassette_domain::lifecycle::{
    ClaimPurpose, PaymentAggregate, Refusal, StartResult, Step, StepOutcome,
};
use kassette_domain::merchant::Merchant;
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_store::{About, Fault, Stepped};

use crate::Gateway;
use crate::apply::AttemptClaim;

impl Gateway {
    /// Repeats the start of an attempt with an unknown outcome, one time and at the same account. False if
    /// another task holds the attempt, or a repeat is no longer wanted.
    pub(crate) async fn repeat_start(&self, id: AttemptId) -> Result<bool, Fault> {
        let AttemptClaim::Taken(held) = self.claim(id, ClaimPurpose::Start).await? else {
            return Ok(false);
        };
        let Some(attempt) = held.attempt(id) else {
            return Ok(false);
        };
        let merchant = self.cached_merchant(held.payment.merchant).await?;
        let allowed = match &merchant {
            Some(merchant) => self.may_start(&held.payment, merchant).await?,
            None => false,
        };
        let result = if allowed {
            let limit = self.settings().provider_deadline;
            self.call_start(&held, attempt, None, limit).await?
        } else {
            // The earlier request may still have taken effect.
            StartResult::Uncertain("no repeat: the merchant may not start payments now".to_owned())
        };
        let held = attempt.claim.busy_until();
        let recorded = self.record_start((id, held), result, None).await?;
        Ok(recorded.is_some())
    }

    /// Whether the merchant's approval and the reseller's delegation allow a start of the payment now.
    pub(crate) async fn may_start(
        &self,
        payment: &Payment,
        merchant: &Merchant,
    ) -> Result<bool, Fault> {
        let approved = merchant.may_use(payment.environment);
        Ok(approved && self.bars_reseller(payment).await?.is_none())
    }

    /// Records the outcome of a start. A reference that belongs to another attempt is not accepted. `None` if
    /// the outcome cannot be recorded.
    pub(super) async fn record_start(
        &self,
        (id, held): (AttemptId, Option<Time>),
        result: StartResult,
        next: Option<Box<Choice>>,
    ) -> Result<Option<(PaymentAggregate, StepOutcome)>, Fault> {
        let about = About::Attempt(id);
        let started = |result, next| Step::Started {
            attempt: id,
            held,
            result,
            next,
        };
        let why = match self
            .step(about.clone(), started(result, next), None)
            .await?
        {
            Stepped::Done {
                aggregate, outcome, ..
            } => return Ok(Some((aggregate, outcome))),
            Stepped::ReferenceTaken(_) => "its reference belongs to another attempt",
            Stepped::Refused {
                refusal: Refusal::BadReport(why),
                ..
            } => why,
            Stepped::Refused { aggregate, .. } => {
                return Ok(Some((aggregate, StepOutcome::Nothing)));
            }
            Stepped::Unknown => return Ok(None),
        };
        tracing::error!(attempt.id = %id, start.detail = why, "a provider's start was not believed");
        let doubt = started(StartResult::Uncertain(why.to_owned()), None);
        Ok(match self.step(about, doubt, None).await? {
            Stepped::Done {
                aggregate, outcome, ..
            } => Some((aggregate, outcome)),
            _ => None,
        })
    }
}
