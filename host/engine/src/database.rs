//! The database behind the engine: open, unavailable because the disk fails, or closed.
//!
//! After a failed write or sync, the memory of sled, and possibly of the kernel, is ahead of the disk (see
//! `durable`). The database is therefore closed and opened again as after a crash. Recovery reads the disk, which
//! must hold everything that was acknowledged. Only the group that was being written is in doubt, and its callers
//! get [`Fault::Stopping`].

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

/// Free bytes below which the engine refuses operations. Holds, several times over, the largest group, the pages
/// that sled moves for it and the snapshot that the next start writes; also a day's logs.
pub(crate) const RESERVE: u64 = 64 << 20;
/// Default maximum time that an operation waits for the disk. A group normally takes milliseconds, at worst a
/// second.
const DISK_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before the first attempt to reopen a failed database. It doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Maximum delay between attempts to reopen: short enough for an operator who has just freed space.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The database as readers see it.
pub(crate) enum Database<S: State> {
    /// Open, with the shared part of the embedder's state.
    Open(Arc<Memtable>, Arc<S::Shown>),
    /// Closed because the disk failed, with the message for callers.
    Failing(String),
    /// Closed permanently.
    Closed,
}

impl<S: State> Database<S> {
    /// A view of the rows, or the fault that explains why they cannot be read.
    pub(crate) fn view(&self) -> Result<View<'_, S::Shown>, Fault> {
        match self {
            Self::Open(memtable, shown) => Ok(View::new(memtable, shown)),
            Self::Failing(why) => Err(Fault::Unavailable(why.clone())),
            Self::Closed => Err(Fault::Stopping),
        }
    }
}

/// Message for callers while the disk fails.
pub(crate) fn failing(why: &str) -> String {
    format!("the disk failed ({why}); see to its space and health, the store goes on by itself")
}

/// The database, shared by the readers and the applier. A reader holds the lock during its read.
pub(crate) type Shared<S> = Arc<RwLock<Database<S>>>;

/// Step of a write to disk, for [`BeforeSync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// Sync of a group in the log.
    Log,
    /// Write of an epoch of the log to the database.
    Epoch,
    Database,
}

/// Hook called before each [`Syncing`] step. If it fails, the step counts as failed and is not done.
pub type BeforeSync = Box<dyn Fn(Syncing) -> io::Result<()> + Send + Sync>;

/// Replaceable access to the disk. Tests delay syncs, let them fail, or simulate a full disk.
pub struct DiskHooks {
    /// Called before each sync.
    pub before_sync: BeforeSync,
    /// Returns the free bytes on a folder's file system.
    pub free_bytes: fn(&File) -> io::Result<u64>,
    /// Maximum time that an operation or a read waits for the disk.
    pub patience: Duration,
}

impl Default for DiskHooks {
    fn default() -> Self {
        Self {
            before_sync: Box::new(|_| Ok(())),
            free_bytes,
            patience: DISK_TIMEOUT,
        }
    }
}

/// The writing thread's part of an open database.
pub(crate) struct Writable<S: State> {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) watchdog: FlushWatchdog,
    pub(crate) files: Files,
    pub(crate) journal: Journal,
    pub(crate) before_sync: Arc<BeforeSync>,
    /// Number of the last group in the memtable.
    pub(crate) last_group: u64,
    pub(crate) state: S,
    pub(crate) shown: Arc<S::Shown>,
}

/// Result of [`DatabaseOpener::reopen`].
pub(crate) enum Reopened<S: State> {
    /// The database is open again.
    Open(Box<Writable<S>>),
    /// The store was shut down in the meantime.
    Closed,
    /// The database cannot be opened again without help, with the reason.
    Lost(String),
}

/// Opens the database of a folder again after each disk error.
pub(crate) struct DatabaseOpener<E: Embedder> {
    folder: Arc<Folder>,
    /// Descriptor of the folder, for the free space.
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

    /// The database for readers.
    pub(crate) fn shared(&self) -> Shared<E::State> {
        Arc::clone(&self.shared)
    }

    /// Locks all readers out until it is dropped, so that they see all changes made until then at once.
    pub(crate) fn exclusive(&self) -> impl Drop + '_ {
        self.shared.write()
    }

    fn show(&mut self, opened: Opened<E::State>) -> io::Result<Writable<E::State>> {
        let shown = Arc::new(opened.shown);
        let watchdog = FlushWatchdog::over(&opened.db)?;
        let memtable = Arc::new(Memtable::over(opened.db));
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

    /// Checks that the disk has space for another group. If not, operations are refused and reads continue.
    ///
    /// # Errors
    /// The disk is full, or the file system does not report its free space.
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

    /// Closes the database for readers because the disk failed. Waits until the current reads end.
    pub(crate) fn fail(&self, why: &str) {
        let failing = Database::Failing(failing(why));
        let before = std::mem::replace(&mut *self.shared.write(), failing);
        drop_quietly(before);
    }

    /// Closes the database permanently.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.shared.write(), Database::Closed);
        drop_quietly(before);
    }

    /// Tries to open the database until it is open, cannot be opened without help, or the store is shut down.
    /// `acknowledged` is the number of the last acknowledged group. `pause` waits for a time and refuses operations
    /// during it.
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
            // sled panics if it cannot sync while it drops a failed attempt.
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
                // sled has not released the previous database yet.
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

/// Drops a part of a failed database. sled panics if it cannot sync while it is dropped.
pub(crate) fn drop_quietly<T>(failed: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(failed))).is_err() {
        tracing::warn!("the storage engine did not close in order");
    }
}
