//! Tests of power cuts during a start, with a database that sled has written.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::LazyLock;

use tempfile::TempDir;

use super::*;
use crate::folder::Folder;
use crate::open::open_database;

/// Number of rows of the database. sled puts them into one page.
const ROWS: u32 = 4;
/// Bytes of a row.
const ROW: usize = 100_000;
/// Unit in which a disk writes.
const SECTOR: usize = 512;

/// Files of a folder by name, without `blobs`.
type Files = BTreeMap<String, Vec<u8>>;

fn folder() -> (TempDir, Folder) {
    let parent = tempfile::tempdir().unwrap();
    let folder = taken(parent.path().join("store"));
    (parent, folder)
}

fn taken(path: PathBuf) -> Folder {
    Folder::take(path, 8 << 20).unwrap()
}

fn files(folder: &Folder) -> Files {
    let entries = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn placed_in_a_folder(files: &Files) -> (TempDir, Folder) {
    let (parent, folder) = folder();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    (parent, folder)
}

fn snapshots(files: &Files) -> Files {
    let snapshots = files.iter().filter(|(name, _)| name.starts_with("snap."));
    snapshots
        .map(|(name, bytes)| (name.clone(), bytes.clone()))
        .collect()
}

fn write_rows(db: &::sled::Db, round: u32) {
    for row in 0..ROWS {
        let value = vec![round.to_le_bytes()[0]; ROW];
        db.insert(row.to_be_bytes(), value).unwrap();
        db.flush().unwrap();
    }
}

/// Whether all rows have the values of a round.
fn holds(db: &::sled::Db, round: u32) -> bool {
    db.len() == ROWS as usize
        && db.iter().map(Result::unwrap).all(|(_, value)| {
            value.len() == ROW && value.iter().all(|byte| *byte == round.to_le_bytes()[0])
        })
}

fn opens_with(image: &Files, round: u32) -> bool {
    let (_parent, folder) = placed_in_a_folder(image);
    holds(&open_database(&folder).unwrap(), round)
}

/// Like [`opens_with`], but without rewriting the heads before sled opens the database.
fn sled_opens_with(image: &Files, round: u32) -> bool {
    let (_parent, folder) = placed_in_a_folder(image);
    let opened = catch_unwind(|| {
        ::sled::Config::new()
            .path(folder.path())
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None)
            .open()
    });
    matches!(opened, Ok(Ok(db)) if holds(&db, round))
}

/// Offsets of the heads that only the first database has.
fn emptied(before: &[u8], after: &[u8]) -> Vec<usize> {
    let offsets = (0..before.len()).step_by(SEGMENT_BYTES);
    let head = |bytes: &[u8], offset: usize| {
        let head = bytes.get(offset..offset + SEGMENT_HEAD)?;
        Head::read(head.try_into().ok()?)
    };
    offsets
        .filter(|offset| head(before, *offset).is_some() && head(after, *offset).is_none())
        .collect()
}

/// A database after a kill, and what a start does to it.
struct Start {
    /// Number of times that its rows were written.
    round: u32,
    /// Files after the kill.
    killed: Files,
    /// Files after the heads were rewritten.
    settled: Files,
    /// Files after sled has opened the database.
    opened: Files,
    /// Offsets of the segments that sled has emptied.
    emptied: Vec<usize>,
}

/// A start in which sled empties the last segment but one.
static START: LazyLock<Start> = LazyLock::new(start);

fn start() -> Start {
    let (_parent, alive) = folder();
    let db = open_database(&alive).unwrap();
    write_rows(&db, 0);
    drop(db);
    // Opening writes a snapshot, which the following rounds make obsolete.
    let db = open_database(&alive).unwrap();
    for round in 1..1_000 {
        write_rows(&db, round);
        let killed = files(&alive);
        if killed["db"].len() < 4 * SEGMENT_BYTES {
            continue;
        }
        let (_parent, folder) = placed_in_a_folder(&killed);
        let database = File::open(folder.path().join("db")).unwrap();
        let tail = tail(&database, newest_snapshot(folder.path()).unwrap()).unwrap();
        let [(first, _), _] = tail[..] else { continue };
        settle_tail(folder.path()).unwrap();
        let settled = files(&folder);
        let db = open_database(&folder).unwrap();
        let opened = files(&folder);
        assert!(holds(&db, round));
        let emptied = emptied(&settled["db"], &opened["db"]);
        if emptied.contains(&usize::try_from(first).unwrap()) {
            return Start {
                round,
                killed,
                settled,
                opened,
                emptied,
            };
        }
    }
    panic!("sled empties no segment of the tail");
}

/// A database of which the power cut left this file and these snapshots.
fn image(start: &Start, database: Vec<u8>, snapshots: Files) -> Files {
    let mut image = start.settled.clone();
    image.retain(|name, _| !name.starts_with("snap."));
    image.insert("db".into(), database);
    image.extend(snapshots);
    image
}

#[test]
fn a_start_loses_nothing_whatever_a_power_cut_leaves_of_it() {
    let start = &*START;
    let (settled, opened) = (&start.settled["db"], &start.opened["db"]);
    let (old, new) = (snapshots(&start.settled), snapshots(&start.opened));
    assert_eq!((old.len(), new.len()), (1, 1));
    let both = old.clone().into_iter().chain(new.clone()).collect();
    // The zeros are all on disk, only in the first sectors, only in the last ones, or in some.
    let torn = |is_emptied: &dyn Fn(usize) -> bool| {
        let mut database = settled.clone();
        database.truncate(opened.len().max(start.emptied[0] + SEGMENT_BYTES));
        for offset in &start.emptied {
            for sector in 0..SEGMENT_BYTES / SECTOR {
                let at = offset + sector * SECTOR;
                if is_emptied(sector)
                    && let Some(bytes) = database.get_mut(at..at + SECTOR)
                {
                    bytes.fill(0);
                }
            }
        }
        database
    };
    let databases = [
        settled.clone(),
        opened.clone(),
        torn(&|sector| sector == 0),
        torn(&|sector| sector < 5_000),
        torn(&|sector| sector > 5_000),
        torn(&|sector| sector % 7 == 3),
    ];
    for (number, database) in databases.into_iter().enumerate() {
        for snapshots in [&Files::new(), &old, &new, &both] {
            let image = image(start, database.clone(), snapshots.clone());
            let named: Vec<_> = snapshots.keys().collect();
            assert!(opens_with(&image, start.round), "{number} with {named:?}");
        }
    }
    // Counter-check: without the rewritten heads the data is lost.
    let mut database = start.killed["db"].clone();
    for offset in &start.emptied {
        let end = database.len().min(offset + SEGMENT_BYTES);
        database[*offset..end].fill(0);
    }
    for snapshots in [Files::new(), old] {
        let image = image(start, database.clone(), snapshots);
        assert!(!sled_opens_with(&image, start.round));
    }
}

#[test]
fn a_head_that_a_cut_tore_is_written_once_more() {
    let start = &*START;
    let (killed, settled) = (&start.killed["db"], &start.settled["db"]);
    let changed: Vec<usize> = (0..killed.len())
        .step_by(SEGMENT_BYTES)
        .filter(|offset| {
            killed[*offset..*offset + SEGMENT_HEAD] != settled[*offset..*offset + SEGMENT_HEAD]
        })
        .collect();
    assert_eq!(changed.len(), 2);
    let heads: Vec<HeadAt> = changed
        .iter()
        .map(|offset| {
            let head = settled[*offset..*offset + SEGMENT_HEAD].try_into().unwrap();
            (*offset as u64, Head::read(head).unwrap())
        })
        .collect();
    for written in 0..=SEGMENT_HEAD {
        let mut image = start.killed.clone();
        let database = image.get_mut("db").unwrap();
        for offset in &changed {
            let head = *offset..*offset + written;
            database[head.clone()].copy_from_slice(&settled[head]);
        }
        let (_parent, folder) = placed_in_a_folder(&image);
        write(folder.path(), &heads).unwrap();
        settle_tail(folder.path()).unwrap();
        let after = files(&folder);
        assert!(after["db"] == *settled, "{written}");
        assert!(!after.contains_key(NAME));
        assert!(holds(&open_database(&folder).unwrap(), start.round));
    }
}

#[test]
fn a_head_is_not_written_over_another_segment() {
    let start = &*START;
    let (_parent, folder) = placed_in_a_folder(&start.opened);
    let path = folder.path().join("db");
    let database = File::options().read(true).write(true).open(path).unwrap();
    let position = 1_000 * SEGMENT;
    let whole_to = position;
    let emptied = start.emptied[0] as u64;
    for offset in [0, emptied, start.opened["db"].len() as u64] {
        write_once_more(&database, (offset, Head { position, whole_to })).unwrap();
    }
    assert!(files(&folder)["db"] == start.opened["db"]);
}

#[test]
fn a_file_of_heads_that_does_not_read_back_changes_nothing() {
    let start = &*START;
    let (_parent, folder) = placed_in_a_folder(&start.killed);
    let heads = [(
        0,
        Head {
            position: 0,
            whole_to: 0,
        },
    ); 2];
    write(folder.path(), &heads).unwrap();
    assert_eq!(read(folder.path()).unwrap(), Some(heads.to_vec()));
    let path = folder.path().join(NAME);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, bad).unwrap();
        assert_eq!(read(folder.path()).unwrap(), None, "a bit of {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert_eq!(read(folder.path()).unwrap(), None, "cut at {at}");
    }
    settle_tail(folder.path()).unwrap();
    assert!(files(&folder)["db"] == start.settled["db"]);
    assert!(!path.exists());
    assert!(holds(&open_database(&folder).unwrap(), start.round));
}

#[test]
fn a_tail_that_breaks_off_keeps_the_heads_behind_the_break() {
    let start = &*START;
    let mut image = start.killed.clone();
    let (_parent, folder) = placed_in_a_folder(&image);
    let from = newest_snapshot(folder.path()).unwrap();
    let database = File::open(folder.path().join("db")).unwrap();
    let [(first, _), (last, head)] = tail(&database, from).unwrap()[..] else {
        panic!("a tail of two");
    };
    let middle = usize::try_from(first).unwrap() + SEGMENT_BYTES / 2;
    image.get_mut("db").unwrap()[middle] ^= 1;
    let (_parent, folder) = placed_in_a_folder(&image);
    let database = File::open(folder.path().join("db")).unwrap();
    assert_eq!(tail(&database, from).unwrap().len(), 1);
    drop(database);
    settle_tail(folder.path()).unwrap();
    let last = usize::try_from(last).unwrap();
    let after = &files(&folder)["db"][last..last + SEGMENT_HEAD];
    assert_eq!(Head::read(after.try_into().unwrap()), Some(head));
}

#[test]
fn a_database_that_an_engine_has_open_is_left_alone() {
    let (_parent, folder) = folder();
    let db = open_database(&folder).unwrap();
    let refused = settle_tail(folder.path()).map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::WouldBlock));
    drop(db);
}
