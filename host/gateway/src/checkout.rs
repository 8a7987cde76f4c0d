//! The payer's side: the hosted page and the return page.

use kassette_domain::attempt::Attempt;
use kassette_domain::ledger::Ledger;
use kassette_domain::merchant::Merchant;
use kassette_domain::secret::Secret;
use kassette_store::Fault;

use crate::Gateway;
use crate::methods::Offer;
use crate::start::{StartError, StartedPayment};

/// What the hosted page shows.
#[derive(Clone, Debug)]
pub struct CheckoutView {
    /// Whose payment.
    pub merchant: Merchant,
    /// The payment with its attempts; `ledger.open_attempt()` is what can be continued.
    pub ledger: Ledger,
    /// What can be chosen; empty for a direct payment and for one that is over.
    pub offers: Vec<Offer>,
    /// Whether a choice is possible at all now (live approval, status, time).
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
        let _ = token;
        todo!()
    }

    /// The payer answers what the open attempt's module asked; goes on with the start.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn answer(
        &self,
        token: &str,
        answers: Vec<(String, Secret)>,
    ) -> Result<StartedPayment, StartError> {
        let _ = (token, answers);
        todo!()
    }

    /// The payer wants another way: closes the open attempt at the vendor. The ledger afterwards; the
    /// attempt may still be open where the vendor could not be sure.
    ///
    /// # Errors
    /// The store's.
    pub async fn abandon(&self, token: &str) -> Result<Option<Ledger>, Fault> {
        let _ = token;
        todo!()
    }

    /// The payer's browser came back: asks the vendor, at most once per 5 s and attempt, applies the
    /// news, and shows the true state. None for an unknown token.
    ///
    /// # Errors
    /// The store's.
    pub async fn returned(&self, token: &str, query: &str) -> Result<Option<ReturnView>, Fault> {
        let _ = (token, query);
        todo!()
    }
}
