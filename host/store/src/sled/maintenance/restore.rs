//! Restores a store from a backup: builds it in another folder, verifies it, then moves it into place.

use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use kassette_domain::time::Time;
use kassette_engine::{Db, GoOn, IVec, Rebuild, remove_leftovers};
use serde_json::json;

use crate::report::VerifyReport;
use crate::rows::seal::{Marker, MasterKey, Sealer, Secrets};
use crate::rows::{records, schema};
use crate::sled::maintenance::compact::judged;
use crate::sled::maintenance::format::{Decoder, FileError, Piece};
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::maintenance::{AuditNote, MaintenanceError, Progress, Unit};
use crate::sled::open::{self, FORMAT, OpenOptions};
use crate::{Fault, LedgerState};

/// A backup file, with the data to verify it.
#[derive(Clone, Debug)]
pub struct BackupSource<R> {
    /// The file.
    pub input: R,
    /// The earlier master key, if the store's key has changed since.
    pub old_key: Option<MasterKey>,
    /// Whether to accept a file of an earlier release, which has no authentication code.
    pub without_code: bool,
}

impl<R: Read> BackupSource<R> {
    /// A file with a code under the store's own master key.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            old_key: None,
            without_code: false,
        }
    }

    /// Reads the head. The decoder checks the code at the end of the file, before it returns the end.
    fn open(self, master: &MasterKey) -> Result<Opened<R>, MaintenanceError> {
        let (decoder, head) = Decoder::open(self.input, FORMAT)?;
        let authenticated = decoder.has_code();
        if !authenticated && !self.without_code {
            return Err(FileError::NoCode.into());
        }
        let mut sealers: Vec<Sealer> = [Some(master), self.old_key.as_ref()]
            .into_iter()
            .flatten()
            .map(Sealer::new)
            .collect();
        let made_under = head.key_id()?;
        let Some(position) = sealers
            .iter()
            .position(|sealer| sealer.key_id() == made_under)
        else {
            let given: Vec<String> = sealers
                .iter()
                .map(|sealer| hex::encode(sealer.key_id()))
                .collect();
            return Err(FileError::WrongMasterKey {
                made_under: hex::encode(made_under),
                given: given.join(" and "),
            }
            .into());
        };
        let sealer = sealers.swap_remove(position);
        if !matches!(open::prove(&sealer, &head.canary), Ok(true)) {
            return Err(FileError::NoProof.into());
        }
        Ok(Opened {
            decoder: decoder.checking(sealer.backup_code()?),
            told: BackupInfo {
                release: head.release,
                made_at: Time::rfc3339(head.at),
                master_key: hex::encode(made_under),
                authenticated,
            },
            sealer,
        })
    }
}

/// A backup whose head was read.
struct Opened<R> {
    decoder: Decoder<R>,
    told: BackupInfo,
    /// Uses the master key under which the backup was made.
    sealer: Sealer,
}

/// Description of a backup from its head.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BackupInfo {
    /// Release that made it.
    pub release: String,
    /// Time at which it was started, RFC 3339.
    pub made_at: String,
    /// Id of the master key under which it was made.
    pub master_key: String,
    /// Whether it has an authentication code, which was verified.
    pub authenticated: bool,
}

/// Content and findings of a backup.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Restored {
    /// The description from its head.
    #[serde(flatten)]
    pub told: BackupInfo,
    /// Rows, payments, findings.
    #[serde(flatten)]
    pub report: VerifyReport,
}

/// Restores a backup into a folder without a store. A backup under an earlier master key is sealed again
/// under the store's key.
///
/// With `despite_findings`, a backup with inconsistent rows is restored too, in case it is the last one. A
/// truncated or altered backup is always refused.
///
/// # Errors
/// See [`MaintenanceError`]. The folder then contains no store, as before.
pub fn restore(
    options: &OpenOptions,
    source: BackupSource<impl Read>,
    despite_findings: bool,
    note: AuditNote,
    progress: &dyn Progress,
    go_on: GoOn<'_>,
) -> Result<Restored, MaintenanceError> {
    let store = options.path.as_path();
    refuse_full(store)?;
    // A file that is not a backup is refused before anything is created.
    let Opened {
        decoder,
        told,
        sealer: old,
    } = source.open(&options.master)?;
    let target = options.take_folder()?;
    refuse_full(store)?;
    let built = Rebuild::begin(target)?.attempt(|rebuild| {
        let new = Sealer::new(&options.master);
        let is_old = old.key_id() != new.key_id();
        let db = replay(rebuild, decoder, is_old.then_some((&old, &new)), progress)?;
        begin_ledger(&db, &new, note.at)?;
        let after = json!(told);
        note.write(&db, &new, "store.restore", None, Some(&after))?;
        let report = read_through(&db, new, progress)?;
        match report.is_whole() || despite_findings {
            true => Ok((db, report)),
            false => Err(MaintenanceError::NotWhole {
                what: "the backup is as it was written, but its rows do not all fit each other, so it is not restored",
                report: Box::new(report),
            }),
        }
    });
    let (rebuild, (db, report)) = built?;
    rebuild.finish(db, go_on)?;
    Ok(Restored { told, report })
}

/// Verifies a backup in a temporary folder.
///
/// # Errors
/// See [`MaintenanceError`]. Findings are in the result and are not errors.
pub fn verify_backup(
    options: &OpenOptions,
    source: BackupSource<impl Read>,
    progress: &dyn Progress,
) -> Result<Restored, MaintenanceError> {
    let store = options.path.as_path();
    let io = MaintenanceError::io(store);
    DirBuilder::new().mode(0o700).create(store).map_err(&io)?;
    let verified = (|| {
        let Opened {
            decoder,
            told,
            sealer,
        } = source.open(&options.master)?;
        let (_, report) = Rebuild::on_trial(options.take_folder()?)?.attempt(|rebuild| {
            let db = replay(rebuild, decoder, None, progress)?;
            read_through(&db, sealer, progress)
        })?;
        Ok(Restored { told, report })
    })();
    remove_leftovers(store).map_err(&io)?;
    match fs::remove_dir_all(store) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(error)),
        _ => verified,
    }
}

/// Refuses a folder that contains anything except a lock, which an interrupted restore may have left.
pub(crate) fn refuse_full(store: &Path) -> Result<(), MaintenanceError> {
    let entries = match fs::read_dir(store) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(MaintenanceError::io(store)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(MaintenanceError::io(store))?;
        if entry.file_name() != "lock" {
            return Err(MaintenanceError::NotEmpty(store.to_owned()));
        }
    }
    Ok(())
}

/// Replays a backup into a new store. Seals its secrets again if both keys are given.
fn replay(
    rebuild: &Rebuild,
    mut decoder: Decoder<impl Read>,
    sealers: Option<(&Sealer, &Sealer)>,
    progress: &dyn Progress,
) -> Result<Db, MaintenanceError> {
    progress.begin("Reading the backup", Unit::Bytes, None);
    let mut read = 0;
    rebuild.fill(|bulk| {
        loop {
            let piece = decoder.next()?;
            progress.advance(decoder.read() - read);
            read = decoder.read();
            let changes = match piece {
                Piece::Rows(rows) => rows
                    .into_iter()
                    .map(|(key, row)| (key, Some(row)))
                    .collect(),
                Piece::Group(changes) => changes,
                Piece::End(_) => return Ok(()),
            };
            for (key, row) in changes {
                let row = row.map(|row| resealed(sealers, &key, row)).transpose()?;
                bulk.push(key.into(), row)?;
            }
        }
    })
}

fn resealed(sealers: Option<(&Sealer, &Sealer)>, key: &[u8], row: Vec<u8>) -> Result<IVec, Fault> {
    let Some((old, new)) = sealers else {
        return Ok(row.into());
    };
    match KINDS.split(key)?.0.rekeyed(old, new, key, &row) {
        // The row stays unchanged. Verification reports it.
        Err(Fault::Corrupt(_)) => Ok(row.into()),
        resealed => resealed,
    }
}

/// Sets `continuous_since` to the time of the restore, because movements between backup and restore are missing.
fn begin_ledger(db: &Db, sealer: &Sealer, at: Time) -> Result<(), MaintenanceError> {
    let key = schema::LEDGER;
    let row = db.get(key).map_err(Fault::database)?;
    let ledger = row.map(|row| records::decode::<LedgerState>(sealer, key, &row));
    // If it is damaged, verification reports it.
    let Some(ledger) = records::readable(ledger.transpose())? else {
        return Ok(());
    };
    let ledger = LedgerState {
        continuous_since: Some(at),
        jump: None,
        ..ledger.unwrap_or_default()
    };
    let row = records::encode(sealer, key, &ledger)?;
    db.insert(key, row).map_err(Fault::database)?;
    Ok(())
}

fn read_through(
    db: &Db,
    sealer: Sealer,
    progress: &dyn Progress,
) -> Result<VerifyReport, MaintenanceError> {
    let marker = marker(db, &sealer)?;
    judged(db, &Secrets { sealer, marker }, "Verifying", progress)
}

/// Reads the key of the e-mail mark, which is needed to compare requests.
fn marker(db: &Db, sealer: &Sealer) -> Result<Marker, MaintenanceError> {
    let damaged = || FileError::Damaged {
        at: 0,
        what: "the key of the e-mail mark is missing or does not open",
    };
    let row = db.get(schema::MARK).map_err(Fault::database)?;
    let row = row.ok_or_else(damaged)?;
    Ok(open::mark(sealer, &row).map_err(|_| damaged())?)
}
