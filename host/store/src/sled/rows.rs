//! Rows as an operation sees them: the memtable, and above it what its group has written so far.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};

use ::sled::IVec;
use kassette_domain::id::PaymentId;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;

use super::memtable::Memtable;
use super::payment_index::{Fingerprint, Mark, PaymentIndex, Position};
use super::payment_index_rows::{Entered, Ids};
use super::records;
use super::schema::Key;
use super::source::Source;
use super::span::{Span, Written};
use super::taken_nonces::AllTaken;
use crate::Fault;

/// Bytes of keys and values.
fn bytes(written: &Written) -> usize {
    let bytes =
        |(key, row): (&Key, &Option<IVec>)| key.len() + row.as_ref().map_or(0, |row| row.len());
    written.iter().map(bytes).sum()
}

/// Rows that were read or written, and the bytes of their keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Touched {
    /// After so much an operation of many parts leaves the rest to another one: with one to three
    /// microseconds a row about a millisecond, for which all others wait.
    pub(super) const BY_OPERATION: Self = Self {
        rows: 512,
        bytes: 512 << 10,
    };
    /// After so much a read of many parts lets go of the lock that groups are shown under: a tenth of a
    /// millisecond, or a few where each page of the database comes from the disk.
    pub(super) const BY_READ: Self = Self {
        rows: 64,
        bytes: 64 << 10,
    };

    /// Whether it is as much as that.
    pub(super) const fn reaches(self, most: Self) -> bool {
        self.rows >= most.rows || self.bytes >= most.bytes
    }
}

/// Counts what is [`Touched`].
#[derive(Default)]
pub(super) struct Counter(Cell<Touched>);

impl Counter {
    /// Counts a row that was looked for or written.
    pub(super) fn got(&self, key: &[u8], row: Option<&IVec>) {
        let Touched { rows, bytes } = self.0.get();
        self.0.set(Touched {
            rows: rows + 1,
            bytes: bytes + key.len() + row.map_or(0, |row| row.len()),
        });
    }

    /// Counts rows that were found.
    pub(super) fn found(&self, rows: &[(Key, IVec)]) {
        for (key, row) in rows {
            self.got(key, Some(row));
        }
    }

    pub(super) const fn touched(&self) -> Touched {
        self.0.get()
    }
}

/// What a group has done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) written: Written,
    /// New payments, in the order of their positions.
    pub(super) entered: Vec<Entered>,
    /// Bytes of keys and values.
    pub(super) bytes: usize,
}

impl Made {
    pub(super) fn new(written: Written, entered: Vec<Entered>) -> Self {
        let bytes = bytes(&written);
        Self {
            written,
            entered,
            bytes,
        }
    }
}

/// The rows of a group in the making. Each operation either keeps all that it wrote or nothing.
pub(super) struct Rows<'a> {
    memtable: &'a Memtable,
    index: &'a RwLock<PaymentIndex>,
    nonces: &'a Mutex<AllTaken>,
    written: Written,
    /// New payments, in the order of their positions.
    entered: Vec<Entered>,
    /// What stood in `written` before the operation under way wrote, latest last.
    undo: Vec<(Key, Option<Option<IVec>>)>,
    /// How many of `entered` there were before it.
    undo_entered: usize,
    /// Bytes that were written, those that were written over or taken back too.
    bytes: usize,
    /// What the operation under way has touched.
    counter: Counter,
}

/// Rows that are read at once where many are gone along.
const CHUNK: usize = 16;

impl<'a> Rows<'a> {
    pub(super) fn new(
        memtable: &'a Memtable,
        index: &'a RwLock<PaymentIndex>,
        nonces: &'a Mutex<AllTaken>,
    ) -> Self {
        Self {
            memtable,
            index,
            nonces,
            written: Written::new(),
            entered: Vec::new(),
            undo: Vec::new(),
            undo_entered: 0,
            bytes: 0,
            counter: Counter::default(),
        }
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self) {
        self.counter = Counter::default();
    }

    /// Whether the operation under way should leave what else there is to do to another one.
    pub(super) fn is_enough(&self) -> bool {
        self.counter.touched().reaches(Touched::BY_OPERATION)
    }

    /// What the operation under way has touched.
    #[cfg(any(test, feature = "suite"))]
    pub(super) const fn touched(&self) -> Touched {
        self.counter.touched()
    }

    /// Goes along a span until `each` ends it, nothing is left, or it [is enough](Self::is_enough): then
    /// it says behind which key another operation has to go on. At least one row has its turn.
    pub(super) fn walk(
        &mut self,
        mut span: Span,
        mut each: impl FnMut(&mut Self, &Key, &IVec) -> Result<ControlFlow<()>, Fault>,
    ) -> Result<Option<Key>, Fault> {
        let mut last: Option<Key> = None;
        loop {
            let found = self.scan(&span, CHUNK)?;
            let is_last = found.len() < CHUNK;
            for (key, row) in found {
                if last.is_some() && self.is_enough() {
                    return Ok(last);
                }
                if each(self, &key, &row)?.is_break() {
                    return Ok(None);
                }
                last = Some(key);
            }
            match &last {
                Some(last) if !is_last => span = span.after(last),
                _ => return Ok(None),
            }
        }
    }

    fn write(&mut self, key: Key, value: Option<IVec>) {
        self.counter.got(&key, value.as_ref());
        self.bytes += key.len() + value.as_ref().map_or(0, |value| value.len());
        let before = self.written.insert(key.clone(), value);
        self.undo.push((key, before));
    }

    /// Writes a value.
    pub(super) fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault> {
        let row = records::encode(&key, value)?;
        self.write(key, Some(row));
        Ok(())
    }

    /// Writes a row that was encoded before.
    pub(super) fn put(&mut self, key: Key, row: IVec) {
        self.write(key, Some(row));
    }

    /// Removes a row.
    pub(super) fn remove(&mut self, key: Key) {
        self.write(key, None);
    }

    /// Enters a payment into the payment index.
    pub(super) fn enter(&mut self, entered: Entered) -> Result<(), Fault> {
        if !self.index.read().has_room(self.entered.len() + 1) {
            return Err(Fault::Unavailable(
                "the store holds as many payments as it can".into(),
            ));
        }
        self.entered.push(entered);
        Ok(())
    }

    /// Nonces that are taken; the group's own are among them.
    pub(super) const fn nonces(&self) -> &'a Mutex<AllTaken> {
        self.nonces
    }

    /// Takes back what the operation under way wrote.
    pub(super) fn roll_back(&mut self) {
        self.nonces.lock().roll_back();
        self.entered.truncate(self.undo_entered);
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.written.insert(key, value),
                None => self.written.remove(&key),
            };
        }
    }

    /// Ends an operation: what it wrote belongs to the group.
    pub(super) fn keep(&mut self) {
        self.nonces.lock().keep();
        self.undo.clear();
        self.undo_entered = self.entered.len();
    }

    /// Keys of the rows that the operation under way has written.
    pub(super) fn written_by_operation(&self) -> impl Iterator<Item = &Key> {
        self.undo.iter().map(|(key, _)| key)
    }

    /// How many rows the group has written.
    pub(super) fn len(&self) -> usize {
        self.written.len()
    }

    /// Bytes that the group has written, about.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the group has written, and its new payments.
    pub(super) fn into_parts(self) -> (Written, Vec<Entered>) {
        (self.written, self.entered)
    }
}

impl Source for Rows<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let row = match self.written.get(key) {
            Some(value) => value.clone(),
            None => self.memtable.get(key)?,
        };
        self.counter.got(key, row.as_ref());
        Ok(row)
    }

    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        let found = self.memtable.scan_under(&self.written, span, limit)?;
        self.counter.found(&found);
        Ok(found)
    }

    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Result<Vec<PaymentId>, Fault> {
        let ours = self.entered.iter().map(|entered| &entered.entry);
        let ours = ours.filter(|entry| entry.has(mark, fingerprint));
        let mut found: Vec<PaymentId> = ours.map(|entry| entry.id).collect();
        let positions: Vec<_> = self.index.read().found(mark, fingerprint).collect();
        let mut ids = Ids::default();
        for position in positions {
            found.push(ids.at(self, position)?);
        }
        Ok(found)
    }

    fn positions(&self, first: Position, count: u16) -> Range<Position> {
        self.index.read().range(first, count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use kassette_domain::id::MerchantId;
    use kassette_domain::time::Time;
    use proptest::prelude::*;

    use super::super::payment_index::Entry;
    use super::super::schema;
    use super::*;

    fn memtable() -> (tempfile::TempDir, Memtable) {
        let folder = tempfile::tempdir().unwrap();
        let db = sled::open(folder.path()).unwrap();
        (folder, Memtable::of(db))
    }

    fn entered(number: u8) -> Entered {
        let id = PaymentId::from_bytes([number; 16]);
        let marks = [[number; 4]; 3];
        Entered {
            entry: Entry::new(id, MerchantId(1), Time::from_secs(1), marks),
            due: None,
        }
    }

    #[test]
    fn a_group_finds_its_own_payments_first() {
        let (_folder, memtable) = memtable();
        let index = RwLock::new(PaymentIndex::default());
        let nonces = Mutex::default();
        index.write().enter(&entered(1).entry);
        let key = schema::payment_index(0);
        let row = records::encode(&key, &vec![entered(1).entry]).unwrap();
        memtable.plant(&key, row);
        let mut rows = Rows::new(&memtable, &index, &nonces);
        let mut same = entered(2);
        same.entry.marks = [[1; 4]; 3];
        rows.enter(same.clone()).unwrap();
        let found = rows.found(Mark::Token, [1; 4]).unwrap();
        assert_eq!(found, [same.entry.id, entered(1).entry.id]);
        assert_eq!(rows.found(Mark::Token, [3; 4]), Ok(vec![]));
    }

    #[test]
    fn a_failed_operation_leaves_what_the_group_had() {
        let (_folder, memtable) = memtable();
        let index = RwLock::default();
        let nonces = Mutex::default();
        let mut rows = Rows::new(&memtable, &index, &nonces);
        rows.save(b"a".to_vec(), &1_u8).unwrap();
        rows.enter(entered(1)).unwrap();
        rows.keep();
        let before = (rows.written.clone(), rows.entered.clone());
        rows.save(b"a".to_vec(), &2_u8).unwrap();
        rows.remove(b"a".to_vec());
        rows.save(b"b".to_vec(), &3_u8).unwrap();
        rows.enter(entered(2)).unwrap();
        rows.roll_back();
        assert_eq!(rows.into_parts(), before);
    }

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        let span = Span::prefix(b"a\xff");
        assert_eq!(span.to, Bound::Excluded(b"b".to_vec()));
        assert_eq!(Span::prefix(b"\xff").to, Bound::Unbounded);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_scan_sees_the_memtable_under_the_groups_rows(
            below in prop::collection::btree_map(0_u8..20, any::<u8>(), 0..15),
            above in prop::collection::btree_map(0_u8..20, any::<Option<u8>>(), 0..15),
            limit in 1_usize..20,
        ) {
            let (_folder, memtable) = memtable();
            let key = |at: u8| vec![b'k', at];
            for (at, value) in &below {
                memtable.plant(&key(*at), records::encode(&key(*at), value).unwrap());
            }
            let index = RwLock::default();
            let nonces = Mutex::default();
            let mut rows = Rows::new(&memtable, &index, &nonces);
            for (at, value) in &above {
                match value {
                    Some(value) => rows.save(key(*at), value).unwrap(),
                    None => rows.remove(key(*at)),
                }
            }
            let mut model: BTreeMap<u8, u8> = below;
            for (at, value) in above {
                match value {
                    Some(value) => model.insert(at, value),
                    None => model.remove(&at),
                };
            }
            let found: Vec<_> = rows.scan(&Span::prefix(b"k"), limit).unwrap();
            let keys: Vec<u8> = found.iter().map(|(key, _)| key[1]).collect();
            prop_assert_eq!(keys, model.keys().copied().take(limit).collect::<Vec<_>>());
            for (at, value) in model {
                prop_assert_eq!(rows.load::<u8>(&key(at)).unwrap(), Some(value));
            }
        }
    }
}
