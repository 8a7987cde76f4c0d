//! The audit log.

pub(crate) mod checks;

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::time::Time;
use kassette_engine::{Operation, Written};

use crate::Fault;
pub(crate) use crate::rows::audit::decode;
use crate::rows::audit::next;
use crate::rows::schema;
use crate::rows::seal::Sealer;
use crate::rows::source::RowSource;
use crate::sled::memory::{Memory, Rows};

/// Appends a line to the chain, in the transaction of the change that it describes.
pub(crate) fn append(
    rows: &mut Rows<'_>,
    audited: Audited,
    now: Time,
) -> Result<AuditEntry, Fault> {
    let (entry, written) = next(rows.sealer(), rows.load(schema::AUDIT_END)?, audited, now)?;
    for (key, row) in written {
        rows.put(key, row);
    }
    Ok(entry)
}

/// Writes the audit lines of a group to the program's log.
pub(crate) fn log(sealer: &Sealer, rows: &Written) {
    for (key, row) in rows.range(schema::AUDIT.to_vec()..) {
        if !key.starts_with(schema::AUDIT) {
            return;
        }
        if let Some(entry) = row.as_ref().and_then(|row| decode(sealer, key, row).ok()) {
            crate::rows::audit::log(&entry);
        }
    }
}

/// Appends a line about a change outside of the store.
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
