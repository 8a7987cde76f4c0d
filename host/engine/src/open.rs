//! Opening: what a crash has left of the database and its log, brought together.

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
/// How long sled may take to let go of a database that was just closed in this process: a worker of
/// its own may still hold it for a moment.
const LETTING_GO: Duration = Duration::from_secs(2);

/// A database as it was found, before anything of its log is brought into it.
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
    /// Nothing in it is still needed.
    pub(crate) journal: Journal,
    /// The number of the last group in the database.
    pub(crate) last_group: u64,
    pub(crate) state: S,
    pub(crate) shown: S::Shown,
}

impl<S: State> Opened<S> {
    /// The database alone, for maintenance: nothing else has the folder.
    pub fn into_database(self) -> Db {
        self.db
    }
}

impl<'a> Opening<'a> {
    /// Opens the database in a folder; makes one with the first rows where there is none.
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
        // The names of the log's files too.
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

    /// A row of the database, without what the log alone has: one that is only written with the first rows.
    ///
    /// # Errors
    /// Where the database does not read back.
    pub fn get(&self, key: &[u8]) -> Result<Option<IVec>, OpenError> {
        self.db
            .get(key)
            .map_err(|error| refused(self.folder.path(), error))
    }

    /// Brings into the database what the log has, and reads the state from it.
    ///
    /// # Errors
    /// Why it does not open.
    pub fn finish<S: State>(
        self,
        load: impl FnOnce(&Db) -> Result<(S, S::Shown), Fault>,
    ) -> Result<Opened<S>, OpenError> {
        let path = self.folder.path();
        let (db, files, journal, last_group) = self.caught_up()?;
        // sled panics over some kinds of damage.
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

    /// Brings into the database what the log has. The database alone: its rows can be looked at even where no
    /// state can be read from them.
    ///
    /// # Errors
    /// Why it does not open.
    pub fn into_database(self) -> Result<Db, OpenError> {
        self.caught_up().map(|(db, ..)| db)
    }

    /// The database with all that the log has, and the number of its last group.
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

/// Tells of changes that are missing, with where the database and its log stop reading back.
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

/// Opens a database that was closed in order, and closes it. sled writes a snapshot of
/// where each page stands when it opens, and at no other time; what was written since is found in the
/// log by going through it, where sled passes over what does not read back. After this there is none:
/// the next start goes through nothing, and a page that is damaged meanwhile is known by its checksum.
pub(crate) fn write_snapshot(folder: &Folder) -> Result<(), OpenError> {
    remove_unfinished(folder.path()).map_err(OpenError::io(folder.path()))?;
    open_database(folder).map(drop)
}

/// Lets sled open a database, or make one. Nothing else lets sled open anything: see `tail`.
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
        .map_err(|error| refused(path, error))?;
    // sled has written a snapshot under a name that it does not sync. It is there before anything is
    // written that builds on it.
    sync_with_parents(path).map_err(io)?;
    Ok(db)
}

pub(crate) fn refused(path: &Path, error: sled::Error) -> OpenError {
    match error {
        sled::Error::Io(source) if source.to_string().contains("lock") => OpenError::Locked {
            path: path.to_owned(),
        },
        // A page that lies past the end of a file.
        sled::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::damaged(path, UNREADABLE)
        }
        sled::Error::Io(source) => OpenError::io(path)(source),
        // sled names where a record begins; which of its bytes are damaged it does not know.
        sled::Error::Corruption { .. } => OpenError::damaged(path, UNREADABLE),
        other => OpenError::damaged(path, other.to_string()),
    }
}

/// Sees, once in each process, that what sled writes comes by [`durable_write`].
fn check_durable(path: &Path, db: &Db) -> Result<(), OpenError> {
    if durable_write::calls() == 0 {
        // Another value than before: sled leaves out a row that stays the same.
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

/// The number of the last group in the database.
fn last_group(path: &Path, db: &Db) -> Result<u64, OpenError> {
    number::last_group(db).map_err(|fault| OpenError::damaged(path, fault.to_string()))
}

/// Brings into the database what the log has beyond the last checkpoint, and to the disk.
///
/// Of groups that came after it the database may have some rows and not others, but none of a group that
/// the log does not have: so all their rows are written once more, as the last of them wrote them.
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
        // None is shown before it is in the log.
        Some((_, last)) if shown > last && Some(shown) != checkpointed => {
            return Err(damaged("the end of its log does not read back"));
        }
        // One that was just made, or restored, or compacted, has none.
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

/// Whether everything is there that was ever answered; the number of the last group.
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
