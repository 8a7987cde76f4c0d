//! A merchant as the gateway knows it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::MerchantId;
use crate::money::{Currency, Rate};
use crate::policy::Policy;
use crate::site::VerifiedDomain;
use crate::time::Time;

/// A merchant with everything that decides about its payments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merchant {
    /// Its number.
    pub id: MerchantId,
    /// Shown to payers.
    pub name: String,
    /// Whether real processing is approved. Without it no live key is issued and no live payment
    /// is created or started.
    pub live_approved: bool,
    /// US dollars per unit, with the time each was set.
    pub rates: BTreeMap<Currency, SetRate>,
    /// Routing and risk.
    pub policy: Policy,
    /// Shop domains under which return URLs are accepted.
    pub domains: Vec<VerifiedDomain>,
    /// When it was made.
    pub created_at: Time,
}

/// A rate and when it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRate {
    /// The rate.
    pub rate: Rate,
    /// When.
    pub at: Time,
}

impl Merchant {
    /// Most verified domains of one merchant: a merchant's record stays small.
    pub const MAX_DOMAINS: usize = 64;

    /// The rate to convert with now; none where it is missing or too old. US dollars need none.
    pub fn usable_rate(&self, currency: Currency, now: Time) -> Option<Rate> {
        if currency == Currency::USD {
            return Some(Rate::ONE);
        }
        let set = self.rates.get(&currency)?;
        let fresh = self
            .policy
            .fx_max_age_seconds
            .is_none_or(|seconds| now.since(set.at) <= Duration::from_secs(seconds));
        fresh.then_some(set.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_ages_only_where_the_policy_says_so() {
        let mut merchant = Merchant {
            id: MerchantId(1),
            name: "Demo".into(),
            live_approved: false,
            rates: BTreeMap::from([(
                Currency::EUR,
                SetRate {
                    rate: Rate::parse("1.08").unwrap(),
                    at: Time::from_secs(100),
                },
            )]),
            policy: Policy::default(),
            domains: vec![],
            created_at: Time::default(),
        };
        let later = Time::from_secs(161);
        assert!(merchant.usable_rate(Currency::EUR, later).is_some());
        merchant.policy.fx_max_age_seconds = Some(60);
        assert!(merchant.usable_rate(Currency::EUR, later).is_none());
        assert!(
            merchant
                .usable_rate(Currency::EUR, Time::from_secs(160))
                .is_some()
        );
        assert_eq!(merchant.usable_rate(Currency::USD, later), Some(Rate::ONE));
        assert!(merchant.usable_rate(Currency::GBP, later).is_none());
    }
}
