//! A new database beside the old one, and the exchange of the two.
//!
//! The new one is built in a folder beside the store's. Only when it is whole and on the disk do the
//! two folders exchange their names, which the file system does in one step: whenever the process is
//! ended, the store's name leads to the old one or to the new one, both whole. What is left under the
//! other name is of no use, and the next start removes it.

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

/// Rows that are put in order together: only where two stretches meet a leaf can stay half full.
const STRETCH: usize = 4096;
/// Bytes of rows from which on a stretch ends before that.
const STRETCH_BYTES: usize = 8 << 20;

/// Why a database was not rebuilt. What was there is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The new one does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new one cannot take the place of the old one in one step.
    #[error(
        "{} cannot be exchanged with a folder beside it in one step, so nothing was changed: move the data directory to a file system that can, such as ext4, xfs or btrfs, with nothing mounted below it", .0.display()
    )]
    NoExchange(PathBuf),
    /// The database did not take or show a row.
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

/// Where a rebuild stands; tests end it at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rows were written, not all of them on the disk.
    Filled,
    /// All of it is on the disk.
    Synced,
    /// The new store has taken the place of the old one.
    Exchanged,
    /// So it is on the disk.
    Settled,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Filled, Self::Synced, Self::Exchanged, Self::Settled];
}

/// Decides at each stage whether to go on; only tests say no.
pub type GoOn<'a> = &'a dyn Fn(Stage) -> Result<(), RebuildError>;

/// Goes on.
///
/// # Errors
/// Never.
pub fn always(_: Stage) -> Result<(), RebuildError> {
    Ok(())
}

/// A store that is being built.
pub struct Rebuild {
    /// The place that it will have, and the lock of what is there until then.
    target: Folder,
    /// Where it is built.
    beside: Folder,
}

impl Rebuild {
    /// Begins beside the place that the new store will have.
    ///
    /// # Errors
    /// Where the file system refuses, or could not exchange the two in the end.
    pub fn begin(target: Folder) -> Result<Self, RebuildError> {
        let (rebuild, ()) = Self::on_trial(target)?.attempt(Self::try_exchange)?;
        Ok(rebuild)
    }

    /// Begins what will not take a place.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn on_trial(target: Folder) -> Result<Self, RebuildError> {
        let path = beside(target.path());
        remove_leftovers(target.path()).map_err(RebuildError::io(&path))?;
        let beside = target.aside(path)?;
        Ok(Self { target, beside })
    }

    /// Exchanges the folders' locks, which are empty and both ours, and puts them back.
    fn try_exchange(&self) -> Result<(), RebuildError> {
        let locks = [&self.beside, &self.target].map(|folder| folder.path().join(LOCK));
        for _ in 0..2 {
            exchange(&locks[0], &locks[1])
                .map_err(|error| not_exchanged(self.target.path(), error))?;
        }
        Ok(())
    }

    /// Fills its database, and opens it again as the next start will find it.
    ///
    /// # Errors
    /// What `fill` says, or why the database does not take it.
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

    /// Does a part of it; gives it up where that fails.
    ///
    /// # Errors
    /// What `part` says.
    pub fn attempt<T, E>(self, part: impl FnOnce(&Self) -> Result<T, E>) -> Result<(Self, T), E> {
        match part(&self) {
            Ok(done) => Ok((self, done)),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// Gives it up: nothing of it stays, nor of a place where no store was.
    fn abandon(self) {
        let empty_target = (!holds_a_database(self.target.path())).then_some(&self.target);
        for folder in [&self.beside].into_iter().chain(empty_target) {
            if let Err(error) = fs::remove_dir_all(folder.path()) {
                tracing::warn!(folder = %folder.path().display(), %error, "an abandoned store is still there");
            }
        }
    }

    /// Makes the new store durable and puts it in the old one's place; the old one is removed.
    ///
    /// # Errors
    /// Where the file system or the database refuses; either store is then in its place, whole.
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

/// Writes rows and removals, those of one key in the order in which they come.
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

    /// The next row; none where one is removed.
    ///
    /// # Errors
    /// Where the database does not take it.
    pub fn push(&mut self, key: IVec, row: Option<IVec>) -> Result<(), Fault> {
        self.bytes += key.len() + row.as_ref().map_or(0, |row| row.len());
        self.stretch.insert(key, row);
        if self.stretch.len() == STRETCH || self.bytes >= STRETCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what has arrived so far.
    ///
    /// # Errors
    /// Where the database does not take it.
    pub fn write(&mut self) -> Result<(), Fault> {
        self.bytes = 0;
        let stretch = std::mem::take(&mut self.stretch);
        put(self.db, &stretch, || {}).map_err(Fault::database)
    }
}

/// Exchanges the names of two files or folders in one step.
fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// What to tell of two folders that could not be exchanged.
fn not_exchanged(target: &Path, error: Errno) -> RebuildError {
    match error {
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV => {
            RebuildError::NoExchange(target.to_owned())
        }
        other => RebuildError::io(target)(other.into()),
    }
}

/// Whether a database is in a folder.
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

/// Bytes that a folder takes on the disk.
///
/// # Errors
/// Where the file system refuses.
pub fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for file in files_under(folder)? {
        match fs::metadata(file) {
            // Blocks of 512 bytes, whatever the file system's own are.
            Ok(file) => bytes += file.blocks() * 512,
            // A running database removes files too.
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
