//! Checks of the audit log, the counters, and tables with a single row.

use kassette_domain::audit::Chain;

use crate::newest::NewestEntries;
use crate::postgres::errors::OpenError;
use crate::postgres::verify::COLUMNS;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::postgres::{audit, millis, movements};
use crate::rows;
use crate::rows::schema;
use crate::rows::seal::Secrets;

const LINES: &str = "/* verify: audit */ SELECT number, body FROM audit ORDER BY number";
const LEDGER: &str = "/* verify: ledger */ SELECT closed_until, body FROM ledger";
const NONCES: &str = "/* verify: nonces */ SELECT reseller, mark FROM nonce";
/// Rows that every database has: kind and query.
const SINGLES: [(&str, &str); 3] = [
    ("directory", "SELECT FROM directory"),
    ("ledger", "SELECT FROM ledger"),
    ("nonces-freed", "SELECT FROM nonce_end"),
];
/// Counters: name in `counter`, kind of the counter row, kind of the counted rows, and query.
const COUNTERS: [(&str, &str, &str, &str); 2] = [
    (
        "merchant",
        "merchant-count",
        "merchant",
        "SELECT value FROM counter WHERE name = 'merchant'",
    ),
    (
        "reseller",
        "reseller-count",
        "reseller",
        "SELECT value FROM counter WHERE name = 'reseller'",
    ),
];

/// Call last: counters are compared with the number of rows read.
pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    reading.each("nonces", NONCES, nonce).await?;
    for (kind, sql) in SINGLES {
        if reading.one(sql).await?.is_none() {
            reading.find(kind, b"", "it is missing");
        }
    }
    if let Some(row) = reading.one(LEDGER).await? {
        let state = movements::ledger(&reading.secrets.sealer, row.get(1));
        if let Some(state) = reading.readable("ledger", schema::LEDGER, state)?
            && millis(state.closed_until) != row.get::<_, i64>(0)
        {
            reading.find("ledger", schema::LEDGER, COLUMNS);
        }
    }
    for (name, kind, of, sql) in COUNTERS {
        let there = reading.rows_of(of);
        let count = reading.one(sql).await?.map(|row| row.get::<_, i64>(0));
        match count.map(u64::try_from) {
            Some(Ok(count)) if count == there => {}
            Some(Ok(count)) => {
                let what = format!("it counts {count} {name}s, {there} are there");
                reading.find(kind, name.as_bytes(), what);
            }
            Some(Err(_)) | None => reading.find(kind, name.as_bytes(), "it is missing"),
        }
    }
    Ok(())
}

fn nonce(row: &tokio_postgres::Row, _: &Secrets) -> CheckedRow {
    let (reseller, mark): (i64, &[u8]) = (row.get(0), row.get(1));
    let is_mark = rows::nonces::NonceDigest::try_from(mark).is_ok();
    let key = [schema::NONCES, &reseller.to_be_bytes(), mark].concat();
    (key, Ok(vec![(is_mark, "it is no nonce's")]))
}

/// Verifies the audit log's chain; returns the newest entries about other rows.
pub(super) async fn audit_log(reading: &mut Reading<'_>) -> Result<NewestEntries, OpenError> {
    let (mut chain, mut newest) = (Chain::default(), NewestEntries::default());
    let mut lines = reading.cursor(LINES, 0).await?;
    while let Some(line) = reading.next(&mut lines).await? {
        reading.count("audit-line");
        let number = line.get::<_, i64>(0).unsigned_abs();
        let key = schema::audit(number);
        let decoded = rows::audit::decode(&reading.secrets.sealer, &key, line.get(1));
        let entry = reading.readable("audit-line", &key, decoded)?;
        chain.follow(number, entry.as_ref());
        entry.iter().for_each(|entry| newest.note(entry));
    }
    match reading.one(audit::END).await? {
        None => reading.find("audit-end", schema::AUDIT_END, "it is missing"),
        Some(row) => {
            let end = audit::end(&reading.secrets.sealer, &row);
            if let Some(end) = reading.readable("audit-end", schema::AUDIT_END, end)? {
                chain.end(end);
            }
        }
    }
    for found in chain.breaks() {
        reading.find("audit-line", schema::AUDIT, found.to_string());
    }
    Ok(newest)
}
