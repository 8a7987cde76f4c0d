//! What an operator does with a whole store: backups, restoring, verifying, compacting, another
//! master key.
//!
//! | file | holds |
//! |---|---|
//! | `kinds` | the table of all kinds of rows |
//! | `format` | the file of a backup |
//! | `backup`, `restore` | to that file and back |
//! | `compact`, `rekey` | what is written anew beside the old one (the engine's `Rebuild`) |
//! | `upgrade` | a store of an earlier format, likewise |
//! | `audit_note` | the line that it leaves in the audit log |
//!
//! All but a backup of a running store need the folder to themselves.

mod audit_note;
mod backup;
pub(crate) mod compact;
mod format;
pub(crate) mod kinds;
mod rekey;
pub(crate) mod restore;
#[cfg(test)]
mod tests;
mod upgrade;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use kassette_engine::{Db, Folder, RebuildError};

use crate::Fault;
use crate::rows::seal::{Sealer, Secrets};
use crate::sled::mark;
use crate::sled::open::{OpenError, OpenOptions};

use crate::report::{Progress, Unit, VerifyReport};
pub use audit_note::AuditNote;
pub(crate) use backup::stream;
pub use backup::{BackedUp, Received, backup, receive};
pub use compact::{Compacted, compact};
pub use format::FileError;
pub use kassette_engine::always;
pub use rekey::{Rekeyed, rekey};
pub use restore::{BackupInfo, BackupSource, Restored, restore, verify_backup};
pub(crate) use upgrade::open;
pub use verify::{verify, verify_audit};

/// Why a task on a whole store was not done. The store is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The store does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is none.
    #[error("{} holds no store: name the data directory of a gateway that has run", .0.display())]
    NoStore(PathBuf),
    /// There is one already.
    #[error(
        "{} holds a store already: a backup is only restored where none is; move that folder away first", .0.display()
    )]
    NotEmpty(PathBuf),
    /// The backup is not usable.
    #[error(transparent)]
    File(#[from] FileError),
    /// Something in the store is not as it should be.
    #[error("{}", found(.what, .report))]
    NotWhole {
        /// What it was to be used for.
        what: &'static str,
        /// What was found.
        report: Box<VerifyReport>,
    },
    /// The new master key is the old one.
    #[error("the new master key is the one that the store has already: draw another")]
    SameKey,
    /// The new store does not hold what the old one does.
    #[error(
        "the new store does not hold what the old one does; nothing was changed. Check the disk"
    )]
    NotTheSame,
    /// The new store was not built, or did not take the place of the old one.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// A row or the engine.
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
}

fn found(what: &str, report: &VerifyReport) -> String {
    let first = report.findings.first();
    format!(
        "{what}: {} findings, the first one: a row of kind {}: {}",
        report.findings.len() as u64 + report.more_findings,
        first.map_or("none", |finding| finding.kind),
        first.map_or("", |finding| finding.what.as_str()),
    )
}

impl MaintenanceError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// A stopped store that is open, and locked against other processes until this is dropped.
pub(crate) struct Stopped {
    pub(crate) db: Db,
    pub(crate) secrets: Secrets,
    folder: Folder,
}

impl Stopped {
    /// Opens a store that has to be there, and was not moved.
    fn open(options: &OpenOptions) -> Result<Self, MaintenanceError> {
        // What writes a store anew would lose the mark.
        mark::check(&options.path)?;
        Self::open_marked(options)
    }

    /// Opens a store that has to be there.
    pub(crate) fn open_marked(options: &OpenOptions) -> Result<Self, MaintenanceError> {
        if !kassette_engine::holds_a_database(&options.path) {
            return Err(MaintenanceError::NoStore(options.path.clone()));
        }
        let sealer = Sealer::new(&options.master);
        let (folder, opened, marker) = open(options, &sealer)?;
        Ok(Self {
            db: opened.into_database(),
            secrets: Secrets { sealer, marker },
            folder,
        })
    }
}
