//! The audit log.

use ::sled::IVec;
use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::time::Time;

use super::applier::Operation;
use super::keys::{self, Key};
use super::records;
use super::rows::{Rows, Source};
use crate::Fault;

/// The next line of a chain, with the rows that it takes.
pub(super) fn next(
    last: Option<(u64, [u8; 32])>,
    audited: Audited,
    now: Time,
) -> Result<(AuditEntry, [(Key, IVec); 2]), Fault> {
    let entry = AuditEntry::next(last, now, audited);
    let (key, end) = (keys::audit(entry.id), keys::AUDIT_END.to_vec());
    let row = records::encode(&key, &entry)?;
    let end_row = records::encode(&end, &(entry.id, entry.hash))?;
    Ok((entry, [(key, row), (end, end_row)]))
}

/// Writes the next line of the chain, in the transaction of the change that it tells.
pub(super) fn append(
    rows: &mut Rows<'_>,
    audited: Audited,
    now: Time,
) -> Result<AuditEntry, Fault> {
    let (entry, written) = next(rows.load(keys::AUDIT_END)?, audited, now)?;
    for (key, row) in written {
        rows.put(key, row);
    }
    Ok(entry)
}

/// A line about a change outside of the store.
pub(super) struct Audit {
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl Operation for Audit {
    type Outcome = AuditEntry;

    fn apply(self, rows: &mut Rows<'_>) -> Result<AuditEntry, Fault> {
        append(rows, self.audited, self.now)
    }
}
