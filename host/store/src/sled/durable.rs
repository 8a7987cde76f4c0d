//! Makes what sled has written survive a crash of the machine.
//!
//! sled's `flush` hands its buffers to the kernel and asks for them with `sync_file_range`, which
//! writes neither a file's length nor the device's cache. All pages and the log are in the one file
//! `db`; a page over about 128 KiB gets a file of its own under `blobs/`, which sled never syncs;
//! `conf` is written once; snapshots are only a short cut and synced by sled itself.
//!
//! Where a page of the log does not read back, sled drops it and what follows, and opens as if nothing
//! had been there. The file `acknowledged` beside it therefore holds the number of the last group
//! that was answered. It is written after the group's sync and not synced itself, so it never runs
//! ahead of the database: a database that is behind it has lost what was promised.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Makes everything durable that the engine has flushed.
pub(super) trait Durable: Send + 'static {
    /// Returns when it is on the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Remembers that a group is on the disk, before anybody is answered.
    fn acknowledge(&mut self, group: u64) -> io::Result<()>;
}

/// The files of a database.
pub(super) struct Files {
    /// Our own descriptor of `db`: `fdatasync` is about the file, not about who wrote.
    database: File,
    acknowledged: File,
    blobs: PathBuf,
    /// Blobs are named by a number that only grows.
    newest_blob: Option<i64>,
}

impl Files {
    /// Opens the files of the database in a folder, and makes the folder and all that recovery found
    /// in it durable: what the kernel still held of a process that was killed may be shown from now on.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let database = File::options()
            .read(true)
            .write(true)
            .open(folder.join("db"))?;
        let acknowledged = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join("acknowledged"))?;
        let mut files = Self {
            database,
            acknowledged,
            blobs: folder.join("blobs"),
            newest_blob: None,
        };
        File::open(folder.join("conf"))?.sync_all()?;
        files.sync_blobs()?;
        files.database.sync_all()?;
        File::open(&files.blobs)?.sync_all()?;
        sync_with_parents(folder)?;
        Ok(files)
    }

    /// The last group that was answered; none where there was none, or the file does not read back.
    pub(super) fn last_acknowledged(&self) -> io::Result<Option<u64>> {
        let mut mark = [0; MARK];
        match self.acknowledged.read_exact_at(&mut mark, 0) {
            Ok(()) => Ok(read_mark(mark)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
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
                // Its page was written anew meanwhile.
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

impl Durable for Files {
    fn sync(&mut self) -> io::Result<()> {
        // First what the log points at, then the log.
        self.sync_blobs()?;
        self.database.sync_data()
    }

    fn acknowledge(&mut self, group: u64) -> io::Result<()> {
        self.acknowledged.write_all_at(&write_mark(group), 0)
    }
}

/// Makes a folder's name durable, and those of the folders that it is in: any of them may be new.
fn sync_with_parents(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()?;
    let folder = fs::canonicalize(folder)?;
    for parent in folder.ancestors().skip(1) {
        // A folder that this process may not read was not made by it.
        let Ok(parent) = File::open(parent) else {
            break;
        };
        match parent.sync_all() {
            // Nor was one that is on a file system without syncs, or that is read-only.
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

/// Makes the kernel forget what it holds of a database's files and has no need to write: after a
/// failed sync it may hold pages that never reached the disk and take them for written.
pub(super) fn forget_cached(folder: &Path) -> io::Result<()> {
    for folder in [folder.to_owned(), folder.join("blobs")] {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let file = File::open(entry.path())?;
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            }
        }
    }
    Ok(())
}

/// Bytes that this process may still write to the file system of a folder.
pub(super) fn free_bytes(folder: &File) -> io::Result<u64> {
    let system = rustix::fs::fstatvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// A number and its checksum.
const MARK: usize = 12;

fn write_mark(group: u64) -> [u8; MARK] {
    let mut mark = [0; MARK];
    mark[..8].copy_from_slice(&group.to_be_bytes());
    let sum = crc32fast::hash(&mark[..8]);
    mark[8..].copy_from_slice(&sum.to_be_bytes());
    mark
}

fn read_mark(mark: [u8; MARK]) -> Option<u64> {
    let group = u64::from_be_bytes(*mark.first_chunk()?);
    (write_mark(group) == mark).then_some(group)
}
