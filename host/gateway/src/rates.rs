//! The sources' tables of exchange rates, as creations and listings read them.

use std::sync::Arc;

use kassette_domain::merchant::{Merchant, Quote};
use kassette_domain::money::Currency;
use kassette_domain::rates::{RateSource, RateTable, RateTables};

use crate::Gateway;

impl Gateway {
    /// The tables of now.
    pub fn rates(&self) -> Arc<RateTables> {
        self.inner.rates.load_full()
    }

    /// The rate that an amount of a merchant's is converted with now; none where there is no usable one.
    pub fn usable_rate(&self, merchant: &Merchant, currency: Currency) -> Option<Quote> {
        merchant.usable_rate(currency, self.now(), &self.inner.rates.load())
    }

    /// Takes a source's table over, in the place of the one before it, and says so in the log where it is
    /// another.
    pub fn take_rates(&self, table: RateTable) {
        let of = table.of();
        if self.rates().get(&of.source) == Some(&table) {
            return;
        }
        let missing = Currency::ALL
            .into_iter()
            .filter(|currency| !table.has(*currency));
        let missing: Vec<_> = missing.map(Currency::code).collect();
        self.inner.rates.rcu(|tables| {
            let mut tables = RateTables::clone(tables);
            tables.insert(of.source, table.clone());
            tables
        });
        tracing::info!(
            rates.source = of.source.as_str(),
            rates.date = %of.date,
            rates.currencies = Currency::ALL.len() - missing.len(),
            rates.missing = missing.join(" "),
            "exchange rates were taken over"
        );
    }

    /// Forgets a source's table: it is not configured any more.
    pub fn drop_rates(&self, source: RateSource) {
        if !self.rates().contains_key(&source) {
            return;
        }
        self.inner.rates.rcu(|tables| {
            let mut tables = RateTables::clone(tables);
            tables.remove(&source);
            tables
        });
        tracing::info!(
            rates.source = source.as_str(),
            "exchange rates are not used any more"
        );
    }
}
