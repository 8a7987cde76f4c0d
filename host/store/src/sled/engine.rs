//! The database behind the store: open, out of reach while the disk fails, or closed.
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

use parking_lot::{Mutex, RwLock};

use super::Secrets;
use super::durable::{Files, free_bytes};
use super::flush_watchdog::FlushWatchdog;
use super::journal::Journal;
use super::memtable::Memtable;
use super::open::{FORMAT, Folder, OpenError, Opened, open_as};
use super::payment_index::PaymentIndex;
use super::payment_index_rows::Tail;
use super::taken_nonces::AllTaken;
use crate::Fault;

/// Free bytes below which nothing new is taken. The largest group, the pages that sled moves for it
/// and the snapshot that the next start writes fit several times; so does the log of a day.
const RESERVE: u64 = 64 << 20;
/// How long an operation waits for the disk. A group takes milliseconds, and a second on a bad day.
const PATIENCE: Duration = Duration::from_secs(30);
/// How soon a disk that failed is tried again, at first.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The same after many times: soon enough for an operator who has just made room.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The database as reads find it.
pub(super) enum Engine {
    /// Open, with the payment index of its payments.
    Open(Arc<Memtable>, Arc<RwLock<PaymentIndex>>),
    /// Closed because the disk failed, and why.
    Failing(String),
    /// Closed for good.
    Closed,
}

impl Engine {
    /// Its rows and its payment index, if they can be read.
    pub(super) fn open(&self) -> Result<(&Memtable, &RwLock<PaymentIndex>), Fault> {
        match self {
            Self::Open(memtable, index) => Ok((memtable, index)),
            Self::Failing(why) => Err(Fault::Unavailable(why.clone())),
            Self::Closed => Err(Fault::Stopping),
        }
    }
}

/// What callers are told while the disk fails.
pub(super) fn failing(why: &str) -> String {
    format!("the disk failed ({why}); see to its space and health, the store goes on by itself")
}

/// The database, shared by the readers and the applier. A reader holds the lock
/// as long as the read lasts.
pub(super) type Shared = Arc<RwLock<Engine>>;

/// What is about to be synced, or written so that it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncing {
    /// A group in the log.
    Log,
    /// An epoch of the log, which the database is about to get.
    Epoch,
    Database,
}

/// Called before a sync or what leads to it, which does not happen where it fails.
pub(super) type BeforeSync = Box<dyn Fn(Syncing) -> io::Result<()> + Send + Sync>;

/// What stands between the store and its disk; tests hold syncs back, let them fail, or fill the disk.
pub(super) struct Seams {
    pub(super) before_sync: BeforeSync,
    /// Free bytes on the file system of a folder.
    pub(super) free_bytes: fn(&File) -> io::Result<u64>,
    /// How long an operation waits for the disk.
    pub(super) patience: Duration,
}

impl Default for Seams {
    fn default() -> Self {
        Self {
            before_sync: Box::new(|_| Ok(())),
            free_bytes,
            patience: PATIENCE,
        }
    }
}

/// What the writing thread holds of an open database.
pub(super) struct Writable {
    pub(super) memtable: Arc<Memtable>,
    pub(super) watchdog: FlushWatchdog,
    pub(super) files: Files,
    pub(super) journal: Journal,
    pub(super) before_sync: Arc<BeforeSync>,
    /// The number of the last group in the memtable.
    pub(super) last_group: u64,
    pub(super) index: Arc<RwLock<PaymentIndex>>,
    /// The last row of the payment index.
    pub(super) tail: Tail,
    pub(super) nonces: Mutex<AllTaken>,
}

/// What a pause between two tries ended with.
pub(super) enum Pause {
    /// Its time had passed.
    Over,
    /// The store is being shut down.
    Closing,
}

/// How waiting for the disk ended.
pub(super) enum Reopened {
    /// The database is open again.
    Open(Box<Writable>),
    /// The store was shut down meanwhile.
    Closed,
    /// It will not open by itself again, and why.
    Lost(String),
}

/// Opens the database of a folder, as often as the disk makes it necessary.
pub(super) struct Keeper {
    folder: Arc<Folder>,
    /// For the free space.
    descriptor: File,
    secrets: Arc<Secrets>,
    shared: Shared,
    before_sync: Arc<BeforeSync>,
    free_bytes: fn(&File) -> io::Result<u64>,
}

impl Keeper {
    /// Takes over a database that has just been opened.
    pub(super) fn new(
        folder: Arc<Folder>,
        secrets: Arc<Secrets>,
        seams: Seams,
        opened: Opened,
    ) -> Result<(Self, Writable), OpenError> {
        let descriptor = File::open(&folder.path).map_err(|source| OpenError::Io {
            path: folder.path.clone(),
            source,
        })?;
        let mut keeper = Self {
            folder,
            descriptor,
            secrets,
            shared: Arc::new(RwLock::new(Engine::Closed)),
            before_sync: Arc::new(seams.before_sync),
            free_bytes: seams.free_bytes,
        };
        let writable = keeper
            .show(opened)
            .map_err(|error| OpenError::System(error.to_string()))?;
        Ok((keeper, writable))
    }

    /// The database, for readers.
    pub(super) fn shared(&self) -> Shared {
        Arc::clone(&self.shared)
    }

    /// Keeps all readers out until it is dropped: what is written meanwhile is seen whole.
    pub(super) fn exclusive(&self) -> impl Drop + '_ {
        self.shared.write()
    }

    fn show(&mut self, opened: Opened) -> io::Result<Writable> {
        let index = Arc::new(RwLock::new(opened.index));
        let watchdog = FlushWatchdog::over(&opened.db)?;
        let memtable = Arc::new(Memtable::of(opened.db));
        let writable = Writable {
            memtable: Arc::clone(&memtable),
            watchdog,
            files: opened.files,
            journal: opened.journal,
            before_sync: Arc::clone(&self.before_sync),
            last_group: opened.last_group,
            index: Arc::clone(&index),
            tail: opened.tail,
            nonces: Mutex::new(opened.nonces),
        };
        *self.shared.write() = Engine::Open(memtable, index);
        Ok(writable)
    }

    /// Whether there is room for another group. Where there is none, nothing is written and reads
    /// go on.
    ///
    /// # Errors
    /// That the disk is full, or what the file system said.
    pub(super) fn room(&self) -> io::Result<()> {
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
    pub(super) fn fail(&self, why: &str) {
        let failing = Engine::Failing(failing(why));
        let before = std::mem::replace(&mut *self.shared.write(), failing);
        drop_quietly(before);
    }

    /// Takes the database away for good.
    pub(super) fn close(&self) {
        let before = std::mem::replace(&mut *self.shared.write(), Engine::Closed);
        drop_quietly(before);
    }

    /// Waits until the database opens again. `acknowledged` is the last group that a caller was
    /// answered for; `pause` waits for some time and refuses operations meanwhile.
    pub(super) fn reopen(
        &mut self,
        acknowledged: u64,
        mut pause: impl FnMut(Duration, &Fault) -> Pause,
    ) -> Reopened {
        let mut wait = FIRST_WAIT;
        loop {
            let fault = match &*self.shared.read() {
                Engine::Failing(why) => Fault::Unavailable(why.clone()),
                _ => Fault::Stopping,
            };
            if let Pause::Closing = pause(wait, &fault) {
                return Reopened::Closed;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
            // sled panics where it cannot sync on the way out of a try that failed.
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt()));
            let attempt = attempt.unwrap_or_else(|_| {
                Err(OpenError::Io {
                    path: self.folder.path.clone(),
                    source: io::Error::other("the storage engine gave up"),
                })
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

    fn attempt(&self) -> Result<Opened, OpenError> {
        let io = |source| OpenError::Io {
            path: self.folder.path.clone(),
            source,
        };
        self.room().map_err(io)?;
        open_as(&self.folder, &self.secrets.sealer, FORMAT)
    }
}

/// Drops what belongs to a database that failed: sled panics where it cannot sync on the way out.
pub(super) fn drop_quietly<T>(failed: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(failed))).is_err() {
        tracing::warn!("the storage engine did not close in order");
    }
}
