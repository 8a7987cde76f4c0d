//! Checkpoints: a separate thread copies an epoch of the log to the database and makes it durable.
//!
//! While one epoch is copied and flushed, the next is written to the log. There are never more than these two.
//!
//! The amount that sled writes for a checkpoint does not affect crash safety: sled reuses a segment of its log
//! only after the replacement is stable, and [`kassette_files::durable_write`] makes that mean "on disk". The
//! kernel's own `sync_file_range` does not: removing a few hundred kB of rows can make sled write tens of MiB
//! between two of our syncs, over segments whose replacement a power cut could then take.

use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Instant;

use crate::database::{BeforeSync, Syncing};
use crate::durable::Files;
use crate::flush_watchdog::FlushWatchdog;
use crate::memtable::Memtable;

/// The writing thread's handle to the checkpoint thread.
pub(crate) struct Checkpoints {
    asked: SyncSender<u64>,
    done: Receiver<()>,
    under_way: bool,
}

/// The checkpoint thread has ended and reported its reason to the inbox.
#[derive(Debug)]
pub(crate) struct Ended;

impl Checkpoints {
    pub(crate) const fn new(asked: SyncSender<u64>, done: Receiver<()>) -> Self {
        Self {
            asked,
            done,
            under_way: false,
        }
    }

    /// Waits until the checkpoint last [requested](Self::ask) is on disk. Returns at once if no checkpoint is running.
    pub(crate) fn wait(&mut self) -> Result<(), Ended> {
        if std::mem::take(&mut self.under_way) {
            self.done.recv().map_err(|_| Ended)?;
        }
        Ok(())
    }

    /// Requests a checkpoint of the frozen epoch, whose last group is `group`. A previous checkpoint must be
    /// finished.
    pub(crate) fn ask(&mut self, group: u64) -> Result<(), Ended> {
        self.under_way = true;
        self.asked.send(group).map_err(|_| Ended)
    }
}

/// Main function of the thread: writes a checkpoint for each request until the sender is dropped.
///
/// # Errors
/// Reason of the first failed checkpoint, which ends the thread.
pub(crate) fn run(
    asked: &Receiver<u64>,
    done: &Sender<()>,
    memtable: &Memtable,
    watchdog: &FlushWatchdog,
    files: &mut Files,
    before_sync: &BeforeSync,
) -> Result<(), String> {
    while let Ok(group) = asked.recv() {
        let began = Instant::now();
        before_sync(Syncing::Epoch)
            .map_err(|error| format!("the database was given nothing: {error}"))?;
        memtable
            .write_frozen()
            .and_then(|()| watchdog.flush(memtable.database()))
            .map_err(|error| format!("the database was not flushed: {error}"))?;
        memtable.drop_frozen();
        // sled leaves its old buffer, as large as a segment, to the garbage collector that it shares with us.
        // Without this call the thread would hold sixty-four of them before any is freed.
        crossbeam_epoch::pin().flush();
        before_sync(Syncing::Database)
            .and_then(|()| files.checkpoint(group))
            .map_err(|error| format!("the database was not synced: {error}"))?;
        metrics::histogram!("kassette_store_checkpoint_seconds")
            .record(began.elapsed().as_secs_f64());
        if done.send(()).is_err() {
            break;
        }
    }
    Ok(())
}
