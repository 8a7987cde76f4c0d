//! Where rows are read and written, with what stands in memory beside them.

use std::ops::Range;

use kassette_domain::id::PaymentId;
use kassette_engine::{IVec, Key, Span};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::memory::{Rows, View};
use super::payment_index::{Fingerprint, Mark, Position};
use super::payment_index_rows::Ids;
use super::records;
use crate::Fault;

/// Where rows are read: in an operation, or from outside.
pub(super) trait Source {
    /// A row as it was written.
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault>;

    /// At most `limit` rows of a span, first to last.
    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault>;

    /// Payments that a fingerprint may stand for: their rows tell.
    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Result<Vec<PaymentId>, Fault>;

    /// Those of some positions of the payment index at which there are payments.
    fn positions(&self, first: Position, count: u16) -> Range<Position>;

    /// A row's value.
    fn load<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, Fault> {
        self.get(key)?
            .map(|row| records::decode(key, &row))
            .transpose()
    }

    /// A row that another row promises.
    fn expect<T: DeserializeOwned>(&self, key: &[u8]) -> Result<T, Fault> {
        self.load(key)?
            .ok_or_else(|| records::damaged(key, "it is missing"))
    }
}

impl Source for Rows<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        Rows::get(self, key)
    }

    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        Rows::scan(self, span, limit)
    }

    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Result<Vec<PaymentId>, Fault> {
        let ours = self.state().entered();
        let ours = ours.filter(|entry| entry.has(mark, fingerprint));
        let mut found: Vec<PaymentId> = ours.map(|entry| entry.id).collect();
        let positions: Vec<_> = self.shown().read().found(mark, fingerprint).collect();
        let mut ids = Ids::default();
        for position in positions {
            found.push(ids.at(self, position)?);
        }
        Ok(found)
    }

    fn positions(&self, first: Position, count: u16) -> Range<Position> {
        self.shown().read().range(first, count)
    }
}

impl Source for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        View::get(self, key)
    }

    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        View::scan(self, span, limit)
    }

    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Result<Vec<PaymentId>, Fault> {
        let positions: Vec<_> = self.shown().read().found(mark, fingerprint).collect();
        let mut ids = Ids::default();
        positions
            .into_iter()
            .map(|position| ids.at(self, position))
            .collect()
    }

    fn positions(&self, first: Position, count: u16) -> Range<Position> {
        self.shown().read().range(first, count)
    }
}

/// Where values are written.
pub(super) trait Save {
    /// Writes a value.
    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault>;
}

impl Save for Rows<'_> {
    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault> {
        let row = records::encode(&key, value)?;
        self.put(key, row);
        Ok(())
    }
}
