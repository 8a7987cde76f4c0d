//! Makes what sled has written survive a crash of the machine.
//!
//! All pages and sled's log are in the file `db`. sled treats a write to it as stable only when it is on disk
//! ([`kassette_files::durable_write`]), so `flush` returns when all writes are. A page larger than a quarter of a
//! segment gets its own file under `blobs/`, which sled never syncs. `conf` is written once. Snapshots only speed
//! up a start: sled syncs them except for their names, and recovery works without them (see `tail`).
//!
//! **When a sync fails**, the kernel reports it once, keeps the pages in memory and marks them as written. Later
//! syncs then succeed although the disk may lack the data. The store therefore closes the database (see
//! `database`), makes the kernel drop all cached pages that are marked as written, and reads the disk as after a
//! power cut. If anything acknowledged is missing, the store ends permanently.
//!
//! Restarting the process instead would not help: the new process would find the same pages in the kernel's cache.
//! So every opening starts by dropping them. sled syncs one descriptor from several threads, of which only one
//! gets the error; `durable_write` therefore lets every later sync of the file fail until it is opened again.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Open files of a database.
pub(crate) struct Files {
    /// Our own descriptor of `db`. `fdatasync` covers the whole file, including what sled wrote.
    database: File,
    blobs: PathBuf,
    /// Highest number of a blob that is synced. sled numbers blobs in ascending order.
    newest_blob: Option<i64>,
    checkpointed: GroupNumberFile,
}

impl Files {
    /// Opens the files of the database in a folder, and makes the folder and everything that recovery found in it
    /// durable. Data that the kernel holds for a killed process may then be shown.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let mut files = Self::unsynced(folder)?;
        File::open(folder.join("conf"))?.sync_all()?;
        files.sync_blobs()?;
        files.database.sync_all()?;
        File::open(&files.blobs)?.sync_all()?;
        sync_with_parents(folder)?;
        Ok(files)
    }

    fn unsynced(folder: &Path) -> io::Result<Self> {
        let database = File::options()
            .read(true)
            .write(true)
            .open(folder.join("db"))?;
        Ok(Self {
            database,
            blobs: folder.join("blobs"),
            newest_blob: None,
            checkpointed: GroupNumberFile::open(folder, CHECKPOINTED)?,
        })
    }

    /// Number of the last group up to which all groups are on disk in the database. `None` if unknown.
    pub(crate) fn last_checkpointed(&self) -> io::Result<Option<u64>> {
        self.checkpointed.read()
    }

    /// Records that the database has all groups up to this one on disk, and syncs the blobs first.
    pub(crate) fn checkpoint(&mut self, group: u64) -> io::Result<()> {
        self.sync_blobs()?;
        self.checkpointed.write(group)
    }

    fn sync_blobs(&mut self) -> io::Result<()> {
        let mut newest = self.newest_blob;
        for entry in fs::read_dir(&self.blobs)? {
            let entry = entry?;
            let Some(number) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if Some(number) <= self.newest_blob {
                continue;
            }
            match File::open(entry.path()) {
                Ok(blob) => blob.sync_all()?,
                // sled has replaced the blob's page in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            newest = newest.max(Some(number));
        }
        if newest != self.newest_blob {
            File::open(&self.blobs)?.sync_all()?;
            self.newest_blob = newest;
        }
        Ok(())
    }
}

/// Makes durable what the kernel still holds of a database that is not open. sled, when it opens the database,
/// writes a snapshot of all page locations and syncs only that.
pub(crate) fn settle(folder: &Path) -> io::Result<()> {
    let settled = Files::unsynced(folder).and_then(|mut files| {
        // Blobs before the log that refers to them.
        files.sync_blobs()?;
        files.database.sync_data()
    });
    match settled {
        // The database was not created yet, or not completely.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        settled => settled,
    }
}

/// Makes the name of a folder durable, and the names of all its parents, because any of them may be new.
pub(crate) fn sync_with_parents(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()?;
    let folder = fs::canonicalize(folder)?;
    for parent in folder.ancestors().skip(1) {
        // This process cannot have created a folder that it may not read.
        let Ok(parent) = File::open(parent) else {
            break;
        };
        match parent.sync_all() {
            // Nor one on a file system that is read-only or does not support syncs.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                break;
            }
            synced => synced?,
        }
    }
    Ok(())
}

/// Drops the kernel's cached pages of a database's files, except pages that are not written yet.
pub(crate) fn forget_cached(folder: &Path) -> io::Result<()> {
    for folder in [folder.to_owned(), folder.join("blobs")] {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let file = File::open(entry.path())?;
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            }
        }
    }
    Ok(())
}

/// Bytes that this process may still write to a folder's file system.
pub(crate) fn free_bytes(folder: &File) -> io::Result<u64> {
    let system = rustix::fs::fstatvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Name of the file with the number of the last acknowledged group.
pub const ACKNOWLEDGED: &str = "acknowledged";
/// Name of the file with the number of the last group that the database has on disk.
pub const CHECKPOINTED: &str = "checkpointed";

/// File that holds the number of a group. It is written when the group is on disk, and is not synced, so it is
/// never ahead of the data. Recovery ignores damaged records at the end of sled's log or ours; a database that is
/// behind this number has therefore lost acknowledged groups.
pub(crate) struct GroupNumberFile(File);

impl GroupNumberFile {
    pub(crate) fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let mark = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join(name))?;
        Ok(Self(mark))
    }

    /// `None` if the file is empty, too short or damaged.
    pub(crate) fn read(&self) -> io::Result<Option<u64>> {
        let mut mark = [0; MARK];
        match self.0.read_exact_at(&mut mark, 0) {
            Ok(()) => Ok(read_mark(mark)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write(&self, group: u64) -> io::Result<()> {
        self.0.write_all_at(&write_mark(group), 0)
    }
}

/// Length in bytes: a number (8) and its CRC-32 (4).
const MARK: usize = 12;

fn write_mark(group: u64) -> [u8; MARK] {
    let mut mark = [0; MARK];
    mark[..8].copy_from_slice(&group.to_be_bytes());
    let sum = crc32fast::hash(&mark[..8]);
    mark[8..].copy_from_slice(&sum.to_be_bytes());
    mark
}

/// Whether the bytes begin with a valid mark.
pub(crate) fn is_mark(bytes: &[u8]) -> bool {
    let mark = bytes.first_chunk();
    mark.is_some_and(|mark| read_mark(*mark).is_some())
}

fn read_mark(mark: [u8; MARK]) -> Option<u64> {
    let group = u64::from_be_bytes(*mark.first_chunk()?);
    (write_mark(group) == mark).then_some(group)
}
