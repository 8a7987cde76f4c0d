//! Inviting a merchant, and the merchant's answer.

use std::sync::Arc;

use kassette_domain::id::InvitationId;
use kassette_domain::invitation::{Invitation, InvitationRequest, NewInvitation};
use kassette_domain::key::TokenHash;
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_store::{Answered, Fault, InvitationStanding, Invited};

use crate::Gateway;
use crate::auth::ResellerCaller;

/// Result of an invitation request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InviteOutcome {
    Invited(InvitationStanding),
    /// The invitation of an earlier request with the same data, in its current state.
    Replayed(InvitationStanding),
}

/// Reason why no merchant was invited. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    /// The key was revoked, or the live rollout switched off, after the request was authenticated.
    #[error("the credential is missing, invalid, revoked or expired")]
    KeyRefused,
    #[error(
        "this client_ref was used before with a different {field}; use a new one for a new invitation"
    )]
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    #[error(
        "client_ref: the reseller has {} invitations, as many as it can; ask the operator",
        Reseller::MAX_INVITATIONS
    )]
    TooMany,
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system")]
    Random,
}

impl From<getrandom::Error> for InviteError {
    fn from(_: getrandom::Error) -> Self {
        Self::Random
    }
}

/// Content of an invitation's page.
#[derive(Clone, Debug)]
pub struct InvitationView {
    pub reseller: Arc<Reseller>,
    /// The invitation with its current state.
    pub standing: InvitationStanding,
}

impl Gateway {
    /// Invites a merchant, or returns the invitation that the same request created earlier.
    /// `request.reseller` is the caller.
    ///
    /// # Errors
    /// See [`InviteError`].
    pub async fn invite(
        &self,
        caller: &ResellerCaller,
        request: InvitationRequest,
    ) -> Result<InviteOutcome, InviteError> {
        let new = NewInvitation {
            id: InvitationId::from_bytes(crate::random()?),
            request,
            token: crate::url_token()?,
        };
        let authority = Some(caller.key.hash);
        let invited = self.store().invite(new, authority, self.now()).await?;
        match invited {
            Invited::New(standing) => Ok(InviteOutcome::Invited(standing)),
            Invited::Replay(standing) => Ok(InviteOutcome::Replayed(standing)),
            Invited::Differs { field } => Err(InviteError::Differs { field }),
            Invited::KeyRefused => Err(InviteError::KeyRefused),
            Invited::TooMany => Err(InviteError::TooMany),
        }
    }

    /// `{public_url}/invitation/<token>`.
    pub fn invitation_url(&self, invitation: &Invitation) -> String {
        let origin = &self.settings().public_url;
        format!("{origin}/invitation/{}", invitation.token.expose())
    }

    /// Returns the page for an invitation's token. `None` for an unknown token. Changes nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn invitation(&self, token: &str) -> Result<Option<InvitationView>, Fault> {
        let hash = TokenHash::hash(token);
        let Some(standing) = self.store().invitation(hash, self.now()).await? else {
            return Ok(None);
        };
        let directory = &self.inner.directory;
        let id = standing.invitation.reseller;
        let reseller = directory.reseller(self.store().as_ref(), id).await?;
        Ok(reseller.map(|reseller| InvitationView { reseller, standing }))
    }

    /// Accepts an invitation with the merchant's consent code.
    ///
    /// # Errors
    /// The store's.
    pub async fn accept_invitation(&self, token: &str, code: Secret) -> Result<Answered, Fault> {
        let hash = TokenHash::hash(token);
        self.store().accept_invitation(hash, code, self.now()).await
    }

    /// Declines an invitation.
    ///
    /// # Errors
    /// The store's.
    pub async fn decline_invitation(&self, token: &str) -> Result<Answered, Fault> {
        let hash = TokenHash::hash(token);
        self.store().decline_invitation(hash, self.now()).await
    }
}
