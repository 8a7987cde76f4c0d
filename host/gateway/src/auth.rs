//! Who is calling: keys and operator tokens.

use kassette_domain::key::{ApiKey, TokenKind};
use kassette_domain::merchant::Merchant;
use kassette_domain::operator::Operator;
use kassette_store::Fault;

use crate::Gateway;

/// A merchant's request whose key is known and usable.
#[derive(Clone, Debug)]
pub struct MerchantCaller {
    /// The key that was presented.
    pub key: ApiKey,
    /// Whose it is.
    pub merchant: Merchant,
}

/// Why a credential opens nothing.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Missing, malformed, unknown, revoked, expired, or of another kind: 401.
    #[error("the credential is missing, invalid, revoked or expired")]
    Refused,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Fault),
}

impl Gateway {
    /// The caller behind a merchant's key.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for anything but a usable merchant key.
    pub async fn merchant_caller(&self, presented: &str) -> Result<MerchantCaller, AuthError> {
        let _ = (presented, TokenKind::Operator);
        todo!()
    }

    /// The operator behind a token.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for anything but a usable operator token.
    pub async fn operator(&self, presented: &str) -> Result<Operator, AuthError> {
        let _ = presented;
        todo!()
    }
}
