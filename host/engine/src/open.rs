//! Opening a database: combines what a crash has left of the database and its log.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use kassette_files::durable_write;
use sled::{Db, IVec};

use crate::durable::{Files, forget_cached, sync_with_parents};
use crate::fault::{Fault, OpenError, UNREADABLE};
use crate::folder::{Folder, remove_leftovers};
use crate::journal::{Journal, Logged, NAMES};
use crate::memtable::{self, EpochRows};
use crate::number::{self, PROBE};
use crate::segment::SEGMENT_BYTES;
use crate::span::Key;
use crate::state::State;
use crate::tail::settle_tail;
use crate::unreadable::{damaged_end, log_end};

/// sled's file with its settings.
const CONF: &str = "conf";
/// Maximum time to wait until sled releases a database that was just closed in this process: one of its workers
/// may still hold it for a moment.
const LETTING_GO: Duration = Duration::from_secs(2);

/// An opened database to which nothing from its log has been added yet.
pub struct Opening<'a> {
    folder: &'a Folder,
    db: Db,
    files: Files,
    journal: Journal,
    logged: Vec<Logged>,
    acknowledged: Option<u64>,
}

/// A database that is open for writing.
pub struct Opened<S: State> {
    pub(crate) db: Db,
    pub(crate) files: Files,
    /// The log. The database has all of its groups.
    pub(crate) journal: Journal,
    /// Number of the last group in the database.
    pub(crate) last_group: u64,
    pub(crate) state: S,
    pub(crate) shown: S::Shown,
}

impl<S: State> Opened<S> {
    /// The database only, for maintenance. Nothing else uses the folder.
    pub fn into_database(self) -> Db {
        self.db
    }
}

impl<'a> Opening<'a> {
    /// Opens the database in a folder. If there is none, creates one with the first rows.
    ///
    /// # Errors
    /// Why it does not open.
    pub fn begin(
        folder: &'a Folder,
        first_rows: impl FnOnce() -> Result<Vec<(Key, IVec)>, Fault>,
    ) -> Result<Self, OpenError> {
        let path = folder.path();
        let io = OpenError::io(path);
        forget_cached(path).map_err(io)?;
        remove_unfinished(path).map_err(io)?;
        remove_leftovers(path).map_err(io)?;
        settle_conf(path).map_err(io)?;
        let db = open_database(folder)?;
        let (journal, logged) = Journal::open(path).map_err(io)?;
        // This also syncs the names of the log's files.
        let files = folder.files().map_err(io)?;
        let acknowledged = journal.last_acknowledged().map_err(io)?;
        if db.is_empty() {
            if acknowledged.is_some() || !logged.is_empty() {
                return Err(OpenError::damaged(path, "its database is empty"));
            }
            let rows = first_rows().map_err(|fault| OpenError::System(fault.to_string()))?;
            let mut batch = sled::Batch::default();
            for (key, row) in rows {
                batch.insert(key, row);
            }
            db.apply_batch(batch)
                .and_then(|()| db.flush())
                .map_err(|error| refused(path, error))?;
        }
        Ok(Self {
            folder,
            db,
            files,
            journal,
            logged,
            acknowledged,
        })
    }

    /// A row of the database, without the log. For rows that are written only when the database is created.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, OpenError> {
        self.db
            .get(key)
            .map_err(|error| refused(self.folder.path(), error))
    }

    /// Adds the groups of the log to the database, and reads the state.
    ///
    /// # Errors
    /// Why it does not open.
    pub fn finish<S: State>(
        self,
        load: impl FnOnce(&Db) -> Result<(S, S::Shown), Fault>,
    ) -> Result<Opened<S>, OpenError> {
        let path = self.folder.path();
        let (db, files, journal, last_group) = self.caught_up()?;
        // sled panics on some kinds of damage.
        let loaded = catch_unwind(AssertUnwindSafe(|| load(&db)))
            .unwrap_or_else(|_| Err(Fault::unreadable()));
        let (state, shown) = loaded.map_err(|fault| OpenError::damaged(path, fault.to_string()))?;
        Ok(Opened {
            db,
            files,
            journal,
            last_group,
            state,
            shown,
        })
    }

    /// Adds the groups of the log, and returns only the database. Its rows can be read even if no state can be
    /// loaded from them.
    ///
    /// # Errors
    /// Why it does not open.
    pub fn into_database(self) -> Result<Db, OpenError> {
        self.caught_up().map(|(db, ..)| db)
    }

    /// The database with all groups of the log, and the number of its last group.
    fn caught_up(self) -> Result<(Db, Files, Journal, u64), OpenError> {
        let path = self.folder.path();
        let Self {
            db,
            mut files,
            journal,
            logged,
            acknowledged,
            ..
        } = self;
        let missing = Missing {
            path,
            logs: journal.read_to(),
        };
        check_durable(path, &db)?;
        take_from_log(&missing, &db, &mut files, logged)?;
        let last_group = check_whole(&missing, &db, acknowledged)?;
        Ok((db, files, journal, last_group))
    }
}

/// Builds errors about missing changes. They contain the offsets at which the database and its log end or are
/// damaged.
struct Missing<'a> {
    path: &'a Path,
    logs: [usize; 2],
}

impl Missing<'_> {
    fn damaged(&self, detail: &str) -> OpenError {
        let database = match log_end(self.path) {
            Some(end) => format!("byte {end} of `db`"),
            None => "the end of a segment of `db`".to_owned(),
        };
        let [(first, to_first), (second, to_second)] =
            [0, 1].map(|log| (NAMES[log], self.logs[log]));
        let read_to = format!("byte {to_first} of `{first}`, byte {to_second} of `{second}`");
        let detail = format!("{detail}; what reads back ends at {database}, {read_to}");
        OpenError::damaged(self.path, detail)
    }
}

/// Removes files that were being written when the process ended: snapshots, which sled would read, and files
/// without their final name.
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

/// Writes `conf` if it is missing or does not match its checksum. sled writes it first and without a sync, so a
/// power cut during the first start may leave a part of it, which sled rejects. Its content is always the same. A
/// valid file with other settings stays, and sled rejects it.
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
    // What sled writes for our settings.
    let text = format!("segment_size: {SEGMENT_BYTES}\nuse_compression: false\nversion: 0.34\n");
    let mut whole = text.into_bytes();
    let sum = crc32fast::hash(&whole);
    whole.extend_from_slice(&sum.to_le_bytes());
    kassette_files::write(&path.join(CONF), 0o600, &whole)
}

/// Opens and closes a database that was closed in order. sled writes a snapshot of all page locations only when it
/// opens. Without it, the next start would read the log from the previous snapshot on, and sled skips damaged
/// records there. With it, no log is left to read, and later damage to a page is detected by its checksum.
pub(crate) fn write_snapshot(folder: &Folder) -> Result<(), OpenError> {
    remove_unfinished(folder.path()).map_err(OpenError::io(folder.path()))?;
    open_database(folder).map(drop)
}

/// Lets sled open or create a database. The only place that does so; see `tail`.
pub(crate) fn open_database(folder: &Folder) -> Result<Db, OpenError> {
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

fn open_settled(folder: &Folder) -> Result<Db, OpenError> {
    let path = folder.path();
    let io = OpenError::io(path);
    settle_tail(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked {
            path: path.to_owned(),
        },
        _ => io(error),
    })?;
    if let Some(place) = damaged_end(path).map_err(io)? {
        return Err(OpenError::damaged(path, place.to_string()));
    }
    // sled panics on some kinds of damage.
    let opened = catch_unwind(|| {
        sled::Config::new()
            .path(path)
            .cache_capacity(folder.cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::HighThroughput)
            // Flushed and synced by each checkpoint instead.
            .flush_every_ms(None)
            .open()
    });
    let db = opened
        .map_err(|_| OpenError::damaged(path, "the storage engine cannot read it"))?
        .map_err(|error| refused(path, error))?;
    // sled has written a snapshot and not synced its name. Nothing that builds on it may be written before the
    // name is durable.
    sync_with_parents(path).map_err(io)?;
    Ok(db)
}

pub(crate) fn refused(path: &Path, error: sled::Error) -> OpenError {
    match error {
        sled::Error::Io(source) if source.to_string().contains("lock") => OpenError::Locked {
            path: path.to_owned(),
        },
        // A page beyond the end of a file.
        sled::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::damaged(path, UNREADABLE)
        }
        sled::Error::Io(source) => OpenError::io(path)(source),
        // sled reports where a record starts, but not which of its bytes are damaged.
        sled::Error::Corruption { .. } => OpenError::damaged(path, UNREADABLE),
        other => OpenError::damaged(path, other.to_string()),
    }
}

/// Checks, once per process, that sled's writes use [`durable_write`].
fn check_durable(path: &Path, db: &Db) -> Result<(), OpenError> {
    if durable_write::calls() == 0 {
        // The value must change, because sled does not write an unchanged row.
        let before = db
            .get(PROBE)
            .map_err(|error| refused(path, error))?
            .and_then(|row| number::decode(PROBE, &row));
        let next = before.unwrap_or_default().wrapping_add(1);
        db.insert(PROBE, number::encode(PROBE, next))
            .and_then(|_| db.flush())
            .map_err(|error| refused(path, error))?;
    }
    match durable_write::calls() {
        0 => Err(OpenError::NotDurable),
        _ => Ok(()),
    }
}

/// Number of the last group in the database.
fn last_group(path: &Path, db: &Db) -> Result<u64, OpenError> {
    number::last_group(db).map_err(|fault| OpenError::damaged(path, fault.to_string()))
}

/// Copies the groups after the last checkpoint from the log to the database, and syncs it.
///
/// The database may have some of the rows of these groups, but none of a group that is missing from the log. All
/// of their rows are therefore written again, each with its last value.
fn take_from_log(
    missing: &Missing<'_>,
    db: &Db,
    files: &mut Files,
    logged: Vec<Logged>,
) -> Result<(), OpenError> {
    let path = missing.path;
    let io = OpenError::io(path);
    let damaged = |detail: &str| missing.damaged(detail);
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
        // The database gets a group only after it is in the log.
        Some((_, last)) if shown > last && Some(shown) != checkpointed => {
            return Err(damaged("the end of its log does not read back"));
        }
        // A database that was just created, restored or compacted has no log.
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
        .map_err(|error| refused(path, error))?;
    files.checkpoint(last).map_err(io)
}

/// Checks that no acknowledged group is missing. Returns the number of the last group.
fn check_whole(
    missing: &Missing<'_>,
    db: &Db,
    acknowledged: Option<u64>,
) -> Result<u64, OpenError> {
    let last = last_group(missing.path, db)?;
    match acknowledged {
        Some(acknowledged) if last < acknowledged => {
            let lost = acknowledged - last;
            let detail =
                format!("its last {lost} groups of changes, which were acknowledged, are missing");
            Err(missing.damaged(&detail))
        }
        _ => Ok(last),
    }
}
