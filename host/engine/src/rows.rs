//! The rows as an operation sees them: the memtable, overlaid with what its group has written so far.

use std::cell::Cell;
use std::ops::ControlFlow;

use sled::IVec;

use crate::fault::Fault;
use crate::memtable::Memtable;
use crate::number::{self, GROUP};
use crate::span::{Key, Span, Written};
use crate::state::State;

/// Bytes of all keys and values.
fn bytes(written: &Written) -> usize {
    let bytes =
        |(key, row): (&Key, &Option<IVec>)| key.len() + row.as_ref().map_or(0, |row| row.len());
    written.iter().map(bytes).sum()
}

/// Number of rows that were read or written, and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub rows: usize,
    /// Bytes of their keys and values.
    pub bytes: usize,
}

impl Touched {
    /// Limit after which an operation of several parts leaves the rest to another operation. At one to three
    /// microseconds per row this is about a millisecond, for which all others wait. Indivisible operations may
    /// exceed it: the largest of the store touches up to 2,500 rows and 1 MiB (checked in its `bounds.rs`), about
    /// five milliseconds.
    pub const BY_OPERATION: Self = Self {
        rows: 512,
        bytes: 512 << 10,
    };
    /// Limit after which a slice of a read releases the lock so that groups can be shown: a tenth of a
    /// millisecond, or a few milliseconds if every page comes from disk.
    pub const BY_READ: Self = Self {
        rows: 64,
        bytes: 64 << 10,
    };

    /// Whether the rows or the bytes reach the limit.
    pub const fn reaches(self, most: Self) -> bool {
        self.rows >= most.rows || self.bytes >= most.bytes
    }
}

/// Accumulates [`Touched`].
#[derive(Default)]
pub(crate) struct Counter(Cell<Touched>);

impl Counter {
    /// Counts a row that was read or written, also if it does not exist.
    pub(crate) fn got(&self, key: &[u8], row: Option<&IVec>) {
        let Touched { rows, bytes } = self.0.get();
        self.0.set(Touched {
            rows: rows + 1,
            bytes: bytes + key.len() + row.map_or(0, |row| row.len()),
        });
    }

    /// Counts the rows of a scan.
    pub(crate) fn found(&self, rows: &[(Key, IVec)]) {
        for (key, row) in rows {
            self.got(key, Some(row));
        }
    }

    pub(crate) const fn touched(&self) -> Touched {
        self.0.get()
    }
}

/// The rows that a group has written.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    /// The rows, including those of the state and the group's number.
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

/// The rows and the state during a group. Each operation keeps all of its changes or none.
pub struct Rows<'a, S: State> {
    memtable: &'a Memtable,
    state: &'a mut S,
    shown: &'a S::Shown,
    written: Written,
    /// Earlier values in `written` that the current operation has replaced, oldest first.
    undo: Vec<(Key, Option<Option<IVec>>)>,
    /// Bytes written by the group, including values that were replaced or rolled back.
    bytes: usize,
    /// Rows touched by the current operation.
    counter: Counter,
}

/// Rows per batch of a walk.
const CHUNK: usize = 16;

impl<'a, S: State> Rows<'a, S> {
    /// Starts with an empty group. Public for tests.
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

    /// Starts an operation.
    pub(crate) fn begin(&mut self) {
        self.counter = Counter::default();
    }

    /// The state, with the changes of the group so far.
    pub const fn state(&self) -> &S {
        self.state
    }

    /// The state, for changes.
    pub const fn state_mut(&mut self) -> &mut S {
        self.state
    }

    /// The shared part of the state, without the changes of the group.
    pub const fn shown(&self) -> &'a S::Shown {
        self.shown
    }

    /// Returns a row, or `None` if there is none.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let row = match self.written.get(key) {
            Some(value) => value.clone(),
            None => self.memtable.get(key)?,
        };
        self.counter.got(key, row.as_ref());
        Ok(row)
    }

    /// Returns up to `limit` rows of a span in ascending order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        let found = self.memtable.scan_under(&self.written, span, limit)?;
        self.counter.found(&found);
        Ok(found)
    }

    /// Whether the current operation has reached its limit and should leave the rest to another one.
    pub fn is_enough(&self) -> bool {
        self.counter.touched().reaches(Touched::BY_OPERATION)
    }

    /// Rows touched by the current operation.
    pub(crate) const fn touched(&self) -> Touched {
        self.counter.touched()
    }

    /// Calls `each` for the rows of a span in ascending order, at least for the first, until it breaks, the span
    /// ends or the operation has reached its [limit](Self::is_enough). At the limit returns the last key, after
    /// which another operation continues; otherwise `None`.
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

    /// Reverts the changes of the current operation.
    pub fn roll_back(&mut self) {
        self.state.roll_back();
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.written.insert(key, value),
                None => self.written.remove(&key),
            };
        }
    }

    /// Ends an operation and adds its changes to the group.
    pub fn keep(&mut self) {
        self.state.keep();
        self.undo.clear();
    }

    /// Keys of the rows that the current operation has written.
    pub fn written_by_operation(&self) -> impl Iterator<Item = &Key> {
        self.undo.iter().map(|(key, _)| key)
    }

    /// Number of rows that the group has written.
    pub(crate) fn len(&self) -> usize {
        self.written.len()
    }

    /// Approximate number of bytes that the group has written.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the group has changed neither rows nor state.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && !self.state.is_changed()
    }

    /// Ends the group with its number, and returns its rows with those of the state. Afterwards a new group
    /// starts.
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

    /// Publishes the changes that the finished group has made to the state.
    pub(crate) fn show(&mut self) {
        self.state.show(self.shown);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Records bytes, and shows them as one list.
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
        (folder, Memtable::over(db))
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
