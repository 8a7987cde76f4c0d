//! A start that is repeated without a caller, and what every start leaves on record.

use kassette_domain::attempt::Choice;
use kassette_domain::id::AttemptId;
use kassette_domain::key::Environment;
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
    /// Repeats the start of an attempt whose outcome is not known, once and at its own account. False where another
    /// task has it in hand, or it is wanted no longer.
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
            // What the start before has sent may have taken effect all the same.
            StartResult::Uncertain("no repeat: the merchant may not start payments now".to_owned())
        };
        let held = attempt.busy_until;
        let recorded = self.record_start((id, held), result, None).await?;
        Ok(recorded.is_some())
    }

    /// Whether a payment may be started now, by its merchant's approval and its reseller's delegation.
    pub(crate) async fn may_start(
        &self,
        payment: &Payment,
        merchant: &Merchant,
    ) -> Result<bool, Fault> {
        let approved = payment.environment == Environment::Test || merchant.live_approved;
        Ok(approved && self.bars_reseller(payment).await?.is_none())
    }

    /// Writes what became of a start. A reference that is another attempt's is no answer. None where that cannot be
    /// recorded.
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
