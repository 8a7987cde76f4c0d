//! Resellers, which make payments for merchants that have authorized them.

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
    /// Whether its live keys can be used. False until an operator enables it, with a reason.
    pub live_rollout: bool,
    pub created_at: Time,
}

impl Reseller {
    /// Maximum number of invitations of a reseller, including ended ones: its list of merchants is not paginated.
    pub const MAX_INVITATIONS: u32 = 10_000;

    /// Whether it may work in an environment.
    pub const fn may_use(&self, environment: Environment) -> bool {
        match environment {
            Environment::Test => true,
            Environment::Live => self.live_rollout,
        }
    }
}

/// Reason why a reseller may not work for a merchant; the messages are for the caller. They do not reveal whether
/// the merchant exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResellerNotAllowed {
    /// The merchant never authorized it, or has revoked that.
    #[error("the merchant has not authorized this reseller; invite it, or ask it to accept again")]
    NotAuthorized,
    /// Its live rollout is off.
    #[error(
        "live processing is not rolled out for this reseller; use a test key, or ask the operator"
    )]
    NotRolledOut,
    /// The merchant's delegation does not include refunds.
    #[error(
        "the merchant does not let this reseller refund; ask the operator to allow refunds in the delegation"
    )]
    RefundsNotAllowed,
    /// The merchant is not approved for live.
    #[error("live payments are not approved for this merchant")]
    NotLiveApproved,
}

/// Checks that a reseller may currently work for a merchant in an environment.
///
/// # Errors
/// See [`ResellerNotAllowed`].
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

/// Checks that a reseller may currently refund the payments that it created for a merchant, also after live
/// approval was withdrawn.
///
/// # Errors
/// See [`ResellerNotAllowed`].
pub fn may_refund(
    reseller: &Reseller,
    delegation: Option<&Delegation>,
    environment: Environment,
) -> Result<(), ResellerNotAllowed> {
    may_work(reseller, delegation, environment)?;
    if delegation.is_some_and(|delegation| delegation.refunds) {
        Ok(())
    } else {
        Err(ResellerNotAllowed::RefundsNotAllowed)
    }
}

/// Checks that a reseller may make payments for a merchant in an environment. `live_approved`: whether the
/// merchant is approved for live.
///
/// # Errors
/// See [`ResellerNotAllowed`].
pub fn may_process(
    reseller: &Reseller,
    delegation: Option<&Delegation>,
    live_approved: bool,
    environment: Environment,
) -> Result<(), ResellerNotAllowed> {
    may_work(reseller, delegation, environment)?;
    match environment {
        Environment::Live if !live_approved => Err(ResellerNotAllowed::NotLiveApproved),
        Environment::Live | Environment::Test => Ok(()),
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
        let process = |approved, world| may_process(&reseller, Some(&delegation), approved, world);
        assert_eq!(process(true, live), Ok(()));
        assert_eq!(process(false, test), Ok(()));
        let no = Err(ResellerNotAllowed::NotLiveApproved);
        assert_eq!(process(false, live), no);
        let no = Err(ResellerNotAllowed::RefundsNotAllowed);
        assert_eq!(may_refund(&reseller, Some(&delegation), live), no);
        delegation.refunds = true;
        assert_eq!(may_refund(&reseller, Some(&delegation), live), Ok(()));
        assert!(delegation.revoke(now));
        for environment in [test, live] {
            let no = may_work(&reseller, Some(&delegation), environment);
            assert_eq!(no, Err(ResellerNotAllowed::NotAuthorized));
            assert_eq!(may_refund(&reseller, Some(&delegation), environment), no);
        }
    }
}
