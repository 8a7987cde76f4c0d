//! Why an operation or a read was not done, or a database does not open.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What is told of a page that sled cannot read.
pub(crate) const UNREADABLE: &str = "a page of the database does not read back";

/// A store that failed. Never a rule that said no: rules are outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot take the operation now (full, a disk that failed); nothing was changed.
    #[error("the store cannot take the operation now: {0}")]
    Unavailable(String),
    /// Too many operations wait; nothing was changed. Trying again soon helps.
    #[error("the store is busy: too many operations wait")]
    Busy,
    /// A record does not read back as it was written.
    #[error("a stored record is damaged: {0}")]
    Corrupt(String),
    /// The store is shutting down, or the disk failed or hung while it wrote the operation: whether its
    /// whole effect is there or none is known only when it is asked again.
    #[error("the store is stopping, or its disk failed or hangs")]
    Stopping,
}

impl Fault {
    /// A page of the database that sled cannot read.
    pub fn unreadable() -> Self {
        tracing::error!(
            "a page of the database is damaged: stop the server, keep a copy of its data directory, and see with `kassette verify` which rows and bytes are lost and what to do"
        );
        Self::Corrupt(UNREADABLE.into())
    }

    /// What sled's database said.
    pub fn database(error: sled::Error) -> Self {
        match error {
            // sled names where a record begins, which may be long: the damaged bytes may stand far behind.
            sled::Error::Corruption { .. } => Self::unreadable(),
            // A page that lies past the end of a file.
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

/// Why a database does not open, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "{} is in use by another process: stop that one first, or name another data directory", .path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// It does not read back as it was written.
    #[error(
        "{} is damaged ({detail}): keep a copy of the folder, see with `kassette verify` which rows and bytes are lost, and bring the latest backup that `kassette verify FILE` finds whole back with `kassette restore`", .path.display()
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What was found.
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
    /// sled's writes do not come by ours.
    #[error(
        "this program was linked without its durable write, so a power cut could destroy the store: build it with the linker's ordinary set-up, in which a program's `sync_file_range` comes before the C library's"
    )]
    NotDurable,
    /// The operating system gave no randomness or no thread.
    #[error("the system refused what a store needs: {0}")]
    System(String),
    /// The engine's user refused what is in it.
    #[error("{0}")]
    Refused(String),
}

impl OpenError {
    /// That something in a folder does not read back as it was written.
    pub fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    /// What was found, where that is damage: what does not read back as it was written, or what the disk does
    /// not give at all.
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

    /// That the file system refused something in a folder.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}
