//! The line that a task on a whole store leaves in its audit log.

use kassette_domain::audit::Audited;
use kassette_domain::time::Time;
use kassette_engine::Db;
use serde_json::Value;

use crate::Fault;
use crate::rows::{records, schema};
use crate::sled::maintenance::MaintenanceError;

/// The operator of a task that needs no token, and who acts where no actor is named.
const SYSTEM: &str = "system";

/// Who asks for a task, when and why.
#[derive(Clone, Debug)]
pub struct AuditNote {
    /// The person behind it, where one was named.
    pub actor: Option<String>,
    /// Why, where it was said.
    pub reason: Option<String>,
    pub at: Time,
}

impl AuditNote {
    /// Without a word of who and why.
    pub const fn at(at: Time) -> Self {
        Self {
            actor: None,
            reason: None,
            at,
        }
    }

    /// The line, of an action.
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

    /// Writes the line into a new store, before that takes its place.
    pub(crate) fn write(
        self,
        db: &Db,
        action: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), MaintenanceError> {
        let at = self.at;
        let audited = self.audited(action, before, after);
        let last = db.get(schema::AUDIT_END).map_err(Fault::database)?;
        let last = last.map(|row| records::decode(schema::AUDIT_END, &row));
        // A log whose end is damaged is not gone on with: reading the store through has named it.
        let Some(last) = records::readable(last.transpose())? else {
            return Ok(());
        };
        for (key, row) in crate::rows::audit::next(last, audited, at)?.1 {
            db.insert(key, row).map_err(Fault::database)?;
        }
        Ok(())
    }
}
