//! Writes the same rows into a new store, as compactly as possible.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kassette_engine::{Db, GoOn, Memtable, Rebuild, disk_bytes};

use crate::Fault;
use crate::report::VerifyReport;
use crate::rows::seal::Secrets;
use crate::sled::maintenance::kinds::{KINDS, whole};
use crate::sled::maintenance::{AuditNote, MaintenanceError, Progress, Stopped, Unit};
use crate::sled::open::OpenOptions;
use crate::sled::verifier::Verifier;

/// Result of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Compacted {
    /// Bytes on the disk before.
    pub bytes_before: u64,
    /// Bytes on the disk after.
    pub bytes_after: u64,
    /// Number of rows written, without the line in the audit log.
    pub rows: u64,
    /// Number of payments among them.
    pub payments: u64,
}

/// Rebuilds a stopped store and replaces it with the new one.
///
/// # Errors
/// See [`MaintenanceError`]. The store is then unchanged. A store with findings is refused, because the
/// rebuild would make damaged rows look valid.
pub fn compact(
    options: &OpenOptions,
    note: AuditNote,
    progress: &dyn Progress,
    go_on: GoOn<'_>,
) -> Result<Compacted, MaintenanceError> {
    let Stopped {
        db,
        secrets,
        folder,
    } = Stopped::open(options)?;
    let bytes_before = disk_bytes(&options.path).map_err(MaintenanceError::io(&options.path))?;
    let written = Rebuild::begin(folder)?.attempt(|rebuild| {
        let what = "the store is not whole, so it is not compacted; `kassette verify` lists it all";
        let before = judged_whole(&db, &secrets, what, progress)?;
        progress.begin("Writing", Unit::Rows, Some(before.rows.values().sum()));
        let new = rebuild.fill(|bulk| {
            for row in db.iter() {
                let (key, row) = row.map_err(Fault::database)?;
                bulk.push(key, Some(row))?;
                progress.advance(1);
            }
            Ok::<_, MaintenanceError>(())
        })?;
        drop(db);
        let after = judged(&new, &secrets, "Verifying what was written", progress)?;
        if after != before {
            return Err(MaintenanceError::NotTheSame);
        }
        note.write(&new, &secrets.sealer, "store.compact", None, None)?;
        Ok((new, after))
    });
    let (rebuild, (new, after)) = written?;
    rebuild.finish(new, go_on)?;
    Ok(Compacted {
        bytes_before,
        bytes_after: disk_bytes(&options.path).map_err(MaintenanceError::io(&options.path))?,
        rows: after.rows.values().sum(),
        payments: after.payments,
    })
}

/// Verifies a store before it is rebuilt. Refuses a store with findings, with the text `what`.
pub(crate) fn judged_whole(
    db: &Db,
    secrets: &Secrets,
    what: &'static str,
    progress: &dyn Progress,
) -> Result<VerifyReport, MaintenanceError> {
    let report = judged(db, secrets, "Verifying", progress)?;
    match report.is_whole() {
        true => Ok(report),
        false => Err(MaintenanceError::NotWhole {
            what,
            report: Box::new(report),
        }),
    }
}

/// Verifies a whole store.
pub(crate) fn judged(
    db: &Db,
    secrets: &Secrets,
    what: &str,
    progress: &dyn Progress,
) -> Result<VerifyReport, MaintenanceError> {
    progress.begin(what, Unit::Rows, None);
    // sled panics on some kinds of damage.
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let memtable = Memtable::over(db.clone());
        let mut verifier = Verifier::new(&KINDS, &memtable, secrets);
        verifier.look(&mut |rows| progress.advance(rows))?;
        whole(&mut verifier)?;
        verifier.conclude()
    }));
    Ok(judged.unwrap_or_else(|_| Err(Fault::unreadable()))?)
}
