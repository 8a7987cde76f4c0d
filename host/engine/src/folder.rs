//! The folder of a database: one process at a time.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::durable::Files;
use crate::fault::OpenError;

/// The file whose lock keeps other processes out of a folder.
pub(crate) const LOCK: &str = "lock";

/// A folder that is ours for as long as this lives.
pub struct Folder {
    path: PathBuf,
    pub(crate) cache_bytes: u64,
    lock: File,
}

impl Folder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder where it does not exist, and keeps others out of it. Databases in it are opened with
    /// so much memory for their pages, in bytes; sled's own default is a gibibyte.
    ///
    /// # Errors
    /// Where another process has it, or the file system refuses.
    pub fn take(path: PathBuf, cache_bytes: u64) -> Result<Self, OpenError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(OpenError::io(&path))?;
        Ok(Self {
            lock: lock(&path)?,
            path,
            cache_bytes,
        })
    }

    /// Another folder, which has to be new, with the same settings.
    pub(crate) fn aside(&self, path: PathBuf) -> Result<Self, OpenError> {
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(OpenError::io(&path))?;
        Ok(Self {
            lock: lock(&path)?,
            path,
            cache_bytes: self.cache_bytes,
        })
    }

    /// Opens the files of its database.
    pub(crate) fn files(&self) -> io::Result<Files> {
        Files::open(&self.path)
    }

    /// Lets others have the folder.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.lock.unlock()
    }
}

/// Where a store is built before it takes the place of the one in `store`.
pub(crate) fn beside(store: &Path) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(".rebuilding");
    store.with_file_name(name)
}

/// Removes what a rebuild that was ended has left behind. The caller holds the folder's lock.
///
/// # Errors
/// Where the file system refuses.
pub fn remove_leftovers(store: &Path) -> io::Result<()> {
    let beside = beside(store);
    match fs::remove_dir_all(&beside) {
        Ok(()) => {
            tracing::warn!(folder = %beside.display(), "what an unfinished rebuild left behind is removed");
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// sled locks its file too, but says so in a text that cannot be told from other failures.
fn lock(path: &Path) -> Result<File, OpenError> {
    let io = OpenError::io(path);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK))
        .map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}
