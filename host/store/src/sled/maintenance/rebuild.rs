//! A new store beside the old one, and the exchange of the two.
//!
//! The new one is built in a folder beside the store's. Only when it is whole and on the disk do the
//! two folders exchange their names, which the file system does in one step: whenever the process is
//! ended, the store's name leads to the old one or to the new one, both whole. What is left under the
//! other name is of no use, and the next start removes it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ::sled::Db;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::MaintenanceError;
use super::bulk::Bulk;
use crate::sled::durable::{ACKNOWLEDGED, Mark};
use crate::sled::open::{Folder, beside, open_engine, remove_leftovers};
use crate::sled::span::engine;
use crate::sled::{records, schema};

/// Where a rebuild stands; tests end it at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
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
    #[cfg(test)]
    pub(super) const ALL: [Self; 4] = [Self::Filled, Self::Synced, Self::Exchanged, Self::Settled];
}

/// Decides at each stage whether to go on; only tests say no.
pub(super) type GoOn<'a> = &'a dyn Fn(Stage) -> Result<(), MaintenanceError>;

/// Goes on.
pub(super) fn always(_: Stage) -> Result<(), MaintenanceError> {
    Ok(())
}

/// A store that is being built.
pub(super) struct Rebuild {
    /// The place that it will have, and the lock of what is there until then.
    target: Folder,
    /// Where it is built.
    beside: Folder,
}

impl Rebuild {
    /// Begins beside the place that the new store will have.
    pub(super) fn begin(target: Folder) -> Result<Self, MaintenanceError> {
        let path = beside(&target.path);
        remove_leftovers(&target.path).map_err(MaintenanceError::io(&path))?;
        let beside = target.aside(path)?;
        Ok(Self { target, beside })
    }

    /// Fills its database, and opens it again as the next start will find it.
    pub(super) fn fill(
        &self,
        fill: impl FnOnce(&mut Bulk<'_>) -> Result<(), MaintenanceError>,
    ) -> Result<Db, MaintenanceError> {
        let db = open_engine(&self.beside)?;
        let mut bulk = Bulk::new(&db);
        fill(&mut bulk)?;
        bulk.write()?;
        db.flush().map_err(|error| engine(&error))?;
        drop(db);
        Ok(open_engine(&self.beside)?)
    }

    /// Does a part of it; gives it up where that fails.
    pub(super) fn attempt<T>(
        self,
        part: impl FnOnce(&Self) -> Result<T, MaintenanceError>,
    ) -> Result<(Self, T), MaintenanceError> {
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
        let empty_target = (!holds_a_store(&self.target.path)).then_some(&self.target);
        for folder in [&self.beside].into_iter().chain(empty_target) {
            if let Err(error) = fs::remove_dir_all(&folder.path) {
                tracing::warn!(folder = %folder.path.display(), %error, "an abandoned store is still there");
            }
        }
    }

    /// Makes the new store durable and puts it in the old one's place; the old one is removed.
    pub(super) fn finish(self, db: Db, go_on: GoOn<'_>) -> Result<(), MaintenanceError> {
        let io = MaintenanceError::io(&self.beside.path);
        go_on(Stage::Filled)?;
        db.flush()
            .map_err(|error| engine(&error))?;
        let last_group = db
            .get(schema::GROUP)
            .map_err(|error| engine(&error))?
            .map(|row| records::decode(schema::GROUP, &row))
            .transpose()?
            .unwrap_or_default();
        drop(db);
        let mut files = self.beside.files().map_err(&io)?;
        files
            .checkpoint(last_group)
            .and_then(|()| Mark::open(&self.beside.path, ACKNOWLEDGED)?.write(last_group))
            .map_err(&io)?;
        for file in files_under(&self.beside.path).map_err(&io)? {
            File::open(file)
                .and_then(|file| file.sync_all())
                .map_err(&io)?;
        }
        File::open(&self.beside.path)
            .and_then(|folder| folder.sync_all())
            .map_err(&io)?;
        go_on(Stage::Synced)?;
        let exchanged = renameat_with(
            CWD,
            &self.beside.path,
            CWD,
            &self.target.path,
            RenameFlags::EXCHANGE,
        );
        exchanged.map_err(|error| not_exchanged(&self.target.path, error))?;
        go_on(Stage::Exchanged)?;
        if let Some(parent) = self.target.path.parent().filter(|parent| parent.is_dir()) {
            File::open(parent)
                .and_then(|folder| folder.sync_all())
                .map_err(MaintenanceError::io(parent))?;
        }
        go_on(Stage::Settled)?;
        fs::remove_dir_all(&self.beside.path).map_err(&io)
    }
}

/// What to tell of two folders that could not be exchanged.
fn not_exchanged(target: &Path, error: Errno) -> MaintenanceError {
    match error {
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP => {
            MaintenanceError::NoExchange(target.to_owned())
        }
        other => MaintenanceError::io(target)(other.into()),
    }
}

/// Whether a database is in a folder.
pub(super) fn holds_a_store(folder: &Path) -> bool {
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
pub(super) fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for file in files_under(folder)? {
        // Blocks of 512 bytes, whatever the file system's own are.
        bytes += fs::metadata(file)?.blocks() * 512;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_exchange_is_named_with_what_to_do() {
        let target = Path::new("/data/store");
        for error in [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP] {
            let told = not_exchanged(target, error).to_string();
            assert!(
                told.contains("/data/store cannot exchange two folders"),
                "{told}"
            );
            assert!(told.contains("move the data directory"), "{told}");
        }
        let told = not_exchanged(target, Errno::NOSPC).to_string();
        assert!(told.contains("No space left"), "{told}");
    }
}
