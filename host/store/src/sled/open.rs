//! Opening: one process, the right key, a format that is known.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::sled::{Batch, IVec};
use kassette_files::durable_write;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::durable::{Files, forget_cached, sync_with_parents};
use super::journal::{Journal, Logged};
use super::memtable::{self, EpochRows};
use super::payment_index::PaymentIndex;
use super::payment_index_rows::{self, Tail};
use super::seal::{Marker, MasterKey, Sealer, Unopened, fill};
use super::segment::SEGMENT_BYTES;
use super::tail::settle_tail;
use super::taken_nonces::AllTaken;
use super::{records, schema};
use crate::Fault;

/// The version of the rows' layout that this program reads and writes.
pub(super) const FORMAT: u32 = 4;
/// sled's file with its settings.
const CONF: &str = "conf";
/// Sealed in every store, so that a wrong master key is known at once.
const CANARY: &str = "kassette";
/// How long sled may take to let go of a database that was just closed in this process: a worker of
/// its own may still hold it for a moment.
const LETTING_GO: Duration = Duration::from_secs(2);

/// What a store is opened with.
#[derive(Debug)]
pub struct OpenOptions {
    /// The folder; it is made where it does not exist.
    pub path: PathBuf,
    /// The key that secrets are sealed under.
    pub master: MasterKey,
    /// Memory for pages of the database, in bytes. sled's own default is a gibibyte.
    pub cache_bytes: u64,
}

/// Why a store does not open, and what to do.
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
    /// It was made under another master key.
    #[error(
        "{} was sealed under another master key: set the key that it was made with", .path.display()
    )]
    WrongMasterKey {
        /// The folder.
        path: PathBuf,
    },
    /// A later release wrote it.
    #[error(
        "{} has format {found}, this program knows up to {FORMAT}: run the release that wrote it, or a later one", .path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A program from before the first release wrote it.
    #[error(
        "{} has format {found}, which no release has written; this program needs {FORMAT}: name an empty data directory", .path.display()
    )]
    Older {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It has the format before this one, and stays so.
    #[error(
        "{} could not be brought to format {FORMAT} ({detail}): it is as it was. Run the release that wrote it, and have `kassette verify` list what is wrong", .path.display()
    )]
    NotUpgraded {
        /// The folder.
        path: PathBuf,
        /// Why not.
        detail: String,
    },
    /// It does not read back as it was written.
    #[error(
        "{} is damaged ({detail}): keep a copy of the folder, and bring the latest backup that `kassette verify FILE` finds whole back with `kassette restore`", .path.display()
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The file system refused.
    #[error(
        "{} cannot be opened ({source}): check that the folder exists, its owner and the space left", .path.display()
    )]
    Io {
        /// The folder.
        path: PathBuf,
        /// What it said.
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
}

impl OpenError {
    /// That something in a folder does not read back as it was written.
    fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    /// That the file system refused something in a folder.
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// A folder that is ours for as long as this lives.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    cache_bytes: u64,
    lock: File,
}

impl Folder {
    /// Makes the folder where it does not exist, and keeps others out of it.
    pub(super) fn take(options: &OpenOptions) -> Result<Self, OpenError> {
        let path = options.path.clone();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(OpenError::io(&path))?;
        Ok(Self {
            lock: lock(&path)?,
            path,
            cache_bytes: options.cache_bytes,
        })
    }

    /// Another folder, which has to be new, with the same settings.
    pub(super) fn aside(&self, path: PathBuf) -> Result<Self, OpenError> {
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
    pub(super) fn files(&self) -> io::Result<Files> {
        Files::open(&self.path)
    }

    /// Lets others have the folder.
    pub(super) fn release(&self) -> io::Result<()> {
        self.lock.unlock()
    }
}

/// A database that is open for writing.
pub(super) struct Opened {
    pub(super) db: sled::Db,
    pub(super) files: Files,
    /// Nothing in it is still needed.
    pub(super) journal: Journal,
    pub(super) marker: Marker,
    /// The number of the last group in the database.
    pub(super) last_group: u64,
    pub(super) index: PaymentIndex,
    /// The last row of the payment index.
    pub(super) tail: Tail,
    pub(super) nonces: AllTaken,
}

/// Opens the database in a folder, which has to have a format; makes one where there is none.
pub(super) fn open_as(folder: &Folder, sealer: &Sealer, format: u32) -> Result<Opened, OpenError> {
    let path = folder.path.as_path();
    let io = OpenError::io(path);
    forget_cached(path).map_err(io)?;
    remove_unfinished(path).map_err(io)?;
    remove_leftovers(path).map_err(io)?;
    settle_conf(path).map_err(io)?;
    let db = open_engine(folder)?;
    let (journal, logged) = Journal::open(path).map_err(io)?;
    // The names of the log's files too.
    let mut files = folder.files().map_err(io)?;
    let acknowledged = journal.last_acknowledged().map_err(io)?;
    if db.is_empty() {
        if acknowledged.is_some() || !logged.is_empty() {
            return Err(OpenError::damaged(path, "its database is empty"));
        }
        let rows = first_rows(sealer).map_err(|fault| OpenError::System(fault.to_string()))?;
        db.apply_batch(rows)
            .and_then(|()| db.flush())
            .map_err(|error| engine(path, error))?;
    }
    check_format(path, &db, format)?;
    let marker = unseal(path, &db, sealer)?;
    check_durable(path, &db)?;
    take_from_log(path, &db, &mut files, logged)?;
    let last_group = check_whole(path, &db, acknowledged)?;
    // sled panics over some kinds of damage.
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        Ok((payment_index_rows::load(&db)?, AllTaken::load(&db)?))
    }))
    .unwrap_or_else(|_| Err(records::unreadable()));
    let ((index, tail), nonces) =
        loaded.map_err(|fault| OpenError::damaged(path, fault.to_string()))?;
    Ok(Opened {
        db,
        files,
        journal,
        marker,
        last_group,
        index,
        tail,
        nonces,
    })
}

/// Where a store is built before it takes the place of the one in `store`.
pub(super) fn beside(store: &Path) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(".rebuilding");
    store.with_file_name(name)
}

/// Removes what a rebuild that was ended has left behind. The caller holds the store's lock.
pub(super) fn remove_leftovers(store: &Path) -> io::Result<()> {
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
        .open(path.join("lock"))
        .map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// Removes what was being written when the process ended: snapshots, which sled would read, and files
/// that had not got their names yet.
fn remove_unfinished(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || (name.starts_with("snap.") && name.ends_with(".generating")) {
            tracing::warn!(file = %name, "an unfinished file is removed");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes `conf` where it is not there or does not match its checksum. sled writes it without a sync
/// before anything else, so a power cut at the first start may leave half of it, which sled refuses;
/// and it always holds the same. Settings of another version, whole, are left for sled to refuse.
fn settle_conf(path: &Path) -> io::Result<()> {
    let found = match fs::read(path.join(CONF)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => found?,
    };
    if let Some((text, sum)) = found.split_last_chunk()
        && u32::from_le_bytes(*sum) == crc32fast::hash(text)
    {
        return Ok(());
    }
    if !found.is_empty() {
        tracing::warn!("`conf` of the store was damaged and is written anew");
    }
    // What sled writes for the settings that we use.
    let text = format!("segment_size: {SEGMENT_BYTES}\nuse_compression: false\nversion: 0.34\n");
    let mut whole = text.into_bytes();
    let sum = crc32fast::hash(&whole);
    whole.extend_from_slice(&sum.to_le_bytes());
    kassette_files::write(&path.join(CONF), 0o600, &whole)
}

/// Opens the engine of a database that was closed in order, and closes it. sled writes a snapshot of
/// where each page stands when it opens, and at no other time; what was written since is found in the
/// log by going through it, where sled passes over what does not read back. After this there is none:
/// the next start goes through nothing, and a page that is damaged meanwhile is known by its checksum.
pub(super) fn write_snapshot(folder: &Folder) -> Result<(), OpenError> {
    remove_unfinished(&folder.path).map_err(OpenError::io(&folder.path))?;
    open_engine(folder).map(drop)
}

/// Opens the engine of a database, or makes one. Nothing else lets sled open anything: see `tail`.
pub(super) fn open_engine(folder: &Folder) -> Result<sled::Db, OpenError> {
    let began = Instant::now();
    loop {
        match open_settled(folder) {
            Err(OpenError::Locked { .. }) if began.elapsed() < LETTING_GO => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened,
        }
    }
}

fn open_settled(folder: &Folder) -> Result<sled::Db, OpenError> {
    let path = folder.path.as_path();
    let io = OpenError::io(path);
    settle_tail(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked {
            path: path.to_owned(),
        },
        _ => io(error),
    })?;
    // sled panics over some kinds of damage.
    let opened = catch_unwind(|| {
        sled::Config::new()
            .path(path)
            .cache_capacity(folder.cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::HighThroughput)
            // Every epoch is flushed and synced behind the log.
            .flush_every_ms(None)
            .open()
    });
    let db = opened
        .map_err(|_| OpenError::damaged(path, "the storage engine cannot read it"))?
        .map_err(|error| engine(path, error))?;
    // sled has written a snapshot under a name that it does not sync. It is there before anything is
    // written that builds on it.
    sync_with_parents(path).map_err(io)?;
    Ok(db)
}

fn engine(path: &Path, error: sled::Error) -> OpenError {
    match error {
        sled::Error::Io(source) if source.to_string().contains("lock") => OpenError::Locked {
            path: path.to_owned(),
        },
        sled::Error::Io(source) => OpenError::io(path)(source),
        // sled names where the page begins; what is damaged may stand up to a page's length behind it.
        sled::Error::Corruption { .. } => {
            OpenError::damaged(path, "a page of its database does not read back")
        }
        other => OpenError::damaged(path, other.to_string()),
    }
}

/// What every store begins with.
fn first_rows(sealer: &Sealer) -> Result<Batch, Fault> {
    let mut mark = Zeroizing::new([0_u8; 32]);
    fill(mark.as_mut_slice())?;
    let canary = sealer.seal(schema::CANARY, &CANARY)?;
    let mark = sealer.seal(schema::MARK, &*mark)?;
    let mut batch = Batch::default();
    // In a form of its own, that a program of any version can read.
    batch.insert(schema::FORMAT, this_format());
    batch.insert(schema::CANARY, records::encode(schema::CANARY, &canary)?);
    batch.insert(schema::MARK, records::encode(schema::MARK, &mark)?);
    Ok(batch)
}

/// The row that says which format the others have.
pub(super) fn this_format() -> IVec {
    IVec::from(&FORMAT.to_be_bytes())
}

fn check_format(path: &Path, db: &sled::Db, format: u32) -> Result<(), OpenError> {
    let damaged = |detail: &str| OpenError::damaged(path, detail);
    let row = db
        .get(schema::FORMAT)
        .map_err(|error| engine(path, error))?
        .ok_or_else(|| damaged("it has no format version"))?;
    let found = <[u8; 4]>::try_from(&row[..])
        .map(u32::from_be_bytes)
        .map_err(|_| damaged("its format version is not a number"))?;
    match found {
        found if found == format => Ok(()),
        0 => Err(damaged("its format version is 0")),
        found if found < FORMAT => Err(OpenError::Older {
            path: path.to_owned(),
            found,
        }),
        found => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
        }),
    }
}

/// Sees, once in each process, that what sled writes comes by [`durable_write`].
fn check_durable(path: &Path, db: &sled::Db) -> Result<(), OpenError> {
    if durable_write::calls() == 0 {
        // Another value than before: sled leaves out a row that stays the same.
        let before = db
            .get(schema::PROBE)
            .map_err(|error| engine(path, error))?
            .and_then(|row| records::decode::<u64>(schema::PROBE, &row).ok());
        let row = records::encode(schema::PROBE, &before.unwrap_or_default().wrapping_add(1));
        let row = row.map_err(|fault| OpenError::System(fault.to_string()))?;
        db.insert(schema::PROBE, row)
            .and_then(|_| db.flush())
            .map_err(|error| engine(path, error))?;
    }
    match durable_write::calls() {
        0 => Err(OpenError::NotDurable),
        _ => Ok(()),
    }
}

/// The number of the last group in the database.
fn last_group(path: &Path, db: &sled::Db) -> Result<u64, OpenError> {
    let row = db.get(schema::GROUP).map_err(|error| engine(path, error))?;
    let last = row.map(|row| records::decode(schema::GROUP, &row));
    last.transpose()
        .map(Option::unwrap_or_default)
        .map_err(|fault| OpenError::damaged(path, fault.to_string()))
}

/// Brings into the database what the log has beyond the last checkpoint, and to the disk.
///
/// Of groups that came after it the database may have some rows and not others, but none of a group that
/// the log does not have: so all their rows are written once more, as the last of them wrote them.
fn take_from_log(
    path: &Path,
    db: &sled::Db,
    files: &mut Files,
    logged: Vec<Logged>,
) -> Result<(), OpenError> {
    let io = OpenError::io(path);
    let damaged = |detail: &str| OpenError::damaged(path, detail);
    let checkpointed = files.last_checkpointed().map_err(io)?;
    let shown = last_group(path, db)?;
    if checkpointed.is_some_and(|checkpointed| shown < checkpointed) {
        return Err(damaged(
            "changes that were on the disk are missing in its database",
        ));
    }
    let log = logged.first().zip(logged.last());
    let log = log.map(|(first, last)| (first.number, last.number));
    match log {
        Some((first, _)) if first > shown + 1 => {
            return Err(damaged(
                "changes between its database and its log are missing",
            ));
        }
        // None is shown before it is in the log.
        Some((_, last)) if shown > last && Some(shown) != checkpointed => {
            return Err(damaged("the end of its log does not read back"));
        }
        // One that was just made, or restored, or packed anew, has none.
        None if shown > 0 && Some(shown) != checkpointed => {
            return Err(damaged("its log is missing"));
        }
        _ => {}
    }
    let after = checkpointed.unwrap_or_default();
    let mut taken = logged
        .iter()
        .filter(|group| group.number > after)
        .peekable();
    let Some(last) = log.map(|(_, last)| last).filter(|_| taken.peek().is_some()) else {
        return Ok(());
    };
    tracing::info!(groups = last - after, "changes are taken from the log");
    let mut rows = EpochRows::new();
    rows.extend(taken.flat_map(|group| group.rows.iter().cloned()));
    memtable::put(db, &rows, || {})
        .and_then(|()| db.flush())
        .map_err(|error| engine(path, error))?;
    files.checkpoint(last).map_err(io)
}

/// Whether everything is there that was ever answered; the number of the last group.
fn check_whole(path: &Path, db: &sled::Db, acknowledged: Option<u64>) -> Result<u64, OpenError> {
    let last = last_group(path, db)?;
    match acknowledged {
        Some(acknowledged) if last < acknowledged => {
            let lost = acknowledged - last;
            let detail =
                format!("its last {lost} groups of changes, which were acknowledged, are missing");
            Err(OpenError::damaged(path, detail))
        }
        _ => Ok(last),
    }
}

/// Proves the master key and reads the key of the e-mail mark.
fn unseal(path: &Path, db: &sled::Db, sealer: &Sealer) -> Result<Marker, OpenError> {
    let row = |key: &[u8]| -> Result<IVec, OpenError> {
        db.get(key)
            .map_err(|error| engine(path, error))?
            .ok_or_else(|| OpenError::damaged(path, "a row that every store has is missing"))
    };
    let closed = |unsealed| match unsealed {
        Unsealed::OtherKey => OpenError::WrongMasterKey {
            path: path.to_owned(),
        },
        Unsealed::Fault(fault) => OpenError::damaged(path, fault.to_string()),
    };
    match prove(sealer, &row(schema::CANARY)?) {
        Ok(true) => {}
        Ok(false) => {
            let detail = "the proof of the master key is another";
            return Err(OpenError::damaged(path, detail));
        }
        Err(unsealed) => return Err(closed(unsealed)),
    }
    mark(sealer, &row(schema::MARK)?).map_err(closed)
}

/// Why a row that every store has does not open.
pub(super) enum Unsealed {
    /// It was sealed under another key.
    OtherKey,
    /// It is not as it was written.
    Fault(Fault),
}

fn unseal_row<T: DeserializeOwned>(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<T, Unsealed> {
    let sealed: Vec<u8> = records::decode(key, row).map_err(Unsealed::Fault)?;
    sealer
        .open(key, &sealed)
        .map_err(|unopened| match unopened {
            Unopened::OtherKey => Unsealed::OtherKey,
            Unopened::Damaged => {
                Unsealed::Fault(records::damaged(key, "its sealed part does not open"))
            }
        })
}

/// Whether the row that proves the master key says what it should.
pub(super) fn prove(sealer: &Sealer, row: &[u8]) -> Result<bool, Unsealed> {
    unseal_row::<String>(sealer, schema::CANARY, row).map(|canary| canary == CANARY)
}

/// Reads the key of the e-mail mark from its row.
pub(super) fn mark(sealer: &Sealer, row: &[u8]) -> Result<Marker, Unsealed> {
    let key: Zeroizing<[u8; 32]> = unseal_row(sealer, schema::MARK, row).map(Zeroizing::new)?;
    Marker::new(&key).map_err(Unsealed::Fault)
}
