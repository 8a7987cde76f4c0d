//! Makes what sled has written survive a crash of the machine.
//!
//! All pages and the log are in the one file `db`, and each write of it is on the disk before sled takes
//! it for stable ([`kassette_files::durable_write`]); so `flush` returns when all of it is. A page over a
//! quarter of a segment gets a file of its own under `blobs/`, which sled never syncs; `conf` is written
//! once; snapshots are only a short cut, synced by sled itself all but their names, and what is there
//! finds its way without them (`tail`).
//!
//! **A sync that fails.** The kernel tells of it once, keeps the pages and takes them for written, so no
//! later sync says anything about them, and memory shows what the disk may not have. The store does not
//! trust either: it lets go of the database (`database`), has the kernel forget all pages that it takes for
//! written, which leaves those that it will still write, and reads from the disk what is there, as after
//! a power cut. What was acknowledged has to be among it, or the store ends for good. A process that
//! stopped instead would be started again and come upon the same pages in the kernel's memory: so every
//! opening begins this way, and there is no other reason to stop. sled syncs by one descriptor from
//! several threads, of which one is told: from there on each sync of the file fails until it is opened
//! anew.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The files of a database.
pub(crate) struct Files {
    /// Our own descriptor of `db`: `fdatasync` is about the file, not about who wrote.
    database: File,
    blobs: PathBuf,
    /// Blobs are named by a number that only grows.
    newest_blob: Option<i64>,
    checkpointed: GroupNumberFile,
}

impl Files {
    /// Opens the files of the database in a folder, and makes the folder and all that recovery found
    /// in it durable: what the kernel still held of a process that was killed may be shown from now on.
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

    /// The last group that the database is known to have on the disk, with all before it.
    pub(crate) fn last_checkpointed(&self) -> io::Result<Option<u64>> {
        self.checkpointed.read()
    }

    /// Remembers that the engine has flushed all groups up to one.
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

/// Makes durable what the kernel still holds of a database that no engine has open. An engine that
/// opens it writes a snapshot that says where each page stands, and syncs only that.
pub(crate) fn settle(folder: &Path) -> io::Result<()> {
    let settled = Files::unsynced(folder).and_then(|mut files| {
        // First what the log points at, then the log.
        files.sync_blobs()?;
        files.database.sync_data()
    });
    match settled {
        // It has not been made yet, or not whole.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        settled => settled,
    }
}

/// Makes a folder's name durable, and those of the folders that it is in: any of them may be new.
pub(crate) fn sync_with_parents(folder: &Path) -> io::Result<()> {
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

/// Makes the kernel forget what it holds of a database's files and has no need to write.
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

/// Bytes that this process may still write to the file system of a folder.
pub(crate) fn free_bytes(folder: &File) -> io::Result<u64> {
    let system = rustix::fs::fstatvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The last group that was answered.
pub const ACKNOWLEDGED: &str = "acknowledged";
/// The last group that the database has on the disk.
pub const CHECKPOINTED: &str = "checkpointed";

/// The number of a group, in a file of its own. It is written once the group is on the disk, and not
/// synced itself: it never runs ahead. What does not read back at the end of sled's log, or of ours, is
/// passed over as if nothing had been there, so a store that is behind it has lost what was promised.
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

    /// None where there was none, or the file does not read back.
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

/// A number and its checksum.
const MARK: usize = 12;

fn write_mark(group: u64) -> [u8; MARK] {
    let mut mark = [0; MARK];
    mark[..8].copy_from_slice(&group.to_be_bytes());
    let sum = crc32fast::hash(&mark[..8]);
    mark[8..].copy_from_slice(&sum.to_be_bytes());
    mark
}

/// Whether these are the bytes of a mark that reads back.
pub(crate) fn is_mark(bytes: &[u8]) -> bool {
    let mark = bytes.first_chunk();
    mark.is_some_and(|mark| read_mark(*mark).is_some())
}

fn read_mark(mark: [u8; MARK]) -> Option<u64> {
    let group = u64::from_be_bytes(*mark.first_chunk()?);
    (write_mark(group) == mark).then_some(group)
}
