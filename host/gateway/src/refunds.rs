//! Giving money back: for merchants and operators, and what the reconciler does about it until it is known
//! what became of each refund.

use std::sync::Arc;

use kassette_domain::attempt::Attempt;
use kassette_domain::audit::Audited;
use kassette_domain::id::{AttemptId, MerchantId, PaymentId, RefundId, WorkId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::lifecycle::{NewRefund, PaymentAggregate, RefundAnswer, Refusal, Step};
use kassette_domain::money::Minor;
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::Status;
use kassette_domain::provider::{
    Given, PaidFacts, QueryFailure, RefundFailure, RefundOrder, RefundTerms,
};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::work::WorkKind;
use kassette_runtime::CallError;
use kassette_store::{About, Fault, RefundOrdered, Stepped};
use tokio::time::{Instant, timeout};

use crate::Gateway;
use crate::auth::MerchantCaller;
use crate::modules::{Access, Provider};
use crate::permits::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundAsked {
    /// Minor units of the currency received; none: all that is left.
    pub amount: Option<Minor>,
    /// Makes the request idempotent.
    pub key: Option<IdempotencyKey>,
    /// The merchant's reason, which the payer may see; an operator's is the audit log's alone.
    pub reason: Option<String>,
}

/// Of what an operator gives money back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundOf {
    /// Of a payment: the money that is its own, else what is left of any.
    Payment(PaymentId),
    /// What a line of the work list is about: surplus, late money or an excess.
    Work(WorkId),
}

/// A refund as the interfaces show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRefund {
    pub payment: PaymentId,
    pub refund: Refund,
    /// Of which currency; the vendor's code.
    pub currency: String,
}

/// A refund that was asked for, as it stands after the vendor was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOutcome {
    Created(GivenRefund),
    /// It was asked for before, with the same data.
    Replayed(GivenRefund),
}

/// Why no refund was made. The edge maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    /// The key was revoked meanwhile.
    #[error("the credential is missing, invalid, revoked or expired")]
    KeyRefused,
    /// No such payment of the caller's, or no such line of the work list.
    #[error("payment not found")]
    NotFound,
    #[error(
        "this idempotency key was used before with a different {field}; use a new key for a new refund"
    )]
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The payment, or its account, allows none.
    #[error("{0}")]
    Conflict(Refusal),
    /// The amount is more than is left, or a part where only the whole can be given back.
    #[error("amount: {0}")]
    Amount(Refusal),
    #[error("the line of the work list is done")]
    WorkDone,
    #[error("a line of this kind is not settled by giving money back")]
    NotRefundable,
    /// The account's module did not say what can be given back; nothing was done.
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
            Refusal::MoreThanLeft { .. } | Refusal::WholeOnly { .. } => Self::Amount(refusal),
            refusal => Self::Conflict(refusal),
        }
    }
}

/// Every refund of a payment, the newest first.
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

/// Who asks, with what the store checks again.
struct Asker {
    origin: RefundOrigin,
    authority: Option<TokenHash>,
    audited: Option<Audited>,
}

impl Gateway {
    /// Gives money of a merchant's payment back, at most what is left of the invoice. The answer shows how
    /// far that has come when the vendor has answered, or has not in time.
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
        let status = aggregate.payment.status;
        if status != Status::Completed {
            return Err(Refusal::WrongStatus(status).into());
        }
        self.order(aggregate, asked, None, asker).await
    }

    /// Gives money back for an operator: of any payment with money, or what a line of the work list is
    /// about, which closes with it.
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
        let (payment, line) = match of {
            RefundOf::Payment(payment) => (payment, None),
            RefundOf::Work(id) => {
                let item = self.store().work_item(id).await?;
                let item = item.ok_or(RefundError::NotFound)?;
                let is_money = matches!(
                    item.kind,
                    WorkKind::Surplus | WorkKind::Late | WorkKind::Excess
                );
                let payment = item.payment.filter(|_| is_money);
                let payment = payment.ok_or(RefundError::NotRefundable)?;
                (payment, Some((item.attempt, item.kind, item.amount)))
            }
        };
        let aggregate = self.store().aggregate(About::Payment(payment)).await?;
        let aggregate = aggregate.ok_or(RefundError::NotFound)?;
        self.order(aggregate, asked, line, asker).await
    }

    /// The refunds of a merchant's payment, the newest first; none where the payment is not the merchant's.
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

    /// A refund of a merchant's payment.
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

    /// Orders a refund in the store, then has the vendor make it.
    async fn order(
        &self,
        aggregate: PaymentAggregate,
        asked: RefundAsked,
        line: Option<(AttemptId, WorkKind, Minor)>,
        asker: Asker,
    ) -> Result<RefundOutcome, RefundError> {
        let attempt = match line {
            Some((id, ..)) => aggregate.attempt(id),
            None => aggregate.attempt_to_refund(asker.origin),
        };
        let nothing = Refusal::MoreThanLeft { left: Minor(0) };
        let attempt = attempt.ok_or(nothing)?;
        let is_known = asked.key.is_some() && {
            let has = |refund: &Refund| {
                let ordered = refund.ordered.as_ref();
                ordered.is_some_and(|ordered| ordered.key == asked.key)
            };
            aggregate.refunds().iter().any(|(_, refund)| has(refund))
        };
        // What was done is shown whatever the account can do now.
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
            line: line.map(|(_, kind, amount)| (kind, amount)),
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
            RefundOrdered::LineClosed => return Err(RefundError::WorkDone),
            RefundOrdered::Refused(refusal) => return Err(refusal.into()),
            RefundOrdered::Unknown => return Err(RefundError::NotFound),
        }
        {
            // The reconciler, which finds it due too, waits for the answer.
            let _guard = self.inner.payment_locks.lock(payment).await;
            self.call_about_refund(id).await?;
        }
        self.reconcile_soon(payment);
        let aggregate = self.store().aggregate(About::Refund(id)).await?;
        let aggregate = aggregate.ok_or(RefundError::NotFound)?;
        let (attempt, refund) = aggregate.refund(id).ok_or(RefundError::NotFound)?;
        Ok(RefundOutcome::Created(shown(attempt, refund)))
    }

    /// What can be given back of an attempt's money; none where its account cannot give it back.
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

    /// Sends a refund, or asks the vendor what became of it; false where another task does, or no call may
    /// begin now.
    pub(crate) async fn call_about_refund(&self, id: RefundId) -> Result<bool, Fault> {
        let about = About::Refund(id);
        let Some(aggregate) = self.store().aggregate(about.clone()).await? else {
            return Ok(false);
        };
        let Some((attempt, refund)) = aggregate.refund(id) else {
            return Ok(false);
        };
        let permits = &self.inner.permits;
        let environment = aggregate.payment.environment;
        let permit = permits.acquire(Kind::Query, environment, (&attempt.account).into());
        let Some(_permit) = permit.await else {
            return Ok(false);
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
            return Ok(false);
        }
        let held_by = (self.not_after(held), send);
        let answer = self
            .call_refund(&aggregate, attempt, refund, held_by)
            .await?;
        let step = Step::RefundAnswered {
            refund: id,
            held,
            answer,
        };
        self.step(about, step, None).await?;
        Ok(true)
    }

    /// Calls the module about a refund that is claimed.
    async fn call_refund(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        refund: &Refund,
        (not_after, send): (Instant, bool),
    ) -> Result<RefundAnswer, Fault> {
        let Some((module, mut access)) = self.module_and_access(attempt) else {
            let why = "no module serves the account".to_owned();
            return Ok(match send {
                true => RefundAnswer::Unavailable(why),
                false => RefundAnswer::Uncertain(why),
            });
        };
        access.not_after = Some(not_after);
        let paid = PaidFacts {
            attempt: attempt.id,
            method: attempt.method,
            reference: attempt.reference().unwrap_or_default().to_owned(),
            references: other_references(attempt),
            received: attempt
                .vendor
                .as_ref()
                .map_or(Minor(0), |facts| facts.received),
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
        let answer = self.ask_module(&module, &access, &paid, &order, send).await;
        let worked = !matches!(
            answer,
            RefundAnswer::Unavailable(_) | RefundAnswer::Uncertain(_)
        );
        self.measure(attempt, false, worked, since.elapsed());
        self.tell_refund_call(attempt, &order, send, &answer);
        Ok(answer)
    }

    async fn ask_module(
        &self,
        module: &Arc<dyn Provider>,
        access: &Access,
        paid: &PaidFacts,
        order: &RefundOrder,
        send: bool,
    ) -> RefundAnswer {
        let limit = self.settings().provider_deadline;
        let late = || RefundAnswer::Uncertain("no answer in time".to_owned());
        if send {
            let sent = timeout(limit, module.refund(access, paid, order)).await;
            return sent.map_or_else(|_| late(), of_refund);
        }
        let asked = timeout(limit, module.query_refund(access, paid, order)).await;
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

/// Other ids of an attempt at its vendor, the newest first.
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
