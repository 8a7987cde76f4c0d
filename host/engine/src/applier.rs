//! The writing thread. It applies all waiting operations to one overlay of rows, makes the rows durable with one
//! write and one sync of the log, shows them in the memtable and answers the callers.
//!
//! The memtable therefore shows only rows that are on disk. Readers are locked out while a group is added to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::checkpoint::{self, Checkpoints};
use crate::commit_stream::CommitStream;
use crate::database::{
    BeforeSync, DatabaseOpener, Reopened, Syncing, Writable, drop_quietly, failing,
};
use crate::embedder::Embedder;
use crate::fault::Fault;
use crate::inbox::{Inbox, Next};
use crate::journal::{FILE_BYTES, Journal};
use crate::memtable::Memtable;
use crate::operation::{Job, Operation, Settle, Submission};
use crate::rows::{Made, Rows};
use crate::stats::{Stats, Took};
use crate::waiting::Callers;

/// Maximum number of operations in a group. In larger groups the sync no longer dominates the time, and the first
/// operation would wait for the last.
const GROUP: usize = 256;
/// Number of rows after which a group takes no further operation. Readers wait while the rows are added to the
/// memtable; larger groups would save few further syncs.
const GROUP_ROWS: usize = 1024;
/// Bytes of rows after which a group takes no further operation. Half a log file, so that a group usually fits
/// into one.
const GROUP_BYTES: usize = FILE_BYTES / 2;

/// State shared by the writing thread and its callers.
pub(crate) struct Shared<E: Embedder> {
    embedder: Arc<E>,
    pub(crate) inbox: Inbox<E::State>,
    callers: Callers,
    pub(crate) stats: Arc<Stats>,
    pub(crate) commits: Arc<CommitStream>,
}

/// How the writing thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Orderly shutdown: all waiting operations were done.
    Closed,
    /// A write or sync failed, and then the database could not be opened again, lacked acknowledged groups, or the
    /// store was shut down before it was open.
    Failed(String),
}

/// Handle to the writing thread. Dropping it ends the thread.
pub(crate) struct Applier<E: Embedder> {
    pub(crate) shared: Arc<Shared<E>>,
    /// `Some` once the thread has ended.
    pub(crate) ended: watch::Receiver<Option<Ended>>,
    /// Maximum time that an operation waits for the disk.
    patience: Duration,
}

impl<E: Embedder> Applier<E> {
    /// Starts the thread on an open database.
    pub(crate) fn start(
        embedder: Arc<E>,
        mut opener: DatabaseOpener<E>,
        writable: Writable<E::State>,
        patience: Duration,
    ) -> std::io::Result<Self> {
        let (end, ended) = watch::channel(None);
        let shared = Arc::new(Shared {
            embedder,
            inbox: Inbox::default(),
            callers: Callers::default(),
            stats: Arc::default(),
            commits: Arc::default(),
        });
        let writers = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store-applier".into())
            .spawn(move || {
                let how = run(&mut opener, writable, &writers);
                if let Ended::Failed(why) = &how {
                    tracing::error!(%why, "the store does not end in order");
                    opener.close();
                }
                // Waiting callers get `Stopping`.
                writers.inbox.end();
                end.send_replace(Some(how));
            })?;
        Ok(Self {
            shared,
            ended,
            patience,
        })
    }

    /// Submits an operation and returns once its effect is on disk. If the disk hangs for longer than the
    /// configured time, returns [`Fault::Stopping`], and the operation may still be done later.
    pub(crate) async fn submit<O: Operation<E::State>>(
        &self,
        operation: O,
    ) -> Result<O::Outcome, Fault> {
        let (reply, answer) = oneshot::channel();
        self.shared.callers.note();
        self.shared
            .inbox
            .push(Box::new(Submission { operation, reply }), O::CAN_WAIT)?;
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.unwrap_or(Err(Fault::Stopping)),
            Err(_) => Err(given_up()),
        }
    }

    /// Submits an operation without waiting for its outcome, for changes that need not be durable yet.
    pub(crate) fn hand_over<O: Operation<E::State>>(&self, operation: O) -> Result<(), Fault> {
        let (reply, _) = oneshot::channel();
        self.shared
            .inbox
            .push(Box::new(Submission { operation, reply }), O::CAN_WAIT)
    }

    /// Waits until the thread has ended.
    pub(crate) async fn end(&self) -> Option<Ended> {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await;
        how.ok().and_then(|how| how.clone())
    }
}

impl<E: Embedder> Drop for Applier<E> {
    /// Ends the threads of an engine that was dropped without a shutdown.
    fn drop(&mut self) {
        self.shared.inbox.close();
    }
}

/// Logs that an operation was given up. Not generic, so that it is compiled only once.
fn given_up() -> Fault {
    tracing::error!("the disk hangs: an operation was given up");
    Fault::Stopping
}

/// Main function of the thread: writes until the disk fails, reopens the database and continues.
fn run<E: Embedder>(
    opener: &mut DatabaseOpener<E>,
    mut writable: Writable<E::State>,
    shared: &Shared<E>,
) -> Ended {
    loop {
        let acknowledged = AtomicU64::new(writable.last_group);
        let run = catch_unwind(AssertUnwindSafe(|| {
            write(opener, &mut writable, shared, &acknowledged)
        }));
        let why = match run {
            Ok(Ok(())) => {
                drop_quietly(writable);
                return Ended::Closed;
            }
            Ok(Err(why)) => why,
            Err(_) => "the applier panicked".into(),
        };
        tracing::error!(%why, "the disk failed: the store is closed and tried again");
        opener.fail(&why);
        // The reopened database may contain the group that was being written, and the stream has not seen it.
        shared.commits.cut_off();
        shared.inbox.restart();
        drop_quietly(writable);
        let acknowledged = acknowledged.into_inner();
        let reopened = opener.reopen(acknowledged, |time, fault| shared.inbox.pause(time, fault));
        // The group that was being written may turn out to be on disk.
        shared.embedder.reopened();
        writable = match reopened {
            Reopened::Open(writable) => *writable,
            Reopened::Closed => {
                return Ended::Failed(format!(
                    "it was shut down while its disk failed ({why}); the next start takes from its log \
                     what the database lacks"
                ));
            }
            Reopened::Lost(why) => return Ended::Failed(why),
        };
    }
}

/// Writes groups until the store is shut down. A second thread writes checkpoints in parallel.
fn write<E: Embedder>(
    opener: &DatabaseOpener<E>,
    writable: &mut Writable<E::State>,
    shared: &Shared<E>,
    acknowledged: &AtomicU64,
) -> Result<(), String> {
    let Writable {
        memtable,
        watchdog,
        files,
        journal,
        before_sync,
        last_group,
        state,
        shown,
    } = writable;
    let inbox = &shared.inbox;
    let (memtable, watchdog, before_sync) = (&**memtable, &*watchdog, &**before_sync);
    let (asked, to_checkpoint) = sync_channel(1);
    let (done, checkpointed) = channel();
    std::thread::scope(move |threads| {
        let checkpoints = move || {
            let run = AssertUnwindSafe(|| {
                checkpoint::run(
                    &to_checkpoint,
                    &done,
                    memtable,
                    watchdog,
                    files,
                    before_sync,
                )
            });
            let ended = catch_unwind(run);
            if let Err(why) = ended.unwrap_or_else(|_| Err("the storage engine panicked".into())) {
                inbox.fail(why);
            }
        };
        std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn_scoped(threads, checkpoints)
            .map_err(|error| format!("a thread was not started: {error}"))?;
        let mut writer = Writer {
            opener,
            memtable,
            rows: Rows::new(memtable, state, shown),
            journal,
            before_sync,
            checkpoints: Checkpoints::new(asked, checkpointed),
            last_group,
            acknowledged,
            shared,
        };
        writer.run()
    })
    // The reason of the checkpoint thread takes precedence; it may also have failed after all groups were written.
    .map_err(|why| inbox.restart().unwrap_or(why))?;
    inbox.restart().map_or(Ok(()), Err)
}

/// State of the writing thread while the database is open.
struct Writer<'a, E: Embedder> {
    opener: &'a DatabaseOpener<E>,
    memtable: &'a Memtable,
    /// Overlay of the group that is being built.
    rows: Rows<'a, E::State>,
    journal: &'a mut Journal,
    before_sync: &'a BeforeSync,
    checkpoints: Checkpoints,
    last_group: &'a mut u64,
    acknowledged: &'a AtomicU64,
    shared: &'a Shared<E>,
}

impl<E: Embedder> Writer<'_, E> {
    fn run(&mut self) -> Result<(), String> {
        let mut settles: Vec<Settle> = Vec::new();
        loop {
            let begun = !settles.is_empty();
            let room = settles.len() < GROUP
                && self.rows.len() < GROUP_ROWS
                && self.rows.bytes() < GROUP_BYTES;
            match self.shared.inbox.next(begun, room) {
                Next::Job(job) if !begun => match self.opener.room() {
                    Ok(()) => settles.push(self.apply(job)),
                    Err(full) => job.refuse(Fault::Unavailable(full.to_string())),
                },
                Next::Job(job) => settles.push(self.apply(job)),
                Next::Write => {
                    let settles = std::mem::take(&mut settles);
                    let waiting = self.shared.inbox.len();
                    self.shared.stats.took(settles.len(), waiting);
                    self.commit()?;
                    self.shared.callers.answer(settles);
                }
                Next::Closed => return self.end(),
                Next::Failed(why) => {
                    // These operations were not written.
                    let fault = Fault::Unavailable(failing(&why));
                    for settle in settles {
                        settle(Err(fault.clone()));
                    }
                    return Err(why);
                }
            }
        }
    }

    fn apply(&mut self, job: Box<dyn Job<E::State>>) -> Settle {
        if self.shared.stats.most.get().is_none() {
            return job.apply(&mut self.rows);
        }
        let (name, began) = (job.name(), Instant::now());
        let settle = job.apply(&mut self.rows);
        let took = Took::new(self.rows.touched(), began.elapsed());
        self.shared.stats.applied(name, took);
        settle
    }

    /// Makes a group durable and shows it. On an error the group may be on disk or not, so its callers get
    /// `Stopping`.
    fn commit(&mut self) -> Result<(), String> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let number = *self.last_group + 1;
        let made = self.rows.end(number).map_err(|fault| fault.to_string())?;
        let made = Arc::new(made);
        self.log(number, &made)
            .map_err(|error| format!("a group was not written: {error}"))?;
        *self.last_group = number;
        self.acknowledged.store(number, Ordering::Release);
        self.show(number, &made);
        self.shared.stats.committed(made.bytes, began.elapsed());
        self.shared.embedder.shown(&made.written);
        Ok(())
    }

    /// Appends a group to the log and returns once it is on disk.
    fn log(&mut self, number: u64, made: &Made) -> std::io::Result<()> {
        let ended = |checkpoint::Ended| std::io::Error::other("the database is not on the disk");
        if !self.journal.has_room(made) {
            // The new epoch overwrites the other file, so the database must first have that file's groups; then
            // the epoch that ends here is checkpointed.
            self.memtable.hurry();
            self.checkpoints.wait().map_err(ended)?;
            if self.journal.rotate()? {
                self.memtable.rotate();
                self.checkpoints.ask(*self.last_group).map_err(ended)?;
            }
        }
        self.journal.append(number, made)?;
        (self.before_sync)(Syncing::Log)?;
        self.journal.sync()?;
        self.journal.acknowledge(number)
    }

    /// Shows all rows of a durable group at once.
    fn show(&mut self, number: u64, made: &Arc<Made>) {
        let _readers_wait = self.opener.exclusive();
        self.memtable.show(&made.written);
        self.rows.show();
        self.shared.embedder.committed(&made.written);
        self.shared.commits.committed(number, made);
    }

    /// Writes the last checkpoint. The snapshot for the next start is written after it and must not refer to
    /// anything that a power cut can still remove.
    fn end(&mut self) -> Result<(), String> {
        self.checkpoints
            .wait()
            .and_then(|()| {
                self.memtable.rotate();
                self.checkpoints.ask(*self.last_group)
            })
            .and_then(|()| self.checkpoints.wait())
            .map_err(|checkpoint::Ended| "the database is not on the disk".to_owned())
    }
}
