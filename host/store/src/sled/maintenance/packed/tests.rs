//! What is packed, as sled reads it, and goes on with it.

use std::collections::BTreeMap;

use ::sled::Db;
use kassette_domain::id::Digest;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::sled::MasterKey;
use crate::sled::open::{Folder, OpenOptions, open_engine};
use crate::sled::segment::SEGMENT_BYTES;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn folder() -> (TempDir, Folder) {
    let parent = tempfile::tempdir().unwrap();
    let folder = Folder::take(&OpenOptions {
        path: parent.path().join("store"),
        master: MasterKey::from_bytes([7; 32]),
        cache_bytes: 8 << 20,
    });
    (parent, folder.unwrap())
}

fn pack(folder: &Folder, rows: &Model) {
    let mut packed = Packed::create(&folder.path).unwrap();
    for (key, row) in rows {
        packed
            .push(key.as_slice().into(), row.as_slice().into())
            .unwrap();
    }
    packed.finish().unwrap();
}

fn assert_holds(db: &Db, rows: &Model) {
    let mut found = db.iter();
    for (key, row) in rows {
        let (found_key, found_row) = found.next().unwrap().unwrap();
        assert_eq!((&found_key[..], &found_row[..]), (&key[..], &row[..]));
    }
    assert!(found.next().is_none());
    for (key, row) in rows {
        assert_eq!(&db.get(key).unwrap().unwrap()[..], &row[..]);
    }
    let backwards = db.iter().rev().map(|row| row.unwrap().0.to_vec());
    assert!(backwards.eq(rows.keys().rev().cloned()));
}

/// Writes between, over and behind what is there, and takes some of it away.
fn go_on(db: &Db, rows: &mut Model) {
    for (at, key) in rows.keys().cloned().collect::<Vec<_>>().iter().enumerate() {
        let between = [key.as_slice(), b"+"].concat();
        db.insert(&between, b"between").unwrap();
        rows.insert(between, b"between".to_vec());
        match at % 3 {
            0 => {
                db.insert(key, b"over").unwrap();
                rows.insert(key.clone(), b"over".to_vec());
            }
            1 => {
                db.remove(key).unwrap();
                rows.remove(key);
            }
            _ => {}
        }
    }
}

/// Packs, opens, goes on, opens again.
fn live_with(mut rows: Model) {
    let (_parent, folder) = folder();
    pack(&folder, &rows);
    let db = open_engine(&folder).unwrap();
    assert_holds(&db, &rows);
    go_on(&db, &mut rows);
    assert_holds(&db, &rows);
    db.flush().unwrap();
    drop(db);
    assert_holds(&open_engine(&folder).unwrap(), &rows);
}

fn numbered(count: usize) -> Model {
    let row = |number: u32| (number.to_be_bytes().to_vec(), number.to_string().into());
    (0..u32::try_from(count).unwrap()).map(row).collect()
}

#[test]
fn any_number_of_rows_is_there_and_the_database_goes_on() {
    let few = [0, 1, ROWS, MOST_ROWS, MOST_ROWS + 1, 2 * ROWS, 2 * ROWS + 1];
    // Around where a root gets a page above it, and where two pages stand below that.
    let many = [MOST_CHILDREN, MOST_CHILDREN + 1, 2 * CHILDREN].map(|leaves| leaves * ROWS);
    for count in few.into_iter().chain(many).chain([many[2] + 1]) {
        live_with(numbered(count));
    }
}

#[test]
fn three_levels_of_index_pages_lead_to_every_row() {
    let (_parent, folder) = folder();
    let rows = numbered(CHILDREN * MOST_CHILDREN * ROWS + 20_000);
    pack(&folder, &rows);
    assert_holds(&open_engine(&folder).unwrap(), &rows);
}

#[test]
fn rows_of_many_segments_and_rows_as_long_as_they_get_are_there() {
    let long = |number: usize| vec![u8::try_from(number % 251).unwrap(); 96 * 1024];
    let mut rows: Model = (0..300)
        .map(|number| (format!("long/{number:05}").into(), long(number)))
        .collect();
    // Longer in common than sled leaves out.
    let common = "in common ".repeat(40);
    rows.extend((0..2_000).map(|number| (format!("{common}{number:05}").into(), vec![7; 300])));
    live_with(rows);
}

#[test]
fn a_packed_database_is_little_more_than_its_rows() {
    let (_parent, folder) = folder();
    // As an index of ours: from a hash to two ids.
    let row = |number: u32| {
        let hash = Digest::of(&number.to_be_bytes()).0;
        ([b"rtn/", &hash[..]].concat(), hash.to_vec())
    };
    let rows: Model = (0..200_000).map(row).collect();
    let alive: usize = rows.iter().map(|(key, row)| key.len() + row.len()).sum();
    pack(&folder, &rows);
    let written = std::fs::metadata(folder.path.join("db")).unwrap().len();
    assert!(written > SEGMENT_BYTES as u64);
    assert!(written < (alive + alive / 10) as u64, "{written}, {alive}");
}

#[test]
fn rows_that_are_out_of_order_are_refused() {
    let (_parent, folder) = folder();
    let mut packed = Packed::create(&folder.path).unwrap();
    packed.push(b"b".into(), b"".into()).unwrap();
    for key in [b"b", b"a"] {
        let refused = packed.push(key.into(), b"".into());
        assert!(matches!(refused, Err(MaintenanceError::NotTheSame)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn keys_of_any_form_are_there_and_the_database_goes_on(
        rows in prop::collection::btree_map(
            prop::collection::vec(prop::sample::select(vec![0_u8, 1, b'/', 254, 255]), 0..7),
            prop::collection::vec(any::<u8>(), 0..4),
            0..600,
        )
    ) {
        live_with(rows);
    }
}
