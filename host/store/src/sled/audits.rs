//! The audit log.

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::time::Time;

use super::applier::Operation;
use super::keys;
use super::rows::{Rows, Source};
use crate::Fault;

/// Writes the next line of the chain, in the transaction of the change that it tells.
pub(super) fn append(
    rows: &mut Rows<'_>,
    audited: Audited,
    now: Time,
) -> Result<AuditEntry, Fault> {
    let last = rows.load(keys::AUDIT_END)?;
    let entry = AuditEntry::next(last, now, audited);
    rows.save(keys::audit(entry.id), &entry)?;
    rows.save(keys::AUDIT_END.to_vec(), &(entry.id, entry.hash))?;
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
