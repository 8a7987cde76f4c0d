//! Operators' actions on a payment: deciding a review, cancelling, querying the provider.

use kassette_domain::attempt::Attempt;
use kassette_domain::audit::Audited;
use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{
    Act, ApiCaller, NewDecision, PaymentAggregate, Refusal, Step, Via,
};
use kassette_domain::money::{Currency, Minor, platform_fee, proportion};
use kassette_domain::movement::Bucket;
use kassette_domain::payment::{Accepted, DecisionState, Payment, Resolution, Status};
use kassette_store::{About, Fault, Stepped};

use crate::Gateway;

/// Maximum number of attempts that are closed before one cancel. A payment has few attempts, and a provider
/// whose attempts never close must not keep the loop running.
const VENDORS_MOST: usize = 8;

/// Reason why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("payment not found")]
    NotFound,
    #[error("{0}")]
    Conflict(String),
    /// The payment is neither created nor pending. For API callers.
    #[error("{0}")]
    NotCancellable(String),
    /// Pending refunds or open disputes about the money prevent the approval. Contains their ids.
    #[error(
        "a refund is pending or a dispute is open; list their ids in \"despite\" to approve all the same"
    )]
    DespiteNeeded(Vec<String>),
    /// The amount to accept is not below the invoice amount.
    #[error("accept: is for amounts below the invoice's, or in another currency")]
    AcceptsTooMuch,
    /// The platform fee of an accepted amount cannot be computed.
    #[error("there is no usable exchange rate for {0}")]
    NoRate(String),
    /// An open attempt could not be closed with certainty.
    #[error(
        "an attempt has to be closed first, and its provider gave no certain answer; try again"
    )]
    NotClosed,
    #[error(transparent)]
    Store(#[from] Fault),
}

impl From<Refusal> for DecideError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NeedsDespite(ids) => Self::DespiteNeeded(ids),
            Refusal::AcceptsTooMuch => Self::AcceptsTooMuch,
            refusal => Self::Conflict(refusal.to_string()),
        }
    }
}

/// The actions that operators can perform on a payment now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Possible {
    pub approve: Option<PossibleApproval>,
    /// Amount that a decline would turn into surplus, in minor units.
    pub decline: Option<Minor>,
    /// Refundable amount of the payment's own money, in minor units, with its currency code.
    pub refund: Option<(Minor, String)>,
    pub cancel: bool,
    pub query: bool,
}

/// An approval that would succeed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleApproval {
    /// Amount that the payment would be completed with, in minor units of `currency`.
    pub amount: Minor,
    pub currency: String,
    /// Whether the request must name that amount in `accept`.
    pub needs_accept: bool,
    /// Ids that the request must list in `despite`.
    pub despite: Vec<String>,
    /// The platform's fee in US cents; `None` for a test payment, or without a usable rate.
    pub platform_fee_usd: Option<Minor>,
}

/// Result of a decision about a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The decision is carried out.
    Done,
    /// The decision is recorded and waits for the provider.
    Waiting,
}

impl Gateway {
    /// Records a decision about a review, makes the provider capture or close the attempts that it concerns,
    /// and returns how far that has come.
    ///
    /// # Errors
    /// See [`DecideError`]. A decision that lapsed immediately is a conflict.
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
        mut decision: NewDecision,
        audited: Audited,
    ) -> Result<Decided, DecideError> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        if let Some(accept) = &mut decision.accept {
            let aggregate = self.store().aggregate(About::Payment(payment)).await?;
            let aggregate = aggregate.ok_or(DecideError::NotFound)?;
            let known = aggregate.payment.decision.as_deref();
            let known = known.and_then(|known| known.accept.as_ref());
            let is_known = known.is_some_and(|known| {
                (known.amount, &known.currency) == (accept.amount, &accept.currency)
            });
            if accept.currency != aggregate.payment.due.currency.code() && !is_known {
                accept.usd = self.usd_of(&aggregate.payment, accept).await?;
                if accept.usd.is_none() {
                    return Err(DecideError::NoRate(accept.currency.clone()));
                }
            }
        }
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

    /// Converts an accepted amount into US cents at the merchant's current rate. `None` without a usable
    /// rate.
    async fn usd_of(&self, payment: &Payment, accept: &Accepted) -> Result<Option<Minor>, Fault> {
        let merchant = self.store().merchant(payment.merchant).await?;
        let quote = merchant.as_ref().and_then(|merchant| {
            let currency = Currency::parse(&accept.currency)?;
            self.usable_rate(merchant, currency)
        });
        Ok(quote.and_then(|quote| quote.rate.usd(accept.amount)))
    }

    /// Returns the actions that operators can perform on a payment now, by trying each on a copy of the
    /// payment.
    ///
    /// # Errors
    /// The store's.
    pub async fn possible(&self, aggregate: &PaymentAggregate) -> Result<Possible, Fault> {
        let own = aggregate.attempts.iter().find(|attempt| {
            let own = attempt.refundable(Bucket::Own);
            own > Minor::ZERO
        });
        let refunds = matches!(aggregate.payment.status, Status::Completed | Status::Review);
        let refund = own.filter(|_| refunds).map(|own| {
            let currency = own.received_currency().to_owned();
            (own.refundable(Bucket::Own), currency)
        });
        let in_review = aggregate.payment.status == Status::Review;
        let decline = in_review.then(|| {
            let declined = self.tried(aggregate, trial(Resolution::Decline));
            let declined = declined.map(|declined| surplus(&declined));
            declined.unwrap_or_default().less(surplus(aggregate))
        });
        let cancelled =
            aggregate
                .clone()
                .step(Step::Act(Act::Cancel), self.now(), &self.settings().queries);
        Ok(Possible {
            approve: if in_review {
                self.possible_approval(aggregate).await?
            } else {
                None
            },
            decline,
            refund,
            cancel: matches!(cancelled, Ok(_) | Err(Refusal::ProviderFirst(_))),
            query: !aggregate.attempts.is_empty(),
        })
    }

    async fn possible_approval(
        &self,
        aggregate: &PaymentAggregate,
    ) -> Result<Option<PossibleApproval>, Fault> {
        let mut decision = trial(Resolution::Approve);
        // Each refusal names what the next attempt needs.
        for _ in 0..3 {
            match self.tried(aggregate, decision.clone()) {
                Ok(approved) => {
                    let payment = &approved.payment;
                    let Some(made) = payment.decision.as_deref() else {
                        return Ok(None);
                    };
                    let live = payment.environment == Environment::Live;
                    let fee = match (&decision.accept, payment.fee) {
                        _ if !live => None,
                        (_, Some(fee)) => Some(fee),
                        (Some(accept), None) => accept.usd.map(platform_fee),
                        (None, None) => Some(platform_fee(payment.usd)),
                    };
                    return Ok(Some(PossibleApproval {
                        amount: made.received,
                        currency: made.currency.clone(),
                        needs_accept: decision.accept.is_some(),
                        despite: decision.despite,
                        platform_fee_usd: fee,
                    }));
                }
                Err(Refusal::NeedsDespite(ids)) if decision.despite.is_empty() => {
                    decision.despite = ids;
                }
                Err(Refusal::NotEnough { amount, currency })
                    if decision.accept.is_none() && amount > Minor::ZERO =>
                {
                    let mut accept = Accepted {
                        amount,
                        currency,
                        usd: None,
                    };
                    let due = aggregate.payment.due;
                    accept.usd = if accept.currency == due.currency.code() {
                        Some(proportion(aggregate.payment.usd, amount, due.amount))
                    } else {
                        self.usd_of(&aggregate.payment, &accept).await?
                    };
                    decision.accept = Some(accept);
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the payment as it would be after the decision.
    fn tried(
        &self,
        aggregate: &PaymentAggregate,
        decision: NewDecision,
    ) -> Result<PaymentAggregate, Refusal> {
        let mut tried = aggregate.clone();
        let waiting = tried.payment.decision.as_deref_mut();
        if let Some(waiting) = waiting.filter(|known| known.state == DecisionState::Waiting) {
            waiting.state = DecisionState::Lapsed;
        }
        let act = Step::Act(Act::Review(Box::new(decision)));
        tried.step(act, self.now(), &self.settings().queries)?;
        Ok(tried)
    }

    /// Moves a payment that is stuck to review.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn to_review(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        self.act(payment, Act::ToReview, Some(audited)).await?;
        self.reconcile_soon(payment);
        Ok(())
    }

    /// Queries the providers about a payment's attempts: about all on which money can move or has moved, or
    /// else about the last one. Also queries its pending refunds.
    ///
    /// # Errors
    /// See [`DecideError`]. A payment without an attempt is a conflict.
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
            attempt.is_open() || attempt.net().is_some() || attempt.id == last.id
        };
        self.store().audit(audited, self.now()).await?;
        for attempt in aggregate.attempts.iter().filter(matters) {
            // If a query is already running, its answer is sufficient.
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

    /// Cancels a payment. An open attempt is closed first.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn cancel(&self, payment: PaymentId, audited: Audited) -> Result<(), DecideError> {
        let gateway = self.clone();
        self.run_to_end(async move {
            let cancelled = gateway.cancel_locked(payment, Act::Cancel, Some(audited));
            let cancelled = cancelled.await;
            gateway.reconcile_soon(payment);
            cancelled.map(|_| ())
        })
        .await?
    }

    /// Cancels a payment for the API caller that created it. An open attempt is closed first. A payment that
    /// is already cancelled stays so. Waits for a start or another cancel in flight.
    ///
    /// # Errors
    /// See [`DecideError`]; [`DecideError::NotClosed`] may succeed later.
    pub async fn cancel_by_api(
        &self,
        payment: PaymentId,
        caller: ApiCaller,
    ) -> Result<Payment, DecideError> {
        let gateway = self.clone();
        self.run_to_end(async move {
            let cancelled = gateway.cancel_locked(payment, Act::CancelByApi(caller), None);
            let cancelled = cancelled.await;
            gateway.reconcile_soon(payment);
            cancelled.map(|aggregate| aggregate.payment)
        })
        .await?
    }

    async fn cancel_locked(
        &self,
        payment: PaymentId,
        act: Act,
        audited: Option<Audited>,
    ) -> Result<PaymentAggregate, DecideError> {
        let by_api = matches!(act, Act::CancelByApi(_));
        let _guard = self.inner.payment_locks.lock(payment).await;
        for _ in 0..VENDORS_MOST {
            let step = Step::Act(act.clone());
            let about = About::Payment(payment);
            match self.step(about, step, audited.clone()).await? {
                Stepped::Done { aggregate, .. } => return Ok(aggregate),
                Stepped::Refused {
                    aggregate,
                    refusal: Refusal::WrongStatus(Status::Cancelled),
                } if by_api => return Ok(aggregate),
                Stepped::Refused {
                    aggregate,
                    refusal: Refusal::ProviderFirst(id),
                } => {
                    let limit = self.settings().provider_deadline;
                    let before = aggregate.attempt(id).map(Attempt::state);
                    let after = self.close(id, limit).await?;
                    let after = after
                        .as_ref()
                        .and_then(|after| after.attempt(id))
                        .map(Attempt::state);
                    if after.is_none() || after == before {
                        return Err(DecideError::NotClosed);
                    }
                }
                Stepped::Refused { refusal, .. } if by_api => {
                    return Err(DecideError::NotCancellable(refusal.to_string()));
                }
                Stepped::Refused { refusal, .. } => {
                    return Err(DecideError::Conflict(refusal.to_string()));
                }
                Stepped::ReferenceTaken(_) | Stepped::Unknown => return Err(DecideError::NotFound),
            }
        }
        Err(DecideError::NotClosed)
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
            Stepped::Refused { refusal, .. } => Err(refusal.into()),
            Stepped::ReferenceTaken(_) | Stepped::Unknown => Err(DecideError::NotFound),
        }
    }
}

/// A decision for a trial run. A decline vouches, as if the payment had waited long enough.
fn trial(resolution: Resolution) -> NewDecision {
    NewDecision {
        resolution,
        settlement: None,
        vouch: resolution == Resolution::Decline,
        accept: None,
        despite: Vec::new(),
        operator: String::new(),
        actor: String::new(),
        reason: String::new(),
    }
}

/// Surplus of all attempts, in minor units.
fn surplus(aggregate: &PaymentAggregate) -> Minor {
    let each = aggregate.attempts.iter();
    each.fold(Minor::ZERO, |sum, attempt| {
        let surplus = attempt.funds.position(Bucket::Surplus);
        sum.plus(surplus.for_completion())
    })
}
