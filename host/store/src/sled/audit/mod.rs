//! The audit log.

pub(crate) mod checks;

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::id::OperatorId;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Written};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::source::Source;
use crate::sled::memory::{Memory, Rows};

/// The next line of a chain, with the rows that it takes.
pub(crate) fn next(
    last: Option<(u64, [u8; 32])>,
    audited: Audited,
    now: Time,
) -> Result<(AuditEntry, [(Key, IVec); 2]), Fault> {
    let entry = AuditEntry::next(last, now, audited);
    let (key, end) = (schema::audit(entry.id), schema::AUDIT_END.to_vec());
    let row = encode(&key, &entry)?;
    let end_row = records::encode(&end, &(entry.id, entry.hash))?;
    Ok((entry, [(key, row), (end, end_row)]))
}

/// Writes a line for its row: the operator's id behind the rest, where there is one.
fn encode(key: &[u8], entry: &AuditEntry) -> Result<IVec, Fault> {
    match entry.audited.operator_id {
        Some(operator) => records::encode(key, &(entry, operator)),
        None => records::encode(key, entry),
    }
}

/// Reads a line back.
pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<AuditEntry, Fault> {
    let (mut entry, operator): (AuditEntry, Option<OperatorId>) =
        records::decode_with_more(key, row)?;
    entry.audited.operator_id = operator;
    Ok(entry)
}

/// Writes the next line of the chain, in the transaction of the change that it tells.
pub(crate) fn append(
    rows: &mut Rows<'_>,
    audited: Audited,
    now: Time,
) -> Result<AuditEntry, Fault> {
    let (entry, written) = next(rows.load(schema::AUDIT_END)?, audited, now)?;
    for (key, row) in written {
        rows.put(key, row);
    }
    Ok(entry)
}

/// Tells the log of the lines that a group has written: who changed what, and never what it was or is.
pub(crate) fn log(rows: &Written) {
    for (key, row) in rows.range(schema::AUDIT.to_vec()..) {
        if !key.starts_with(schema::AUDIT) {
            return;
        }
        let entry = row.as_ref().and_then(|row| decode(key, row).ok());
        let Some(AuditEntry { id, audited, .. }) = entry else {
            continue;
        };
        let operator = audited.operator_id.map(|operator| operator.to_string());
        tracing::info!(
            audit.id = id,
            // A person's name stands in the audit log alone.
            operator.id = operator.as_deref().unwrap_or(&audited.operator),
            audit.action = audited.action,
            audit.object = audited.object,
            "a change is in the audit log"
        );
    }
}

/// A line about a change outside of the store.
pub(crate) struct Audit {
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for Audit {
    type Outcome = AuditEntry;

    fn apply(self, rows: &mut Rows<'_>) -> Result<AuditEntry, Fault> {
        append(rows, self.audited, self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_from_before_operators_ids_reads_as_it_did() {
        let audited = Audited {
            operator_id: None,
            ..crate::suite::fixtures::audited("merchant.create")
        };
        let entry = AuditEntry::next(None, Time::from_secs(1), audited.clone());
        let key = schema::audit(1);
        let said = (audited.operator, audited.actor, audited.reason);
        let of = (
            audited.action,
            audited.object,
            audited.before,
            audited.after,
        );
        let before = (entry.id, entry.at, said, of, entry.prev_hash, entry.hash);
        let row = records::encode(&key, &before).unwrap();
        assert_eq!(decode(&key, &row).as_ref(), Ok(&entry));
        assert_eq!(encode(&key, &entry), Ok(row), "and is still written so");
        let followed = records::encode(&key, &(&before, 7_u8)).unwrap();
        assert!(decode(&key, &followed).is_err(), "no id follows it");
    }
}
