//! The folder of a database, which one process at a time may use.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::durable::Files;
use crate::fault::OpenError;

/// Lock file that keeps other processes out of a folder.
pub(crate) const LOCK: &str = "lock";
/// Maximum time to wait for a lock that another process holds, and pause between attempts.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A folder that this process has locked.
pub struct Folder {
    path: PathBuf,
    pub(crate) cache_bytes: u64,
    lock: File,
}

impl Folder {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder if it is missing, and locks it. Databases in it get a page cache of `cache_bytes` bytes;
    /// sled's own default is 1 GiB.
    ///
    /// # Errors
    /// Another process has locked it, or the file system reports an error.
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

    /// Creates and locks another folder with the same settings. It must not exist yet.
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

    /// Releases the lock.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.lock.unlock()
    }
}

/// Folder in which a new store is built before it replaces `store`.
pub(crate) fn beside(store: &Path) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(".rebuilding");
    store.with_file_name(name)
}

/// Removes the remains of an unfinished rebuild. The caller must hold the folder's lock.
///
/// # Errors
/// The file system reports an error.
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

/// Locks a file, with retries. A lock can outlive a killed process for a moment: a child that the process has
/// forked shares its files until it runs its own program.
pub(crate) fn take(file: &File) -> Result<(), TryLockError> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(LOCK_PAUSE);
            }
            taken => return taken,
        }
    }
}

/// Locks the folder. sled also locks its file, but its error cannot be reliably distinguished from other errors.
fn lock(path: &Path) -> Result<File, OpenError> {
    let io = OpenError::io(path);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK))
        .map_err(io)?;
    match take(&lock) {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forked child of a killed server holds the lock for some milliseconds.
    #[test]
    fn a_lock_that_is_let_go_in_a_moment_keeps_no_start_out() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let letting_go = std::thread::spawn(move || {
            std::thread::park_timeout(LOCK_WAIT / 4);
            drop(held);
        });
        let taken = lock(folder.path());
        letting_go.join().unwrap();
        assert!(taken.is_ok());
        let refused = lock(folder.path());
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
    }
}
