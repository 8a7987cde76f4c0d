//! Rows of the audit log.

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::id::OperatorId;
use kassette_domain::time::Time;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;

/// Returns the next line of a chain, with its rows.
pub(crate) fn next(
    sealer: &Sealer,
    last: Option<(u64, [u8; 32])>,
    audited: Audited,
    now: Time,
) -> Result<(AuditEntry, [(Key, IVec); 2]), Fault> {
    let entry = AuditEntry::next(last, now, audited);
    let (key, end) = (schema::audit(entry.id), schema::AUDIT_END.to_vec());
    let row = encode(sealer, &key, &entry)?;
    let end_row = records::encode(sealer, &end, &(entry.id, entry.hash))?;
    Ok((entry, [(key, row), (end, end_row)]))
}

/// Encodes a line. The operator's id, if there is one, follows the rest.
pub(crate) fn encode(sealer: &Sealer, key: &[u8], entry: &AuditEntry) -> Result<IVec, Fault> {
    match entry.audited.operator_id {
        Some(operator) => records::encode(sealer, key, &(entry, operator)),
        None => records::encode(sealer, key, entry),
    }
}

/// Decodes a line.
pub(crate) fn decode(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<AuditEntry, Fault> {
    let (mut entry, operator): (AuditEntry, Option<OperatorId>) =
        records::decode_with_more(sealer, key, row)?;
    entry.audited.operator_id = operator;
    Ok(entry)
}

/// Writes a line to the program's log: who changed which object, without its content.
pub(crate) fn log(entry: &AuditEntry) {
    let audited = &entry.audited;
    let operator = audited.operator_id.map(|operator| operator.to_string());
    tracing::info!(
        audit.id = entry.id,
        // Names of persons are only in the audit log.
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
        let sealer = Sealer::new(&crate::MasterKey::from_bytes([7; 32]));
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
        let row = records::encode(&sealer, &key, &before).unwrap();
        assert_eq!(decode(&sealer, &key, &row).as_ref(), Ok(&entry));
        assert_eq!(
            encode(&sealer, &key, &entry),
            Ok(row),
            "and is still written so"
        );
        let followed = records::encode(&sealer, &key, &(&before, 7_u8)).unwrap();
        assert!(
            decode(&sealer, &key, &followed).is_err(),
            "no id follows it"
        );
    }
}
