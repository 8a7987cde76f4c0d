//! Refunds by merchants, resellers and operators, and the calls by which the reconciler brings each refund to its end.

use std::sync::Arc;

use kassette_domain::attempt::Attempt;
use kassette_domain::audit::Audited;
use kassette_domain::id::{MerchantId, PaymentId, RefundId, WorkId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::lifecycle::{NewRefund, PaymentAggregate, RefundAnswer, Refusal, Step};
use kassette_domain::money::Minor;
use kassette_domain::movement::Bucket;
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::Status;
use kassette_domain::provider::{
    Given, PaidFacts, QueryFailure, RefundFailure, RefundOrder, RefundQuery, RefundState,
    RefundTerms,
};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_runtime::CallError;
use kassette_store::{About, Fault, RefundOrdered, Stepped};
use tokio::time::{Instant, timeout};

use crate::Gateway;
use crate::auth::{MerchantCaller, ResellerCaller};
use crate::modules::{Access, Provider};
use crate::permits::Kind;
use crate::reseller::ResellerError;

/// A refund request of a merchant, a reseller or an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundAsked {
    /// Amount in minor units of the received currency. `None` means all that is left.
    pub amount: Option<Minor>,
    /// Makes the request idempotent.
    pub key: Option<IdempotencyKey>,
    /// The merchant's reason, which the payer may see. An operator's reason is stored only in the audit log.
    pub reason: Option<String>,
}

/// The money that an operator refunds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundOf {
    /// The payment's own money.
    Payment(PaymentId),
    /// The money of a work item: surplus, late money or an excess.
    Work(WorkId),
}

/// A refund as the APIs show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRefund {
    pub payment: PaymentId,
    pub refund: Refund,
    /// Currency code, as the provider reports it.
    pub currency: String,
}

/// Result of a refund request, after the provider was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOutcome {
    Created(GivenRefund),
    /// The refund of an earlier request with the same data.
    Replayed(GivenRefund),
}

/// Reason why no refund was made. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    /// The key was revoked after the request was authenticated.
    #[error("the credential is missing, invalid, revoked or expired")]
    KeyRefused,
    /// The caller has no such payment, or the work item does not exist.
    #[error("payment not found")]
    NotFound,
    /// The reseller may not refund for the merchant.
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    #[error(
        "this idempotency key was used before with a different {field}; use a new key for a new refund"
    )]
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The payment or its account does not allow a refund.
    #[error("{0}")]
    Conflict(Refusal),
    /// The amount exceeds the remaining amount, or is partial and only full refunds are possible.
    #[error("amount: {0}")]
    Amount(Refusal),
    #[error("the work item is done")]
    WorkDone,
    #[error("a work item of this kind is not settled by a refund")]
    NotRefundable,
    /// The refund was made at the provider, so it cannot be settled here.
    #[error("only a refund that was ordered here can be settled")]
    NotOrdered,
    /// The payer can still claim the money at the provider.
    #[error("the payer can still claim the refund at the provider")]
    Claimable,
    /// The account's module did not return its refund terms. Nothing was done.
    #[error("the provider's module is not available; try again")]
    Unavailable,
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system")]
    Random,
}

impl From<getrandom::Error> for RefundError {
    fn from(_: getrandom::Error) -> Self {
        Self::Random
    }
}

impl From<Refusal> for RefundError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::MoreThanLeft { .. }
            | Refusal::WholeOnly { .. }
            | Refusal::WholeUnitsOnly { .. } => Self::Amount(refusal),
            refusal => Self::Conflict(refusal),
        }
    }
}

/// Returns all refunds of a payment, newest first.
pub fn given_refunds(aggregate: &PaymentAggregate) -> Vec<GivenRefund> {
    let refunds = aggregate.refunds().into_iter();
    refunds
        .map(|(attempt, refund)| shown(attempt, refund))
        .collect()
}

fn shown(attempt: &Attempt, refund: &Refund) -> GivenRefund {
    GivenRefund {
        payment: attempt.payment,
        refund: refund.clone(),
        currency: attempt.received_currency().to_owned(),
    }
}

/// The caller, with the data that the store checks again.
struct Asker {
    origin: RefundOrigin,
    authority: Option<TokenHash>,
    audited: Option<Audited>,
}

impl Gateway {
    /// Refunds money of a merchant's payment, at most the rest of the invoice amount. The result shows the
    /// state after the provider has answered or the time limit has passed.
    ///
    /// # Errors
    /// See [`RefundError`].
    pub async fn refund(
        &self,
        caller: &MerchantCaller,
        payment: PaymentId,
        asked: RefundAsked,
    ) -> Result<RefundOutcome, RefundError> {
        let asker = Asker {
            origin: RefundOrigin::Merchant,
            authority: Some(caller.key.hash),
            audited: None,
        };
        let (merchant, environment) = (caller.merchant.id, caller.key.environment);
        let aggregate = self.aggregate_of(merchant, environment, About::Payment(payment));
        let aggregate = aggregate.await?.ok_or(RefundError::NotFound)?;
        self.order_of_completed(aggregate, asked, asker).await
    }

    /// Refunds money of a payment that the reseller created, like [`Self::refund`], if the merchant's delegation
    /// allows it.
    ///
    /// # Errors
    /// See [`RefundError`].
    pub async fn refund_by_reseller(
        &self,
        caller: &ResellerCaller,
        payment: PaymentId,
        asked: RefundAsked,
    ) -> Result<RefundOutcome, RefundError> {
        let asker = Asker {
            origin: RefundOrigin::Reseller,
            authority: Some(caller.key.hash),
            audited: None,
        };
        let aggregate = self.refundable_by_reseller(caller, payment).await;
        let aggregate = aggregate.map_err(|error| match error {
            ResellerError::Barred(barred) => barred.into(),
            ResellerError::Store(fault) => fault.into(),
            ResellerError::NotFound | ResellerError::BadCursor => RefundError::NotFound,
        })?;
        self.order_of_completed(aggregate, asked, asker).await
    }

    /// Returns the refunds of a payment that the reseller created and may refund, newest first.
    ///
    /// # Errors
    /// See [`ResellerError`].
    pub async fn refunds_of_reseller(
        &self,
        caller: &ResellerCaller,
        payment: PaymentId,
    ) -> Result<Vec<GivenRefund>, ResellerError> {
        let aggregate = self.refundable_by_reseller(caller, payment).await?;
        Ok(given_refunds(&aggregate))
    }

    async fn refundable_by_reseller(
        &self,
        caller: &ResellerCaller,
        payment: PaymentId,
    ) -> Result<PaymentAggregate, ResellerError> {
        let known = self.reseller_payment(caller, payment).await?;
        self.may_reseller_refund(caller, &known).await??;
        let aggregate = self.store().aggregate(About::Payment(payment)).await?;
        aggregate.ok_or(ResellerError::NotFound)
    }

    /// Refunds money for an operator: of any payment with money, or the money of a work item, which is closed
    /// by that.
    ///
    /// # Errors
    /// See [`RefundError`].
    pub async fn refund_by_operator(
        &self,
        of: RefundOf,
        asked: RefundAsked,
        audited: Audited,
    ) -> Result<RefundOutcome, RefundError> {
        let asker = Asker {
            origin: RefundOrigin::Operator,
            authority: None,
            audited: Some(audited),
        };
        let (payment, item) = match of {
            RefundOf::Payment(payment) => (payment, None),
            RefundOf::Work(id) => {
                let item = self.store().work_item(id).await?;
                let item = item.ok_or(RefundError::NotFound)?;
                let payment = item.payment.ok_or(RefundError::NotRefundable)?;
                (payment, Some(item))
            }
        };
        let aggregate = self.store().aggregate(About::Payment(payment)).await?;
        let aggregate = aggregate.ok_or(RefundError::NotFound)?;
        self.order(aggregate, asked, item.as_ref(), asker).await
    }

    /// Settles a refund of unknown outcome by an operator's decision: `made` in full (`None`) or in part, or
    /// not made (`Some(0)`). The provider is queried first, and its report takes precedence.
    ///
    /// # Errors
    /// See [`RefundError`].
    pub async fn settle_refund(
        &self,
        id: RefundId,
        made: Option<Minor>,
        audited: Audited,
    ) -> Result<GivenRefund, RefundError> {
        let aggregate = self.store().aggregate(About::Refund(id)).await?;
        let payment = aggregate.ok_or(RefundError::NotFound)?.payment.id;
        let gateway = self.clone();
        self.run_to_end(async move {
            let settled = gateway.settle_locked(payment, id, made, audited).await;
            gateway.reconcile_soon(payment);
            settled
        })
        .await?
    }

    async fn settle_locked(
        &self,
        payment: PaymentId,
        id: RefundId,
        made: Option<Minor>,
        audited: Audited,
    ) -> Result<GivenRefund, RefundError> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        let about = About::Payment(payment);
        let step = Step::SettleRefund { refund: id, made };
        let mut aggregate = self.store().aggregate(about.clone()).await?;
        let known = aggregate.as_mut().ok_or(RefundError::NotFound)?;
        let (_, refund) = known.refund(id).ok_or(RefundError::NotFound)?;
        if refund.ordered.is_none() {
            return Err(RefundError::NotOrdered);
        }
        let pending = refund.state == RefundState::Pending;
        let to_send = refund.is_to_send();
        // Detects a refusal that needs no provider before the provider is queried.
        let schedule = self.settings().queries.clone();
        known.clone().step(step.clone(), self.now(), &schedule)?;
        if pending && !to_send {
            let not_made = made == Some(Minor::ZERO);
            let purpose = if not_made {
                RefundQuery::Cancel
            } else {
                RefundQuery::Sync
            };
            let answer = self.call_for(id, purpose).await?;
            let claimable = matches!(&answer, Some(RefundAnswer::Given(given))
                if given.state == RefundState::Pending && given.claim_url.is_some());
            if not_made && claimable {
                return Err(RefundError::Claimable);
            }
        }
        let aggregate = match self.step(about, step, Some(audited)).await? {
            Stepped::Done { aggregate, .. } => aggregate,
            Stepped::Refused { refusal, .. } => return Err(refusal.into()),
            Stepped::ReferenceTaken(_) | Stepped::Unknown => return Err(RefundError::NotFound),
        };
        let (attempt, refund) = aggregate.refund(id).ok_or(RefundError::NotFound)?;
        Ok(shown(attempt, refund))
    }

    /// Returns the refunds of a merchant's payment, newest first. `None` if the payment does not belong to
    /// the merchant.
    ///
    /// # Errors
    /// The store's.
    pub async fn refunds_of(
        &self,
        merchant: MerchantId,
        environment: Environment,
        payment: PaymentId,
    ) -> Result<Option<Vec<GivenRefund>>, Fault> {
        let about = About::Payment(payment);
        let aggregate = self.aggregate_of(merchant, environment, about).await?;
        Ok(aggregate.as_ref().map(given_refunds))
    }

    /// Returns a refund of a merchant's payment. `None` if it does not exist or belongs to another merchant.
    ///
    /// # Errors
    /// The store's.
    pub async fn refund_of(
        &self,
        merchant: MerchantId,
        environment: Environment,
        refund: RefundId,
    ) -> Result<Option<GivenRefund>, Fault> {
        let about = About::Refund(refund);
        let aggregate = self.aggregate_of(merchant, environment, about).await?;
        let found = aggregate.as_ref().and_then(|found| found.refund(refund));
        Ok(found.map(|(attempt, refund)| shown(attempt, refund)))
    }

    async fn aggregate_of(
        &self,
        merchant: MerchantId,
        environment: Environment,
        about: About,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let aggregate = self.store().aggregate(about).await?;
        Ok(aggregate.filter(|found| {
            let payment = &found.payment;
            payment.merchant == merchant && payment.environment == environment
        }))
    }

    /// Orders a refund of a completed payment's own money.
    async fn order_of_completed(
        &self,
        aggregate: PaymentAggregate,
        asked: RefundAsked,
        asker: Asker,
    ) -> Result<RefundOutcome, RefundError> {
        let status = aggregate.payment.status;
        if status != Status::Completed {
            return Err(Refusal::WrongStatus(status).into());
        }
        self.order(aggregate, asked, None, asker).await
    }

    /// Orders a refund in the store, then calls the provider.
    async fn order(
        &self,
        aggregate: PaymentAggregate,
        asked: RefundAsked,
        item: Option<&WorkItem>,
        asker: Asker,
    ) -> Result<RefundOutcome, RefundError> {
        let (attempt, bucket) = match item {
            Some(item) => {
                let bucket = bucket_of(item.key.kind).ok_or(RefundError::NotRefundable)?;
                (aggregate.attempt(item.key.attempt), bucket)
            }
            None => (own_attempt(&aggregate, asker.origin), Bucket::Own),
        };
        let nothing = Refusal::MoreThanLeft { left: Minor(0) };
        let attempt = attempt.ok_or(nothing)?;
        let is_known = asked.key.as_ref().is_some_and(|key| {
            let mut refunds = aggregate.refunds().into_iter();
            refunds.any(|(_, refund)| refund.is_ordered_by(asker.origin, key))
        });
        if item.is_some_and(|item| item.done_at.is_some()) && !is_known {
            return Err(RefundError::WorkDone);
        }
        // An existing refund is returned regardless of the current refund terms.
        let terms = match is_known {
            true => None,
            false => self.terms_of(attempt).await?,
        };
        let new = NewRefund {
            id: RefundId::from_bytes(crate::random()?),
            attempt: attempt.id,
            origin: asker.origin,
            key: asked.key,
            amount: asked.amount,
            reason: asked.reason,
            bucket,
            terms,
        };
        let (payment, id) = (aggregate.payment.id, new.id);
        let gateway = self.clone();
        self.run_to_end(async move { gateway.order_locked(payment, id, new, asker).await })
            .await?
    }

    async fn order_locked(
        &self,
        payment: PaymentId,
        id: RefundId,
        new: NewRefund,
        asker: Asker,
    ) -> Result<RefundOutcome, RefundError> {
        let now = self.now();
        let ordered = self
            .store()
            .refund(payment, new, asker.authority, asker.audited, now)
            .await?;
        match ordered {
            RefundOrdered::New { aggregate, change } => {
                self.tell_of(&aggregate, &change).await;
            }
            RefundOrdered::Replay { aggregate, refund } => {
                let found = aggregate.refund(refund);
                let (attempt, refund) = found.ok_or(RefundError::NotFound)?;
                return Ok(RefundOutcome::Replayed(shown(attempt, refund)));
            }
            RefundOrdered::Differs { field } => return Err(RefundError::Differs { field }),
            RefundOrdered::KeyRefused => return Err(RefundError::KeyRefused),
            RefundOrdered::Barred(barred) => return Err(barred.into()),
            RefundOrdered::LineClosed => return Err(RefundError::WorkDone),
            RefundOrdered::Refused(refusal) => return Err(refusal.into()),
            RefundOrdered::Unknown => return Err(RefundError::NotFound),
        }
        {
            // The reconciler also finds the refund due, and waits for this lock.
            let _guard = self.inner.payment_locks.lock(payment).await;
            self.call_about_refund(id).await?;
        }
        self.reconcile_soon(payment);
        let aggregate = self.store().aggregate(About::Refund(id)).await?;
        let aggregate = aggregate.ok_or(RefundError::NotFound)?;
        let (attempt, refund) = aggregate.refund(id).ok_or(RefundError::NotFound)?;
        Ok(RefundOutcome::Created(shown(attempt, refund)))
    }

    /// Refund terms of an attempt. `None` if its account cannot refund it.
    async fn terms_of(&self, attempt: &Attempt) -> Result<Option<RefundTerms>, RefundError> {
        let Some((module, access)) = self.module_and_access(attempt) else {
            return match self.others_differ().await? {
                true => Err(RefundError::Unavailable),
                false => Ok(None),
            };
        };
        let limit = self.settings().provider_deadline;
        let terms = match timeout(limit, module.refund_terms(&access)).await {
            Ok(Ok(terms)) => terms,
            Ok(Err(failed)) => {
                tracing::error!(
                    provider.id = %attempt.account, error = %failed,
                    "a module did not say what can be given back"
                );
                return Err(RefundError::Unavailable);
            }
            Err(_) => return Err(RefundError::Unavailable),
        };
        let is_its = |terms: &RefundTerms| terms.method == attempt.method;
        Ok(terms.into_iter().find(is_its))
    }

    /// Sends a refund to the provider or queries it there. False if another task does so, or no call may
    /// start now.
    pub(crate) async fn call_about_refund(&self, id: RefundId) -> Result<bool, Fault> {
        let called = self.call_for(id, RefundQuery::Sync).await?;
        Ok(called.is_some())
    }

    /// Like [`Self::call_about_refund`], with the purpose of a query. Returns the provider's answer, or
    /// `None` if no call was made.
    async fn call_for(
        &self,
        id: RefundId,
        purpose: RefundQuery,
    ) -> Result<Option<RefundAnswer>, Fault> {
        let about = About::Refund(id);
        let Some(aggregate) = self.store().aggregate(about.clone()).await? else {
            return Ok(None);
        };
        let Some((attempt, refund)) = aggregate.refund(id) else {
            return Ok(None);
        };
        let permits = &self.inner.permits;
        let environment = aggregate.payment.environment;
        let permit = permits.acquire(Kind::Query, environment, (&attempt.account).into());
        let Some(_permit) = permit.await else {
            return Ok(None);
        };
        let send = refund.is_to_send();
        let held = self.lease();
        let claim = Step::ClaimRefund {
            refund: id,
            send,
            until: held,
        };
        if !matches!(
            self.step(about.clone(), claim, None).await?,
            Stepped::Done { .. }
        ) {
            return Ok(None);
        }
        let query = (!send).then_some(purpose);
        let held_by = (self.not_after(held), query);
        let answer = self
            .call_refund(&aggregate, attempt, refund, held_by)
            .await?;
        let step = Step::RefundAnswered {
            refund: id,
            held,
            answer: answer.clone(),
        };
        self.step(about, step, None).await?;
        Ok(Some(answer))
    }

    /// Calls the module about a claimed refund: a query with a purpose, or the order if there is none.
    async fn call_refund(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        refund: &Refund,
        (not_after, query): (Instant, Option<RefundQuery>),
    ) -> Result<RefundAnswer, Fault> {
        let Some((module, mut access)) = self.module_and_access(attempt) else {
            let why = "no module serves the account".to_owned();
            return Ok(match query {
                None => RefundAnswer::Unavailable(why),
                Some(_) => RefundAnswer::Uncertain(why),
            });
        };
        access.not_after = Some(not_after);
        let paid = PaidFacts {
            attempt: attempt.id,
            method: attempt.method,
            reference: attempt.reference().unwrap_or_default().to_owned(),
            references: other_references(attempt),
            received: attempt.funds.balance.total().received,
            currency: attempt.received_currency().to_owned(),
            captured_at: attempt.particulars.captured_at,
            merchant_order: aggregate.payment.order_id.as_str().to_owned(),
            merchant: self.merchant_name(aggregate).await?,
        };
        let order = RefundOrder {
            id: refund.id,
            amount: refund.amount,
            reason: refund.reason().map(str::to_owned),
            asked_at: refund.created_at,
            reference: refund.reference.clone(),
        };
        let since = Instant::now();
        let answer = self
            .ask_module(&module, &access, &paid, &order, query)
            .await;
        let has_answer = !matches!(
            answer,
            RefundAnswer::Unavailable(_) | RefundAnswer::Uncertain(_)
        );
        if has_answer || access.contact.failure().is_some() {
            self.measure(attempt, false, has_answer, since.elapsed());
        }
        self.tell_refund_call(attempt, &order, query.is_none(), &answer);
        Ok(answer)
    }

    async fn ask_module(
        &self,
        module: &Arc<dyn Provider>,
        access: &Access,
        paid: &PaidFacts,
        order: &RefundOrder,
        query: Option<RefundQuery>,
    ) -> RefundAnswer {
        let limit = self.settings().provider_deadline;
        let late = || RefundAnswer::Uncertain("no answer in time".to_owned());
        let Some(purpose) = query else {
            let sent = timeout(limit, module.refund(access, paid, order)).await;
            return sent.map_or_else(|_| late(), of_refund);
        };
        let asked = timeout(limit, module.query_refund(access, paid, order, purpose)).await;
        asked.map_or_else(|_| late(), of_query)
    }

    fn tell_refund_call(
        &self,
        attempt: &Attempt,
        order: &RefundOrder,
        send: bool,
        answer: &RefundAnswer,
    ) {
        let (outcome, why) = match answer {
            RefundAnswer::Given(given) => (given.state.as_str(), given.detail.as_str()),
            RefundAnswer::Refused(why) => ("refused", why.as_str()),
            RefundAnswer::Unavailable(why) => ("unavailable", why.as_str()),
            RefundAnswer::Uncertain(why) => ("uncertain", why.as_str()),
            RefundAnswer::Absent => ("absent", ""),
        };
        let call = if send { "send" } else { "query" };
        metrics::counter!(
            "kassette_refunds_total",
            "provider" => attempt.account.as_str().to_owned(),
            "environment" => self.environment_of(&attempt.account), "outcome" => outcome
        )
        .increment(1);
        if let Some(left_out) = self.inner.lines.refunds.line() {
            tracing::info!(
                refund.id = %order.id, payment.id = %attempt.payment, provider.id = %attempt.account,
                refund.call = call, refund.outcome = outcome, refund.detail = why, left_out,
                "a call about a refund was answered"
            );
        }
    }
}

/// Bucket that a refund for a work item is paid from. `None` if such an item is not settled by a refund.
const fn bucket_of(kind: WorkKind) -> Option<Bucket> {
    match kind {
        WorkKind::Excess => Some(Bucket::Excess),
        WorkKind::Surplus => Some(Bucket::Surplus),
        WorkKind::Late => Some(Bucket::Late),
        _ => None,
    }
}

/// The attempt whose own money is refunded. For an operator, one with a refundable amount comes first.
fn own_attempt(aggregate: &PaymentAggregate, origin: RefundOrigin) -> Option<&Attempt> {
    let has_own = |attempt: &&Attempt| attempt.refundable(Bucket::Own) > Minor::ZERO;
    let by_operator = origin == RefundOrigin::Operator;
    let own = aggregate
        .attempts
        .iter()
        .filter(|_| by_operator)
        .find(has_own);
    own.or_else(|| aggregate.attempt_to_refund(origin))
}

/// Other ids of an attempt at its provider, newest first.
fn other_references(attempt: &Attempt) -> Vec<String> {
    let older = attempt.references.iter().skip(1);
    let others = attempt.particulars.references.iter().rev();
    older.chain(others).cloned().collect()
}

fn of_refund(answer: Result<Given, RefundFailure>) -> RefundAnswer {
    match answer {
        Ok(given) => RefundAnswer::Given(given),
        Err(RefundFailure::Refused(why)) => RefundAnswer::Refused(why),
        Err(RefundFailure::Unavailable(why)) => RefundAnswer::Unavailable(why),
        Err(RefundFailure::Uncertain(why)) => RefundAnswer::Uncertain(why),
    }
}

fn of_query(answer: Result<Result<Given, QueryFailure>, CallError>) -> RefundAnswer {
    match answer {
        Ok(Ok(given)) => RefundAnswer::Given(given),
        Ok(Err(QueryFailure::Absent)) => RefundAnswer::Absent,
        Ok(Err(QueryFailure::Unavailable(why))) => RefundAnswer::Uncertain(why),
        Err(failed) => RefundAnswer::Uncertain(failed.to_string()),
    }
}
