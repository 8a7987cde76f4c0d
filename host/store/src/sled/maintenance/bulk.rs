//! Filling a store by way of sled, where rows do not all come in the order of their keys.
//!
//! sled splits a leaf in the middle once it holds more than sixteen rows. Rows that arrive in
//! ascending order therefore leave every leaf half full behind them, for ever. Where every other row
//! of a stretch comes first and the rest afterwards, the second half fills the leaves that the first
//! has left half full. What it leaves behind is several times its rows all the same, and is packed in the
//! end: see `packed`.

use ::sled::{Batch, Db, IVec};

use crate::Fault;
use crate::sled::schema::Key;
use crate::sled::span::engine;

/// Rows that are put in order together: only where two stretches meet a leaf can stay half full.
const STRETCH: usize = 4096;
/// Bytes of rows from which on a stretch ends before that.
const STRETCH_BYTES: usize = 8 << 20;

/// Writes rows that arrive in ascending order.
pub(super) struct Bulk<'a> {
    db: &'a Db,
    stretch: Vec<(Key, IVec)>,
    bytes: usize,
}

impl<'a> Bulk<'a> {
    pub(super) const fn new(db: &'a Db) -> Self {
        Self {
            db,
            stretch: Vec::new(),
            bytes: 0,
        }
    }

    /// The next row.
    pub(super) fn push(&mut self, key: Key, row: IVec) -> Result<(), Fault> {
        self.bytes += key.len() + row.len();
        self.stretch.push((key, row));
        if self.stretch.len() == STRETCH || self.bytes >= STRETCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what has arrived so far.
    pub(super) fn write(&mut self) -> Result<(), Fault> {
        let stretch = std::mem::take(&mut self.stretch);
        self.bytes = 0;
        for first in [0, 1] {
            let mut batch = Batch::default();
            for (key, row) in stretch.iter().skip(first).step_by(2) {
                batch.insert(key.as_slice(), row);
            }
            self.db.apply_batch(batch).map_err(|error| engine(&error))?;
        }
        Ok(())
    }
}
