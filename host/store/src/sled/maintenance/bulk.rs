//! Filling a new store's database.

use ::sled::{Db, IVec};

use crate::Fault;
use crate::sled::memtable::{EpochRows, put};
use crate::sled::span::engine;

/// Rows that are put in order together: only where two stretches meet a leaf can stay half full.
const STRETCH: usize = 4096;
/// Bytes of rows from which on a stretch ends before that.
const STRETCH_BYTES: usize = 8 << 20;

/// Writes rows and removals, those of one key in the order in which they come.
pub(super) struct Bulk<'a> {
    db: &'a Db,
    stretch: EpochRows,
    bytes: usize,
}

impl<'a> Bulk<'a> {
    pub(super) const fn new(db: &'a Db) -> Self {
        Self {
            db,
            stretch: EpochRows::new(),
            bytes: 0,
        }
    }

    /// The next row; none where one is removed.
    pub(super) fn push(&mut self, key: IVec, row: Option<IVec>) -> Result<(), Fault> {
        self.bytes += key.len() + row.as_ref().map_or(0, |row| row.len());
        self.stretch.insert(key, row);
        if self.stretch.len() == STRETCH || self.bytes >= STRETCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what has arrived so far. A caller that needs it on the disk flushes the database.
    pub(super) fn write(&mut self) -> Result<(), Fault> {
        self.bytes = 0;
        let stretch = std::mem::take(&mut self.stretch);
        put(self.db, &stretch, || {}).map_err(|error| engine(&error))
    }
}
