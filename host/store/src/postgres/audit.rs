//! The audit log: a chain, so its lines are written one after the other.

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::time::Time;

use crate::Fault;
use crate::postgres::database::{Failure, Tx, execute, row};
use crate::postgres::number;
use crate::rows::seal::Sealer;
use crate::rows::{self, records, schema};

/// The end of the log; append `FOR UPDATE` to lock it.
pub(crate) const END: &str = "SELECT body FROM audit_end";

/// Decodes the end of the log. `None` if the log is empty.
pub(crate) fn end(
    sealer: &Sealer,
    row: &tokio_postgres::Row,
) -> Result<Option<(u64, [u8; 32])>, Fault> {
    let body: Option<&[u8]> = row.get(0);
    let end = body.map(|body| records::decode(sealer, schema::AUDIT_END, body));
    end.transpose()
}

/// Appends an entry. Call it last in the transaction of the change it records: from here on others wait for the
/// lock.
pub(crate) async fn append(
    tx: &Tx<'_>,
    audited: Audited,
    now: Time,
) -> Result<AuditEntry, Failure> {
    let found = row(tx, "SELECT body FROM audit_end FOR UPDATE", &[]).await?;
    let found = found.ok_or_else(|| Fault::Corrupt("the end of the audit log".into()))?;
    let last = end(tx.sealer(), &found)?;
    let (entry, [(_, line), (_, end)]) = rows::audit::next(tx.sealer(), last, audited, now)?;
    let sql = "WITH line AS (INSERT INTO audit (number, body) VALUES ($1, $2))
        UPDATE audit_end SET body = $3";
    execute(tx, sql, &[&number(entry.id), &&line[..], &&end[..]]).await?;
    rows::audit::log(&entry);
    Ok(entry)
}
