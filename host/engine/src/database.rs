//! The database behind the engine: open, out of reach while the disk fails, or closed.
//!
//! After a write or a sync that failed, sled's memory is ahead of the disk, and so may the kernel's be
//! (`durable`). So the database is closed and opened anew as after a crash: recovery reads what is there,
//! which has to be everything that was acknowledged. Only the group that was being written is in
//! doubt, and its callers were told so.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::durable::{Files, free_bytes};
use crate::embedder::Embedder;
use crate::fault::{Fault, OpenError};
use crate::flush_watchdog::FlushWatchdog;
use crate::folder::Folder;
use crate::inbox::Pause;
use crate::journal::Journal;
use crate::memtable::Memtable;
use crate::open::Opened;
use crate::state::State;
use crate::view::View;

/// Free bytes below which nothing new is taken. The largest group, the pages that sled moves for it
/// and the snapshot that the next start writes fit several times; so does the log of a day.
pub(crate) const RESERVE: u64 = 64 << 20;
/// How long an operation waits for the disk. A group takes milliseconds, and a second on a bad day.
const PATIENCE: Duration = Duration::from_secs(30);
/// How soon a disk that failed is tried again, at first.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The same after many times: soon enough for an operator who has just made room.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The database as reads find it.
pub(crate) enum Database<S: State> {
    /// Open, with what its state shows.
    Open(Arc<Memtable>, Arc<S::Shown>),
    /// Closed because the disk failed, and why.
    Failing(String),
    /// Closed for good.
    Closed,
}

impl<S: State> Database<S> {
    /// A view of its rows, if they can be read.
    pub(crate) fn view(&self) -> Result<View<'_, S::Shown>, Fault> {
        match self {
            Self::Open(memtable, shown) => Ok(View::new(memtable, shown)),
            Self::Failing(why) => Err(Fault::Unavailable(why.clone())),
            Self::Closed => Err(Fault::Stopping),
        }
    }
}

/// What callers are told while the disk fails.
pub(crate) fn failing(why: &str) -> String {
    format!("the disk failed ({why}); see to its space and health, the store goes on by itself")
}

/// The database, shared by the readers and the applier. A reader holds the lock
/// as long as the read lasts.
pub(crate) type Shared<S> = Arc<RwLock<Database<S>>>;

/// What is about to be synced, or written so that it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// A group in the log.
    Log,
    /// An epoch of the log, which the database is about to get.
    Epoch,
    Database,
}

/// Called before a sync or what leads to it, which does not happen where it fails.
pub type BeforeSync = Box<dyn Fn(Syncing) -> io::Result<()> + Send + Sync>;

/// What stands between the engine and its disk; tests hold syncs back, let them fail, or fill the disk.
pub struct DiskHooks {
    /// Called before each sync.
    pub before_sync: BeforeSync,
    /// Free bytes on the file system of a folder.
    pub free_bytes: fn(&File) -> io::Result<u64>,
    /// How long an operation waits for the disk.
    pub patience: Duration,
}

impl Default for DiskHooks {
    fn default() -> Self {
        Self {
            before_sync: Box::new(|_| Ok(())),
            free_bytes,
            patience: PATIENCE,
        }
    }
}

/// What the writing thread holds of an open database.
pub(crate) struct Writable<S: State> {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) watchdog: FlushWatchdog,
    pub(crate) files: Files,
    pub(crate) journal: Journal,
    pub(crate) before_sync: Arc<BeforeSync>,
    /// The number of the last group in the memtable.
    pub(crate) last_group: u64,
    pub(crate) state: S,
    pub(crate) shown: Arc<S::Shown>,
}

/// How waiting for the disk ended.
pub(crate) enum Reopened<S: State> {
    /// The database is open again.
    Open(Box<Writable<S>>),
    /// The store was shut down meanwhile.
    Closed,
    /// It will not open by itself again, and why.
    Lost(String),
}

/// Opens the database of a folder, as often as the disk makes it necessary.
pub(crate) struct DatabaseOpener<E: Embedder> {
    folder: Arc<Folder>,
    /// For the free space.
    descriptor: File,
    embedder: Arc<E>,
    shared: Shared<E::State>,
    before_sync: Arc<BeforeSync>,
    free_bytes: fn(&File) -> io::Result<u64>,
}

impl<E: Embedder> DatabaseOpener<E> {
    /// Takes over a database that has just been opened.
    pub(crate) fn new(
        folder: Arc<Folder>,
        embedder: Arc<E>,
        hooks: DiskHooks,
        opened: Opened<E::State>,
    ) -> Result<(Self, Writable<E::State>), OpenError> {
        let descriptor = File::open(folder.path()).map_err(OpenError::io(folder.path()))?;
        let mut opener = Self {
            folder,
            descriptor,
            embedder,
            shared: Arc::new(RwLock::new(Database::Closed)),
            before_sync: Arc::new(hooks.before_sync),
            free_bytes: hooks.free_bytes,
        };
        let writable = opener
            .show(opened)
            .map_err(|error| OpenError::System(error.to_string()))?;
        Ok((opener, writable))
    }

    /// The database, for readers.
    pub(crate) fn shared(&self) -> Shared<E::State> {
        Arc::clone(&self.shared)
    }

    /// Keeps all readers out until it is dropped: what is written meanwhile is seen whole.
    pub(crate) fn exclusive(&self) -> impl Drop + '_ {
        self.shared.write()
    }

    fn show(&mut self, opened: Opened<E::State>) -> io::Result<Writable<E::State>> {
        let shown = Arc::new(opened.shown);
        let watchdog = FlushWatchdog::over(&opened.db)?;
        let memtable = Arc::new(Memtable::of(opened.db));
        let writable = Writable {
            memtable: Arc::clone(&memtable),
            watchdog,
            files: opened.files,
            journal: opened.journal,
            before_sync: Arc::clone(&self.before_sync),
            last_group: opened.last_group,
            state: opened.state,
            shown: Arc::clone(&shown),
        };
        *self.shared.write() = Database::Open(memtable, shown);
        Ok(writable)
    }

    /// Whether there is room for another group. Where there is none, nothing is written and reads
    /// go on.
    ///
    /// # Errors
    /// That the disk is full, or what the file system said.
    pub(crate) fn room(&self) -> io::Result<()> {
        let free = (self.free_bytes)(&self.descriptor)?;
        if free < RESERVE {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "the disk is full: {} MiB are left, {} MiB have to stay free; make room, the \
                     store goes on by itself",
                    free >> 20,
                    RESERVE >> 20
                ),
            ));
        }
        Ok(())
    }

    /// Takes the database away from the readers, because the disk failed. Returns when none
    /// reads any more.
    pub(crate) fn fail(&self, why: &str) {
        let failing = Database::Failing(failing(why));
        let before = std::mem::replace(&mut *self.shared.write(), failing);
        drop_quietly(before);
    }

    /// Takes the database away for good.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.shared.write(), Database::Closed);
        drop_quietly(before);
    }

    /// Waits until the database opens again. `acknowledged` is the last group that a caller was
    /// answered for; `pause` waits for some time and refuses operations meanwhile.
    pub(crate) fn reopen(
        &mut self,
        acknowledged: u64,
        mut pause: impl FnMut(Duration, &Fault) -> Pause,
    ) -> Reopened<E::State> {
        let mut wait = FIRST_WAIT;
        loop {
            let fault = match &*self.shared.read() {
                Database::Failing(why) => Fault::Unavailable(why.clone()),
                _ => Fault::Stopping,
            };
            if let Pause::Closing = pause(wait, &fault) {
                return Reopened::Closed;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
            // sled panics where it cannot sync on the way out of a try that failed.
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt()));
            let attempt = attempt.unwrap_or_else(|_| {
                let gave_up = io::Error::other("the storage engine gave up");
                Err(OpenError::io(self.folder.path())(gave_up))
            });
            match attempt {
                Ok(opened) if opened.last_group < acknowledged => {
                    return Reopened::Lost(format!(
                        "the disk lost {} groups of changes that it had taken",
                        acknowledged - opened.last_group
                    ));
                }
                Ok(opened) => {
                    metrics::counter!("kassette_store_recoveries_total").increment(1);
                    tracing::warn!("the disk takes writes again: the store goes on");
                    return match self.show(opened) {
                        Ok(writable) => Reopened::Open(Box::new(writable)),
                        Err(error) => Reopened::Lost(error.to_string()),
                    };
                }
                Err(OpenError::Io { source, .. }) => {
                    tracing::warn!(error = %source, "the disk still fails");
                    self.fail(&source.to_string());
                }
                // sled is still letting go of what it had.
                Err(OpenError::Locked { .. }) => {}
                Err(error) => return Reopened::Lost(error.to_string()),
            }
        }
    }

    fn attempt(&self) -> Result<Opened<E::State>, OpenError> {
        self.room().map_err(OpenError::io(self.folder.path()))?;
        self.embedder.open(&self.folder)
    }
}

/// Drops what belongs to a database that failed: sled panics where it cannot sync on the way out.
pub(crate) fn drop_quietly<T>(failed: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(failed))).is_err() {
        tracing::warn!("the storage engine did not close in order");
    }
}
