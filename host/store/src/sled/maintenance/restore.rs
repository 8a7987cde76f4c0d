//! From a backup to a store: built aside, verified whole, then put in its place.

use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use ::sled::{Batch, Db, IVec};
use kassette_domain::time::Time;

use super::bulk::Bulk;
use super::compact::judged;
use super::format::{Decoder, FileError, Head, Piece};
use super::judge::Report;
use super::rebuild::{GoOn, Rebuild, always};
use super::{MaintenanceError, Progress, Unit};
use crate::sled::Secrets;
use crate::sled::keys;
use crate::sled::open::{self, FORMAT, Folder, OpenOptions, Unsealed};
use crate::sled::rows::engine;
use crate::sled::seal::{Marker, Sealer};

/// What a backup held, and what was found in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Restored {
    /// The release that made it.
    pub release: String,
    /// When it was begun, RFC 3339.
    pub made_at: String,
    /// Rows, payments, findings.
    #[serde(flatten)]
    pub report: Report,
}

/// Restores a backup into a folder that holds no store.
///
/// With `despite_findings` a backup whose rows do not all fit each other is restored all the same, for
/// where it is the last there is; one that is cut off or altered never is.
///
/// # Errors
/// See [`MaintenanceError`]; then the folder holds no store, as before.
pub fn restore(
    options: &OpenOptions,
    input: impl Read,
    despite_findings: bool,
    progress: &dyn Progress,
) -> Result<Restored, MaintenanceError> {
    restore_in_stages(options, input, despite_findings, progress, &always)
}

pub(super) fn restore_in_stages(
    options: &OpenOptions,
    input: impl Read,
    despite_findings: bool,
    progress: &dyn Progress,
    go_on: GoOn<'_>,
) -> Result<Restored, MaintenanceError> {
    let store = options.path.as_path();
    refuse_full(store)?;
    // A file that is none of ours is refused before anything is made.
    let (decoder, head) = Decoder::open(input, FORMAT)?;
    let sealer = Sealer::new(&options.master);
    prove_key(&sealer, &head)?;
    let place = Folder::take(options)?;
    refuse_full(store)?;
    let built = Rebuild::begin(place)?.attempt(|rebuild| {
        let (db, report) = build(rebuild, decoder, options, progress)?;
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
    Ok(told(head, report))
}

/// Verifies a backup in a folder of its own, which is removed again.
///
/// # Errors
/// See [`MaintenanceError`]. Findings are no error: they are in the answer.
pub fn verify_backup(
    options: &OpenOptions,
    input: impl Read,
    progress: &dyn Progress,
) -> Result<Restored, MaintenanceError> {
    let store = options.path.as_path();
    let io = MaintenanceError::io(store);
    DirBuilder::new().mode(0o700).create(store).map_err(&io)?;
    let verified = (|| {
        let (decoder, head) = Decoder::open(input, FORMAT)?;
        let sealer = Sealer::new(&options.master);
        prove_key(&sealer, &head)?;
        let report = Rebuild::begin(Folder::take(options)?)?.attempt(|rebuild| {
            build(rebuild, decoder, options, progress).map(|(_, report)| report)
        });
        Ok(told(head, report?.1))
    })();
    super::remove_leftovers(store).map_err(&io)?;
    match fs::remove_dir_all(store) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(error)),
        _ => verified,
    }
}

fn told(head: Head, report: Report) -> Restored {
    Restored {
        release: head.release,
        made_at: Time::rfc3339(head.at),
        report,
    }
}

/// A lock is all that may be there: it is what somebody who was ended has left.
fn refuse_full(store: &Path) -> Result<(), MaintenanceError> {
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

fn prove_key(sealer: &Sealer, head: &Head) -> Result<(), MaintenanceError> {
    match open::prove(sealer, &head.canary) {
        Ok(true) => Ok(()),
        Err(Unsealed::OtherKey) => Err(FileError::WrongMasterKey.into()),
        Ok(false) | Err(Unsealed::Fault(_)) => Err(FileError::Damaged {
            at: 0,
            what: "the proof of the master key",
        }
        .into()),
    }
}

/// Replays a backup into a new store and reads that through. Its groups change rows that came before
/// them, so it is replayed by way of the engine and written at once afterwards.
fn build(
    rebuild: &Rebuild,
    mut decoder: Decoder<impl Read>,
    options: &OpenOptions,
    progress: &dyn Progress,
) -> Result<(Db, Report), MaintenanceError> {
    progress.begin("Reading the backup", Unit::Bytes, None);
    let mut read = 0;
    let (filling, db) = rebuild.fill()?;
    let mut bulk = Bulk::new(&db);
    loop {
        let piece = decoder.next()?;
        progress.advance(decoder.read() - read);
        read = decoder.read();
        match piece {
            Piece::Rows(rows) => {
                for (key, row) in rows {
                    bulk.push(key, IVec::from(row))?;
                }
            }
            Piece::Group(changes) => {
                // After every row that was read before it.
                bulk.write()?;
                let mut batch = Batch::default();
                for (key, row) in changes {
                    match row {
                        Some(row) => batch.insert(key, row),
                        None => batch.remove(key),
                    }
                }
                db.apply_batch(batch).map_err(|error| engine(&error))?;
            }
            Piece::End(_) => break,
        }
    }
    bulk.write()?;
    let db = rebuild.pack_filled(&filling, db)?;
    let sealer = Sealer::new(&options.master);
    let marker = marker(&db, &sealer)?;
    let report = judged(&db, &Secrets { sealer, marker }, "Verifying", progress)?;
    Ok((db, report))
}

/// The key of the e-mail mark, without which no request can be compared.
fn marker(db: &Db, sealer: &Sealer) -> Result<Marker, MaintenanceError> {
    let damaged = || FileError::Damaged {
        at: 0,
        what: "the key of the e-mail mark is missing or does not open",
    };
    let row = db.get(keys::MARK).map_err(|error| engine(&error))?;
    let row = row.ok_or_else(damaged)?;
    Ok(open::mark(sealer, &row).map_err(|_| damaged())?)
}
