//! Resellers, and what merchants have granted to them.

use kassette_domain::audit::{Audited, SYSTEM};
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::{DelegatedMerchant, Delegation, DelegationStatus};
use kassette_domain::id::{InvitationId, MerchantId, ResellerId};
use kassette_domain::invitation::{Invitation, NewInvitation, NotAnswered};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::payment::Payment;
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;

use crate::{Listed, Paging, StoreFuture};

/// An invitation with where its reseller stands because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationStanding {
    pub invitation: Invitation,
    /// As of the time that was asked for.
    pub status: DelegationStatus,
}

/// What became of an invitation that a reseller asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invited {
    New(InvitationStanding),
    /// The same was asked for before: as it stands now.
    Replay(InvitationStanding),
    /// The reference was used with other data.
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The key that asked is revoked or expired by now, or its live rollout is off.
    KeyRefused,
    /// The reseller has [`Reseller::MAX_INVITATIONS`].
    TooMany,
}

/// What became of an answer to an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It was accepted: what the merchant has granted by that.
    Accepted(Delegation),
    Declined,
    /// Neither. A wrong code was counted.
    Not(NotAnswered),
    /// No invitation has the token.
    Unknown,
}

/// Ended consent codes that one issue takes away; more than one, so that they never grow.
pub(crate) const MAX_SWEPT: u32 = 16;

/// Resellers, their invitations, delegations and payments.
pub trait Resellers: Send + Sync {
    /// Makes a reseller; its live rollout is off. Its number is only known here, so the audit line's
    /// object is set to `reseller/<number>`.
    fn create_reseller(
        &self,
        name: String,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Reseller>;
    /// A reseller by its number.
    fn reseller(&self, id: ResellerId) -> StoreFuture<'_, Option<Reseller>>;
    /// Lists resellers, newest first.
    fn resellers(&self, paging: Paging) -> StoreFuture<'_, Listed<Reseller>>;
    /// Switches a reseller's live rollout; none where there is no such reseller. The audit line's
    /// `before` and `after` are set here.
    fn set_live_rollout(
        &self,
        id: ResellerId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Reseller>>;

    /// Writes an invitation, exactly one for each reference of the reseller at any concurrency.
    /// `authority` is the key that asked; it and the rollout are checked again in the transaction.
    fn invite(
        &self,
        new: NewInvitation,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Invited>;
    /// The invitation that a token opens.
    fn invitation(
        &self,
        token: TokenHash,
        now: Time,
    ) -> StoreFuture<'_, Option<InvitationStanding>>;
    /// Accepts an invitation with a consent code as it was presented: uses the code up and writes
    /// the delegation, or counts a wrong try.
    fn accept_invitation(
        &self,
        token: TokenHash,
        presented: Secret,
        now: Time,
    ) -> StoreFuture<'_, Answered>;
    fn decline_invitation(&self, token: TokenHash, now: Time) -> StoreFuture<'_, Answered>;
    /// Writes a consent code; false where there is no such merchant.
    fn issue_consent_code(
        &self,
        code: ConsentCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, bool>;

    /// Authorizes (`true`) or revokes for a merchant; none where there is no such reseller or
    /// merchant, or nothing to revoke. The audit line's object, `before` and `after` are set here.
    fn set_delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        authorized: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Delegation>>;
    /// What a merchant has granted to a reseller.
    fn delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
    ) -> StoreFuture<'_, Option<Delegation>>;
    /// Lists the merchants that a reseller has invited or that have authorized it, newest first:
    /// each merchant that ever accepted once, with the invitation that it accepted last.
    fn delegated_merchants(
        &self,
        reseller: ResellerId,
        paging: Paging,
        now: Time,
    ) -> StoreFuture<'_, Listed<DelegatedMerchant>>;

    /// Lists the payments that a reseller made for a merchant in an environment, newest first.
    fn reseller_payments(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        environment: Environment,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Payment>>;
}

/// The line of the audit log about an invitation that was declined.
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

/// Who authorized by accepting an invitation; [`kassette_domain::delegation::told`] sets the rest of the line.
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
