//! The audit log, the counters, and what stands once in a database.

use kassette_domain::audit::Chain;

use crate::postgres::audit;
use crate::postgres::errors::OpenError;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::rows;
use crate::rows::schema;
use crate::rows::seal::Secrets;

const LINES: &str = "/* verify: audit */ SELECT number, body FROM audit ORDER BY number";
const NONCES: &str = "/* verify: nonces */ SELECT reseller, mark FROM nonce";
/// What every database has, each with whether it has it.
const SINGLES: [(&str, &str); 2] = [
    ("directory", "SELECT FROM directory"),
    ("nonces-freed", "SELECT FROM nonce_end"),
];
/// What is counted: its name in `counter`, the kind of the counter, the kind of what it counts.
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

/// Comes last: counters are compared with the rows that were read.
pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    reading.each("nonces", NONCES, nonce).await?;
    audit_log(reading).await?;
    for (kind, sql) in SINGLES {
        if reading.one(sql).await?.is_none() {
            reading.find(kind, b"", "it is missing");
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

/// Goes along the log, and names where its chain breaks.
async fn audit_log(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    let mut chain = Chain::default();
    let mut lines = reading.cursor(LINES, 0).await?;
    while let Some(line) = reading.next(&mut lines).await? {
        reading.count("audit-line");
        let number = line.get::<_, i64>(0).unsigned_abs();
        let key = schema::audit(number);
        let decoded = rows::audit::decode(&key, line.get(1));
        let entry = reading.readable("audit-line", &key, decoded)?;
        chain.follow(number, entry.as_ref());
    }
    match reading.one(audit::END).await? {
        None => reading.find("audit-end", schema::AUDIT_END, "it is missing"),
        Some(row) => {
            let end = audit::end(&row);
            if let Some(end) = reading.readable("audit-end", schema::AUDIT_END, end)? {
                chain.end(end);
            }
        }
    }
    for found in chain.breaks() {
        reading.find("audit-line", schema::AUDIT, found.to_string());
    }
    Ok(())
}
