//! A provider's callback: verify, read, store, then answer.

use kassette_domain::id::AccountId;
use kassette_domain::provider::Incoming;

use crate::Gateway;

/// What the provider gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAnswer {
    /// HTTP status.
    pub status: u16,
    /// Media type of the body.
    pub media_type: String,
    /// A short text; empty for none.
    pub body: String,
}

impl Gateway {
    /// Handles a request to `/callbacks/{account}`. Answers 404 for an unknown account, 401 for a
    /// forged and 400 for a malformed one, 503 or 500 where the vendor should repeat it, else what
    /// the module says, after its news is stored.
    pub async fn callback(&self, account: &AccountId, incoming: Incoming) -> CallbackAnswer {
        let _ = (account, incoming);
        todo!()
    }
}
