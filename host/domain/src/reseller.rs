//! A reseller: who may make payments for merchants that have authorized it.

use serde::{Deserialize, Serialize};

use crate::delegation::{Delegation, DelegationStatus};
use crate::id::ResellerId;
use crate::key::Environment;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reseller {
    pub id: ResellerId,
    /// Shown to merchants that it invites.
    pub name: String,
    /// Whether its live keys open anything. Off until an operator switches it, with a reason.
    pub live_rollout: bool,
    pub created_at: Time,
}

impl Reseller {
    /// Most invitations of one reseller, those that are over too: its list of merchants has no pages.
    pub const MAX_INVITATIONS: u32 = 10_000;

    /// Whether it may work in an environment at all.
    pub const fn may_use(&self, environment: Environment) -> bool {
        match environment {
            Environment::Test => true,
            Environment::Live => self.live_rollout,
        }
    }
}

/// Why a reseller may not do something for a merchant; the words are for the caller. It is not told
/// whether there is such a merchant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResellerNotAllowed {
    /// The merchant never authorized it, or does not any more.
    #[error("the merchant has not authorized this reseller; invite it, or ask it to accept again")]
    NotAuthorized,
    /// Its live rollout is off.
    #[error(
        "live processing is not rolled out for this reseller; use a test key, or ask the operator"
    )]
    NotRolledOut,
    /// The merchant is not approved for live.
    #[error("live payments are not approved for this merchant")]
    NotLiveApproved,
}

/// Whether a reseller may work for a merchant in an environment, as both stand now.
///
/// # Errors
/// Why not: see [`ResellerNotAllowed`].
pub fn may_work(
    reseller: &Reseller,
    delegation: Option<&Delegation>,
    environment: Environment,
) -> Result<(), ResellerNotAllowed> {
    if !reseller.may_use(environment) {
        return Err(ResellerNotAllowed::NotRolledOut);
    }
    match delegation.map(Delegation::status) {
        Some(DelegationStatus::Authorized) => Ok(()),
        _ => Err(ResellerNotAllowed::NotAuthorized),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MerchantId;

    #[test]
    fn a_reseller_works_only_where_it_is_authorized_and_live_only_when_rolled_out() {
        let mut reseller = Reseller {
            id: ResellerId(1),
            name: "Agency".into(),
            live_rollout: false,
            created_at: Time::default(),
        };
        let now = Time::from_secs(9);
        let mut delegation = Delegation::authorized(reseller.id, MerchantId(1), None, now);
        let (test, live) = (Environment::Test, Environment::Live);
        assert_eq!(may_work(&reseller, Some(&delegation), test), Ok(()));
        let no = may_work(&reseller, None, test);
        assert_eq!(no, Err(ResellerNotAllowed::NotAuthorized));
        let no = may_work(&reseller, Some(&delegation), live);
        assert_eq!(no, Err(ResellerNotAllowed::NotRolledOut));
        reseller.live_rollout = true;
        assert_eq!(may_work(&reseller, Some(&delegation), live), Ok(()));
        assert!(delegation.revoke(now));
        for environment in [test, live] {
            let no = may_work(&reseller, Some(&delegation), environment);
            assert_eq!(no, Err(ResellerNotAllowed::NotAuthorized));
        }
    }
}
