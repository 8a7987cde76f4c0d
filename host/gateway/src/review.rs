//! An operator's decisions about a payment.

use kassette_domain::audit::Audited;
use kassette_domain::id::PaymentId;
use kassette_domain::ledger::{Ledger, ReviewDecision};
use kassette_store::Fault;

use crate::Gateway;

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// 404.
    #[error("payment not found")]
    NotFound,
    /// 409.
    #[error("{0}")]
    Conflict(String),
    /// 500.
    #[error(transparent)]
    Store(#[from] Fault),
}

impl Gateway {
    /// Ends a review. An uncaptured authorisation is captured first, or closed on decline.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn review(
        &self,
        payment: PaymentId,
        decision: ReviewDecision,
        audited: Audited,
    ) -> Result<Ledger, DecideError> {
        let _ = (payment, decision, audited);
        todo!()
    }

    /// Calls a payment off; an open attempt is closed first.
    ///
    /// # Errors
    /// See [`DecideError`].
    pub async fn cancel(
        &self,
        payment: PaymentId,
        audited: Audited,
    ) -> Result<Ledger, DecideError> {
        let _ = (payment, audited);
        todo!()
    }
}
