//! A merchant as the gateway knows it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::brand::Brand;
use crate::id::MerchantId;
use crate::money::{Currency, Rate};
use crate::policy::Policy;
use crate::rates::{RateSource, RateTables, TableRef};
use crate::site::VerifiedDomain;
use crate::time::Time;

/// A merchant with everything that decides about its payments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merchant {
    pub id: MerchantId,
    /// Shown to payers.
    pub name: String,
    /// Whether real processing is approved. Without it no live key is issued and no live payment
    /// is created or started.
    pub live_approved: bool,
    /// Its own rates, US dollars per unit, with the time each was set: they go before a source's.
    pub rates: BTreeMap<Currency, SetRate>,
    /// Routing and risk.
    pub policy: Policy,
    /// How its pages look.
    pub brand: Brand,
    /// Shop domains under which return URLs are accepted.
    pub domains: Vec<VerifiedDomain>,
    pub created_at: Time,
}

/// A rate and when it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRate {
    pub rate: Rate,
    pub at: Time,
}

/// A rate that is known for a merchant, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// US dollars per unit.
    pub rate: Rate,
    /// Whose it is; none where it is the merchant's own, or that of the US dollar.
    pub source: Option<RateSource>,
    /// When it was set, or of when its source says it is.
    pub at: Time,
}

impl Quote {
    /// The source's table that it was made from.
    pub fn table(&self) -> Option<TableRef> {
        let date = self.at;
        self.source.map(|source| TableRef { source, date })
    }
}

impl Merchant {
    /// Most verified domains of one merchant: a merchant's record stays small.
    pub const MAX_DOMAINS: usize = 64;

    /// The rate to convert with now: of those that are known the first that is not too old.
    pub fn usable_rate(&self, currency: Currency, now: Time, tables: &RateTables) -> Option<Quote> {
        let mut quotes = self.quotes(currency, now, tables);
        quotes.find(|quote| self.is_fresh(quote, now))
    }

    /// The rates that are known for a currency, whatever their age, in the order in which they are
    /// preferred: the merchant's own, then each source's, less the margin. US dollars are 1 and never age.
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
            let TableRef { source, date } = table.of();
            Some(Quote {
                rate: table.rate(currency, margin)?,
                source: Some(source),
                at: date,
            })
        });
        own.into_iter().chain(sources)
    }

    /// Whether a rate is not older than the policy allows.
    pub fn is_fresh(&self, quote: &Quote, now: Time) -> bool {
        let oldest = self.policy.fx_max_age_seconds.map(Duration::from_secs);
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

    /// The rate and whose it is.
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
        // Too old is as good as missing: its own of 100 gives way.
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
