//! A merchant's permission for a reseller to make payments for it.
//!
//! One record per reseller and merchant, `authorized` or `revoked`. The states before it are an invitation's: see
//! [`crate::invitation`].

use serde::{Deserialize, Serialize};

use crate::audit::Audited;
use crate::id::{InvitationId, MerchantId, ResellerId};
use crate::order::ClientRef;
use crate::time::Time;

/// State between a reseller and a merchant (decisions, "Delegation states").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelegationStatus {
    /// Invited, without a reply.
    Invited,
    /// The merchant, or an operator on its behalf, agreed.
    Authorized,
    Declined,
    /// The merchant did not reply in time.
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

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A merchant's permission for a reseller. Valid in both environments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    pub reseller: ResellerId,
    pub merchant: MerchantId,
    /// The invitation that was accepted last. `None` if only operators authorized.
    pub invitation: Option<InvitationId>,
    /// Time of the first authorization.
    pub created_at: Time,
    /// Start of the current or latest authorization.
    pub authorized_at: Time,
    /// Time at which it was revoked. `None` while it is valid.
    pub revoked_at: Option<Time>,
    /// Whether the reseller may refund the payments that it created. False until an operator allows it, and false
    /// after a revocation.
    pub refunds: bool,
}

/// An operator's decision about a delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationDecision {
    Authorize {
        /// Whether the reseller may refund. `None` leaves that unchanged.
        refunds: Option<bool>,
    },
    /// Also ends the permission to refund.
    Revoke,
}

impl DelegationDecision {
    /// Authorizes without a change to refunds.
    pub const AUTHORIZE: Self = Self::Authorize { refunds: None };
}

impl Delegation {
    /// A first authorization.
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
            refunds: false,
        }
    }

    /// `authorized` or `revoked`.
    pub const fn status(&self) -> DelegationStatus {
        match self.revoked_at {
            None => DelegationStatus::Authorized,
            Some(_) => DelegationStatus::Revoked,
        }
    }

    /// Authorizes again. An accepted invitation is stored even during a valid authorization. Returns false if
    /// nothing changed.
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

    /// Revokes the permission, that to refund included. Returns false if it already was.
    pub fn revoke(&mut self, now: Time) -> bool {
        self.refunds = false;
        let held = self.revoked_at.is_none();
        if held {
            self.revoked_at = Some(now);
        }
        held
    }
}

/// A merchant as its reseller sees it: invited, or with the outcome of the invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedMerchant {
    /// `None` until it has accepted.
    pub merchant: Option<MerchantId>,
    /// The reseller's name for it; the merchant's own name if it was never invited.
    pub business_name: String,
    /// The reseller's state with it.
    pub status: DelegationStatus,
    /// Start of the latest authorization.
    pub authorized_at: Option<Time>,
    /// The invitation's reference. `None` if it was never invited.
    pub client_ref: Option<ClientRef>,
    /// `None` if it was never invited.
    pub invitation: Option<InvitationId>,
    /// Whether the reseller may refund its payments.
    pub refunds: bool,
    /// Time of the invitation, or of the authorization without one.
    pub created_at: Time,
}

/// Completes an audit entry about a delegation with its object and the states before and after, which only the
/// store knows.
#[must_use]
pub fn told(audited: Audited, before: Option<&Delegation>, after: &Delegation) -> Audited {
    let shown = |delegation: &Delegation| {
        let (status, refunds) = (delegation.status().as_str(), delegation.refunds);
        format!("{{\"status\":\"{status}\",\"refunds\":{refunds}}}")
    };
    Audited {
        object: format!("reseller/{}/delegation/{}", after.reseller, after.merchant),
        before: before.map(shown),
        after: Some(shown(after)),
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
        delegation.refunds = true;
        assert!(delegation.revoke(second) && !delegation.revoke(second));
        assert_eq!(delegation.status(), DelegationStatus::Revoked);
        assert!(!delegation.refunds, "it must be allowed anew");
        let invitation = Some(InvitationId::from_bytes([7; 16]));
        assert!(delegation.authorize(invitation, second));
        assert_eq!(delegation.status(), DelegationStatus::Authorized);
        assert!(!delegation.refunds);
        assert_eq!(
            (delegation.authorized_at, delegation.invitation),
            (second, invitation)
        );
        // An operator's authorization does not clear the invitation.
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
