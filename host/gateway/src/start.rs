//! Starting: from a chosen method to a vendor's page, with fallback and without a second charge.

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

/// Who starts: decides what is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// The API, for a payment created `direct`.
    Api,
    /// The payer on the hosted page.
    Page,
}

#[derive(Clone, Debug)]
pub struct Start {
    /// Which payment; the caller has checked whose it is.
    pub payment: PaymentId,
    pub method: MethodId,
    /// Through this account and no other, where policy allows it.
    pub provider: Option<AccountId>,
    /// By whom.
    pub starter: Starter,
    /// On the page: the account whose name and note the payer saw. Another note is shown first.
    pub seen: Option<AccountId>,
    /// What is known of the payer.
    pub payer: Payer,
}

#[derive(Clone, Debug)]
pub struct StartedPayment {
    /// As it is now.
    pub aggregate: PaymentAggregate,
    /// The open attempt, with what the payer does next.
    pub attempt: Attempt,
    /// Where the payer's browser goes: the vendor's address, or our own page where the payer must
    /// answer, post a form or follow instructions.
    pub redirect_url: String,
}

/// Why nothing was started. The edge maps each to HTTP.
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
        /// When to call again.
        retry_after: Duration,
    },
    /// The API refuses; the page offers to continue the open attempt.
    #[error("another attempt is open")]
    StillOpen(Box<StartedPayment>),
    #[error("live processing is not approved for this merchant")]
    NotLiveApproved,
    /// The reseller whose payment it is may not work for the merchant any more.
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    #[error("provider_id: choosing a provider is not allowed by the merchant's routing policy")]
    ProviderChoice,
    #[error(transparent)]
    NotAvailable(#[from] NotAvailable),
    /// The vendor or the payer's bank said no; the payment is `created` again.
    #[error("the provider declined the payment")]
    Declined,
    /// The page: the first in rank changed to an account with another note; show it and ask again.
    #[error("the provider changed")]
    AskAgain(AccountId),
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system")]
    Random,
}

/// What about a payment keeps it from being started, now or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStartable {
    /// A merchant's or reseller's call for a hosted payment.
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
    /// As many attempts were made as a payment can have, or each account failed.
    #[error("no attempt is left")]
    NoAttemptLeft,
    /// The attempt ended while it was started.
    #[error("the attempt is over")]
    AttemptOver,
    /// Answers came for an attempt that waits for none.
    #[error("no attempt is open")]
    NoAttemptOpen,
}

/// What a start asked for that is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAvailable {
    /// There is no such method.
    #[error("payment_method: is not a payment method of this interface")]
    UnknownMethod,
    /// No account takes the payment by this method, by what is configured and what modules say.
    #[error("payment_method: is not available for this payment now")]
    Method,
    /// The account that the start names does not.
    #[error("provider_id: is unknown or not available for this payment")]
    Account,
    /// The merchant's limit, lowered since the payment was made.
    #[error("amount: is over the limit for one payment")]
    OverLimit,
    /// Every account that could was tried and could not be reached.
    #[error("no provider can take the payment now")]
    NoProvider,
}

impl From<getrandom::Error> for StartError {
    fn from(_: getrandom::Error) -> Self {
        Self::Random
    }
}

/// When to call again after an outcome that is not known (decisions, "start").
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl StartError {
    /// The outcome is not known yet.
    pub(crate) const fn unsettled() -> Self {
        Self::Unsettled {
            retry_after: RETRY_AFTER,
        }
    }
}

/// A start under way; this process holds the lock of the payment.
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
    /// Refuses a start by a method that there is not, unless it is the one of the payment: that one's
    /// module may be gone since.
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
            // Attempts that failed on the way may have to be closed.
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

    /// Where the payer goes next: the vendor's address, or our own page.
    pub(crate) fn started(&self, aggregate: PaymentAggregate, attempt: Attempt) -> StartedPayment {
        let redirect_url = match &attempt.action {
            Some(PayerAction::Redirect(url)) => url.clone(),
            _ => self.checkout_url(&aggregate.payment),
        };
        StartedPayment {
            aggregate,
            attempt,
            redirect_url,
        }
    }

    /// Leaves an open attempt so that another way can be chosen: the vendor makes sure that it cannot
    /// be paid any more. The payment afterwards; the attempt is still open where the vendor is not sure.
    pub(crate) async fn leave(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        limit: Duration,
    ) -> Result<PaymentAggregate, Fault> {
        let asks = matches!(attempt.action, Some(PayerAction::Ask(_)));
        if asks && !attempt.uncertain && attempt.references.is_empty() {
            // The module asked before it created anything (the contract's word): there is nothing
            // at the vendor that could be closed.
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
