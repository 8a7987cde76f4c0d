//! Reading a payment: only for its own merchant, in its own environment.

use std::sync::Arc;

use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::payment::Payment;
use kassette_store::{Fault, History};

use crate::Gateway;

impl Gateway {
    /// Returns a payment of a merchant in an environment. `None` if it does not exist or belongs to another
    /// merchant or environment.
    ///
    /// # Errors
    /// The store's.
    pub async fn payment_of(
        &self,
        merchant: MerchantId,
        environment: Environment,
        id: PaymentId,
    ) -> Result<Option<Arc<Payment>>, Fault> {
        let payment = self.store().payment(id).await?;
        Ok(payment.filter(|found| found.merchant == merchant && found.environment == environment))
    }

    /// Returns the same payment with its full history.
    ///
    /// # Errors
    /// The store's.
    pub async fn history_of(
        &self,
        merchant: MerchantId,
        environment: Environment,
        id: PaymentId,
    ) -> Result<Option<History>, Fault> {
        let history = self.store().history(id).await?;
        Ok(history.filter(|found| {
            let payment = &found.aggregate.payment;
            (payment.merchant, payment.environment) == (merchant, environment)
        }))
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
