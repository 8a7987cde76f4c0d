//! The audit line of a maintenance task on a whole store.

use kassette_domain::audit::Audited;
use kassette_domain::time::Time;
use kassette_engine::Db;
use serde_json::Value;

use crate::Fault;
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::sled::maintenance::MaintenanceError;

/// Operator of a task that needs no token, and the default for the actor.
const SYSTEM: &str = "system";

/// Who requested a task, when and why.
#[derive(Clone, Debug)]
pub struct AuditNote {
    /// The person who requested it, if named.
    pub actor: Option<String>,
    /// The reason, if given.
    pub reason: Option<String>,
    pub at: Time,
}

impl AuditNote {
    /// Without actor and reason.
    pub const fn at(at: Time) -> Self {
        Self {
            actor: None,
            reason: None,
            at,
        }
    }

    /// Returns the audit line of an action.
    pub(crate) fn audited(
        self,
        action: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Audited {
        Audited {
            operator: SYSTEM.into(),
            operator_id: None,
            actor: self.actor.unwrap_or_else(|| SYSTEM.into()),
            reason: self.reason,
            action: action.into(),
            object: "store".into(),
            before: before.map(Value::to_string),
            after: after.map(Value::to_string),
        }
    }

    /// Writes the line into a new store, before that replaces the old one.
    pub(crate) fn write(
        self,
        db: &Db,
        sealer: &Sealer,
        action: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), MaintenanceError> {
        let at = self.at;
        let audited = self.audited(action, before, after);
        let last = db.get(schema::AUDIT_END).map_err(Fault::database)?;
        let last = last.map(|row| records::decode(sealer, schema::AUDIT_END, &row));
        // A log with a damaged end is not continued. Verification has already reported it.
        let Some(last) = records::readable(last.transpose())? else {
            return Ok(());
        };
        for (key, row) in crate::rows::audit::next(sealer, last, audited, at)?.1 {
            db.insert(key, row).map_err(Fault::database)?;
        }
        Ok(())
    }
}
