//! Creating a payment.

use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::money::Currency;
use kassette_domain::payment::{Payment, Request};
use kassette_store::Fault;

use crate::Gateway;

/// A payment that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It is new.
    Created(Payment),
    /// It was asked for before, with the same data.
    Replayed(Payment),
}

/// Why no payment was created. The edge maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The key was revoked meanwhile: 401.
    #[error("the credential is missing, invalid, revoked or expired")]
    KeyRefused,
    /// The idempotency reference was used with other data: 409.
    #[error(
        "this idempotency key was used before with a different {field}; use a new key for a new payment"
    )]
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// No usable rate: 422.
    #[error("currency: no usable exchange rate for {0}; ask the operator to set one")]
    NoRate(Currency),
    /// The amount converts to less than a cent: 422.
    #[error("amount: is worth less than 0.01 USD")]
    TooSmall,
    /// Over the merchant's limit: 422.
    #[error("amount: is over the limit for one payment")]
    OverLimit,
    /// 422.
    #[error("return_url: must lie under a verified shop domain of the merchant")]
    UnverifiedReturnUrl,
    /// A direct payment's method is not eligible now: 422.
    #[error("payment_method: {0}")]
    NotEligible(&'static str),
    /// 500.
    #[error(transparent)]
    Store(#[from] Fault),
    /// No randomness from the operating system: 500.
    #[error("no randomness from the operating system")]
    Random,
}

impl Gateway {
    /// Creates the payment, or finds the one that the same request made before. A replay re-checks
    /// nothing that changes with time.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn create(
        &self,
        request: Request,
        authority: Option<TokenHash>,
    ) -> Result<CreateOutcome, CreateError> {
        let _ = (request, authority);
        todo!()
    }

    /// A payment of a merchant in an environment; none where it is anybody else's.
    ///
    /// # Errors
    /// The store's.
    pub async fn payment_of(
        &self,
        merchant: MerchantId,
        environment: Environment,
        id: PaymentId,
    ) -> Result<Option<Payment>, Fault> {
        let _ = (merchant, environment, id);
        todo!()
    }

    /// `{public_url}/checkout/<token>`.
    pub fn checkout_url(&self, payment: &Payment) -> String {
        format!(
            "{}/checkout/{}",
            self.settings().public_url,
            payment.token.expose()
        )
    }
}
