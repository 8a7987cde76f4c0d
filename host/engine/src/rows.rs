//! Rows as an operation sees them: the memtable, and above it what its group has written so far.

use std::cell::Cell;
use std::ops::ControlFlow;

use sled::IVec;

use crate::fault::Fault;
use crate::memtable::Memtable;
use crate::number::{self, GROUP};
use crate::span::{Key, Span, Written};
use crate::state::State;

/// Bytes of keys and values.
fn bytes(written: &Written) -> usize {
    let bytes =
        |(key, row): (&Key, &Option<IVec>)| key.len() + row.as_ref().map_or(0, |row| row.len());
    written.iter().map(bytes).sum()
}

/// Rows that were read or written, and the bytes of their keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub rows: usize,
    /// Bytes of their keys and values.
    pub bytes: usize,
}

impl Touched {
    /// After so much an operation of many parts leaves the rest to another one: with one to three
    /// microseconds a row about a millisecond, for which all others wait. One that cannot be parted may take
    /// more; the store's longest takes up to 2,500 rows and 1 MiB (`bounds.rs` of the store holds it to that),
    /// some five milliseconds.
    pub const BY_OPERATION: Self = Self {
        rows: 512,
        bytes: 512 << 10,
    };
    /// After so much a read of many parts lets go of the lock that groups are shown under: a tenth of a
    /// millisecond, or a few where each page of the database comes from the disk.
    pub const BY_READ: Self = Self {
        rows: 64,
        bytes: 64 << 10,
    };

    /// Whether it is as much as that.
    pub const fn reaches(self, most: Self) -> bool {
        self.rows >= most.rows || self.bytes >= most.bytes
    }
}

/// Counts what is [`Touched`].
#[derive(Default)]
pub(crate) struct Counter(Cell<Touched>);

impl Counter {
    /// Counts a row that was looked for or written.
    pub(crate) fn got(&self, key: &[u8], row: Option<&IVec>) {
        let Touched { rows, bytes } = self.0.get();
        self.0.set(Touched {
            rows: rows + 1,
            bytes: bytes + key.len() + row.map_or(0, |row| row.len()),
        });
    }

    /// Counts rows that were found.
    pub(crate) fn found(&self, rows: &[(Key, IVec)]) {
        for (key, row) in rows {
            self.got(key, Some(row));
        }
    }

    pub(crate) const fn touched(&self) -> Touched {
        self.0.get()
    }
}

/// What a group has written.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    /// Its rows.
    pub written: Written,
    /// Bytes of keys and values.
    pub(crate) bytes: usize,
}

impl Made {
    pub(crate) fn new(written: Written) -> Self {
        let bytes = bytes(&written);
        Self { written, bytes }
    }
}

/// The rows of a group in the making, and the state beside them. Each operation either keeps all that it
/// changed or nothing.
pub struct Rows<'a, S: State> {
    memtable: &'a Memtable,
    state: &'a mut S,
    shown: &'a S::Shown,
    written: Written,
    /// What stood in `written` before the operation under way wrote, latest last.
    undo: Vec<(Key, Option<Option<IVec>>)>,
    /// Bytes that were written, those that were written over or taken back too.
    bytes: usize,
    /// What the operation under way has touched.
    counter: Counter,
}

/// Rows that are read at once where many are gone along.
const CHUNK: usize = 16;

impl<'a, S: State> Rows<'a, S> {
    /// Begins a group. The engine does; a test may.
    pub fn new(memtable: &'a Memtable, state: &'a mut S, shown: &'a S::Shown) -> Self {
        Self {
            memtable,
            state,
            shown,
            written: Written::new(),
            undo: Vec::new(),
            bytes: 0,
            counter: Counter::default(),
        }
    }

    /// Begins an operation.
    pub(crate) fn begin(&mut self) {
        self.counter = Counter::default();
    }

    /// The state, as the group has changed it so far.
    pub const fn state(&self) -> &S {
        self.state
    }

    /// The state, to be changed.
    pub const fn state_mut(&mut self) -> &mut S {
        self.state
    }

    /// What is shown of the state, without what the group has changed.
    pub const fn shown(&self) -> &'a S::Shown {
        self.shown
    }

    /// A row as it was written.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let row = match self.written.get(key) {
            Some(value) => value.clone(),
            None => self.memtable.get(key)?,
        };
        self.counter.got(key, row.as_ref());
        Ok(row)
    }

    /// At most `limit` rows of a span, first to last.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        let found = self.memtable.scan_under(&self.written, span, limit)?;
        self.counter.found(&found);
        Ok(found)
    }

    /// Whether the operation under way should leave what else there is to do to another one.
    pub fn is_enough(&self) -> bool {
        self.counter.touched().reaches(Touched::BY_OPERATION)
    }

    /// What the operation under way has touched.
    pub(crate) const fn touched(&self) -> Touched {
        self.counter.touched()
    }

    /// Goes along a span until `each` ends it, nothing is left, or it [is enough](Self::is_enough): then
    /// it says behind which key another operation has to go on. At least one row has its turn.
    pub fn walk(
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

    pub fn put(&mut self, key: Key, row: IVec) {
        self.write(key, Some(row));
    }

    pub fn remove(&mut self, key: Key) {
        self.write(key, None);
    }

    /// Takes back what the operation under way has changed.
    pub fn roll_back(&mut self) {
        self.state.roll_back();
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.written.insert(key, value),
                None => self.written.remove(&key),
            };
        }
    }

    /// Ends an operation: what it changed belongs to the group.
    pub fn keep(&mut self) {
        self.state.keep();
        self.undo.clear();
    }

    /// Keys of the rows that the operation under way has written.
    pub fn written_by_operation(&self) -> impl Iterator<Item = &Key> {
        self.undo.iter().map(|(key, _)| key)
    }

    /// How many rows the group has written.
    pub(crate) fn len(&self) -> usize {
        self.written.len()
    }

    /// Bytes that the group has written, about.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the group has changed nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && !self.state.is_changed()
    }

    /// Ends the group, which has this number: what it has written, with the rows of the state. Another one
    /// begins.
    ///
    /// # Errors
    /// See [`State::write`].
    pub fn end(&mut self, number: u64) -> Result<Made, Fault> {
        self.bytes = 0;
        let mut written = std::mem::take(&mut self.written);
        written.insert(GROUP.to_vec(), Some(number::encode(GROUP, number)));
        self.state.write(number, &mut written)?;
        Ok(Made::new(written))
    }

    /// Shows what the group that has ended has changed of the state.
    pub(crate) fn show(&mut self) {
        self.state.show(self.shown);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Names that were noted, shown as one list.
    #[derive(Default)]
    struct Names {
        noted: Vec<u8>,
        kept: usize,
    }

    impl State for Names {
        type Shown = parking_lot::Mutex<Vec<u8>>;

        fn roll_back(&mut self) {
            self.noted.truncate(self.kept);
        }

        fn keep(&mut self) {
            self.kept = self.noted.len();
        }

        fn is_changed(&self) -> bool {
            !self.noted.is_empty()
        }

        fn write(&mut self, group: u64, rows: &mut Written) -> Result<(), Fault> {
            let key = [&b"names/"[..], &group.to_be_bytes()].concat();
            rows.insert(key, Some(self.noted.as_slice().into()));
            Ok(())
        }

        fn show(&mut self, shown: &Self::Shown) {
            self.kept = 0;
            shown.lock().append(&mut self.noted);
        }
    }

    fn memtable() -> (tempfile::TempDir, Memtable) {
        let folder = tempfile::tempdir().unwrap();
        let db = sled::open(folder.path()).unwrap();
        (folder, Memtable::of(db))
    }

    #[test]
    fn a_failed_operation_leaves_what_the_group_had() {
        let (_folder, memtable) = memtable();
        let (mut names, shown) = (Names::default(), Default::default());
        let mut rows = Rows::new(&memtable, &mut names, &shown);
        rows.put(b"a".to_vec(), b"1".into());
        rows.state_mut().noted.push(1);
        rows.keep();
        let before = rows.written.clone();
        rows.put(b"a".to_vec(), b"2".into());
        rows.remove(b"a".to_vec());
        rows.put(b"b".to_vec(), b"3".into());
        rows.state_mut().noted.push(2);
        rows.roll_back();
        assert_eq!(rows.written, before);
        assert_eq!(rows.state().noted, [1]);
        let made = rows.end(7).unwrap();
        assert_eq!(made.written.len(), 3);
        assert_eq!(
            number::decode(GROUP, &made.written[GROUP].clone().unwrap()),
            Some(7)
        );
        assert_eq!(*shown.lock(), []);
        rows.show();
        assert_eq!(*shown.lock(), [1]);
        assert!(rows.is_empty());
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
                memtable.plant(&key(*at), &[*value]).unwrap();
            }
            let (mut names, shown) = (Names::default(), Default::default());
            let mut rows = Rows::new(&memtable, &mut names, &shown);
            for (at, value) in &above {
                match value {
                    Some(value) => rows.put(key(*at), (&[*value]).into()),
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
                let row = rows.get(&key(at)).unwrap().unwrap();
                prop_assert_eq!(&row[..], &[value][..]);
            }
        }
    }
}
