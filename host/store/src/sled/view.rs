//! Reads from outside: straight from the memtable, on the caller. It shows only what is on the disk, and
//! the reader holds the lock of the engine, so no group is seen in part.

use std::ops::Range;

use ::sled::IVec;
use kassette_domain::id::PaymentId;
use parking_lot::RwLock;

use super::memtable::Memtable;
use super::payment_index::period::Period;
use super::payment_index::{Fingerprint, List, Mark, PaymentIndex, Position, Walked};
use super::payment_index_rows::Ids;
use super::rows::{Counter, Touched};
use super::schema::Key;
use super::source::Source;
use super::span::Span;
use crate::Fault;

/// One read from outside, of any number of rows.
pub(super) struct View<'a> {
    memtable: &'a Memtable,
    /// A payment is entered when its row is in the memtable; the reader that finds it here reads that row.
    index: &'a RwLock<PaymentIndex>,
    counter: Counter,
}

impl<'a> View<'a> {
    pub(super) fn new(memtable: &'a Memtable, index: &'a RwLock<PaymentIndex>) -> Self {
        Self {
            memtable,
            index,
            counter: Counter::default(),
        }
    }

    /// Whether a read of many parts should let others have their turn.
    pub(super) fn is_enough(&self) -> bool {
        self.counter.touched().reaches(Touched::BY_READ)
    }

    /// Keys of at most `limit` rows of a span, first to last.
    pub(super) fn keys(&self, span: &Span, limit: usize) -> Result<Vec<Key>, Fault> {
        let rows = self.scan(span, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    /// At most `limit` rows of a span, last to first.
    pub(super) fn scan_back(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        let found = self.memtable.scan_back(span, limit)?;
        self.counter.found(&found);
        Ok(found)
    }

    /// Positions of at most `limit` payments of a list, the newest first; see [`PaymentIndex::listed`].
    pub(super) fn listed(
        &self,
        list: List,
        period: Period,
        after: Option<Position>,
        limit: usize,
    ) -> Walked {
        self.index.read().listed(list, period, after, limit)
    }
}

impl Source for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let row = self.memtable.get(key)?;
        self.counter.got(key, row.as_ref());
        Ok(row)
    }

    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        let found = self.memtable.scan(span, limit)?;
        self.counter.found(&found);
        Ok(found)
    }

    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Result<Vec<PaymentId>, Fault> {
        let positions: Vec<_> = self.index.read().found(mark, fingerprint).collect();
        let mut ids = Ids::default();
        positions
            .into_iter()
            .map(|position| ids.at(self, position))
            .collect()
    }

    fn positions(&self, first: Position, count: u16) -> Range<Position> {
        self.index.read().range(first, count)
    }
}
