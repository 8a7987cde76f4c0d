//! Maintenance of a whole store: backup, restore, verification, compaction, change of the master key.
//!
//! | module | contents |
//! |---|---|
//! | `kinds` | the table of all kinds of rows |
//! | `format` | the file format of backups |
//! | `backup`, `restore` | writing and reading such files |
//! | `compact`, `rekey` | building a new store next to the old one (the engine's `Rebuild`) |
//! | `audit_note` | the line in the audit log |
//!
//! Everything except the backup of a running store needs exclusive use of the folder.

mod audit_note;
mod backup;
pub(crate) mod compact;
mod format;
pub(crate) mod kinds;
mod rekey;
pub(crate) mod restore;
#[cfg(test)]
mod tests;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use kassette_engine::{Db, Folder, RebuildError};

use crate::Fault;
use crate::rows::seal::{Sealer, Secrets};
use crate::sled::mark;
use crate::sled::open::{OpenError, OpenOptions, open_in};

use crate::report::{Progress, Unit, VerifyReport};
pub use audit_note::AuditNote;
pub(crate) use backup::stream;
pub use backup::{BackedUp, Received, backup, receive};
pub use compact::{Compacted, compact};
pub use format::FileError;
pub use kassette_engine::always;
pub use rekey::{Rekeyed, rekey};
pub use restore::{BackupInfo, BackupSource, Restored, restore, verify_backup};
pub use verify::{verify, verify_audit};

/// Reason why a maintenance task was not done. The store is then unchanged.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no store.
    #[error("{} holds no store: name the data directory of a gateway that has run", .0.display())]
    NoStore(PathBuf),
    /// There is a store already.
    #[error(
        "{} holds a store already: a backup is only restored where none is; move that folder away first", .0.display()
    )]
    NotEmpty(PathBuf),
    /// The backup is not usable.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store has findings.
    #[error("{}", found(.what, .report))]
    NotWhole {
        /// The task that was refused.
        what: &'static str,
        /// The findings.
        report: Box<VerifyReport>,
    },
    /// The new master key is the old one.
    #[error("the new master key is the one that the store has already: draw another")]
    SameKey,
    /// The new store's content differs from the old one's.
    #[error(
        "the new store does not hold what the old one does; nothing was changed. Check the disk"
    )]
    NotTheSame,
    /// The new store was not built, or did not replace the old one.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// A failure of a row or of the engine.
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

/// An open store without a running server. Locked against other processes until this is dropped.
pub(crate) struct Stopped {
    pub(crate) db: Db,
    pub(crate) secrets: Secrets,
    folder: Folder,
}

impl Stopped {
    /// Opens an existing store that was not moved.
    fn open(options: &OpenOptions) -> Result<Self, MaintenanceError> {
        // Rebuilding a store would lose the mark.
        mark::check(&options.path)?;
        Self::open_marked(options)
    }

    /// Opens an existing store.
    pub(crate) fn open_marked(options: &OpenOptions) -> Result<Self, MaintenanceError> {
        if !kassette_engine::holds_a_database(&options.path) {
            return Err(MaintenanceError::NoStore(options.path.clone()));
        }
        let sealer = Sealer::new(&options.master);
        let folder = options.take_folder()?;
        let (opened, marker) = open_in(&folder, &sealer)?;
        Ok(Self {
            db: opened.into_database(),
            secrets: Secrets { sealer, marker },
            folder,
        })
    }
}
