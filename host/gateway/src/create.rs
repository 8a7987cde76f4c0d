//! Creating a payment.

use kassette_domain::id::{AccountId, PaymentId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::merchant::Merchant;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::payment::{
    CheckoutMode, NewPayment, Payment, Purpose, Request, RoutingDecision,
};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::time::Time;
use kassette_store::{Created, Fault};

use crate::Gateway;
use crate::routing::RankRequest;
use crate::routing_records::DecisionMade;

/// A created payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    Created(Payment),
    /// The payment of an earlier request with the same data.
    Replayed(Payment),
}

/// Reason why no payment was created. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The key was revoked after the request was authenticated.
    #[error("the credential is missing, invalid, revoked or expired")]
    KeyRefused,
    #[error(
        "this idempotency key was used before with a different {field}; use a new key for a new payment"
    )]
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    #[error(
        "this client_ref was used before with a different {field}; use a new one for a new payment"
    )]
    ClientRefDiffers {
        /// The first field that differs.
        field: &'static str,
    },
    /// The reseller may not act for the merchant.
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    #[error("currency: no usable exchange rate for {0}; ask the operator to set one")]
    NoRate(Currency),
    #[error("amount: is worth less than 0.01 USD")]
    TooSmall,
    /// Above the merchant's limit.
    #[error("amount: is over the limit for one payment")]
    OverLimit,
    #[error("return_url: must lie under a verified shop domain of the merchant")]
    UnverifiedReturnUrl,
    #[error("expires_in: must be at most {most} seconds")]
    LivesTooLong { most: u64 },
    #[error("payment_method: is not a payment method of this interface")]
    UnknownMethod,
    /// The method of a direct payment is not eligible now.
    #[error("payment_method: {0}")]
    NotEligible(&'static str),
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system")]
    Random,
}

impl From<getrandom::Error> for CreateError {
    fn from(_: getrandom::Error) -> Self {
        Self::Random
    }
}

impl CreateError {
    /// Explanation for operators.
    pub(crate) fn explanation(&self) -> String {
        match self {
            Self::NoRate(currency) => format!(
                "the merchant has no usable exchange rate for {currency}: see kassette merchant rates"
            ),
            Self::OverLimit => "the amount is over max_usd of the merchant's policy".into(),
            other => other.to_string(),
        }
    }
}

/// Logs at debug level why a payment was refused before routing.
fn tell_refused(merchant: &Merchant, environment: Environment, refused: &CreateError) {
    if matches!(
        refused,
        CreateError::NoRate(_) | CreateError::TooSmall | CreateError::OverLimit
    ) {
        tracing::debug!(
            target: "kassette_gateway::explain",
            {
                merchant.id = %merchant.id, environment = %environment,
                routing.reason = refused.explanation()
            },
            "a payment was refused"
        );
    }
}

impl Gateway {
    /// Creates the payment, or returns the one that the same request created earlier. A replay does not
    /// repeat checks whose result changes with time.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn create(
        &self,
        request: Request,
        authority: Option<TokenHash>,
    ) -> Result<CreateOutcome, CreateError> {
        let unknown = request.method.is_some_and(|method| !self.knows(method));
        if let Some(before) = self.store().replay(request.clone()).await? {
            // The module may have been removed since. Only a new request requires that its method exists.
            return match outcome(before) {
                Err(CreateError::Differs { .. }) if unknown => Err(CreateError::UnknownMethod),
                outcome => outcome,
            };
        }
        if unknown {
            return Err(CreateError::UnknownMethod);
        }
        let merchant = self.cached_merchant(request.merchant).await?;
        // The merchant existed during authentication, and merchants are never removed.
        let merchant = merchant.ok_or(CreateError::KeyRefused)?;
        let (now, environment) = (self.now(), request.environment);
        let checked = self.checked(request, &merchant, now).await;
        let (new, decision) =
            checked.inspect_err(|refused| tell_refused(&merchant, environment, refused))?;
        let created = self.store().create(new, authority, now).await?;
        if let Created::New(payment) = &created {
            if let Some(decision) = decision {
                self.record_decision(decision.for_payment(Some(payment.id)));
            }
            let environment = payment.environment.as_str();
            metrics::counter!("kassette_payments_created_total", "environment" => environment)
                .increment(1);
            self.inner.alarm.due(payment.expires_at);
        }
        outcome(created)
    }

    /// Checks that depend on time, in a fixed order: rate, smallest amount, domain, eligibility, limit.
    async fn checked(
        &self,
        request: Request,
        merchant: &Merchant,
        now: Time,
    ) -> Result<(NewPayment, Option<DecisionMade>), CreateError> {
        let quote = self.usable_rate(merchant, request.due.currency);
        let quote = quote.ok_or(CreateError::NoRate(request.due.currency))?;
        let usd = quote
            .rate
            .usd(request.due.amount)
            .ok_or(CreateError::TooSmall)?;
        let domains = &merchant.domains;
        if let Some(url) = &request.return_url
            && !url.lies_under(domains, self.settings().webhooks.allow_loopback)
        {
            return Err(CreateError::UnverifiedReturnUrl);
        }
        let (life, lifetime) = (self.settings().payment_life, request.extras.lifetime);
        if lifetime.is_asked && lifetime.duration() > life {
            return Err(CreateError::LivesTooLong {
                most: life.as_secs(),
            });
        }
        let life = if lifetime.is_asked {
            lifetime.duration()
        } else {
            life
        };
        let ranked = self.eligible(&request, merchant, usd).await?;
        if merchant.policy.refuses(usd) {
            return Err(CreateError::OverLimit);
        }
        let (decision, made) = ranked.unzip();
        let new = NewPayment {
            id: PaymentId::made_at(now, crate::random()?),
            usd,
            rate: quote.rate,
            rate_table: quote.table(),
            token: crate::url_token()?,
            expires_at: now.after(life),
            risk_review: merchant.policy.wants_review(usd),
            fee_refundable: merchant.policy.platform_fee_refundable,
            decision,
            request,
        };
        Ok((new, made))
    }

    /// Converts an amount into US cents at the rate that a payment would use now. `None` without an amount.
    ///
    /// # Errors
    /// [`CreateError::NoRate`], [`CreateError::TooSmall`] or [`CreateError::OverLimit`]: no method accepts
    /// the payment.
    pub fn usd_now(
        &self,
        merchant: &Merchant,
        amount: Option<Minor>,
        currency: Currency,
    ) -> Result<Option<Minor>, CreateError> {
        let quote = self.usable_rate(merchant, currency);
        let quote = quote.ok_or(CreateError::NoRate(currency))?;
        let Some(amount) = amount else {
            return Ok(None);
        };
        let usd = quote.rate.usd(amount).ok_or(CreateError::TooSmall)?;
        if merchant.policy.refuses(usd) {
            return Err(CreateError::OverLimit);
        }
        Ok(Some(usd))
    }

    /// Checks whether the method of a direct payment can be used now. `None` for other payments.
    async fn eligible(
        &self,
        request: &Request,
        merchant: &Merchant,
        usd: Minor,
    ) -> Result<Option<(RoutingDecision, DecisionMade)>, CreateError> {
        let Some(method) = request
            .method
            .filter(|_| request.mode == CheckoutMode::Direct)
        else {
            return Ok(None);
        };
        let question = RankRequest {
            merchant,
            environment: request.environment,
            amount: Some(request.due.amount),
            currency: request.due.currency,
            usd: Some(usd),
            email_known: request.email.is_some(),
        };
        let what_for = (Purpose::Create, None);
        let ranked = self.rank(method, &question, None, None, what_for).await?;
        match ranked {
            Ok(ranking) => {
                let first: Option<&AccountId> = ranking.eligible().next();
                let decision = |first: &AccountId| {
                    let decision = ranking.decision(first, Purpose::Create, "");
                    let asked = ranking.asked().clone();
                    let made = DecisionMade::new(asked, merchant.id, Purpose::Create);
                    let chosen = decision.chosen.clone();
                    (decision, DecisionMade { chosen, ..made })
                };
                Ok(first.map(decision))
            }
            Err(barred) => {
                self.tell_why_not(method, &question).await;
                Err(CreateError::NotEligible(barred.words()))
            }
        }
    }
}

fn outcome(created: Created) -> Result<CreateOutcome, CreateError> {
    match created {
        Created::New(payment) => Ok(CreateOutcome::Created(payment)),
        Created::Replay(payment) => Ok(CreateOutcome::Replayed(payment)),
        Created::Differs { field } => Err(CreateError::Differs { field }),
        Created::KeyRefused => Err(CreateError::KeyRefused),
        Created::Barred(barred) => Err(barred.into()),
    }
}
