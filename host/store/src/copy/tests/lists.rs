//! The lists of the copy contain every kind of row, and every table with its columns.

use std::collections::BTreeSet;

use super::*;
use crate::copy::tables::{COUNTED, LEFT, MADE, OWN, SINGLES, TABLES};
use crate::copy::{to_postgres, to_sled};
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::verifier::kinds::Derived;

#[test]
fn every_kind_of_row_of_the_embedded_store_is_copied_or_follows() {
    let walked = to_postgres::WALKED.map(|(kind, _)| kind);
    let known: BTreeSet<_> = walked.into_iter().chain(SINGLES).chain(MADE).collect();
    let all = KINDS.all().iter();
    let kept: BTreeSet<_> = all
        .clone()
        .filter(|kind| kind.derived == Derived::Not || walked.contains(&kind.name))
        .map(|kind| kind.name)
        .collect();
    assert_eq!(known, kept);
    // On the way back, the other rows are derived or unique.
    let read: BTreeSet<_> = to_sled::READ.iter().map(|(kind, ..)| *kind).collect();
    let all: BTreeSet<_> = all.map(|kind| kind.name).collect();
    assert!(read.is_subset(&all), "{read:?}");
    let written_with_others = ["attempt", "event", "due", "payment index"];
    let own = ["canary", "format", "last-group", "probe"];
    let not_read: BTreeSet<_> = kept.difference(&read).copied().collect();
    let with_others = written_with_others.into_iter().chain(own).chain(SINGLES);
    let with_others: BTreeSet<_> = with_others
        .chain(["event-by-time", "notes", "reference"])
        .collect();
    assert!(not_read.is_subset(&with_others), "{not_read:?}");
    assert!(COUNTED.iter().all(|kind| all.contains(kind)));
}

#[tokio::test]
async fn every_table_and_column_is_copied_or_named_as_left() {
    if !Scratch::available().unwrap() {
        eprintln!("NOT RUN: no PostgreSQL is installed");
        return;
    }
    let scratch = Scratch::new().await.unwrap();
    let target = postgres::target::Target::parse(&scratch.options().url).unwrap();
    let client = target.connect().await.unwrap();
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
        WHERE table_schema = 'kassette'";
    let rows = client.query(sql, &[]).await.unwrap();
    let there: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let named: BTreeSet<(String, String)> = TABLES
        .iter()
        .chain(&LEFT)
        .flat_map(|(table, columns)| {
            let columns = columns.split(", ");
            columns.map(|column| ((*table).to_owned(), column.to_owned()))
        })
        .collect();
    let is_own = |(table, _): &&(String, String)| OWN.contains(&table.as_str());
    let records: BTreeSet<_> = there.iter().filter(|column| !is_own(column)).collect();
    let of_records: BTreeSet<_> = named.iter().filter(|column| !is_own(column)).collect();
    assert_eq!(of_records, records);
    assert!(
        OWN.iter()
            .all(|own| there.iter().any(|(table, _)| table == own))
    );
    // Tables that are not read on the way back are derived from others.
    let read = to_sled::READ.map(|(_, sql, _)| sql);
    let is_read = |table: &str| {
        let from = [format!("FROM {table} "), format!("FROM {table}\n")];
        read.iter().any(|sql| {
            let sql = format!("{sql} ");
            from.iter().any(|from| sql.contains(from))
        })
    };
    let not_read: Vec<_> = TABLES.iter().filter(|(table, _)| !is_read(table)).collect();
    let follow = [
        "due",
        "event",
        "reference",
        "refund",
        "search_mark",
        "search_reference",
    ];
    let not_read: Vec<_> = not_read.into_iter().map(|(table, _)| *table).collect();
    assert_eq!(not_read, follow);
}
