//! Exchange rates of sources: tables of one date, and rates computed from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::money::{Currency, Margin, Rate};
use crate::time::Time;

/// A source of rates. Earlier variants take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RateSource {
    /// The operator's file.
    File,
    /// The European Central Bank's reference rates.
    Ecb,
}

impl RateSource {
    pub const ALL: [Self; 2] = [Self::File, Self::Ecb];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Ecb => "ecb",
        }
    }
}

/// Identifies the table from which a payment's rate was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRef {
    pub source: RateSource,
    /// Date of the rates, according to the source.
    pub date: Time,
}

/// Dividend and divisor of US dollars per unit, kept separate so that a rate is rounded only once.
type Quotient = (Rate, Rate);

/// A source's rates of one date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateTable {
    of: TableRef,
    quotients: BTreeMap<Currency, Quotient>,
    /// Currencies whose rate is refused because it jumps, with the previous rate, which stays in use, and its date.
    /// `None` without a previous rate.
    refused: BTreeMap<Currency, Option<(Quotient, Time)>>,
    /// Currencies whose rate is the first one and was not compared.
    unchecked: BTreeSet<Currency>,
}

/// A table in euros without US dollars: no rate can be computed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has no rate of USD for a euro, through which all others are made")]
pub struct NoDollars;

/// The current tables, at most one per source.
pub type RateTables = BTreeMap<RateSource, RateTable>;

impl RateTable {
    /// A table of US dollars per unit. It need not contain US dollars.
    pub fn of_dollars(of: TableRef, rates: BTreeMap<Currency, Rate>) -> Self {
        let rates = rates.into_iter();
        Self {
            of,
            quotients: rates
                .map(|(currency, rate)| (currency, (rate, Rate::ONE)))
                .collect(),
            refused: BTreeMap::new(),
            unchecked: BTreeSet::new(),
        }
    }

    /// A table of units per euro, as the European Central Bank publishes it.
    ///
    /// # Errors
    /// [`NoDollars`].
    pub fn of_euros(of: TableRef, units: &BTreeMap<Currency, Rate>) -> Result<Self, NoDollars> {
        let dollars = *units.get(&Currency::USD).ok_or(NoDollars)?;
        let crossed = units
            .iter()
            .map(|(currency, units)| (*currency, (dollars, *units)));
        let mut quotients: BTreeMap<_, _> = crossed.collect();
        quotients.remove(&Currency::USD);
        quotients.insert(Currency::EUR, (dollars, Rate::ONE));
        Ok(Self {
            of,
            quotients,
            refused: BTreeMap::new(),
            unchecked: BTreeSet::new(),
        })
    }

    /// Source and date of the table.
    pub const fn reference(&self) -> TableRef {
        self.of
    }

    /// Compares the table with the source's previous one, or with the European Central Bank's for currencies without a
    /// previous rate. A rate that differs by more than 20 % is refused, and a previous rate stays in use.
    #[must_use]
    pub fn compared(mut self, before: Option<&Self>, bank: Option<&Self>) -> Self {
        for (currency, quotient) in &self.quotients {
            let Some(new) = quotient.0.crossed(quotient.1, Margin::NONE) else {
                continue;
            };
            let used = before.and_then(|before| Some((before, before.used(*currency)?)));
            let earlier = match used {
                Some((_, (used, _))) => used.0.crossed(used.1, Margin::NONE),
                None => bank.and_then(|bank| bank.rate(*currency, Margin::NONE)),
            };
            match earlier {
                None => {
                    self.unchecked.insert(*currency);
                }
                Some(earlier) if new.jumps_from(earlier) => {
                    self.refused.insert(*currency, used.map(|(_, used)| used));
                }
                // The same table, read again.
                Some(earlier) => {
                    let was = used.is_some_and(|(before, _)| before.is_unchecked(*currency));
                    if was && earlier == new {
                        self.unchecked.insert(*currency);
                    }
                }
            }
        }
        self
    }

    /// Uses the refused rate of a currency and returns it. `None` without a refused rate.
    pub fn accept(&mut self, currency: Currency) -> Option<Rate> {
        let (rate, _) = self.refused(currency)?;
        self.refused.remove(&currency);
        Some(rate)
    }

    /// The refused rate of a currency, and its date.
    pub fn refused(&self, currency: Currency) -> Option<(Rate, Time)> {
        self.refused.get(&currency)?;
        let (dividend, divisor) = self.quotients.get(&currency)?;
        Some((dividend.crossed(*divisor, Margin::NONE)?, self.of.date))
    }

    /// Whether a currency's rate is the first one and was not compared.
    pub fn is_unchecked(&self, currency: Currency) -> bool {
        self.unchecked.contains(&currency)
    }

    /// Quotient by which a currency is converted, and its date.
    fn used(&self, currency: Currency) -> Option<(Quotient, Time)> {
        match self.refused.get(&currency) {
            Some(earlier) => *earlier,
            None => Some((*self.quotients.get(&currency)?, self.of.date)),
        }
    }

    /// Date of the rate in use of a currency, or the table's date without one.
    pub fn date(&self, currency: Currency) -> Time {
        self.used(currency).map_or(self.of.date, |(_, date)| date)
    }

    /// US dollars per unit, less a margin. `None` if no rate of the currency is in use, or if it rounds to 0.
    pub fn rate(&self, currency: Currency, margin: Margin) -> Option<Rate> {
        let ((dividend, divisor), _) = self.used(currency)?;
        dividend.crossed(divisor, margin)
    }

    /// Whether an amount of the currency can be converted with the table.
    pub fn has(&self, currency: Currency) -> bool {
        currency == Currency::USD || self.rate(currency, Margin::NONE).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rust_decimal::Decimal;

    const OF: TableRef = TableRef {
        source: RateSource::Ecb,
        date: Time::from_secs(1_000_000),
    };

    fn euros(units: &[(Currency, &str)]) -> Result<RateTable, NoDollars> {
        let units = units.iter();
        let units = units.map(|(currency, units)| (*currency, Rate::parse(units).unwrap()));
        RateTable::of_euros(OF, &units.collect())
    }

    fn rate(table: &RateTable, currency: Currency, margin: &str) -> Option<String> {
        let rate = table.rate(currency, Margin::parse(margin).unwrap());
        rate.map(|rate| rate.to_string())
    }

    #[test]
    fn a_cross_rate_is_made_through_the_euro() {
        let table = euros(&[(Currency::USD, "1.0823"), (Currency::GBP, "0.83245")]).unwrap();
        let found = |currency| rate(&table, currency, "0");
        assert_eq!(found(Currency::EUR).as_deref(), Some("1.0823"));
        // 1.0823 / 0.83245 = 1.30013814643522…
        assert_eq!(found(Currency::GBP).as_deref(), Some("1.3001381464"));
        assert_eq!(found(Currency::AED), None);
        // … × 0.985 = 1.28063607423869…
        let less = rate(&table, Currency::GBP, "0.015");
        assert_eq!(less.as_deref(), Some("1.2806360742"));
        assert!(table.has(Currency::USD) && table.has(Currency::GBP) && !table.has(Currency::AED));
    }

    #[test]
    fn a_table_in_euros_needs_dollars_and_one_in_dollars_is_taken_as_it_is() {
        assert_eq!(euros(&[(Currency::GBP, "0.83")]), Err(NoDollars));
        let aed = Rate::parse("0.2722940776").unwrap();
        let table = RateTable::of_dollars(OF, BTreeMap::from([(Currency::AED, aed)]));
        assert_eq!(table.rate(Currency::AED, Margin::NONE), Some(aed));
        assert_eq!(table.rate(Currency::EUR, Margin::NONE), None);
    }

    #[test]
    fn a_rate_that_jumps_is_refused_until_it_is_accepted() {
        let table = |date, rate: &str| {
            let of = TableRef {
                source: RateSource::File,
                date: Time::from_secs(date),
            };
            let rates = [(Currency::EUR, Rate::parse(rate).unwrap())];
            RateTable::of_dollars(of, BTreeMap::from(rates))
        };
        let used = |table: &RateTable| rate(table, Currency::EUR, "0");
        let first = table(1, "1.00").compared(None, None);
        assert!(
            first.is_unchecked(Currency::EUR),
            "there is nothing to compare with"
        );
        let again = table(1, "1.00").compared(Some(&first), None);
        assert_eq!(again, first, "nor where the same is read again");
        let taken = table(2, "1.20").compared(Some(&first), None);
        assert_eq!(
            used(&taken).as_deref(),
            Some("1.2"),
            "exactly 20 % is taken"
        );
        assert!(!taken.is_unchecked(Currency::EUR));
        let mut refused = table(3, "1.45").compared(Some(&taken), None);
        assert_eq!(used(&refused).as_deref(), Some("1.2"));
        assert_eq!(refused.date(Currency::EUR), Time::from_secs(2), "it ages");
        let jumped = (Rate::parse("1.45").unwrap(), Time::from_secs(3));
        assert_eq!(refused.refused(Currency::EUR), Some(jumped));
        let read_again = table(3, "1.45").compared(Some(&refused), None);
        assert_eq!(read_again, refused);
        let back = table(4, "1.19").compared(Some(&refused), None);
        assert_eq!(
            (used(&back).as_deref(), back.refused(Currency::EUR)),
            (Some("1.19"), None)
        );
        assert_eq!(refused.accept(Currency::EUR), Some(jumped.0));
        assert_eq!(
            (used(&refused).as_deref(), refused.accept(Currency::EUR)),
            (Some("1.45"), None)
        );
        // A first rate is compared with the bank's.
        let odd = table(1, "5.00").compared(None, Some(&taken));
        assert_eq!((used(&odd), odd.is_unchecked(Currency::EUR)), (None, false));
        assert!(odd.refused(Currency::EUR).is_some());
    }

    proptest! {
        /// Cross rates of two currencies agree with the table, to the last decimals.
        #[test]
        fn cross_rates_agree_with_each_other(
            dollars in 1_u64..1_000_000_000,
            first in 1_u64..1_000_000_000,
            second in 1_u64..1_000_000_000,
        ) {
            let text = |units: u64| format!("{}.{:05}", units / 100_000, units % 100_000);
            let units = [
                (Currency::USD, text(dollars)),
                (Currency::GBP, text(first)),
                (Currency::INR, text(second)),
            ];
            let units: Vec<_> = units.iter().map(|(of, text)| (*of, text.as_str())).collect();
            let table = euros(&units).unwrap();
            let worth = |currency| {
                let rate = rate(&table, currency, "0").unwrap_or_default();
                Decimal::from_str_exact(&rate).unwrap_or_default()
            };
            let [dollars, first, second] = [dollars, first, second].map(|units| {
                Decimal::new(units.try_into().unwrap(), 5)
            });
            prop_assert_eq!(worth(Currency::EUR), dollars);
            // Each rate is off by at most half of its last decimal.
            let half = Decimal::new(5, 11);
            let apart = worth(Currency::GBP) * first - worth(Currency::INR) * second;
            prop_assert!(apart.abs() <= half * (first + second), "{apart}");
        }
    }
}
