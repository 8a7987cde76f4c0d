//! Data in memory in addition to the rows: the payment index, and the nonces in use.

pub(crate) mod claims;
pub(crate) mod payment_cache;
pub(crate) mod payment_index;
pub(crate) mod payment_index_rows;
pub(crate) mod taken_nonces;

use std::ops::Range;

use kassette_domain::id::PaymentId;
use kassette_engine::{Db, State, Written};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::payment_index::{Entry, LookupKey, PaymentIndex};
use self::payment_index_rows::{Entered, Ids, Tail};
use self::taken_nonces::AllTaken;
use crate::Fault;
use crate::rows::schema::Position;
use crate::rows::seal::{Fingerprint, Sealer};
use crate::rows::source::{Authenticates, RowSource};

/// Rows as an operation of the store sees them.
pub(crate) type Rows<'a> = kassette_engine::Rows<'a, Memory>;
/// Rows as a read of the store sees them.
pub(crate) type View<'a> = kassette_engine::View<'a, Shown>;
/// Data that reads use in addition to the rows. A payment is entered when its row is in the memtable, so that
/// a reader that finds it here can read the row.
pub(crate) struct Shown {
    index: RwLock<PaymentIndex>,
    sealer: Sealer,
}

impl Shown {
    /// Without any payment.
    pub(crate) fn new(sealer: &Sealer) -> Self {
        Self {
            index: RwLock::default(),
            sealer: sealer.clone(),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, PaymentIndex> {
        self.index.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, PaymentIndex> {
        self.index.write()
    }
}

impl Authenticates for Shown {
    fn sealer(&self) -> &Sealer {
        &self.sealer
    }
}

/// The writing thread's data in memory.
pub(crate) struct Memory {
    sealer: Sealer,
    /// The last row of the payment index.
    tail: Tail,
    /// New payments of the current group, in the order of their positions.
    entered: Vec<Entered>,
    /// Length of `entered` before the current operation.
    kept: usize,
    /// Nonces in use, including those of the current group.
    pub(crate) nonces: AllTaken,
}

impl Memory {
    /// Reads the data from the rows.
    pub(crate) fn load(db: &Db, sealer: &Sealer) -> Result<(Self, Shown), Fault> {
        let (index, tail) = payment_index_rows::load(db, sealer)?;
        let memory = Self {
            tail,
            nonces: AllTaken::load(db, sealer)?,
            ..Self::new(sealer)
        };
        let shown = Shown {
            index: RwLock::new(index),
            sealer: sealer.clone(),
        };
        Ok((memory, shown))
    }

    /// Without any content.
    fn new(sealer: &Sealer) -> Self {
        Self {
            sealer: sealer.clone(),
            tail: Tail::default(),
            entered: Vec::new(),
            kept: 0,
            nonces: AllTaken::default(),
        }
    }

    /// New payments that the index does not show yet.
    pub(crate) fn entered(&self) -> impl Iterator<Item = &Entry> {
        self.entered.iter().map(|entered| &entered.entry)
    }
}

/// Enters a payment into the payment index.
pub(crate) fn enter(rows: &mut Rows<'_>, entered: Entered) -> Result<(), Fault> {
    let index = rows.shown();
    let memory = rows.state_mut();
    if !index.read().has_room(memory.entered.len() + 1) {
        return Err(Fault::Unavailable(
            "the store holds as many payments as it can".into(),
        ));
    }
    memory.entered.push(entered);
    Ok(())
}

impl State for Memory {
    type Shown = Shown;

    fn roll_back(&mut self) {
        self.nonces.roll_back();
        self.entered.truncate(self.kept);
    }

    fn keep(&mut self) {
        self.nonces.keep();
        self.kept = self.entered.len();
    }

    fn is_changed(&self) -> bool {
        !self.entered.is_empty() || self.nonces.has_new()
    }

    fn write(&mut self, group: u64, rows: &mut Written) -> Result<(), Fault> {
        self.tail.write(&self.sealer, &self.entered, rows)?;
        self.nonces.write(&self.sealer, group, rows)
    }

    fn show(&mut self, index: &Shown) {
        self.kept = 0;
        if self.entered.is_empty() {
            return;
        }
        let mut index = index.write();
        for entered in self.entered.drain(..) {
            index.enter(&entered.entry);
        }
    }
}

/// Payments that may match a fingerprint, those of the current group first. The caller compares their rows.
pub(crate) fn found(
    rows: &Rows<'_>,
    key: LookupKey,
    fingerprint: Fingerprint,
) -> Result<Vec<PaymentId>, Fault> {
    let ours = rows.state().entered();
    let ours = ours.filter(|entry| entry.has(key, fingerprint));
    let mut found: Vec<PaymentId> = ours.map(|entry| entry.id).collect();
    let positions: Vec<_> = rows.shown().read().found(key, fingerprint).collect();
    let mut ids = Ids::default();
    for position in positions {
        found.push(ids.at(rows, position)?);
    }
    Ok(found)
}

/// A source of rows that has the payment index too.
pub(crate) trait Indexed: RowSource {
    /// The part of a range of positions that contains payments.
    fn positions(&self, first: Position, count: u16) -> Range<Position>;
}

impl Indexed for Rows<'_> {
    fn positions(&self, first: Position, count: u16) -> Range<Position> {
        self.shown().read().range(first, count)
    }
}

impl Indexed for View<'_> {
    fn positions(&self, first: Position, count: u16) -> Range<Position> {
        self.shown().read().range(first, count)
    }
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::{MerchantId, PaymentId};
    use kassette_domain::time::Time;
    use kassette_engine::Memtable;

    use super::*;
    use crate::rows::seal::MasterKey;
    use crate::rows::{records, schema};
    use crate::sled::memory::payment_index::LookupKey;

    fn entered(number: u8) -> Entered {
        let id = PaymentId::from_bytes([number; 16]);
        let marks = [[number; 4]; 4];
        Entered {
            entry: Entry::new(id, MerchantId(1), Time::from_secs(1), marks),
            due: None,
        }
    }

    #[test]
    fn a_group_finds_its_own_payments_first_and_not_those_of_one_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let memtable = Memtable::over(sled::open(folder.path()).unwrap());
        let sealer = Sealer::new(&MasterKey::from_bytes([1; 32]));
        let index = Shown::new(&sealer);
        index.write().enter(&entered(1).entry);
        let key = schema::payment_index(0);
        let row = records::encode(&sealer, &key, &vec![entered(1).entry]).unwrap();
        memtable.plant(&key, row).unwrap();
        let mut memory = Memory::new(&sealer);
        let mut rows = Rows::new(&memtable, &mut memory, &index);
        let mut same = entered(2);
        same.entry.marks = [[1; 4]; 4];
        enter(&mut rows, same.clone()).unwrap();
        rows.keep();
        enter(&mut rows, entered(3)).unwrap();
        rows.roll_back();
        let of_both = found(&rows, LookupKey::Token, [1; 4]).unwrap();
        assert_eq!(of_both, [same.entry.id, entered(1).entry.id]);
        assert_eq!(found(&rows, LookupKey::Token, [3; 4]), Ok(vec![]));
    }
}
