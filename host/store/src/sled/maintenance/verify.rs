//! Verification of a stopped store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use kassette_domain::audit::Chain;
use kassette_engine::{Db, Folder, unreadable};

use crate::Fault;
use crate::report::{Finding, VerifyReport};
use crate::rows::seal::{Marker, Sealer, Secrets};
use crate::rows::{records, schema};
use crate::sled::maintenance::compact::judged;
use crate::sled::maintenance::{MaintenanceError, Progress, Stopped};
use crate::sled::memory::Memory;
use crate::sled::open::{OpenError, OpenOptions, damaged, open_rows};
use crate::sled::verifier::RESTORE;
use crate::sled::{audit, mark};

/// Maximum number of damaged places in files that are listed. Further ones are only counted.
const MAX_PLACES: usize = 100;

/// Reads every row of a stopped store and checks their consistency. If anything is wrong, also checks which
/// bytes of its files cannot be read.
///
/// # Errors
/// If there is no store, another process uses it, or another release wrote it. Findings are in the result and
/// are not errors. If the store is too damaged to open, that is a finding, and no rows are read.
pub fn verify(
    options: &OpenOptions,
    progress: &dyn Progress,
) -> Result<VerifyReport, MaintenanceError> {
    mark::check(&options.path)?;
    if !kassette_engine::holds_a_database(&options.path) {
        return Err(MaintenanceError::NoStore(options.path.clone()));
    }
    let folder = options.take_folder()?;
    let sealer = Sealer::new(&options.master);
    let mut report = match opened(&folder, &sealer) {
        Ok((db, marker)) => {
            let secrets = Secrets { sealer, marker };
            let mut report = judged(&db, &secrets, "Verifying", progress)?;
            report.findings.extend(not_loaded(&db, &secrets.sealer));
            report
        }
        Err(error) => {
            let damage = match &error {
                OpenError::Engine(error) => error.damage(),
                _ => None,
            };
            let Some(damage) = damage else {
                return Err(error.into());
            };
            VerifyReport {
                findings: vec![of_store(format!("it does not open: {damage}"))],
                ..VerifyReport::default()
            }
        }
    };
    if !report.is_whole() {
        add_places(&options.path, &mut report)?;
    }
    Ok(report)
}

fn opened(folder: &Folder, sealer: &Sealer) -> Result<(Db, Marker), OpenError> {
    // sled panics on some kinds of damage.
    catch_unwind(AssertUnwindSafe(|| open_rows(folder, sealer))).unwrap_or_else(|_| {
        let detail = "the storage engine cannot read it";
        Err(damaged(folder.path(), detail))
    })
}

/// Finding that a server cannot start although the rows can be read.
fn not_loaded(db: &Db, sealer: &Sealer) -> Option<Finding> {
    let loaded = catch_unwind(AssertUnwindSafe(|| Memory::load(db, sealer).map(drop)));
    let fault = loaded.unwrap_or_else(|_| Err(Fault::unreadable())).err()?;
    Some(of_store(format!("no server starts with it: {fault}")))
}

/// A finding about the store as a whole.
fn of_store(what: String) -> Finding {
    Finding {
        kind: "store",
        row: String::new(),
        what,
        advice: RESTORE,
    }
}

/// Puts the unreadable places of files before the findings that follow from them.
fn add_places(path: &Path, report: &mut VerifyReport) -> Result<(), MaintenanceError> {
    let mut places = unreadable(path).map_err(MaintenanceError::io(path))?;
    report.more_findings += places.len().saturating_sub(MAX_PLACES) as u64;
    places.truncate(MAX_PLACES);
    let places = places.into_iter().map(|place| Finding {
        kind: "file",
        row: place.file,
        what: match place.bytes.end.checked_sub(1) {
            Some(last) => format!("bytes {} to {last}: {}", place.bytes.start, place.what),
            None => place.what,
        },
        advice: RESTORE,
    });
    report.findings.splice(0..0, places);
    Ok(())
}

/// Verifies the audit log of a stopped store.
///
/// # Errors
/// If the store cannot be opened. Problems of the log are in the result.
pub fn verify_audit(options: &OpenOptions) -> Result<Chain, MaintenanceError> {
    let opened = Stopped::open(options)?;
    let mut chain = Chain::default();
    for row in opened.db.scan_prefix(schema::AUDIT) {
        let (key, row) = row.map_err(Fault::database)?;
        let entry = audit::decode(&opened.secrets.sealer, &key, &row).ok();
        chain.follow(
            schema::audit_number(&key).unwrap_or_default(),
            entry.as_ref(),
        );
    }
    let end = opened.db.get(schema::AUDIT_END).map_err(Fault::database)?;
    chain.end(
        end.and_then(|row| records::decode(&opened.secrets.sealer, schema::AUDIT_END, &row).ok()),
    );
    Ok(chain)
}
