//! Merchants.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::brand::Brand;
use crate::id::MerchantId;
use crate::key::Environment;
use crate::money::{Currency, Rate};
use crate::policy::Policy;
use crate::rates::{RateSource, RateTables, TableRef};
use crate::site::VerifiedDomain;
use crate::time::Time;

/// A merchant with all data that its payments depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merchant {
    pub id: MerchantId,
    /// Shown to payers.
    pub name: String,
    /// Whether real processing is approved. Otherwise no live key is issued, and no live payment created or
    /// started.
    pub live_approved: bool,
    /// Its own rates, US dollars per unit, with the time each was set: they take precedence over sources.
    pub rates: BTreeMap<Currency, SetRate>,
    /// Routing and risk.
    pub policy: Policy,
    /// Appearance of its pages.
    pub brand: Brand,
    /// Shop domains under which return URLs are accepted.
    pub domains: Vec<VerifiedDomain>,
    pub created_at: Time,
}

/// A rate and the time at which it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRate {
    pub rate: Rate,
    pub at: Time,
}

/// A known rate for a merchant, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// US dollars per unit.
    pub rate: Rate,
    /// `None` for the merchant's own rate and for the US dollar.
    pub source: Option<RateSource>,
    /// Time at which the merchant's rate was set, or the source's date.
    pub at: Time,
}

impl Quote {
    /// The source's table from which the rate was computed.
    pub fn table(&self) -> Option<TableRef> {
        let date = self.at;
        self.source.map(|source| TableRef { source, date })
    }
}

impl Merchant {
    /// Maximum number of verified domains of a merchant, to keep its record small.
    pub const MAX_DOMAINS: usize = 64;

    /// Default maximum age of a source's rate, if the policy does not set one: a file without updates is a
    /// mistake.
    pub const SOURCE_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Whether it may have keys, and create and start payments, in an environment.
    pub const fn may_use(&self, environment: Environment) -> bool {
        match environment {
            Environment::Test => true,
            Environment::Live => self.live_approved,
        }
    }

    /// The rate to convert with now: the first known rate that is not too old. `None` if there is none.
    pub fn usable_rate(&self, currency: Currency, now: Time, tables: &RateTables) -> Option<Quote> {
        let mut quotes = self.quotes(currency, now, tables);
        quotes.find(|quote| self.is_fresh(quote, now))
    }

    /// All known rates for a currency, regardless of age, in order of preference: the merchant's own, then each
    /// source's, less the margin. The US dollar has the rate 1, which never expires.
    pub fn quotes<'a>(
        &'a self,
        currency: Currency,
        now: Time,
        tables: &'a RateTables,
    ) -> impl Iterator<Item = Quote> + 'a {
        let own = match currency {
            Currency::USD => Some((Rate::ONE, now)),
            _ => self.rates.get(&currency).map(|set| (set.rate, set.at)),
        };
        let own = own.map(|(rate, at)| Quote {
            rate,
            source: None,
            at,
        });
        let margin = self.policy.fx_margin.unwrap_or_default();
        let sources = tables.values().filter_map(move |table| {
            Some(Quote {
                rate: table.rate(currency, margin)?,
                source: Some(table.reference().source),
                at: table.date(currency),
            })
        });
        own.into_iter().chain(sources)
    }

    /// Whether a rate is not older than the policy allows. Without a limit in the policy, a source's rate expires
    /// after [`Self::SOURCE_MAX_AGE`], and the merchant's own never.
    pub fn is_fresh(&self, quote: &Quote, now: Time) -> bool {
        let allowed = self.policy.fx_max_age_seconds.map(Duration::from_secs);
        let oldest = allowed.or(quote.source.map(|_| Self::SOURCE_MAX_AGE));
        oldest.is_none_or(|oldest| now.since(quote.at) <= oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Margin;
    use crate::rates::RateTable;

    fn rate(text: &str) -> Rate {
        Rate::parse(text).unwrap()
    }

    fn merchant() -> Merchant {
        Merchant {
            id: MerchantId(1),
            name: "Demo".into(),
            live_approved: false,
            rates: BTreeMap::from([(
                Currency::EUR,
                SetRate {
                    rate: rate("1.08"),
                    at: Time::from_secs(100),
                },
            )]),
            policy: Policy::default(),
            brand: Default::default(),
            domains: vec![],
            created_at: Time::default(),
        }
    }

    /// A source, its date in seconds, and rates.
    type RateEntry<'a> = (RateSource, u64, &'a [(Currency, &'a str)]);

    fn tables(of: &[RateEntry<'_>]) -> RateTables {
        let table = |(source, date, rates): &RateEntry<'_>| {
            let of = TableRef {
                source: *source,
                date: Time::from_secs(*date),
            };
            let rates = rates.iter().map(|(currency, text)| (*currency, rate(text)));
            (*source, RateTable::of_dollars(of, rates.collect()))
        };
        of.iter().map(table).collect()
    }

    /// The rate and its source.
    fn used(
        merchant: &Merchant,
        currency: Currency,
        now: u64,
        tables: &RateTables,
    ) -> Option<(String, Option<RateSource>)> {
        let quote = merchant.usable_rate(currency, Time::from_secs(now), tables);
        quote.map(|quote| (quote.rate.to_string(), quote.source))
    }

    #[test]
    fn a_rate_ages_only_where_the_policy_says_so() {
        let mut merchant = merchant();
        let none = RateTables::new();
        let usable =
            |merchant: &Merchant, currency, now| used(merchant, currency, now, &none).is_some();
        assert!(usable(&merchant, Currency::EUR, 161));
        merchant.policy.fx_max_age_seconds = Some(60);
        assert!(!usable(&merchant, Currency::EUR, 161));
        assert!(usable(&merchant, Currency::EUR, 160));
        assert_eq!(
            used(&merchant, Currency::USD, 161, &none),
            Some(("1".into(), None))
        );
        assert!(!usable(&merchant, Currency::GBP, 161));
    }

    #[test]
    fn a_sources_rate_is_not_used_after_a_week_unless_the_policy_allows_it() {
        const WEEK: u64 = 7 * 24 * 3600;
        let mut merchant = merchant();
        merchant.rates.clear();
        let tables = tables(&[(RateSource::File, 200, &[(Currency::EUR, "1.1")])]);
        let used = |merchant: &Merchant, now| used(merchant, Currency::EUR, now, &tables);
        assert!(used(&merchant, 200 + WEEK).is_some());
        assert_eq!(used(&merchant, 201 + WEEK), None);
        merchant.policy.fx_max_age_seconds = Some(2 * WEEK);
        assert!(used(&merchant, 201 + WEEK).is_some());
    }

    #[test]
    fn a_rate_jumps_by_more_than_a_fifth() {
        let jumps = |new: &str, old: &str| rate(new).jumps_from(rate(old));
        assert!(!jumps("1.2", "1") && !jumps("0.8", "1"));
        assert!(jumps("1.2000000001", "1") && jumps("0.7999999999", "1"));
        assert!(jumps("108", "1.08") && jumps("9999999999", "0.0000000001"));
    }

    #[test]
    fn the_merchants_own_rate_goes_before_a_sources_and_the_file_before_the_bank() {
        let mut merchant = merchant();
        let tables = tables(&[
            (
                RateSource::File,
                200,
                &[(Currency::EUR, "1.1"), (Currency::AED, "0.27")],
            ),
            (
                RateSource::Ecb,
                150,
                &[
                    (Currency::EUR, "1.2"),
                    (Currency::AED, "0.28"),
                    (Currency::GBP, "1.3"),
                ],
            ),
        ]);
        let used = |merchant: &Merchant, currency| used(merchant, currency, 300, &tables);
        assert_eq!(used(&merchant, Currency::EUR), Some(("1.08".into(), None)));
        assert_eq!(
            used(&merchant, Currency::AED),
            Some(("0.27".into(), Some(RateSource::File)))
        );
        assert_eq!(
            used(&merchant, Currency::GBP),
            Some(("1.3".into(), Some(RateSource::Ecb)))
        );
        merchant.policy.fx_max_age_seconds = Some(150);
        // A rate that is too old counts as missing: the merchant's own, set at time 100, is skipped.
        assert_eq!(
            used(&merchant, Currency::EUR),
            Some(("1.1".into(), Some(RateSource::File)))
        );
        merchant.policy.fx_max_age_seconds = Some(99);
        assert_eq!(used(&merchant, Currency::EUR), None);
        let known: Vec<_> = merchant
            .quotes(Currency::EUR, Time::from_secs(300), &tables)
            .collect();
        assert_eq!(known.len(), 3, "{known:?}");
    }

    #[test]
    fn a_margin_lowers_a_sources_rate_and_never_the_merchants_own() {
        let mut merchant = merchant();
        merchant.policy.fx_margin = Some(Margin::parse("0.02").unwrap());
        let tables = tables(&[(
            RateSource::Ecb,
            1,
            &[(Currency::EUR, "1.2"), (Currency::GBP, "1.25")],
        )]);
        assert_eq!(
            used(&merchant, Currency::EUR, 1, &tables),
            Some(("1.08".into(), None))
        );
        assert_eq!(
            used(&merchant, Currency::GBP, 1, &tables),
            Some(("1.225".into(), Some(RateSource::Ecb)))
        );
        assert_eq!(
            used(&merchant, Currency::USD, 1, &tables),
            Some(("1".into(), None))
        );
    }
}
