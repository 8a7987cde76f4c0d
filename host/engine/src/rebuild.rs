//! Builds a new database, and exchanges it with the old one.
//!
//! The new database is built in a folder next to the store's. When it is complete and on disk, the two folders
//! exchange their names, which the file system does atomically. If the process ends at any point, the store's name
//! refers to a complete database, the old or the new one. The next start removes the other folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sled::{Db, IVec};

use crate::durable::{ACKNOWLEDGED, GroupNumberFile};
use crate::fault::{Fault, OpenError};
use crate::folder::{Folder, LOCK, beside, remove_leftovers};
use crate::memtable::{EpochRows, put};
use crate::number;
use crate::open::open_database;

/// Maximum number of rows that are sorted and written together. Only at the border of two such stretches can a
/// leaf stay half full.
const STRETCH: usize = 4096;
/// Bytes of rows after which a stretch ends early.
const STRETCH_BYTES: usize = 8 << 20;

/// Reasons why a database was not rebuilt. Before the exchange the old database is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The new database does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file system cannot exchange the two folders atomically.
    #[error(
        "{} cannot be exchanged with a folder beside it in one step, so nothing was changed: move the data directory to a file system that can, such as ext4, xfs or btrfs, with nothing mounted below it", .0.display()
    )]
    NoExchange(PathBuf),
    /// The database could not read or write a row.
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
}

impl RebuildError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Progress of a rebuild. Tests end the process at each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The rows are written, but not all synced.
    Filled,
    /// Everything is on disk.
    Synced,
    /// The new store has replaced the old one.
    Exchanged,
    /// The exchange is on disk.
    Settled,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 4] = [Self::Filled, Self::Synced, Self::Exchanged, Self::Settled];
}

/// Called at each stage; an error stops the rebuild. For tests.
pub type GoOn<'a> = &'a dyn Fn(Stage) -> Result<(), RebuildError>;

/// Always continues.
///
/// # Errors
/// Never.
pub fn always(_: Stage) -> Result<(), RebuildError> {
    Ok(())
}

/// A store that is being built.
pub struct Rebuild {
    /// The folder of the future store, locked.
    target: Folder,
    /// The folder in which the store is built.
    beside: Folder,
}

impl Rebuild {
    /// Prepares a rebuild that replaces the store in `target`.
    ///
    /// # Errors
    /// The file system reports an error, or cannot exchange two folders atomically.
    pub fn begin(target: Folder) -> Result<Self, RebuildError> {
        let (rebuild, ()) = Self::on_trial(target)?.attempt(Self::try_exchange)?;
        Ok(rebuild)
    }

    /// Prepares a rebuild that is not meant to replace a store, so without a test of the exchange.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn on_trial(target: Folder) -> Result<Self, RebuildError> {
        let path = beside(target.path());
        remove_leftovers(target.path()).map_err(RebuildError::io(&path))?;
        let beside = target.aside(path)?;
        Ok(Self { target, beside })
    }

    /// Tests the exchange with the two lock files, which are empty, and reverts it.
    fn try_exchange(&self) -> Result<(), RebuildError> {
        let locks = [&self.beside, &self.target].map(|folder| folder.path().join(LOCK));
        for _ in 0..2 {
            exchange(&locks[0], &locks[1])
                .map_err(|error| not_exchanged(self.target.path(), error))?;
        }
        Ok(())
    }

    /// Fills the new database and opens it again, as the next start will.
    ///
    /// # Errors
    /// The error of `fill`, or why the database could not be written.
    pub fn fill<E: From<RebuildError>>(
        &self,
        fill: impl FnOnce(&mut Bulk<'_>) -> Result<(), E>,
    ) -> Result<Db, E> {
        let db = open_database(&self.beside).map_err(RebuildError::from)?;
        let mut bulk = Bulk::new(&db);
        fill(&mut bulk)?;
        let written = bulk
            .write()
            .and_then(|()| db.flush().map_err(Fault::database));
        written.map_err(RebuildError::from)?;
        drop(db);
        Ok(open_database(&self.beside).map_err(RebuildError::from)?)
    }

    /// Runs a part of the rebuild, and removes the new store if it fails.
    ///
    /// # Errors
    /// The error of `part`.
    pub fn attempt<T, E>(self, part: impl FnOnce(&Self) -> Result<T, E>) -> Result<(Self, T), E> {
        match part(&self) {
            Ok(done) => Ok((self, done)),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// Removes the new store, and the target folder if no store was in it.
    fn abandon(self) {
        let empty_target = (!holds_a_database(self.target.path())).then_some(&self.target);
        for folder in [&self.beside].into_iter().chain(empty_target) {
            if let Err(error) = fs::remove_dir_all(folder.path()) {
                tracing::warn!(folder = %folder.path().display(), %error, "an abandoned store is still there");
            }
        }
    }

    /// Makes the new store durable, puts it in place of the old one and removes the old one.
    ///
    /// # Errors
    /// The file system or the database reports an error. The old or the new store is then in place, complete.
    pub fn finish(self, db: Db, go_on: GoOn<'_>) -> Result<(), RebuildError> {
        let io = RebuildError::io(self.beside.path());
        go_on(Stage::Filled)?;
        db.flush().map_err(Fault::database)?;
        let last_group = number::last_group(&db)?;
        drop(db);
        let mut files = self.beside.files().map_err(&io)?;
        files
            .checkpoint(last_group)
            .and_then(|()| {
                GroupNumberFile::open(self.beside.path(), ACKNOWLEDGED)?.write(last_group)
            })
            .map_err(&io)?;
        for file in files_under(self.beside.path()).map_err(&io)? {
            File::open(file)
                .and_then(|file| file.sync_all())
                .map_err(&io)?;
        }
        File::open(self.beside.path())
            .and_then(|folder| folder.sync_all())
            .map_err(&io)?;
        go_on(Stage::Synced)?;
        exchange(self.beside.path(), self.target.path())
            .map_err(|error| not_exchanged(self.target.path(), error))?;
        go_on(Stage::Exchanged)?;
        if let Some(parent) = self.target.path().parent().filter(|parent| parent.is_dir()) {
            File::open(parent)
                .and_then(|folder| folder.sync_all())
                .map_err(RebuildError::io(parent))?;
        }
        go_on(Stage::Settled)?;
        fs::remove_dir_all(self.beside.path()).map_err(&io)
    }
}

/// Writes rows and removals. Of several for one key, the last wins.
pub struct Bulk<'a> {
    db: &'a Db,
    stretch: EpochRows,
    bytes: usize,
}

impl<'a> Bulk<'a> {
    pub const fn new(db: &'a Db) -> Self {
        Self {
            db,
            stretch: EpochRows::new(),
            bytes: 0,
        }
    }

    /// Adds a row, or its removal if `row` is `None`.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn push(&mut self, key: IVec, row: Option<IVec>) -> Result<(), Fault> {
        self.bytes += key.len() + row.as_ref().map_or(0, |row| row.len());
        self.stretch.insert(key, row);
        if self.stretch.len() == STRETCH || self.bytes >= STRETCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the rows that were added so far.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn write(&mut self) -> Result<(), Fault> {
        self.bytes = 0;
        let stretch = std::mem::take(&mut self.stretch);
        put(self.db, &stretch, || {}).map_err(Fault::database)
    }
}

/// Exchanges the names of two files or folders atomically.
fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// Error for a failed exchange.
fn not_exchanged(target: &Path, error: Errno) -> RebuildError {
    match error {
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV => {
            RebuildError::NoExchange(target.to_owned())
        }
        other => RebuildError::io(target)(other.into()),
    }
}

/// Whether the folder contains a database.
pub fn holds_a_database(folder: &Path) -> bool {
    folder.join("db").exists()
}

fn files_under(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(files_under(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Bytes of disk space that the files in a folder occupy.
///
/// # Errors
/// The file system reports an error.
pub fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for file in files_under(folder)? {
        match fs::metadata(file) {
            // Always in units of 512 bytes, independent of the file system's block size.
            Ok(file) => bytes += file.blocks() * 512,
            // A running database may remove files at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_exchange_is_named_with_what_to_do() {
        let target = Path::new("/data/store");
        for error in [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::XDEV] {
            let told = not_exchanged(target, error).to_string();
            assert!(told.contains("/data/store cannot be exchanged"), "{told}");
            assert!(told.contains("move the data directory"), "{told}");
        }
        let told = not_exchanged(target, Errno::NOSPC).to_string();
        assert!(told.contains("No space left"), "{told}");
    }
}
