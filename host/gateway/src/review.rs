//! An operator's decisions about a payment.

use kassette_domain::audit::Audited;
use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::ledger::{Act, Errand, Ledger, Refusal, ReviewDecision, Step};
use kassette_domain::payment::Status;
use kassette_store::{About, Fault, Stepped};

use crate::Gateway;

/// Attempts that may have to be captured or closed before one decision: those of a payment are few,
/// and a vendor that is never done is no reason to go on for ever.
const VENDORS_MOST: usize = 8;

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// 404.
    #[error("payment not found")]
    NotFound,
    /// 409.
    #[error("{0}")]
    Conflict(String),
    /// 500.
    #[error(transparent)]
    Store(#[from] Fault),
}

impl Gateway {
    /// Ends a review. An uncaptured authorisation is captured first, or closed on decline.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn review(
        &self,
        payment: PaymentId,
        decision: ReviewDecision,
        audited: Audited,
    ) -> Result<Ledger, DecideError> {
        self.decide(payment, Act::Review(decision), audited).await
    }

    /// Calls a payment off; an open attempt is closed first.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn cancel(
        &self,
        payment: PaymentId,
        audited: Audited,
    ) -> Result<Ledger, DecideError> {
        self.decide(payment, Act::Cancel, audited).await
    }

    async fn decide(
        &self,
        payment: PaymentId,
        act: Act,
        audited: Audited,
    ) -> Result<Ledger, DecideError> {
        let gateway = self.clone();
        self.carry(async move {
            let decided = gateway.decide_in_hand(payment, act, audited).await;
            gateway.tend_soon(payment, false);
            decided
        })
        .await?
    }

    async fn decide_in_hand(
        &self,
        payment: PaymentId,
        act: Act,
        audited: Audited,
    ) -> Result<Ledger, DecideError> {
        let _hand = self.inner.hands.take(payment).await;
        for round in 0..VENDORS_MOST {
            let about = About::Payment(payment);
            let step = Step::Act(act.clone());
            match self.step(about, step, Some(audited.clone())).await? {
                Stepped::Done { ledger, .. } => return Ok(ledger),
                Stepped::Refused {
                    ledger,
                    refusal: Refusal::VendorFirst(attempt),
                } => self.vendor_first(&ledger, attempt, &act).await?,
                // What the decision had the vendor do has ended the payment as it was decided.
                Stepped::Refused {
                    ledger,
                    refusal: Refusal::WrongStatus(status),
                } if round > 0 && Some(status) == aim(&act) => {
                    self.store().audit(audited, self.now()).await?;
                    return Ok(ledger);
                }
                Stepped::Refused { refusal, .. } => {
                    return Err(DecideError::Conflict(refusal.to_string()));
                }
                Stepped::ReferenceTaken(_) | Stepped::Unknown => return Err(DecideError::NotFound),
            }
        }
        Err(unsure())
    }

    /// Captures or closes an attempt, as the decision needs it.
    async fn vendor_first(
        &self,
        ledger: &Ledger,
        id: AttemptId,
        act: &Act,
    ) -> Result<(), DecideError> {
        let Some(before) = ledger.attempt(id) else {
            return Err(DecideError::NotFound);
        };
        let approves = matches!(act, Act::Review(ReviewDecision::Approve { .. }));
        let after = if approves && before.is_authorised() {
            self.capture(id, Errand::ApprovedCapture).await?
        } else {
            self.close(id, self.settings().provider_deadline).await?
        };
        let moved = after.as_ref().and_then(|after| after.attempt(id));
        let moved = moved
            .is_some_and(|after| (after.state, &after.vendor) != (before.state, &before.vendor));
        if moved { Ok(()) } else { Err(unsure()) }
    }
}

/// Where a decision of a review leads.
const fn aim(act: &Act) -> Option<Status> {
    match act {
        Act::Review(ReviewDecision::Approve { .. }) => Some(Status::Completed),
        Act::Review(ReviewDecision::Decline) => Some(Status::Failed),
        Act::Cancel | Act::Expire => None,
    }
}

fn unsure() -> DecideError {
    DecideError::Conflict(
        "an attempt has to be captured or closed first, and its provider gave no certain answer; \
         try again"
            .to_owned(),
    )
}
