//! Actions of operators at a provider's dashboard and of payers' banks on paid payments.
use crate::{
    account::Unchanged, afterwards::Later, config::SimError, money::Amount, session::Session,
    sim::Sim,
};

impl Sim {
    /// Refunds the rest of a captured payment, like an operator at the provider's dashboard, and queues the
    /// callback. Returns the refund's id.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Payment`] if it is not captured; [`SimError::Books`].
    pub async fn refund(&self, provider_id: &str, reference: &str) -> Result<String, SimError> {
        self.refunded(provider_id, reference, None).await
    }

    /// Refunds a part, in minor units of the received currency.
    ///
    /// # Errors
    /// As [`Sim::refund`], and if the amount is more than the rest.
    pub async fn refund_part(
        &self,
        provider_id: &str,
        reference: &str,
        amount: u64,
    ) -> Result<String, SimError> {
        self.refunded(provider_id, reference, Some(Amount(amount)))
            .await
    }

    /// Makes a refund fail, and queues the callback.
    ///
    /// # Errors
    /// As [`Sim::refund`], and if the refund does not exist or has failed already.
    pub async fn fail_refund(
        &self,
        provider_id: &str,
        reference: &str,
        refund_id: &str,
    ) -> Result<(), SimError> {
        let id = Some(refund_id.to_owned());
        self.later(provider_id, reference, Later::RefundFails, None, id)
            .await?;
        Ok(())
    }

    /// Disputes the rest of a captured payment, like the payer's bank, and queues the callback; for an open
    /// dispute it queues the callback again. Returns the dispute's id.
    ///
    /// # Errors
    /// As [`Sim::refund`].
    pub async fn dispute(&self, provider_id: &str, reference: &str) -> Result<String, SimError> {
        let session = self
            .later(provider_id, reference, Later::Dispute, None, None)
            .await?;
        let dispute = session.newest_dispute();
        Ok(dispute
            .map(|dispute| dispute.id.clone())
            .unwrap_or_default())
    }

    /// Ends the open dispute of a payment, won or lost by the merchant, and queues the callback.
    ///
    /// # Errors
    /// As [`Sim::refund`], and if there is no open dispute.
    pub async fn end_dispute(
        &self,
        provider_id: &str,
        reference: &str,
        won: bool,
    ) -> Result<(), SimError> {
        let end = if won {
            Later::DisputeWon
        } else {
            Later::DisputeLost
        };
        self.later(provider_id, reference, end, None, None).await?;
        Ok(())
    }

    async fn refunded(
        &self,
        provider_id: &str,
        reference: &str,
        amount: Option<Amount>,
    ) -> Result<String, SimError> {
        let session = self
            .later(provider_id, reference, Later::Refund, amount, None)
            .await?;
        let refund = session.newest_refund();
        Ok(refund.map(|refund| refund.id.clone()).unwrap_or_default())
    }

    async fn later(
        &self,
        provider_id: &str,
        reference: &str,
        later: Later,
        amount: Option<Amount>,
        refund: Option<String>,
    ) -> Result<Session, SimError> {
        let account = self.account(provider_id)?;
        let refused = |reason: &str| SimError::Payment {
            reference: reference.to_owned(),
            reason: reason.to_owned(),
        };
        let changed = account.later(reference.to_owned(), later, amount, refund);
        changed.await.map_err(|unchanged| match unchanged {
            Unchanged::Unknown => refused("unknown"),
            Unchanged::Conflict | Unchanged::Refused => refused("not in a state that allows this"),
            Unchanged::Books(error) => error,
        })
    }
}
