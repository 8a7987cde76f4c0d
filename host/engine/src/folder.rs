//! The folder of a database: one process at a time.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::durable::Files;
use crate::fault::OpenError;

/// The file whose lock keeps other processes out of a folder.
pub(crate) const LOCK: &str = "lock";
/// How long another process may hold it, and the pause between two tries.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A folder that is ours for as long as this lives.
pub struct Folder {
    path: PathBuf,
    pub(crate) cache_bytes: u64,
    lock: File,
}

impl Folder {
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

/// Locks a file. A process that was killed may hold the lock a moment longer than it lives: a child that it was about to
/// run has its files until it runs.
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

/// sled locks its file too, but says so in a text that cannot be told from other failures.
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

    /// A killed server's child holds the lock for some milliseconds.
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
