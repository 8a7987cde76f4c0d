//! The payer's side: the hosted page and the return page.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::brand::Logo;
use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{PaymentAggregate, Step, Via};
use kassette_domain::merchant::Merchant;
use kassette_domain::payment::{CheckoutMode, Settlement, Status};
use kassette_domain::provider::PayerAction;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_store::{About, Fault, Stepped};

use crate::Gateway;
use crate::methods::Offer;
use crate::routing::RankRequest;
use crate::start::{StartError, StartedPayment};

/// How long a returning payer waits for the vendor's word before the page shows what is known
/// and looks again by itself.
const RETURN_WAIT: Duration = Duration::from_millis(1500);
/// Longest query of a return that is kept, in bytes: short ids at most vendors, a result of up to some
/// two thousand at Adyen.
const QUERY_MOST: usize = 4096;

/// What the hosted page shows.
#[derive(Clone, Debug)]
pub struct CheckoutView {
    pub merchant: Arc<Merchant>,
    /// The payment with its attempts; `aggregate.open_attempt()` is what can be continued.
    pub aggregate: PaymentAggregate,
    /// What can be chosen; empty for a direct payment and for one that is over.
    pub offers: Vec<Offer>,
    /// Whether a choice is possible at all now (live approval, delegation, status, time).
    pub can_choose: bool,
    /// `return_url`, where it still lies under a verified domain.
    pub back_to_merchant: Option<String>,
}

/// What the return page shows.
#[derive(Clone, Debug)]
pub struct ReturnView {
    /// The attempt that the payer comes back from.
    pub attempt: Attempt,
    /// Everything else.
    pub checkout: CheckoutView,
}

impl Gateway {
    /// The page behind a checkout token; none for an unknown one. Changes nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn checkout(&self, token: &str) -> Result<Option<CheckoutView>, Fault> {
        match self.store().by_checkout(TokenHash::of(token)).await? {
            Some(aggregate) => self.view(aggregate).await,
            None => Ok(None),
        }
    }

    /// The logo on the page behind a checkout token.
    ///
    /// # Errors
    /// The store's.
    pub async fn logo(&self, token: &str) -> Result<Option<Logo>, Fault> {
        let Some(aggregate) = self.store().by_checkout(TokenHash::of(token)).await? else {
            return Ok(None);
        };
        let merchant = self.cached_merchant(aggregate.payment.merchant).await?;
        Ok(merchant.and_then(|merchant| merchant.brand.logo.clone()))
    }

    /// What the pages show of a payment.
    async fn view(&self, aggregate: PaymentAggregate) -> Result<Option<CheckoutView>, Fault> {
        let payment = &aggregate.payment;
        let Some(merchant) = self.cached_merchant(payment.merchant).await? else {
            return Ok(None);
        };
        let payable = matches!(payment.status, Status::Created | Status::Pending);
        let can_choose = payment.mode == CheckoutMode::Hosted
            && payable
            && self.now() < payment.expires_at
            && self.may_start(payment, &merchant).await?;
        let offers = if can_choose {
            let question = RankRequest {
                merchant: &merchant,
                environment: payment.environment,
                amount: Some(payment.due.amount),
                currency: payment.due.currency,
                usd: Some(payment.usd),
                email_known: payment.email.is_some(),
            };
            self.offers(question).await?
        } else {
            Vec::new()
        };
        let url = payment.return_url.as_ref();
        let loopback = self.settings().webhooks.allow_loopback;
        let back = url.filter(|url| url.lies_under(&merchant.domains, loopback));
        Ok(Some(CheckoutView {
            back_to_merchant: back.map(|url| url.as_str().to_owned()),
            merchant,
            aggregate,
            offers,
            can_choose,
        }))
    }

    /// The payer answers what the open attempt's module asked; goes on with the start. Answers that
    /// do not fit the questions leave the attempt asking: the page shows it again.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn answer(
        &self,
        token: &str,
        answers: Vec<(String, Secret)>,
    ) -> Result<StartedPayment, StartError> {
        let aggregate = self.store().by_checkout(TokenHash::of(token)).await?;
        let aggregate = aggregate.ok_or(StartError::NotFound)?;
        let gateway = self.clone();
        self.run_to_end(async move {
            let payment = aggregate.payment.id;
            let answered = gateway.answer_locked(payment, answers).await;
            gateway.reconcile_soon(payment);
            answered
        })
        .await?
    }

    /// The payer wants another way: closes the open attempt at the vendor. The aggregate afterwards; the
    /// attempt may still be open where the vendor could not be sure.
    ///
    /// # Errors
    /// The store's.
    pub async fn abandon(&self, token: &str) -> Result<Option<PaymentAggregate>, Fault> {
        let Some(aggregate) = self.store().by_checkout(TokenHash::of(token)).await? else {
            return Ok(None);
        };
        let gateway = self.clone();
        let payment = aggregate.payment.id;
        self.run_to_end(async move { gateway.abandon_locked(payment).await })
            .await??;
        self.store().aggregate(About::Payment(payment)).await
    }

    async fn abandon_locked(&self, payment: PaymentId) -> Result<(), Fault> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        let aggregate = self.store().aggregate(About::Payment(payment)).await?;
        // Only an unpaid payment is left; what is paid goes its way.
        let unpaid = aggregate.filter(|aggregate| aggregate.payment.status == Status::Pending);
        if let Some(aggregate) = &unpaid
            && let Some(open) = aggregate.open_attempt()
        {
            self.leave(aggregate, open, self.settings().provider_deadline)
                .await?;
        }
        Ok(())
    }

    /// The payer's browser came back: asks the vendor, at most once per 5 s and attempt but for what the
    /// payer brings back, applies the report, and shows the true state. None for an unknown token.
    ///
    /// # Errors
    /// The store's.
    pub async fn returned(&self, token: &str, query: &str) -> Result<Option<ReturnView>, Fault> {
        let hash = TokenHash::of(token);
        let Some((id, aggregate)) = self.store().by_return(hash).await? else {
            return Ok(None);
        };
        let payment = aggregate.payment.id;
        // What the payer brought back may be what the vendor needs to tell more: it counts as a notice.
        let noted = self.note_return(&aggregate, id, query).await?;
        let brings = noted.is_some();
        let aggregate = noted.unwrap_or(aggregate);
        let (now, mut settled) = (self.now(), None);
        if worth_asking(&aggregate, id, now) {
            let spaced = !brings || self.inner.query_throttle.lock().next(id, now) > now;
            let gateway = self.clone();
            let asking = self.run_to_end(async move {
                let after = gateway
                    .query_now(&aggregate, id, Via::Return, spaced)
                    .await?;
                gateway.reconcile(payment, after.map(Box::new)).await
            });
            // What takes longer is seen when the page refreshes itself.
            match tokio::time::timeout(RETURN_WAIT, asking).await {
                Ok(asked) => settled = asked??,
                Err(_) => {
                    tracing::info!(attempt.id = %id, "a payer came back before the vendor knew")
                }
            }
        }
        let shown = match settled {
            Some(settled) => Some(settled),
            None => self.store().aggregate(About::Payment(payment)).await?,
        };
        let Some(aggregate) = shown else {
            return Ok(None);
        };
        let Some(attempt) = aggregate.attempt(id).cloned() else {
            return Ok(None);
        };
        let view = self.view(aggregate).await?;
        Ok(view.map(|checkout| ReturnView { attempt, checkout }))
    }

    /// Keeps the query that the payer came back with, a hint for the module. The payment afterwards; none where
    /// the query is known already.
    async fn note_return(
        &self,
        aggregate: &PaymentAggregate,
        id: AttemptId,
        query: &str,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let known = aggregate
            .attempt(id)
            .and_then(|each| each.returned.as_ref());
        let same = known.is_some_and(|known| known.expose() == query);
        if query.is_empty() || query.len() > QUERY_MOST || same {
            return Ok(None);
        }
        let note = Step::Returned {
            attempt: id,
            query: Secret::new(query),
        };
        Ok(match self.step(About::Attempt(id), note, None).await? {
            Stepped::Done { aggregate, .. } | Stepped::Refused { aggregate, .. } => Some(aggregate),
            Stepped::ReferenceTaken(_) | Stepped::Unknown => None,
        })
    }
}

/// Whether the vendor may know more about an attempt than we do.
fn worth_asking(aggregate: &PaymentAggregate, id: AttemptId, now: Time) -> bool {
    let Some(attempt) = aggregate.attempt(id) else {
        return false;
    };
    let settled = aggregate.payment.settlement != Settlement::Pending;
    match attempt.state {
        AttemptState::Captured => !settled,
        AttemptState::Surplus => false,
        // Nothing is at the vendor yet, or another task is calling it.
        _ => !attempt.is_busy(now) && !matches!(attempt.action, Some(PayerAction::Ask(_))),
    }
}
