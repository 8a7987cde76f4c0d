//! Exchange rates of sources: tables of one date, and what they make of a currency.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::money::{Currency, Margin, Rate};
use crate::time::Time;

/// Whose tables there are; one that stands before another is asked before it.
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

/// A table, as a payment remembers the one that its rate was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRef {
    pub source: RateSource,
    /// Of when, as the source says.
    pub date: Time,
}

/// What a source says of one date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTable {
    of: TableRef,
    /// Dividend and divisor, whose quotient is US dollars per unit. They stay apart so that a rate is
    /// rounded once.
    quotients: BTreeMap<Currency, (Rate, Rate)>,
}

/// A table in euros without US dollars: nothing can be made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has no rate of USD for a euro, through which all others are made")]
pub struct NoDollars;

/// The tables of now, at most one of each source.
pub type RateTables = BTreeMap<RateSource, RateTable>;

impl RateTable {
    /// A table of US dollars per unit. US dollars themselves need no rate.
    pub fn of_dollars(of: TableRef, rates: BTreeMap<Currency, Rate>) -> Self {
        let rates = rates.into_iter();
        Self {
            of,
            quotients: rates
                .map(|(currency, rate)| (currency, (rate, Rate::ONE)))
                .collect(),
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
        Ok(Self { of, quotients })
    }

    /// Whose it is, and of when.
    pub const fn of(&self) -> TableRef {
        self.of
    }

    /// US dollars per unit, less a margin; none where the table does not have the currency, or its rate
    /// rounds to 0.
    pub fn rate(&self, currency: Currency, margin: Margin) -> Option<Rate> {
        let (dividend, divisor) = *self.quotients.get(&currency)?;
        dividend.crossed(divisor, margin)
    }

    /// Whether an amount of the currency can be converted by the table.
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

    proptest! {
        /// Two currencies are worth as much of each other as the table says, to the last decimals.
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
            // Each rate is off by half of its last decimal at most.
            let half = Decimal::new(5, 11);
            let apart = worth(Currency::GBP) * first - worth(Currency::INR) * second;
            prop_assert!(apart.abs() <= half * (first + second), "{apart}");
        }
    }
}
