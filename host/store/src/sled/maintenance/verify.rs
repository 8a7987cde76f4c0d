//! Reading a stopped store through.

use kassette_domain::audit::Chain;

use crate::Fault;
use crate::report::Report;
use crate::rows::{records, schema};
use crate::sled::audit;
use crate::sled::maintenance::compact::judged;
use crate::sled::maintenance::{MaintenanceError, Progress, Stopped};
use crate::sled::open::OpenOptions;

/// Reads every row of a stopped store and checks how they fit each other.
///
/// # Errors
/// Where the store does not open at all. What is found in it is no error: it is in the answer.
pub fn verify(options: &OpenOptions, progress: &dyn Progress) -> Result<Report, MaintenanceError> {
    let stopped = Stopped::open(options)?;
    judged(&stopped.db, &stopped.secrets, "Verifying", progress)
}

/// Goes along the audit log of a stopped store.
///
/// # Errors
/// Where the store does not open. What is wrong with the log is in the answer.
pub fn verify_audit(options: &OpenOptions) -> Result<Chain, MaintenanceError> {
    let opened = Stopped::open(options)?;
    let mut chain = Chain::default();
    for row in opened.db.scan_prefix(schema::AUDIT) {
        let (key, row) = row.map_err(Fault::database)?;
        let entry = audit::decode(&key, &row).ok();
        chain.follow(
            schema::audit_number(&key).unwrap_or_default(),
            entry.as_ref(),
        );
    }
    let end = opened.db.get(schema::AUDIT_END).map_err(Fault::database)?;
    chain.end(end.and_then(|row| records::decode(schema::AUDIT_END, &row).ok()));
    Ok(chain)
}
