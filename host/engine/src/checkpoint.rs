//! Giving the database what the log has, and bringing it to the disk, by a thread of its own.
//!
//! The database gets the rows of one epoch of the log and is flushed, while the next one is written,
//! and there is no third. How much sled writes for it does not matter to what a power cut may leave: sled
//! uses a segment of its log anew once what replaced it is stable, and that is on the disk
//! ([`kassette_files::durable_write`]). It was not always so: `sync_file_range` of the kernel hands over
//! pages and no more, and a few hundred kB of removed rows can make sled write tens of MiB of pages
//! between two syncs of ours, over segments whose replacement a cut then took.

use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Instant;

use crate::database::{BeforeSync, Syncing};
use crate::durable::Files;
use crate::flush_watchdog::FlushWatchdog;
use crate::memtable::Memtable;

/// The way to the thread.
pub(crate) struct Checkpoints {
    asked: SyncSender<u64>,
    done: Receiver<()>,
    under_way: bool,
}

/// The thread has ended, and has said why.
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

    /// Waits until the database has on the disk what was last [asked](Self::ask) for.
    pub(crate) fn wait(&mut self) -> Result<(), Ended> {
        if std::mem::take(&mut self.under_way) {
            self.done.recv().map_err(|_| Ended)?;
        }
        Ok(())
    }

    /// Asks for the epoch that has ended, up to a group.
    pub(crate) fn ask(&mut self, group: u64) -> Result<(), Ended> {
        self.under_way = true;
        self.asked.send(group).map_err(|_| Ended)
    }
}

/// The thread: gives the database an epoch and brings it to the disk whenever it is asked to.
///
/// # Errors
/// The first time that fails, and why.
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
        // sled leaves its old buffer, of a whole segment, to the collector of garbage that it shares with
        // us; there this thread would keep sixty-four of them before any is taken.
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
