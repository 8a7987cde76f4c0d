//! Lines of the audit log as rows.

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::id::OperatorId;
use kassette_domain::time::Time;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};

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
pub(crate) fn encode(key: &[u8], entry: &AuditEntry) -> Result<IVec, Fault> {
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

/// Tells the program's log of a line: who changed what, and never what it was or is.
pub(crate) fn log(entry: &AuditEntry) {
    let audited = &entry.audited;
    let operator = audited.operator_id.map(|operator| operator.to_string());
    tracing::info!(
        audit.id = entry.id,
        // A person's name stands in the audit log alone.
        operator.id = operator.as_deref().unwrap_or(&audited.operator),
        audit.action = audited.action,
        audit.object = audited.object,
        "a change is in the audit log"
    );
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
