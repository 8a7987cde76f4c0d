//! Reads from outside: straight from the memtable, on the caller. It shows only what is on the disk, and
//! the reader holds the lock of the database, so no group is seen in part.

use sled::IVec;

use crate::fault::Fault;
use crate::memtable::Memtable;
use crate::rows::{Counter, Touched};
use crate::span::{Key, Order, Span};

/// One read from outside, of any number of rows, and of what the state shows beside them.
pub struct View<'a, Shown> {
    memtable: &'a Memtable,
    shown: &'a Shown,
    counter: Counter,
    /// Whether it must not wait for the disk.
    is_of_recent: bool,
}

impl<'a, Shown> View<'a, Shown> {
    /// The rows of a memtable that no group is written to meanwhile.
    pub fn new(memtable: &'a Memtable, shown: &'a Shown) -> Self {
        Self {
            memtable,
            shown,
            counter: Counter::default(),
            is_of_recent: false,
        }
    }

    /// The same without the disk: [`Fault::Busy`] for rows that were not written lately, and for spans.
    pub(crate) fn of_recent(self) -> Self {
        Self {
            is_of_recent: true,
            ..self
        }
    }

    /// What is shown of the state.
    pub const fn shown(&self) -> &'a Shown {
        self.shown
    }

    /// A row as it was written.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let row = match self.is_of_recent {
            true => self.memtable.get_recent(key).ok_or(Fault::Busy)?,
            false => self.memtable.get(key)?,
        };
        self.counter.got(key, row.as_ref());
        Ok(row)
    }

    /// At most `limit` rows of a span, first to last.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan_in(span, Order::Keys, limit)
    }

    /// Whether a read of many parts should let others have their turn.
    pub fn is_enough(&self) -> bool {
        self.counter.touched().reaches(Touched::BY_READ)
    }

    /// Keys of at most `limit` rows of a span, first to last.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn keys(&self, span: &Span, limit: usize) -> Result<Vec<Key>, Fault> {
        let rows = self.scan(span, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    /// At most `limit` rows of a span, last to first.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn scan_back(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan_in(span, Order::Backwards, limit)
    }

    /// At most `limit` rows of a span, in an order.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn scan_in(
        &self,
        span: &Span,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(Key, IVec)>, Fault> {
        if self.is_of_recent {
            return Err(Fault::Busy);
        }
        let found = match order {
            Order::Keys => self.memtable.scan(span, limit)?,
            Order::Backwards => self.memtable.scan_back(span, limit)?,
        };
        self.counter.found(&found);
        Ok(found)
    }

    /// What was touched so far.
    pub(crate) const fn touched(&self) -> Touched {
        self.counter.touched()
    }
}
