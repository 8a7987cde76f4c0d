//! The rows on disk: the database, overlaid in memory with the rows that only the log has so far.
//!
//! A group is shown here once it is in the log. sled gets all rows of an [epoch](crate::journal) together, sorted by
//! key, from the checkpoint thread. Callers therefore do not wait for sled, a row that is written several times
//! within an epoch is stored once, and a row that is also removed within it never reaches sled.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::RwLock;
use sled::{Db, IVec, Tree};

use crate::fault::Fault;
use crate::number::GROUP;
use crate::span::{Key, Span, Written};

/// Rows of an epoch with their last value. `None` if the row was removed.
pub(crate) type EpochRows = BTreeMap<IVec, Option<IVec>>;

/// Rows after which [`put`] lets other threads run, some hundred microseconds. Without this, the scheduler would let
/// the applier wait for milliseconds.
const AT_ONCE: usize = 32;

/// Rows in a leaf of sled after it was split, which happens when it gets a seventeenth row. Rows inserted in
/// ascending order leave all leaves like this, and a split costs as much as inserting nine rows.
const HALF: usize = 9;
/// Rows in such a leaf after the second pass has filled it. It then has space for two more.
const FULL: usize = 14;

/// Rows that the database may lack.
#[derive(Default)]
struct Layers {
    /// Rows of the current epoch.
    active: EpochRows,
    /// Rows of the previous epoch, which are being copied to the database. Empty once it has all of them.
    frozen: Arc<EpochRows>,
}

impl Layers {
    /// Last change to a row. `Some(None)` if it was removed, `None` if it was not changed recently.
    fn get(&self, key: &[u8]) -> Option<&Option<IVec>> {
        self.active.get(key).or_else(|| self.frozen.get(key))
    }
}

/// The rows of an open database. Only one thread writes. It locks readers out while it does, so that they never
/// see part of a group.
pub struct Memtable {
    db: Db,
    layers: RwLock<Layers>,
    /// Whether the applier waits for the copy to the database.
    awaited: AtomicBool,
}

impl Memtable {
    /// Wraps a database that has all rows.
    pub fn over(db: Db) -> Self {
        Self {
            db,
            layers: RwLock::default(),
            awaited: AtomicBool::new(false),
        }
    }

    /// The database, without the rows that only the log has.
    pub fn database(&self) -> &Tree {
        &self.db
    }

    /// Returns a row, or `None` if there is none.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        if let Some(row) = self.layers.read().get(key) {
            return Ok(row.clone());
        }
        self.db.get(key).map_err(Fault::database)
    }

    /// Returns a recently changed row without waiting; the inner `None` means that it was removed. The outer
    /// `None` means that the row was not changed recently, or that the lock is contended: a scan holds it while it
    /// reads the disk.
    pub(crate) fn get_recent(&self, key: &[u8]) -> Option<Option<IVec>> {
        self.layers.try_read()?.get(key).cloned()
    }

    /// Returns up to `limit` rows of a span in ascending order, overlaid with the rows that the current group has
    /// written.
    pub(crate) fn scan_under(
        &self,
        written: &Written,
        span: &Span,
        limit: usize,
    ) -> Result<Vec<(Key, IVec)>, Fault> {
        if span.is_empty() {
            return Ok(Vec::new());
        }
        let written = written.range::<[u8], _>(span.bounds());
        let written = written.map(|(key, row)| Ok((IVec::from(key.as_slice()), row.clone())));
        let layers = self.layers.read();
        let below = Merged::new(
            of_epoch(&layers.frozen, span),
            of_database(&self.db, span),
            Ordering::Less,
        );
        let below = Merged::new(of_epoch(&layers.active, span), below, Ordering::Less);
        collect(Merged::new(written, below, Ordering::Less), limit)
    }

    /// Returns up to `limit` rows of a span in ascending order.
    pub fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan_under(&Written::new(), span, limit)
    }

    /// Returns up to `limit` rows of a span in descending order.
    pub fn scan_back(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        if span.is_empty() {
            return Ok(Vec::new());
        }
        let layers = self.layers.read();
        let below = Merged::new(
            of_epoch(&layers.frozen, span).rev(),
            of_database(&self.db, span).rev(),
            Ordering::Greater,
        );
        let active = of_epoch(&layers.active, span).rev();
        collect(Merged::new(active, below, Ordering::Greater), limit)
    }

    /// Shows the rows of a group that is in the log.
    pub(crate) fn show(&self, written: &Written) {
        let mut layers = self.layers.write();
        for (key, row) in written {
            layers
                .active
                .insert(IVec::from(key.as_slice()), row.clone());
        }
    }

    /// Ends an epoch and freezes its rows, which the database gets next. The caller ensures that the database has
    /// those of the previous epoch.
    pub(crate) fn rotate(&self) {
        self.awaited.store(false, Relaxed);
        let mut layers = self.layers.write();
        debug_assert!(layers.frozen.is_empty(), "an epoch is lost");
        layers.frozen = Arc::new(std::mem::take(&mut layers.active));
    }

    /// Copies the frozen rows to the database. They stay readable here, and new groups can be shown, during the
    /// copy.
    pub(crate) fn write_frozen(&self) -> sled::Result<()> {
        let epoch = Arc::clone(&self.layers.read().frozen);
        put(&self.db, &epoch, || {
            if !self.awaited.load(Relaxed) {
                std::thread::yield_now();
            }
        })
    }

    /// Drops the frozen rows once the database has them.
    pub(crate) fn drop_frozen(&self) {
        let empty = Arc::default();
        let frozen = std::mem::replace(&mut self.layers.write().frozen, empty);
        // Dropping many rows takes a while, so it happens without the lock.
        drop(frozen);
    }

    /// Lets [`write_frozen`](Self::write_frozen) run without pauses until the next [rotation](Self::rotate),
    /// because the applier waits for it.
    pub(crate) fn hurry(&self) {
        self.awaited.store(true, Relaxed);
    }
}

/// Writes rows to a database in two ascending passes: most rows first, then those in between ([`FULL`]), which
/// fills the leaves. The number of the last group comes last: a crash removes data from the end, so a database
/// that has this number has all rows. The rows are not one sled batch, because sled makes a batch atomic with
/// seven threads and double the writes, and the log already provides atomicity. Calls `between` after every
/// [`AT_ONCE`] rows.
pub(crate) fn put(db: &Db, rows: &EpochRows, between: impl Fn()) -> sled::Result<()> {
    let others = rows.iter().filter(|(key, _)| key[..] != *GROUP);
    let of_leaves = |begin: bool| {
        let others = others.clone().enumerate();
        let wanted = others.filter(move |(at, _)| (at * HALF % FULL < HALF) == begin);
        wanted.map(|(_, row)| row)
    };
    let group = rows.get_key_value(GROUP);
    let all = of_leaves(true).chain(of_leaves(false)).chain(group);
    for (at, (key, row)) in all.enumerate() {
        match row {
            Some(row) => db.insert(key, row)?,
            None => db.remove(key)?,
        };
        if at % AT_ONCE == AT_ONCE - 1 {
            between();
        }
    }
    Ok(())
}

/// A row of a layer. `None` hides the row of the layer below.
type LayerRow = sled::Result<(IVec, Option<IVec>)>;

fn of_epoch<'a>(
    epoch: &'a EpochRows,
    span: &Span,
) -> impl DoubleEndedIterator<Item = LayerRow> + use<'a> {
    let rows = epoch.range::<[u8], _>(span.bounds());
    rows.map(|(key, row)| Ok((key.clone(), row.clone())))
}

fn of_database(tree: &Tree, span: &Span) -> impl DoubleEndedIterator<Item = LayerRow> + use<> {
    span.iter(tree)
        .map(|row| row.map(|(key, row)| (key, Some(row))))
}

fn collect(rows: impl Iterator<Item = LayerRow>, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
    rows.filter_map(|row| match row {
        Ok((key, row)) => row.map(|row| Ok((key.to_vec(), row))),
        Err(error) => Some(Err(Fault::database(error))),
    })
    .take(limit)
    .collect()
}

/// Merges two layers in key order. If both have a row, the upper one wins.
struct Merged<A: Iterator, B: Iterator> {
    above: Peekable<A>,
    below: Peekable<B>,
    /// How the key that is returned first compares with the other.
    first: Ordering,
}

impl<A: Iterator<Item = LayerRow>, B: Iterator<Item = LayerRow>> Merged<A, B> {
    fn new(above: A, below: B, first: Ordering) -> Self {
        Self {
            above: above.peekable(),
            below: below.peekable(),
            first,
        }
    }
}

impl<A: Iterator<Item = LayerRow>, B: Iterator<Item = LayerRow>> Iterator for Merged<A, B> {
    type Item = LayerRow;

    fn next(&mut self) -> Option<LayerRow> {
        let (Some(above), Some(below)) = (self.above.peek(), self.below.peek()) else {
            return self.above.next().or_else(|| self.below.next());
        };
        let (Ok((above, _)), Ok((below, _))) = (above, below) else {
            return self
                .below
                .next_if(Result::is_err)
                .or_else(|| self.above.next());
        };
        match above.cmp(below) {
            Ordering::Equal => {
                self.below.next();
                self.above.next()
            }
            order if order == self.first => self.above.next(),
            _ => self.below.next(),
        }
    }
}

/// Methods for tests, which change rows without an operation.
impl Memtable {
    /// All rows.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn all(&self) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan(&Span::prefix(&[]), usize::MAX)
    }

    /// Writes a row as if a group had, and returns the old one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn plant(&self, key: &[u8], row: impl Into<IVec>) -> Result<Option<IVec>, Fault> {
        let before = self.get(key)?;
        self.show(&Written::from([(key.to_vec(), Some(row.into()))]));
        Ok(before)
    }

    /// Copies all rows to the database ahead of time.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn write_early(&self) -> Result<(), Fault> {
        let layers = self.layers.read();
        for rows in [&*layers.frozen, &layers.active] {
            put(&self.db, rows, || {}).map_err(Fault::database)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An event in the life of a memtable.
    #[derive(Clone, Debug)]
    enum Happens {
        Shown(BTreeMap<u8, Option<u8>>),
        Rotated,
        /// This number of frozen rows was copied to the database.
        WrittenInPart(usize),
        Written,
        Dropped,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        let written = prop::collection::btree_map(0_u8..20, any::<Option<u8>>(), 0..8);
        prop_oneof![
            4 => written.prop_map(Happens::Shown),
            1 => Just(Happens::Rotated),
            1 => (0_usize..8).prop_map(Happens::WrittenInPart),
            1 => Just(Happens::Written),
            1 => Just(Happens::Dropped),
        ]
    }

    fn key(at: u8) -> Key {
        vec![b'k', at]
    }

    fn written(rows: &BTreeMap<u8, Option<u8>>) -> Written {
        let row = |(at, row): (&u8, &Option<u8>)| (key(*at), row.map(|row| IVec::from(&[row])));
        rows.iter().map(row).collect()
    }

    fn change(model: &mut BTreeMap<u8, u8>, rows: &BTreeMap<u8, Option<u8>>) {
        for (at, row) in rows {
            match row {
                Some(row) => model.insert(*at, *row),
                None => model.remove(at),
            };
        }
    }

    fn plain(rows: Result<Vec<(Key, IVec)>, Fault>) -> Vec<(u8, u8)> {
        let rows = rows.unwrap().into_iter();
        rows.map(|(key, row)| (key[1], row[0])).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_read_the_same_wherever_they_are(
            happened in prop::collection::vec(happens(), 0..24),
            above in prop::collection::btree_map(0_u8..20, any::<Option<u8>>(), 0..8),
            (from, to) in (0_u8..22, 0_u8..22),
            limit in 1_usize..24,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let memtable = Memtable::over(sled::open(folder.path()).unwrap());
            let mut model = BTreeMap::new();
            for happens in happened {
                match happens {
                    Happens::Shown(rows) => {
                        memtable.show(&written(&rows));
                        change(&mut model, &rows);
                    }
                    Happens::Rotated => {
                        memtable.write_frozen().unwrap();
                        memtable.drop_frozen();
                        memtable.rotate();
                    }
                    Happens::WrittenInPart(count) => {
                        let frozen = Arc::clone(&memtable.layers.read().frozen);
                        let part = frozen.iter().take(count);
                        let part = part.map(|(key, row)| (key.clone(), row.clone()));
                        put(&memtable.db, &part.collect(), || {}).unwrap();
                    }
                    Happens::Written => memtable.write_frozen().unwrap(),
                    Happens::Dropped => {
                        memtable.write_frozen().unwrap();
                        memtable.drop_frozen();
                    }
                }
                for at in 0..20 {
                    let row = memtable.get(&key(at)).unwrap();
                    prop_assert_eq!(row.map(|row| row[0]), model.get(&at).copied());
                }
            }
            let span = Span {
                from: std::ops::Bound::Included(key(from)),
                to: std::ops::Bound::Excluded(key(to)),
            };
            let within = |model: &BTreeMap<u8, u8>| -> Vec<(u8, u8)> {
                model.range(from..from.max(to)).map(|(at, row)| (*at, *row)).collect()
            };
            let mut expected = within(&model);
            expected.truncate(limit);
            prop_assert_eq!(plain(memtable.scan(&span, limit)), expected);
            let mut expected = within(&model);
            expected.reverse();
            expected.truncate(limit);
            prop_assert_eq!(plain(memtable.scan_back(&span, limit)), expected);
            change(&mut model, &above);
            let mut expected = within(&model);
            expected.truncate(limit);
            prop_assert_eq!(plain(memtable.scan_under(&written(&above), &span, limit)), expected);
        }
    }

    #[test]
    fn the_database_gets_the_last_of_each_row_and_none_that_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let memtable = Memtable::over(sled::open(folder.path()).unwrap());
        memtable.show(&written(&BTreeMap::from([
            (1, Some(1)),
            (2, Some(1)),
            (3, Some(1)),
        ])));
        memtable.show(&written(&BTreeMap::from([(1, Some(2)), (2, None)])));
        memtable.rotate();
        memtable.show(&written(&BTreeMap::from([(4, Some(1))])));
        assert_eq!(
            memtable.database().iter().count(),
            0,
            "before it is their turn"
        );
        memtable.write_frozen().unwrap();
        let rows: Vec<_> = memtable.database().iter().map(Result::unwrap).collect();
        let row = |at: u8, row: u8| (IVec::from(key(at)), IVec::from(&[row]));
        assert_eq!(rows, [row(1, 2), row(3, 1)]);
        assert_eq!(memtable.all().unwrap().len(), 3);
        memtable.drop_frozen();
        assert_eq!(memtable.all().unwrap().len(), 3);
        let layers = memtable.layers.read();
        assert_eq!((layers.frozen.len(), layers.active.len()), (0, 1));
    }

    #[test]
    fn the_number_of_the_last_group_comes_behind_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let db = sled::open(folder.path()).unwrap();
        let row = |at: u8| (IVec::from(&[b'z', at]), Some(IVec::from(&[at])));
        let mut rows: EpochRows = (0..=u8::MAX).map(row).collect();
        rows.insert(IVec::from(GROUP), Some(IVec::from(&[1])));
        let looks = std::cell::Cell::new(0);
        put(&db, &rows, || {
            assert_eq!(db.get(GROUP).unwrap(), None);
            looks.set(looks.get() + 1);
        })
        .unwrap();
        assert_eq!(looks.get(), rows.len() / AT_ONCE);
        assert!(db.get(GROUP).unwrap().is_some());
    }

    #[test]
    fn a_row_that_cannot_be_read_is_told_in_either_direction() {
        let key = |at: u8| IVec::from(&[b'k', at]);
        let row = |at: u8| Ok((key(at), Some(IVec::from(&[at]))));
        let broken = || Err(sled::Error::ReportableBug("broken".into()));
        for first in [Ordering::Less, Ordering::Greater] {
            let mut keys = [1, 3, 5];
            if first == Ordering::Greater {
                keys.reverse();
            }
            // The value before the second row is unknown, so no second row may be returned.
            for limit in [2, 9] {
                let above = keys.map(row).into_iter();
                let below = [row(keys[0]), broken()].into_iter();
                let read = collect(Merged::new(above, below, first), limit);
                assert!(matches!(read, Err(Fault::Unavailable(_))), "{read:?}");
            }
        }
    }

    #[test]
    fn nothing_is_in_a_span_that_ends_before_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let memtable = Memtable::over(sled::open(folder.path()).unwrap());
        memtable.plant(&key(1), IVec::from(&[1])).unwrap();
        use std::ops::Bound::{Excluded, Included};
        for (from, to) in [
            (Excluded(key(1)), Excluded(key(1))),
            (Excluded(key(1)), Included(key(1))),
            (Included(key(1)), Excluded(key(1))),
            (Included(key(2)), Included(key(1))),
            (Excluded(key(2)), Excluded(key(1))),
        ] {
            let span = Span { from, to };
            assert_eq!(memtable.scan(&span, 9), Ok(vec![]), "{span:?}");
            assert_eq!(memtable.scan_back(&span, 9), Ok(vec![]), "{span:?}");
        }
        let span = Span {
            from: Included(key(1)),
            to: Included(key(1)),
        };
        assert_eq!(memtable.scan(&span, 9).unwrap().len(), 1);
    }

    #[test]
    fn rows_that_stay_are_found_once_while_others_come_and_go_around_them() {
        let folder = tempfile::tempdir().unwrap();
        let memtable = Memtable::over(sled::open(folder.path()).unwrap());
        let key = |at: u16| [b"k", &at.to_be_bytes()[..]].concat();
        let stays = |at: &u16| at.is_multiple_of(40);
        let fixed: Vec<Key> = (0..2000).filter(stays).map(key).collect();
        let write = |row: &dyn Fn(u16) -> Option<IVec>| {
            let rows = (0..2000)
                .filter(|at| !stays(at))
                .map(|at| (key(at), row(at)));
            memtable.show(&rows.collect());
            memtable.rotate();
            memtable.write_frozen().unwrap();
            memtable.drop_frozen();
        };
        memtable.show(
            &fixed
                .iter()
                .map(|key| (key.clone(), Some(IVec::from(&[1]))))
                .collect(),
        );
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let reader = || {
                let span = Span::prefix(b"k");
                while !over.load(Relaxed) {
                    let found = memtable.scan(&span, usize::MAX).unwrap();
                    let mut back = memtable.scan_back(&span, usize::MAX).unwrap();
                    back.reverse();
                    for found in [found, back] {
                        let keys = found.into_iter().map(|(key, _)| key);
                        let there: Vec<Key> = keys.filter(|key| fixed.contains(key)).collect();
                        assert_eq!(there, fixed);
                    }
                    for key in &fixed {
                        assert!(memtable.get(key).unwrap().is_some());
                    }
                }
            };
            let readers = [threads.spawn(reader), threads.spawn(reader)];
            for round in 0..20_u8 {
                write(&|_| Some(IVec::from(vec![round; 40])));
                write(&|_| None);
            }
            over.store(true, Relaxed);
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }
}
