//! An operator's acts about a payment: deciding a review, cancelling, asking the vendor.

use kassette_domain::attempt::Attempt;
use kassette_domain::audit::Audited;
use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{Act, NewDecision, PaymentAggregate, Refusal, Step, Via};
use kassette_domain::payment::{DecisionState, Status};
use kassette_store::{About, Fault, Stepped};

use crate::Gateway;

/// Attempts that may have to be closed before one cancel: those of a payment are few, and a vendor that
/// is never done is no reason to go on for ever.
const VENDORS_MOST: usize = 8;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("payment not found")]
    NotFound,
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// What became of a decision about a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It is carried out.
    Done,
    /// It is recorded, and waits for the vendor.
    Waiting,
}

impl Gateway {
    /// Records a decision about a review, has the vendor capture or close what it needs, and says how
    /// far that has come.
    ///
    /// # Errors
    /// See [`DecideError`]; a decision that lapsed at once is a conflict.
    pub async fn review(
        &self,
        payment: PaymentId,
        decision: NewDecision,
        audited: Audited,
    ) -> Result<Decided, DecideError> {
        let gateway = self.clone();
        self.run_to_end(async move {
            let decided = gateway.review_locked(payment, decision, audited).await;
            gateway.reconcile_soon(payment);
            decided
        })
        .await?
    }

    async fn review_locked(
        &self,
        payment: PaymentId,
        decision: NewDecision,
        audited: Audited,
    ) -> Result<Decided, DecideError> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        let act = Act::Review(Box::new(decision));
        self.act(payment, act, Some(audited)).await?;
        self.reconcile_locked(payment, None).await?;
        let aggregate = self.store().aggregate(About::Payment(payment)).await?;
        let payment = aggregate.ok_or(DecideError::NotFound)?.payment;
        let state = payment.decision.as_deref().map(|decision| decision.state);
        match state {
            Some(DecisionState::Done) => Ok(Decided::Done),
            Some(DecisionState::Waiting) if payment.status == Status::Review => {
                Ok(Decided::Waiting)
            }
            _ => Err(DecideError::Conflict(format!(
                "the decision lapsed: the provider did not do what it needs, or the money is not what was \
                 decided upon; the payment is {}",
                payment.status.as_str()
            ))),
        }
    }

    /// Sends a payment that hangs to review.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn to_review(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        self.act(payment, Act::ToReview, Some(audited)).await?;
        self.reconcile_soon(payment);
        Ok(())
    }

    /// Asks the vendors of a payment's attempts where they stand: of those on which money can move or
    /// has moved, else of the last one; and what became of its refunds.
    ///
    /// # Errors
    /// See [`DecideError`]; a payment without an attempt is a conflict.
    pub async fn query(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        let gateway = self.clone();
        self.run_to_end(async move {
            let asked = gateway.query_locked(payment, audited).await;
            gateway.reconcile_soon(payment);
            asked
        })
        .await?
    }

    async fn query_locked(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        let about = About::Payment(payment);
        let aggregate = self.store().aggregate(about.clone()).await?;
        let aggregate = aggregate.ok_or(DecideError::NotFound)?;
        let last = aggregate.attempts.last().ok_or_else(|| {
            DecideError::Conflict("the payment has no attempt that a provider knows of".to_owned())
        })?;
        let matters = |attempt: &&Attempt| {
            attempt.state.is_open() || attempt.net().is_some() || attempt.id == last.id
        };
        self.store().audit(audited, self.now()).await?;
        for attempt in aggregate.attempts.iter().filter(matters) {
            // A look that is under way answers as well.
            self.query_now(&aggregate, attempt.id, Via::Query, false)
                .await?;
        }
        for (_, refund) in aggregate.refunds() {
            if refund.is_order_pending() {
                self.call_about_refund(refund.id).await?;
            }
        }
        self.reconcile_locked(payment, None).await?;
        Ok(())
    }

    /// Calls a payment off; an open attempt is closed first.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn cancel(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        let gateway = self.clone();
        self.run_to_end(async move {
            let cancelled = gateway.cancel_locked(payment, audited).await;
            gateway.reconcile_soon(payment);
            cancelled
        })
        .await?
    }

    async fn cancel_locked(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        for _ in 0..VENDORS_MOST {
            let step = Step::Act(Act::Cancel);
            let about = About::Payment(payment);
            match self.step(about, step, Some(audited.clone())).await? {
                Stepped::Done { .. } => return Ok(()),
                Stepped::Refused {
                    aggregate,
                    refusal: Refusal::VendorFirst(id),
                } => {
                    let limit = self.settings().provider_deadline;
                    let before = aggregate.attempt(id).map(|attempt| attempt.state);
                    let after = self.close(id, limit).await?;
                    let after = after
                        .as_ref()
                        .and_then(|after| after.attempt(id))
                        .map(|attempt| attempt.state);
                    if after.is_none() || after == before {
                        return Err(unsure());
                    }
                }
                Stepped::Refused { refusal, .. } => {
                    return Err(DecideError::Conflict(refusal.to_string()));
                }
                Stepped::ReferenceTaken(_) | Stepped::Unknown => return Err(DecideError::NotFound),
            }
        }
        Err(unsure())
    }

    async fn act(
        &self,
        payment: PaymentId,
        act: Act,
        audited: Option<Audited>,
    ) -> Result<PaymentAggregate, DecideError> {
        let about = About::Payment(payment);
        match self.step(about, Step::Act(act), audited).await? {
            Stepped::Done { aggregate, .. } => Ok(aggregate),
            Stepped::Refused { refusal, .. } => Err(DecideError::Conflict(refusal.to_string())),
            Stepped::ReferenceTaken(_) | Stepped::Unknown => Err(DecideError::NotFound),
        }
    }
}

fn unsure() -> DecideError {
    DecideError::Conflict(
        "an attempt has to be closed first, and its provider gave no certain answer; try again"
            .to_owned(),
    )
}
