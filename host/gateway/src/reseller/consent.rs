//! Consent codes: an operator hands one to a merchant, who uses it to accept an invitation.

use kassette_domain::audit::Audited;
use kassette_domain::consent::ConsentCode;
use kassette_domain::id::MerchantId;
use kassette_domain::key::TokenKind;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_store::Fault;

use crate::Gateway;

/// A consent code. Shown only here.
#[derive(Clone, Debug)]
pub struct IssuedConsentCode {
    /// `km_…`
    pub code: Secret,
    /// Time at which the code expires.
    pub expires_at: Time,
}

/// Reason why no consent code was issued.
#[derive(Debug, thiserror::Error)]
pub enum ConsentError {
    #[error("merchant not found")]
    NoSuchMerchant,
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Store(#[from] Fault),
}

impl Gateway {
    /// Issues a consent code to a merchant.
    ///
    /// # Errors
    /// See [`ConsentError`].
    pub async fn issue_consent_code(
        &self,
        merchant: MerchantId,
        audited: Audited,
    ) -> Result<IssuedConsentCode, ConsentError> {
        let shown = TokenKind::Consent.generate(getrandom::fill)?;
        let now = self.now();
        let code = ConsentCode::new(&shown, merchant, now);
        let expires_at = code.expires_at;
        match self.store().issue_consent_code(code, audited, now).await? {
            true => Ok(IssuedConsentCode {
                code: shown,
                expires_at,
            }),
            false => Err(ConsentError::NoSuchMerchant),
        }
    }
}
