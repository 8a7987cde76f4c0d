//! Exchange rate tables of all sources, as used by creations and listings.

use std::sync::Arc;

use kassette_domain::merchant::{Merchant, Quote};
use kassette_domain::money::{Currency, Rate};
use kassette_domain::rates::{RateSource, RateTable, RateTables};

use crate::Gateway;

impl Gateway {
    /// The current tables.
    pub fn rates(&self) -> Arc<RateTables> {
        self.inner.rates.load_full()
    }

    /// The rate that an amount of a merchant would be converted with now. `None` without a usable rate.
    pub fn usable_rate(&self, merchant: &Merchant, currency: Currency) -> Option<Quote> {
        merchant.usable_rate(currency, self.now(), &self.inner.rates.load())
    }

    /// Replaces a source's table, and logs this if the tables differ. A rate that jumps is refused, and a previous
    /// rate stays in use.
    pub fn take_rates(&self, table: RateTable) {
        let (of, before) = (table.reference(), self.rates());
        let bank = before.get(&RateSource::Ecb);
        let bank = bank.filter(|_| of.source != RateSource::Ecb);
        let table = table.compared(before.get(&of.source), bank);
        if before.get(&of.source) == Some(&table) {
            return;
        }
        for currency in Currency::ALL {
            if let Some((rate, _)) = table.refused(currency) {
                tracing::error!(
                    rates.source = of.source.as_str(), rates.currency = currency.code(), rates.refused = %rate,
                    "a new exchange rate is refused because it is more than 20 % off the one before: \
                     accept it with `kassette rates accept`, or correct it"
                );
            }
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

    /// Sets the tables that were in use before the last stop, so that new ones are compared with them.
    pub fn recall_rates(&self, tables: RateTables) {
        self.inner.rates.store(Arc::new(tables));
    }

    /// Uses and returns the refused rate of a currency. `None` if there is no refused rate, or if it is not `seen`.
    pub fn accept_rate(
        &self,
        source: RateSource,
        currency: Currency,
        seen: Option<Rate>,
    ) -> Option<Rate> {
        let mut accepted = None;
        self.inner.rates.rcu(|tables| {
            let mut tables = RateTables::clone(tables);
            let table = tables.get_mut(&source);
            let table = table.filter(|table| {
                let refused = table.refused(currency);
                refused.is_some_and(|(rate, _)| seen.is_none_or(|seen| seen == rate))
            });
            accepted = table.and_then(|table| table.accept(currency));
            tables
        });
        accepted
    }

    /// Removes the table of a source that is no longer configured.
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
