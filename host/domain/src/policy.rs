//! A merchant's policy, set by operators: methods, accounts, limits, risk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::AccountId;
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Margin, Minor};

/// A merchant's routing and risk policy. No reseller can loosen it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Policy by method. An absent method is enabled in test and disabled in live, unless the profile differs.
    pub methods: BTreeMap<MethodId, MethodPolicy>,
    /// Whether a start may name its `provider_id`.
    pub provider_choice: bool,
    /// Maximum amount of a payment, in US cents.
    pub max_usd: Option<Minor>,
    /// Amount above which payments go to review before capture, in US cents.
    pub review_over_usd: Option<Minor>,
    /// Maximum age of a rate, in seconds. `None`: no limit for the merchant's own rates, the default for sources.
    pub fx_max_age_seconds: Option<u64>,
    /// Margin subtracted from rates of sources. `None`: no margin. Stores keep it next to the rest of the policy,
    /// because older records do not contain it.
    #[serde(skip)]
    pub fx_margin: Option<Margin>,
    /// Rate limit of the merchant's keys. `None`: the configured default.
    pub rate_limit: Option<RateLimit>,
    /// Whether the platform credits its fee in proportion to refunds.
    pub platform_fee_refundable: bool,
}

/// A merchant's policy for one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodPolicy {
    /// Whether it may be used at all.
    pub enabled: bool,
    /// Allowed accounts. `None`: all.
    pub providers: Option<Vec<AccountId>>,
    /// Minimum payment in US cents, compared with `usd_amount`.
    pub min: Option<Minor>,
    /// Maximum payment in US cents.
    pub max: Option<Minor>,
}

/// Reason why a merchant's policy does not allow a method for a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disallowed {
    /// It does not contain the method, as required for live payments.
    #[error("the merchant's policy does not enable it for live payments")]
    Absent,
    /// It disables the method.
    #[error("the merchant's policy switches it off")]
    Disabled,
    /// The amount is outside its limits for the method.
    #[error("the amount is outside of the limits in USD of the merchant's policy")]
    Amount,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Sustained requests per second.
    pub per_second: u32,
    /// Maximum number of requests at once.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            per_second: 50,
            burst: 100,
        }
    }
}

impl Policy {
    /// Checks that a method may take a payment of `usd` US cents. `None`: the payer only browses, so limits do not
    /// apply.
    ///
    /// `live_default` is the meaning of an absent method in live: false except under `dev`.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn allows(
        &self,
        method: MethodId,
        environment: Environment,
        usd: Option<Minor>,
        live_default: bool,
    ) -> Result<(), Disallowed> {
        let Some(policy) = self.methods.get(&method) else {
            let is_on = environment == Environment::Test || live_default;
            return is_on.then_some(()).ok_or(Disallowed::Absent);
        };
        let outside = |usd: Minor| {
            policy.min.is_some_and(|least| usd < least) || policy.max.is_some_and(|most| usd > most)
        };
        match policy.enabled {
            false => Err(Disallowed::Disabled),
            true if usd.is_some_and(outside) => Err(Disallowed::Amount),
            true => Ok(()),
        }
    }

    /// Whether an account may take a method.
    pub fn allows_account(&self, method: MethodId, account: &AccountId) -> bool {
        self.methods
            .get(&method)
            .and_then(|policy| policy.providers.as_ref())
            .is_none_or(|allowed| allowed.contains(account))
    }

    /// Whether the amount exceeds the merchant's maximum.
    pub fn refuses(&self, usd: Minor) -> bool {
        self.max_usd.is_some_and(|most| usd > most)
    }

    /// Whether a review is required before the capture.
    pub fn wants_review(&self, usd: Minor) -> bool {
        self.review_over_usd.is_some_and(|most| usd > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_method_is_on_in_test_and_off_in_live() {
        let policy = Policy::default();
        let allows =
            |environment, default| policy.allows(MethodId::Ideal, environment, None, default);
        assert_eq!(allows(Environment::Test, false), Ok(()));
        assert_eq!(allows(Environment::Live, false), Err(Disallowed::Absent));
        assert_eq!(allows(Environment::Live, true), Ok(()));
    }

    #[test]
    fn limits_hold_against_the_dollar_amount_only_where_there_is_one() {
        let mut policy = Policy::default();
        policy.methods.insert(
            MethodId::Ideal,
            MethodPolicy {
                enabled: true,
                providers: None,
                min: Some(Minor(100)),
                max: Some(Minor(200)),
            },
        );
        let allows = |usd| policy.allows(MethodId::Ideal, Environment::Live, usd, false);
        for within in [None, Some(Minor(100)), Some(Minor(200))] {
            assert_eq!(allows(within), Ok(()));
        }
        for outside in [99, 201] {
            assert_eq!(allows(Some(Minor(outside))), Err(Disallowed::Amount));
        }
    }

    #[test]
    fn risk_limits_are_exclusive() {
        let policy = Policy {
            max_usd: Some(Minor(1000)),
            review_over_usd: Some(Minor(500)),
            ..Policy::default()
        };
        assert!(!policy.refuses(Minor(1000)) && policy.refuses(Minor(1001)));
        assert!(!policy.wants_review(Minor(500)) && policy.wants_review(Minor(501)));
    }
}
