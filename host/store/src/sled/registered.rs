//! How the register stands in the database: rows of `reg/`, each some dozens of payments that arrived
//! one after the other. The last row grows until it is full; no other is ever written again.

use std::ops::Range;

use ::sled::Tree;
use kassette_domain::id::PaymentId;
use kassette_domain::time::Time;

use super::register::{Entry, Place, Register};
use super::rows::{Source, Span, Written, engine};
use super::{records, schema};
use crate::Fault;

/// Payments of a row that takes no more. With fewer there are more rows to keep track of; with more
/// a lone writer would write more anew for each payment. (2 KiB: sled puts pages of sixteen rows
/// that are over 128 KiB into files of their own.)
pub(super) const FULL: usize = 64;
/// The same, as places count.
const FULL_ROW: Place = FULL as Place;

/// A payment on its way into the register, with the time at which something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entered {
    pub(super) entry: Entry,
    pub(super) due: Option<Time>,
}

/// The last row of the register.
#[derive(Default)]
pub(super) struct Tail {
    first: Place,
    entries: Vec<Entry>,
}

impl Tail {
    /// Adds the rows of a group's new payments: the register's, and one of `due/` for all of them.
    pub(super) fn write(&mut self, new: &[Entered], rows: &mut Written) -> Result<(), Fault> {
        let full = || Fault::Unavailable("the store holds as many payments as it can".into());
        let place = |at: usize| Place::try_from(at).map_err(|_| full());
        let first = self.first as usize + self.entries.len();
        if let Some(due) = new.iter().filter_map(|new| new.due).min() {
            let count = u16::try_from(new.len()).map_err(|_| full())?;
            let key = schema::due_together(due, place(first)?, count);
            rows.insert(key, Some(::sled::IVec::default()));
        }
        let mut new = new.iter();
        while new.len() > 0 {
            if self.entries.len() == FULL {
                self.first = place(self.first as usize + FULL)?;
                self.entries.clear();
            }
            let room = FULL - self.entries.len();
            self.entries
                .extend(new.by_ref().take(room).map(|new| new.entry.clone()));
            let key = schema::registered(self.first);
            let row = records::encode(&key, &self.entries)?;
            rows.insert(key, Some(row));
        }
        Ok(())
    }
}

/// Looks up which payments are at some places.
#[derive(Default)]
pub(super) struct Ids {
    /// The row that was read last: places that are asked for mostly stand beside one another.
    read: Option<(Place, Vec<Entry>)>,
}

impl Ids {
    /// The payment at a place.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] where its row of the register is damaged or missing.
    pub(super) fn at(&mut self, source: &impl Source, place: Place) -> Result<PaymentId, Fault> {
        let first = row_of(place);
        let key = schema::registered(first);
        let (_, entries) = match self.read.take() {
            Some(read) if read.0 == first => self.read.insert(read),
            _ => self.read.insert((first, source.expect(&key)?)),
        };
        let entry = entries.get((place - first) as usize);
        let entry = entry.ok_or_else(|| records::damaged(&key, "it is cut off"))?;
        Ok(entry.id)
    }
}

/// The payments at places that follow one another; none for one whose row of the register is damaged
/// or missing.
pub(super) fn told(
    source: &impl Source,
    places: Range<Place>,
) -> Result<Vec<Option<PaymentId>>, Fault> {
    let mut told = Vec::new();
    let mut place = places.start;
    while place < places.end {
        let first = row_of(place);
        let end = first.saturating_add(FULL_ROW).min(places.end);
        let entries: Vec<Entry> = match source.expect(&schema::registered(first)) {
            Ok(entries) => entries,
            Err(Fault::Corrupt(_)) => Vec::new(),
            Err(fault) => return Err(fault),
        };
        let id = |place| Some(entries.get((place - first) as usize)?.id);
        told.extend((place..end).map(id));
        place = end;
    }
    Ok(told)
}

/// The first place of the row that a place is in.
const fn row_of(place: Place) -> Place {
    place - place % FULL_ROW
}

/// Reads the register.
pub(super) fn load(tree: &Tree) -> Result<(Register, Tail), Fault> {
    let mut register = Register::default();
    let mut tail = Tail::default();
    let rows = Span::prefix(schema::REGISTER);
    if let Some(last) = rows.of(tree).next_back() {
        let (key, _) = last.map_err(|error| engine(&error))?;
        let first = key.last_chunk().copied().map_or(0, Place::from_be_bytes);
        register.reserve((first as usize).saturating_add(FULL));
    }
    for row in rows.of(tree) {
        let (key, row) = row.map_err(|error| engine(&error))?;
        let first = Place::try_from(register.len()).unwrap_or(Place::MAX);
        if tail.entries.len() % FULL != 0 || key[..] != schema::registered(first)[..] {
            return Err(records::damaged(&key, "those before it are missing"));
        }
        tail = Tail {
            first,
            entries: records::decode(&key, &row)?,
        };
        tail.entries.iter().for_each(|entry| register.enter(entry));
    }
    Ok((register, tail))
}
