//! Use cases of the payer: the hosted page and the return page.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::brand::Logo;
use kassette_domain::extras::{Description, NotesKept};
use kassette_domain::id::{AttemptId, MerchantId, PaymentId};
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

/// Time that a returning payer waits for the provider's answer. After it, the page shows what is known and
/// refreshes automatically.
const RETURN_WAIT: Duration = Duration::from_millis(1500);
/// Maximum length of a stored return query, in bytes. Most providers send short ids; Adyen sends a result of
/// up to about two thousand bytes.
const QUERY_MOST: usize = 4096;

/// Content of the hosted page.
#[derive(Clone, Debug)]
pub struct CheckoutView {
    pub merchant: Arc<Merchant>,
    /// The payment with its attempts. `aggregate.open_attempt()` is the attempt that can be continued.
    pub aggregate: PaymentAggregate,
    /// Methods to choose from. Empty for a direct payment and if no choice is possible.
    pub offers: Vec<Offer>,
    /// Whether the payer can choose a method now (live approval, delegation, status, time).
    pub can_choose: bool,
    /// `return_url`, if it is still under a verified domain.
    pub back_to_merchant: Option<String>,
    /// The merchant's description of what is paid for. `None` if the payment has none, or if it was erased.
    pub description: Option<Description>,
}

/// Content of the return page.
#[derive(Clone, Debug)]
pub struct ReturnView {
    /// The attempt that the payer returns from.
    pub attempt: Attempt,
    /// Content that the hosted page shows too.
    pub checkout: CheckoutView,
}

impl Gateway {
    /// Returns the page for a checkout token. `None` for an unknown token. Changes nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn checkout(&self, token: &str) -> Result<Option<CheckoutView>, Fault> {
        match self.store().by_checkout(TokenHash::hash(token)).await? {
            Some(aggregate) => self.view(aggregate).await,
            None => Ok(None),
        }
    }

    /// Returns the logo for a merchant's pages.
    ///
    /// # Errors
    /// The store's.
    pub async fn logo(&self, merchant: MerchantId) -> Result<Option<Logo>, Fault> {
        let merchant = self.cached_merchant(merchant).await?;
        Ok(merchant.and_then(|merchant| merchant.brand.logo.clone()))
    }

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
        let is_described = |notes: NotesKept| notes.description_mark.is_some() && !notes.is_erased;
        let description = if payment.notes.is_some_and(is_described) {
            let mut notes = self.store().notes(vec![payment.id]).await?;
            notes
                .remove(&payment.id)
                .and_then(|notes| notes.description)
        } else {
            None
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
            description,
        }))
    }

    /// Continues a start with the payer's answers to the questions of the open attempt's module. If the
    /// answers do not fit the questions, the attempt stays unchanged and the page asks again.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn answer(
        &self,
        token: &str,
        answers: Vec<(String, Secret)>,
    ) -> Result<StartedPayment, StartError> {
        let aggregate = self.store().by_checkout(TokenHash::hash(token)).await?;
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

    /// The payer wants another method: closes the open attempt at the provider. Returns the payment
    /// afterwards; the attempt is still open if the provider gave no certain answer. `None` for an unknown
    /// token.
    ///
    /// # Errors
    /// The store's.
    pub async fn abandon(&self, token: &str) -> Result<Option<PaymentAggregate>, Fault> {
        let Some(aggregate) = self.store().by_checkout(TokenHash::hash(token)).await? else {
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
        // Only a pending payment is abandoned. A paid one continues.
        let unpaid = aggregate.filter(|aggregate| aggregate.payment.status == Status::Pending);
        if let Some(aggregate) = &unpaid
            && let Some(open) = aggregate.open_attempt()
        {
            self.leave(aggregate, open, self.settings().provider_deadline)
                .await?;
        }
        Ok(())
    }

    /// Handles the return of the payer's browser: queries the provider, applies the report, and returns the
    /// current state. Queries are at least 5 s apart per attempt, unless the payer brings back a new return
    /// query. `None` for an unknown token.
    ///
    /// # Errors
    /// The store's.
    pub async fn returned(&self, token: &str, query: &str) -> Result<Option<ReturnView>, Fault> {
        let hash = TokenHash::hash(token);
        let Some((id, aggregate)) = self.store().by_return(hash).await? else {
            return Ok(None);
        };
        let payment = aggregate.payment.id;
        // The return query may contain what the provider needs for a final answer, so it counts as a notice.
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
            // If this takes longer, the payer sees the outcome when the page refreshes.
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

    /// Stores the query that the payer returned with, as a hint for the module. Returns the payment
    /// afterwards. `None` if the query is empty, too long or already stored.
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

/// Whether the provider may know more about an attempt than the store.
fn worth_asking(aggregate: &PaymentAggregate, id: AttemptId, now: Time) -> bool {
    let Some(attempt) = aggregate.attempt(id) else {
        return false;
    };
    let settled = aggregate.payment.settlement != Settlement::Pending;
    match attempt.state() {
        AttemptState::Captured => !settled,
        AttemptState::Surplus => false,
        // The provider has nothing yet, or another task is calling it.
        _ => !attempt.is_busy(now) && !matches!(attempt.action(), Some(PayerAction::Ask(_))),
    }
}
