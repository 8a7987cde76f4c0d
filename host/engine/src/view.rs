//! Reads from outside the writing thread, on the caller's thread. The reader holds the database's lock, so it
//! never sees part of a group.

use sled::IVec;

use crate::fault::Fault;
use crate::memtable::Memtable;
use crate::rows::{Counter, Touched};
use crate::span::{Key, Order, Span};

/// A read of rows and of the shared state.
pub struct View<'a, Shown> {
    memtable: &'a Memtable,
    shown: &'a Shown,
    counter: Counter,
    /// Whether reads that would have to wait for the disk fail.
    is_of_recent: bool,
}

impl<'a, Shown> View<'a, Shown> {
    /// A view of a memtable that does not change during the read.
    pub fn new(memtable: &'a Memtable, shown: &'a Shown) -> Self {
        Self {
            memtable,
            shown,
            counter: Counter::default(),
            is_of_recent: false,
        }
    }

    /// Turns it into a view that does not access the disk: scans, and rows that were not written recently, give
    /// [`Fault::Busy`].
    pub(crate) fn of_recent(self) -> Self {
        Self {
            is_of_recent: true,
            ..self
        }
    }

    /// The shared part of the state.
    pub const fn shown(&self) -> &'a Shown {
        self.shown
    }

    /// Returns a row, or `None` if there is none.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let row = match self.is_of_recent {
            true => self.memtable.get_recent(key).ok_or(Fault::Busy)?,
            false => self.memtable.get(key)?,
        };
        self.counter.got(key, row.as_ref());
        Ok(row)
    }

    /// Returns up to `limit` rows of a span in ascending order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan_in(span, Order::Keys, limit)
    }

    /// Whether this slice of a read has reached its limit and should end.
    pub fn is_enough(&self) -> bool {
        self.counter.touched().reaches(Touched::BY_READ)
    }

    /// Returns the keys of up to `limit` rows of a span in ascending order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn keys(&self, span: &Span, limit: usize) -> Result<Vec<Key>, Fault> {
        let rows = self.scan(span, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns up to `limit` rows of a span in descending order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn scan_back(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan_in(span, Order::Backwards, limit)
    }

    /// Returns up to `limit` rows of a span in the given order.
    ///
    /// # Errors
    /// The database cannot be read.
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

    /// Rows touched so far.
    pub(crate) const fn touched(&self) -> Touched {
        self.counter.touched()
    }
}
