//! What people at a vendor's dashboard and payers' banks do to payments that were paid.
use crate::{
    account::Unchanged, afterwards::Later, config::SimError, money::Amount, session::Session,
    sim::Sim,
};

impl Sim {
    /// Gives all that is left of a captured payment back, as a person at the vendor's dashboard
    /// would; its callback goes out. The refund's id.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Payment`] where it is not captured;
    /// [`SimError::Books`].
    pub async fn refund(&self, provider_id: &str, reference: &str) -> Result<String, SimError> {
        self.refunded(provider_id, reference, None).await
    }

    /// The same for a part, in minor units of the currency that was received.
    ///
    /// # Errors
    /// As [`Sim::refund`], and where no more than that is left.
    pub async fn refund_part(
        &self,
        provider_id: &str,
        reference: &str,
        amount: u64,
    ) -> Result<String, SimError> {
        self.refunded(provider_id, reference, Some(Amount(amount)))
            .await
    }

    /// Lets a refund that was made come back; its callback goes out.
    ///
    /// # Errors
    /// As [`Sim::refund`], and where there is no such refund or it has failed already.
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

    /// Disputes what is left of a captured payment, as the payer's bank would; its callback goes out. Of
    /// a dispute that is open it goes out again. The dispute's id.
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

    /// Ends the open dispute of a payment for the merchant, or for the payer; its callback goes out.
    ///
    /// # Errors
    /// As [`Sim::refund`], and where none is open.
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
