//! Rows of the payment index in the database: rows of `reg/` with some dozens of payments each, in order of
//! arrival. Only the last row grows, until it is full. All others never change.

use std::ops::Range;

use kassette_domain::id::PaymentId;
use kassette_domain::time::Time;
use kassette_engine::{Db, Span, Written};

use super::Indexed;
use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Position};
use crate::rows::seal::Sealer;
use crate::rows::source::RowSource;
use crate::sled::memory::payment_index::{Entry, PaymentIndex};

/// Number of payments in a full row. A smaller number means more rows to manage. With a larger one, a single
/// writer would rewrite more data for each payment. (2 KiB: sled puts pages of sixteen rows over 128 KiB into
/// separate files.)
pub(crate) const FULL: usize = 64;
/// [`FULL`] as a position.
const FULL_ROW: Position = FULL as Position;

/// A payment to be entered into the payment index, with its due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) entry: Entry,
    pub(crate) due: Option<Time>,
}

/// The last row of the payment index.
#[derive(Default)]
pub(crate) struct Tail {
    first: Position,
    entries: Vec<Entry>,
}

impl Tail {
    /// Adds the rows of a group's new payments: those of the payment index, and one shared row of `due/`.
    pub(crate) fn write(
        &mut self,
        sealer: &Sealer,
        new: &[Entered],
        rows: &mut Written,
    ) -> Result<(), Fault> {
        let full = || Fault::Unavailable("the store holds as many payments as it can".into());
        let position = |at: usize| Position::try_from(at).map_err(|_| full());
        let first = self.first as usize + self.entries.len();
        if let Some(due) = new.iter().filter_map(|new| new.due).min() {
            let count = u16::try_from(new.len()).map_err(|_| full())?;
            let key = schema::shared_timer(due, position(first)?, count);
            rows.insert(key, Some(kassette_engine::IVec::default()));
        }
        let mut new = new.iter();
        while new.len() > 0 {
            if self.entries.len() == FULL {
                self.first = position(self.first as usize + FULL)?;
                self.entries.clear();
            }
            let room = FULL - self.entries.len();
            self.entries
                .extend(new.by_ref().take(room).map(|new| new.entry.clone()));
            let key = schema::payment_index(self.first);
            let row = records::encode(sealer, &key, &self.entries)?;
            rows.insert(key, Some(row));
        }
        Ok(())
    }
}

/// Looks up the payments at positions.
#[derive(Default)]
pub(crate) struct Ids {
    /// The row that was read last, because requested positions are mostly close together.
    read: Option<(Position, Vec<Entry>)>,
}

impl Ids {
    /// Returns the payment at a position.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] if its row of the payment index is damaged or missing.
    pub(crate) fn at(
        &mut self,
        source: &impl RowSource,
        position: Position,
    ) -> Result<PaymentId, Fault> {
        let first = row_of(position);
        let key = schema::payment_index(first);
        let (_, entries) = match self.read.take() {
            Some(read) if read.0 == first => self.read.insert(read),
            _ => self.read.insert((first, source.expect(&key)?)),
        };
        let entry = entries.get((position - first) as usize);
        let entry = entry.ok_or_else(|| records::damaged(&key, "it is cut off"))?;
        Ok(entry.id)
    }
}

/// The payments at a range of positions, in order, up to the last payment. `None` for a payment whose row of
/// the index is damaged.
pub(crate) fn at_positions(
    source: &impl Indexed,
    first: Position,
    count: u16,
) -> Result<Vec<Option<PaymentId>>, Fault> {
    ids_at(source, source.positions(first, count))
}

/// The payments at consecutive positions. `None` for a payment whose row of the index is damaged or missing.
pub(crate) fn ids_at(
    source: &impl RowSource,
    positions: Range<Position>,
) -> Result<Vec<Option<PaymentId>>, Fault> {
    let mut ids = Vec::new();
    let mut position = positions.start;
    while position < positions.end {
        let first = row_of(position);
        let end = first.saturating_add(FULL_ROW).min(positions.end);
        let entries: Vec<Entry> = match source.expect(&schema::payment_index(first)) {
            Ok(entries) => entries,
            Err(Fault::Corrupt(_)) => Vec::new(),
            Err(fault) => return Err(fault),
        };
        let id = |position| Some(entries.get((position - first) as usize)?.id);
        ids.extend((position..end).map(id));
        position = end;
    }
    Ok(ids)
}

/// The first position of the row that contains a position.
const fn row_of(position: Position) -> Position {
    position - position % FULL_ROW
}

pub(crate) fn load(tree: &Db, sealer: &Sealer) -> Result<(PaymentIndex, Tail), Fault> {
    let mut index = PaymentIndex::default();
    let mut tail = Tail::default();
    let rows = Span::prefix(schema::PAYMENT_INDEX);
    if let Some(last) = rows.iter(tree).next_back() {
        let (key, _) = last.map_err(Fault::database)?;
        let first = key.last_chunk().copied().map_or(0, Position::from_be_bytes);
        index.reserve((first as usize).saturating_add(FULL));
    }
    for row in rows.iter(tree) {
        let (key, row) = row.map_err(Fault::database)?;
        let first = Position::try_from(index.len()).unwrap_or(Position::MAX);
        if tail.entries.len() % FULL != 0 || key[..] != schema::payment_index(first)[..] {
            return Err(records::damaged(&key, "those before it are missing"));
        }
        tail = Tail {
            first,
            entries: records::decode(sealer, &key, &row)?,
        };
        tail.entries.iter().for_each(|entry| index.enter(entry));
    }
    Ok((index, tail))
}
