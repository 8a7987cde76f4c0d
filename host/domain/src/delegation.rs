//! A merchant's word that a reseller may make payments for it.
//!
//! One record for each reseller and merchant, `authorized` or `revoked`. The states before it are an
//! invitation's: see [`crate::invitation`].

use serde::{Deserialize, Serialize};

use crate::audit::Audited;
use crate::id::{InvitationId, MerchantId, ResellerId};
use crate::order::ClientRef;
use crate::time::Time;

/// Where a reseller stands with a merchant (decisions, "Delegation states").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelegationStatus {
    /// Asked, not answered.
    Invited,
    /// The merchant, or an operator for it, said yes.
    Authorized,
    Declined,
    /// The merchant did not answer in time.
    Expired,
    Revoked,
}

impl DelegationStatus {
    pub const ALL: [Self; 5] = [
        Self::Invited,
        Self::Authorized,
        Self::Declined,
        Self::Expired,
        Self::Revoked,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invited => "invited",
            Self::Authorized => "authorized",
            Self::Declined => "declined",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Reads a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// What a merchant has granted to a reseller. Holds in both environments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// To whom.
    pub reseller: ResellerId,
    /// By whom.
    pub merchant: MerchantId,
    /// The invitation that was accepted last; none where only an operator ever authorized.
    pub invitation: Option<InvitationId>,
    /// When it was first granted.
    pub created_at: Time,
    /// Since when it holds, or when it began to hold last.
    pub authorized_at: Time,
    /// Since when it does not hold any more.
    pub revoked_at: Option<Time>,
}

impl Delegation {
    /// A first grant.
    pub const fn authorized(
        reseller: ResellerId,
        merchant: MerchantId,
        invitation: Option<InvitationId>,
        now: Time,
    ) -> Self {
        Self {
            reseller,
            merchant,
            invitation,
            created_at: now,
            authorized_at: now,
            revoked_at: None,
        }
    }

    /// `authorized` or `revoked`.
    pub const fn status(&self) -> DelegationStatus {
        match self.revoked_at {
            None => DelegationStatus::Authorized,
            Some(_) => DelegationStatus::Revoked,
        }
    }

    /// Grants it again. An invitation that was accepted is kept in mind even where it held already.
    /// False where nothing changed.
    pub fn authorize(&mut self, invitation: Option<InvitationId>, now: Time) -> bool {
        let again = self.revoked_at.take().is_some();
        if again {
            self.authorized_at = now;
        }
        let other = invitation.is_some() && self.invitation != invitation;
        if other {
            self.invitation = invitation;
        }
        again || other
    }

    /// Takes it back. False where it was already.
    pub fn revoke(&mut self, now: Time) -> bool {
        let held = self.revoked_at.is_none();
        if held {
            self.revoked_at = Some(now);
        }
        held
    }
}

/// A merchant as its reseller sees it: invited, or with what became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedMerchant {
    /// Which; none until it has accepted.
    pub merchant: Option<MerchantId>,
    /// What the reseller calls it; the merchant's own name where it was never invited.
    pub business_name: String,
    /// Where the reseller stands with it.
    pub status: DelegationStatus,
    /// When it authorized the reseller last.
    pub authorized_at: Option<Time>,
    /// The reference of the invitation; none where it was never invited.
    pub client_ref: Option<ClientRef>,
    /// None likewise.
    pub invitation: Option<InvitationId>,
    /// When it was invited, or authorized without that.
    pub created_at: Time,
}

/// The audit line's object, and the state before and after, of a change to where a reseller stands
/// with a merchant: the store alone knows both.
#[must_use]
pub fn told(audited: Audited, before: Option<DelegationStatus>, after: &Delegation) -> Audited {
    let shown = |status: DelegationStatus| format!("{{\"status\":\"{}\"}}", status.as_str());
    Audited {
        object: format!("reseller/{}/delegation/{}", after.reseller, after.merchant),
        before: before.map(shown),
        after: Some(shown(after.status())),
        ..audited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delegation_is_revoked_once_and_granted_again() {
        let (first, second) = (Time::from_secs(1), Time::from_secs(2));
        let mut delegation = Delegation::authorized(ResellerId(1), MerchantId(2), None, first);
        assert!(!delegation.authorize(None, second));
        assert_eq!(delegation.authorized_at, first);
        assert!(delegation.revoke(second) && !delegation.revoke(second));
        assert_eq!(delegation.status(), DelegationStatus::Revoked);
        let invitation = Some(InvitationId::from_bytes([7; 16]));
        assert!(delegation.authorize(invitation, second));
        assert_eq!(delegation.status(), DelegationStatus::Authorized);
        assert_eq!(
            (delegation.authorized_at, delegation.invitation),
            (second, invitation)
        );
        // An operator's word forgets no invitation.
        assert!(!delegation.authorize(None, second));
        assert_eq!(delegation.invitation, invitation);
    }

    #[test]
    fn states_read_back_by_their_names() {
        for status in DelegationStatus::ALL {
            assert_eq!(DelegationStatus::parse(status.as_str()), Some(status));
        }
        assert_eq!(DelegationStatus::parse("Authorized"), None);
    }
}
