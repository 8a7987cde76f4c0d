//! The rows as they are on the disk: the database, and in memory above it what so far the log
//! alone holds.
//!
//! A group that is in the log is shown here at once, in memory. sled gets the rows of a whole
//! [epoch](crate::journal) together, in the order of their keys, by the thread that brings it to the
//! disk (`checkpoint`): so it is not in the way of a caller that waits for an answer, a row that is written
//! several times within an epoch goes into a page once, and one that is removed within it never does.

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

/// Rows of an epoch as they were last written; none for one that was removed.
pub(crate) type EpochRows = BTreeMap<IVec, Option<IVec>>;

/// Rows after which others have their turn at the processor: some hundred microseconds. A scheduler would
/// let the applier wait for milliseconds.
const AT_ONCE: usize = 32;

/// Rows that a leaf of sled's has left when it splits, because it has got the seventeenth. Rows that come
/// one behind the other leave all leaves so, and a split costs as much as the nine rows do.
const HALF: usize = 9;
/// Rows of such a leaf with those that went in later, between them. There is room for two more.
const FULL: usize = 14;

/// What the database may not have yet.
#[derive(Default)]
struct Layers {
    /// Of the epoch under way.
    active: EpochRows,
    /// Of the one before, which is on its way into the database; empty when it has all of it.
    frozen: Arc<EpochRows>,
}

impl Layers {
    /// What became of a row that was written or removed lately.
    fn get(&self, key: &[u8]) -> Option<&Option<IVec>> {
        self.active.get(key).or_else(|| self.frozen.get(key))
    }
}

/// The rows of an open database. One thread writes; it keeps others from reading while it does, so that
/// no reader sees a group in part.
pub struct Memtable {
    db: Db,
    layers: RwLock<Layers>,
    /// Whether the applier waits for the rows that are being put into the database.
    awaited: AtomicBool,
}

impl Memtable {
    /// The rows of a database, which has all of them.
    pub fn of(db: Db) -> Self {
        Self {
            db,
            layers: RwLock::default(),
            awaited: AtomicBool::new(false),
        }
    }

    /// The database. It does not have what the log alone holds.
    pub fn database(&self) -> &Tree {
        &self.db
    }

    /// A row as it was written.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        if let Some(row) = self.layers.read().get(key) {
            return Ok(row.clone());
        }
        self.db.get(key).map_err(Fault::database)
    }

    /// The same of a row that was written or removed lately, without a wait; none where only the disk knows. A scan
    /// holds the lock while it reads the disk.
    pub(crate) fn get_recent(&self, key: &[u8]) -> Option<Option<IVec>> {
        self.layers.try_read()?.get(key).cloned()
    }

    /// At most `limit` rows of a span, first to last, with what a group in the making has written on
    /// top.
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

    /// At most `limit` rows of a span, first to last.
    pub fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan_under(&Written::new(), span, limit)
    }

    /// At most `limit` rows of a span, last to first.
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

    /// Shows what a group has written, which is in the log.
    pub(crate) fn show(&self, written: &Written) {
        let mut layers = self.layers.write();
        for (key, row) in written {
            layers
                .active
                .insert(IVec::from(key.as_slice()), row.clone());
        }
    }

    /// Ends an epoch: its rows are what the database gets next. That it has those of the one before
    /// is for the caller to know.
    pub(crate) fn rotate(&self) {
        self.awaited.store(false, Relaxed);
        let mut layers = self.layers.write();
        debug_assert!(layers.frozen.is_empty(), "an epoch is lost");
        layers.frozen = Arc::new(std::mem::take(&mut layers.active));
    }

    /// Puts the rows of the epoch that ended into the database. They are read as before meanwhile,
    /// and while the next ones are shown.
    pub(crate) fn write_frozen(&self) -> sled::Result<()> {
        let epoch = Arc::clone(&self.layers.read().frozen);
        put(&self.db, &epoch, || {
            if !self.awaited.load(Relaxed) {
                std::thread::yield_now();
            }
        })
    }

    /// Lets go of the rows of the epoch that ended, which the database has.
    pub(crate) fn drop_frozen(&self) {
        let empty = Arc::default();
        let frozen = std::mem::replace(&mut self.layers.write().frozen, empty);
        // So many rows take a while, for which the lock must not be held.
        drop(frozen);
    }

    /// The thread that [writes the frozen rows](Self::write_frozen) gives way no more until the next
    /// [rotation](Self::rotate): the applier waits for it.
    pub(crate) fn hurry(&self) {
        self.awaited.store(true, Relaxed);
    }
}

/// Puts rows into a database, each once, in two passes in the order of their keys: most of them, and then
/// those between ([`FULL`]). The number of the last group goes in behind all others: a database that has it
/// has them all, because a crash takes from the end. They go in one by one: sled would make a batch of them
/// whole in a crash, and for that has seven threads of its own write out twice what it has; here the log
/// does that. `between` is called after every few.
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

/// A row of a layer; none hides what lies below it.
type LayerRow = sled::Result<(IVec, Option<IVec>)>;

fn of_epoch<'a>(
    epoch: &'a EpochRows,
    span: &Span,
) -> impl DoubleEndedIterator<Item = LayerRow> + use<'a> {
    let rows = epoch.range::<[u8], _>(span.bounds());
    rows.map(|(key, row)| Ok((key.clone(), row.clone())))
}

fn of_database(tree: &Tree, span: &Span) -> impl DoubleEndedIterator<Item = LayerRow> + use<> {
    span.of(tree)
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

/// Two layers in the order of their keys; where both have a row, the upper one's.
struct Merged<A: Iterator, B: Iterator> {
    above: Peekable<A>,
    below: Peekable<B>,
    /// How the key that comes first compares with the other.
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

/// For tests, which change rows behind the engine's back.
impl Memtable {
    /// All rows.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn all(&self) -> Result<Vec<(Key, IVec)>, Fault> {
        self.scan(&Span::prefix(&[]), usize::MAX)
    }

    /// Writes a row as if a group had; returns what it was.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn plant(&self, key: &[u8], row: impl Into<IVec>) -> Result<Option<IVec>, Fault> {
        let before = self.get(key)?;
        self.show(&Written::from([(key.to_vec(), Some(row.into()))]));
        Ok(before)
    }

    /// Puts all rows into the database ahead of time.
    ///
    /// # Errors
    /// Where the database does not take them.
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

    /// What happens to a table.
    #[derive(Clone, Debug)]
    enum Happens {
        Shown(BTreeMap<u8, Option<u8>>),
        Rotated,
        /// So many rows of the epoch that ended are in the database.
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
            let memtable = Memtable::of(sled::open(folder.path()).unwrap());
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
        let memtable = Memtable::of(sled::open(folder.path()).unwrap());
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
            // What would have stood before the second row is not known, so there is no second one either.
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
        let memtable = Memtable::of(sled::open(folder.path()).unwrap());
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
        let memtable = Memtable::of(sled::open(folder.path()).unwrap());
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
