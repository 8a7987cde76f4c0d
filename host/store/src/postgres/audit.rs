//! The audit log: a chain, so its lines are written one after the other.

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::time::Time;

use crate::Fault;
use crate::postgres::database::{Failure, Tx, execute, row};
use crate::postgres::number;
use crate::rows;

/// The end of the log, locked where the statement goes on with `FOR UPDATE`.
pub(crate) const END: &str = "SELECT number, hash FROM audit_end";

/// Reads the end of the log; none where there is no line yet.
pub(crate) fn end(row: &tokio_postgres::Row) -> Result<Option<(u64, [u8; 32])>, Fault> {
    let last = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
    if last == 0 {
        return Ok(None);
    }
    let hash = row.get::<_, &[u8]>(1).try_into();
    let hash = hash.map_err(|_| Fault::Corrupt("the end of the audit log".into()))?;
    Ok(Some((last, hash)))
}

/// Writes the next line, as the last act of the transaction of the change that it tells: others wait for its end
/// from here on.
pub(crate) async fn append(
    tx: &Tx<'_>,
    audited: Audited,
    now: Time,
) -> Result<AuditEntry, Failure> {
    let found = row(tx, "SELECT number, hash FROM audit_end FOR UPDATE", &[]).await?;
    let found = found.ok_or_else(|| Fault::Corrupt("the end of the audit log".into()))?;
    let (entry, [(_, line), _]) = rows::audit::next(end(&found)?, audited, now)?;
    let sql = "WITH line AS (INSERT INTO audit (number, body) VALUES ($1, $3))
        UPDATE audit_end SET number = $1, hash = $2";
    let hash = &entry.hash[..];
    execute(tx, sql, &[&number(entry.id), &hash, &&line[..]]).await?;
    rows::audit::log(&entry);
    Ok(entry)
}
