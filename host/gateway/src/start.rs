//! Starting a payment: from a chosen method to a provider's page, with fallback and without a second charge.

mod answer;
mod choose;
mod repeat;
mod run;

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::{AccountId, PaymentId};
use kassette_domain::lifecycle::{ClaimPurpose, PaymentAggregate, StartResult, Step};
use kassette_domain::merchant::Merchant;
use kassette_domain::method::MethodId;
use kassette_domain::payment::Payment;
use kassette_domain::provider::{Payer, PayerAction};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_store::{About, Fault, Stepped};
use tokio::time::{Instant, timeout_at};

use crate::Gateway;
use crate::apply::AttemptClaim;
use crate::permits::{Holder, Kind};

/// The caller of a start, which decides what is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// The API, for a payment created `direct`.
    Api,
    /// The payer on the hosted page.
    Page,
}

/// A start request.
#[derive(Clone, Debug)]
pub struct Start {
    /// The payment. The caller has checked whose it is.
    pub payment: PaymentId,
    pub method: MethodId,
    /// Use only this account, if policy allows it.
    pub provider: Option<AccountId>,
    pub starter: Starter,
    /// On the page: the account whose name and note the payer saw. If another account with a different note
    /// is chosen, the payer sees that first.
    pub seen: Option<AccountId>,
    pub payer: Payer,
}

/// A started payment, with the next step for the payer.
#[derive(Clone, Debug)]
pub struct StartedPayment {
    /// The payment as it is now.
    pub aggregate: PaymentAggregate,
    /// The open attempt, with the payer's next action.
    pub attempt: Attempt,
    /// Address for the payer's browser: the provider's page, or the gateway's own page if the payer must
    /// answer questions, post a form or follow instructions.
    pub redirect_url: String,
}

/// Reason why nothing was started. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("payment not found")]
    NotFound,
    #[error(transparent)]
    Conflict(#[from] NotStartable),
    #[error("payment_method: is not the one fixed at creation")]
    OtherMethod,
    /// A start is in flight, or its outcome is unknown.
    #[error("the outcome of a start is not known yet; call again")]
    Unsettled {
        /// Time after which to call again.
        retry_after: Duration,
    },
    /// The API refuses; the page offers to continue the open attempt.
    #[error("another attempt is open")]
    StillOpen(Box<StartedPayment>),
    #[error("live processing is not approved for this merchant")]
    NotLiveApproved,
    /// The reseller of the payment may no longer act for the merchant.
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    #[error("provider_id: choosing a provider is not allowed by the merchant's routing policy")]
    ProviderChoice,
    #[error(transparent)]
    NotAvailable(#[from] NotAvailable),
    /// The provider or the payer's bank declined. The payment is `created` again.
    #[error("the provider declined the payment")]
    Declined,
    /// Only on the page: the best account changed to one with another note. Show it and ask again.
    #[error("the provider changed")]
    AskAgain(AccountId),
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system")]
    Random,
}

/// Reason why a payment cannot be started, now or at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStartable {
    /// A merchant's or reseller's request for a hosted payment.
    #[error("a hosted payment is started by the payer on its checkout page")]
    Hosted,
    /// The page of a direct payment.
    #[error("the payment's method was chosen by the merchant")]
    Direct,
    /// Its status does not allow it.
    #[error("the payment is neither created nor pending")]
    Status,
    #[error("the payment has expired")]
    Expired,
    /// The payment has the maximum number of attempts, or every account failed.
    #[error("no attempt is left")]
    NoAttemptLeft,
    /// The attempt ended during the start.
    #[error("the attempt is over")]
    AttemptOver,
    /// Answers arrived for an attempt that does not ask for any.
    #[error("no attempt is open")]
    NoAttemptOpen,
}

/// A requested method, account or amount that is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAvailable {
    /// The method does not exist.
    #[error("payment_method: is not a payment method of this interface")]
    UnknownMethod,
    /// No account serves the payment by this method, according to the configuration and the modules.
    #[error("payment_method: is not available for this payment now")]
    Method,
    /// The account that the start names is not eligible.
    #[error("provider_id: is unknown or not available for this payment")]
    Account,
    /// Above the merchant's limit, which was lowered after the payment was created.
    #[error("amount: is over the limit for one payment")]
    OverLimit,
    /// Every eligible account was tried and was unavailable.
    #[error("no provider can take the payment now")]
    NoProvider,
}

impl From<getrandom::Error> for StartError {
    fn from(_: getrandom::Error) -> Self {
        Self::Random
    }
}

/// Time after which to call again if the outcome is unknown (decisions, "start").
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl StartError {
    /// The outcome of a start is not known yet.
    pub(crate) const fn unsettled() -> Self {
        Self::Unsettled {
            retry_after: RETRY_AFTER,
        }
    }
}

/// A running start. This process holds the lock of the payment.
struct Run<'a> {
    gateway: &'a Gateway,
    start: Start,
    deadline: Instant,
}

impl<'a> Run<'a> {
    fn new(gateway: &'a Gateway, start: Start, deadline: Instant) -> Self {
        Self {
            gateway,
            start,
            deadline,
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    async fn merchant(&self, aggregate: &PaymentAggregate) -> Result<Arc<Merchant>, StartError> {
        let id = aggregate.payment.merchant;
        let merchant = self.gateway.cached_merchant(id).await?;
        merchant.ok_or(StartError::NotFound)
    }
}

impl Gateway {
    /// Rejects a method that does not exist, unless it is the payment's own method, whose module may have
    /// been removed since.
    ///
    /// # Errors
    /// [`StartError::NotAvailable`].
    pub fn check_method(
        &self,
        method: MethodId,
        payment: Option<&Payment>,
    ) -> Result<(), StartError> {
        let is_its_own = payment.is_some_and(|payment| payment.method == Some(method));
        if is_its_own || self.knows(method) {
            return Ok(());
        }
        Err(NotAvailable::UnknownMethod.into())
    }

    /// Starts a payment, or continues the open attempt.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(&self, start: Start) -> Result<StartedPayment, StartError> {
        let gateway = self.clone();
        let of = self.store().payment(start.payment).await?;
        let of = of.ok_or(StartError::NotFound)?;
        let holder = Holder {
            account: None,
            merchant: Some(of.merchant),
        };
        let permits = &self.inner.permits;
        let permit = permits.try_acquire(Kind::Request, of.environment, holder);
        let permit = permit.ok_or(Fault::Busy)?;
        self.run_to_end(async move {
            let _permit = permit;
            let payment = start.payment;
            let deadline = Instant::now() + gateway.settings().start_deadline;
            let guard = timeout_at(deadline, gateway.inner.payment_locks.lock(payment)).await;
            let Ok(_guard) = guard else {
                return Err(StartError::unsettled());
            };
            let started = Run::new(&gateway, start, deadline).go().await;
            // Attempts that failed during the start may have to be closed.
            let is_settled = started.as_ref().is_ok_and(|started| {
                let next_action = started.aggregate.next_action(gateway.now());
                next_action.is_none()
            });
            if !is_settled {
                gateway.reconcile_soon(payment);
            }
            started
        })
        .await?
    }

    /// Adds the payer's next address: the provider's page, or the gateway's own page.
    pub(crate) fn started(&self, aggregate: PaymentAggregate, attempt: Attempt) -> StartedPayment {
        let redirect_url = match attempt.action() {
            Some(PayerAction::Redirect(url)) => url.clone(),
            _ => self.checkout_url(&aggregate.payment),
        };
        StartedPayment {
            aggregate,
            attempt,
            redirect_url,
        }
    }

    /// Abandons an open attempt so that the payer can choose another method: it is cancelled at the provider.
    /// Returns the payment afterwards; the attempt is still open if the provider gave no certain answer.
    pub(crate) async fn leave(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        limit: Duration,
    ) -> Result<PaymentAggregate, Fault> {
        let asks = matches!(attempt.action(), Some(PayerAction::Ask(_)));
        if asks && !attempt.stage.is_uncertain() && attempt.references.is_empty() {
            // By the module contract, questions come before anything is created at the provider, so there is
            // nothing to close.
            return self.record_abandoned(aggregate, attempt).await;
        }
        let after = self.close(attempt.id, limit).await?;
        Ok(after.unwrap_or_else(|| aggregate.clone()))
    }

    async fn record_abandoned(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
    ) -> Result<PaymentAggregate, Fault> {
        let AttemptClaim::Taken(_) = self.claim(attempt.id, ClaimPurpose::Cancel).await? else {
            return Ok(aggregate.clone());
        };
        let nothing = Step::Started {
            held: None,
            attempt: attempt.id,
            result: StartResult::Unavailable("the payer chose another way".to_owned()),
            next: None,
        };
        let about = About::Attempt(attempt.id);
        Ok(match self.step(about, nothing, None).await? {
            Stepped::Done { aggregate, .. } => aggregate,
            _ => aggregate.clone(),
        })
    }
}
