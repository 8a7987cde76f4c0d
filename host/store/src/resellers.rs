//! Resellers, and merchants' delegations to them.

use kassette_domain::audit::{Audited, SYSTEM};
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::{
    DelegatedMerchant, Delegation, DelegationDecision, DelegationStatus,
};
use kassette_domain::id::{InvitationId, MerchantId, ResellerId};
use kassette_domain::invitation::{Invitation, NewInvitation, NotAnswered};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::payment::Payment;
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;

use crate::{Listed, Paging, StoreFuture};

/// An invitation with the resulting status of its reseller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationStanding {
    pub invitation: Invitation,
    /// Status at the requested time.
    pub status: DelegationStatus,
}

/// Result of inviting a merchant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invited {
    New(InvitationStanding),
    /// A repeated request. Contains the invitation in its current state.
    Replay(InvitationStanding),
    /// The reference was used with other data.
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The key of the request is revoked or expired, or its live rollout is off.
    KeyRefused,
    /// The reseller has [`Reseller::MAX_INVITATIONS`].
    TooMany,
}

/// Result of an answer to an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It was accepted. Contains the resulting delegation.
    Accepted(Delegation),
    Declined,
    /// It was not answered. A wrong code was counted.
    Not(NotAnswered),
    /// No invitation has the token.
    Unknown,
}

/// Number of expired consent codes that issuing one removes. More than one, so that their number never grows.
pub(crate) const MAX_SWEPT: u32 = 16;

/// Resellers, their invitations, delegations and payments.
pub trait Resellers: Send + Sync {
    /// Creates a reseller with its live rollout off. The store assigns its number, and sets the audit line's
    /// object to `reseller/<number>`.
    fn create_reseller(
        &self,
        name: String,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Reseller>;
    /// Returns a reseller by its number.
    fn reseller(&self, id: ResellerId) -> StoreFuture<'_, Option<Reseller>>;
    /// Lists resellers, newest first.
    fn resellers(&self, paging: Paging) -> StoreFuture<'_, Listed<Reseller>>;
    /// Switches a reseller's live rollout. `None` if the reseller does not exist. Sets the audit line's
    /// `before` and `after`.
    fn set_live_rollout(
        &self,
        id: ResellerId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Reseller>>;

    /// Writes an invitation, exactly one per reference of the reseller at any concurrency. `authority` is the
    /// key of the request. The transaction checks it and the rollout again.
    fn invite(
        &self,
        new: NewInvitation,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Invited>;
    /// Returns the invitation of a token.
    fn invitation(
        &self,
        token: TokenHash,
        now: Time,
    ) -> StoreFuture<'_, Option<InvitationStanding>>;
    /// Accepts an invitation with the presented consent code: uses up the code and writes the delegation, or
    /// counts a wrong attempt.
    fn accept_invitation(
        &self,
        token: TokenHash,
        presented: Secret,
        now: Time,
    ) -> StoreFuture<'_, Answered>;
    /// Declines the invitation of a token.
    fn decline_invitation(&self, token: TokenHash, now: Time) -> StoreFuture<'_, Answered>;
    /// Writes a consent code. False if the merchant does not exist.
    fn issue_consent_code(
        &self,
        code: ConsentCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, bool>;

    /// Authorizes a reseller for a merchant, or revokes that. `None` if the reseller or merchant
    /// does not exist, or there is nothing to revoke. Sets the audit line's object, `before` and `after`.
    fn set_delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        decision: DelegationDecision,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Delegation>>;
    /// Returns a merchant's delegation to a reseller.
    fn delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
    ) -> StoreFuture<'_, Option<Delegation>>;
    /// Lists the merchants that a reseller has invited or that have authorized it, newest first. A merchant
    /// that has accepted is listed one time, with the invitation that it accepted last.
    fn delegated_merchants(
        &self,
        reseller: ResellerId,
        paging: Paging,
        now: Time,
    ) -> StoreFuture<'_, Listed<DelegatedMerchant>>;

    /// Lists the payments that a reseller created for a merchant in an environment, newest first.
    fn reseller_payments(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        environment: Environment,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Payment>>;
}

/// Audit line about a declined invitation.
pub(crate) fn declined(invitation: &Invitation) -> Audited {
    Audited {
        operator: SYSTEM.into(),
        operator_id: None,
        actor: "whoever holds the invitation's address".into(),
        reason: None,
        action: "invitation.decline".into(),
        object: format!(
            "reseller/{}/invitation/{}",
            invitation.reseller, invitation.id
        ),
        before: Some("{\"status\":\"invited\"}".into()),
        after: Some("{\"status\":\"declined\"}".into()),
    }
}

/// Audit line about an accepted invitation. [`kassette_domain::delegation::told`] sets the other fields.
pub(crate) fn accepted_by(merchant: MerchantId, invitation: InvitationId) -> Audited {
    Audited {
        operator: SYSTEM.into(),
        operator_id: None,
        actor: format!("merchant/{merchant}"),
        reason: Some(format!(
            "accepted the invitation {invitation} with a consent code"
        )),
        action: "delegation.authorize".into(),
        object: String::new(),
        before: None,
        after: None,
    }
}
