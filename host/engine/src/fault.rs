//! Reasons why an operation or read was not done, or why a database does not open.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Detail for a page that sled cannot read.
pub(crate) const UNREADABLE: &str = "a page of the database does not read back";

/// Failure of the store. A rule that rejects an operation is an outcome, not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The store cannot run the operation now, for example because the disk is full or failed. Nothing was changed.
    #[error("the store cannot take the operation now: {0}")]
    Unavailable(String),
    /// Too many operations wait. Nothing was changed; the caller can try again soon.
    #[error("the store is busy: too many operations wait")]
    Busy,
    /// A record cannot be read back as it was written.
    #[error("a stored record is damaged: {0}")]
    Corrupt(String),
    /// The store is shutting down, or the disk failed or hung while the operation was written. Its effect is there
    /// completely or not at all; only a later read shows which.
    #[error("the store is stopping, or its disk failed or hangs")]
    Stopping,
}

impl Fault {
    /// Fault for a page of the database that sled cannot read. Logs what an operator can do.
    pub fn unreadable() -> Self {
        tracing::error!(
            "a page of the database is damaged: stop the server, keep a copy of its data directory, and see with `kassette verify` which rows and bytes are lost and what to do"
        );
        Self::Corrupt(UNREADABLE.into())
    }

    /// Converts an error of sled.
    pub fn database(error: sled::Error) -> Self {
        match error {
            // The error of sled names the start of a record, which may be long, so the damaged bytes can be far
            // behind it. It is not passed on.
            sled::Error::Corruption { .. } => Self::unreadable(),
            // A page beyond the end of a file.
            sled::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::unreadable()
            }
            _ => {
                tracing::error!(%error, "the storage engine failed");
                Self::Unavailable(format!("the storage engine failed: {error}"))
            }
        }
    }
}

/// Reasons why a database does not open, with advice for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has locked the folder.
    #[error(
        "{} is in use by another process: stop that one first, or name another data directory", .path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// Something in the folder cannot be read back as it was written.
    #[error(
        "{} is damaged ({detail}): keep a copy of the folder, see with `kassette verify` which rows and bytes are lost, and bring the latest backup that `kassette verify FILE` finds whole back with `kassette restore`", .path.display()
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// Description of the damage.
        detail: String,
    },
    #[error(
        "{} cannot be opened ({source}): check that the folder exists, its owner and the space left", .path.display()
    )]
    Io {
        /// The folder.
        path: PathBuf,
        source: io::Error,
    },
    /// sled's syncs do not use our durable write.
    #[error(
        "this program was linked without its durable write, so a power cut could destroy the store: build it with the linker's ordinary set-up, in which a program's `sync_file_range` comes before the C library's"
    )]
    NotDurable,
    /// The operating system provided no randomness, thread or descriptor, or the first rows could not be made.
    #[error("the system refused what a store needs: {0}")]
    System(String),
    /// The engine's user rejected the contents.
    #[error("{0}")]
    Refused(String),
}

impl OpenError {
    /// Damage in a folder.
    pub fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    /// Description of the damage, if the error is one: a failed verification, or a sector that the disk cannot
    /// read.
    pub fn damage(&self) -> Option<String> {
        match self {
            Self::Damaged { detail, .. } => Some(detail.clone()),
            Self::Io { source, .. } => {
                let bad_sector = source.raw_os_error() == Some(Errno::IO.raw_os_error());
                bad_sector.then(|| source.to_string())
            }
            _ => None,
        }
    }

    /// Converts an error of the file system in a folder.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}
