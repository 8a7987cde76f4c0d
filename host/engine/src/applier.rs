//! The one thread that writes. It takes all waiting operations, applies them to one overlay of rows,
//! makes the rows durable with one write and one sync of the log, shows them in the memtable, and has all
//! answered.
//!
//! What the memtable shows is therefore on the disk. While rows go in, all readers are kept out.

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

/// Most operations of one batch: beyond it a sync is no longer what the time goes to, and the first
/// of the group would wait for the last.
const GROUP: usize = 256;
/// Rows from which on a group takes no further operation. Readers wait while they go into the memtable;
/// more would save syncs that hardly count any more.
const GROUP_ROWS: usize = 1024;
/// Bytes of rows from which on a group takes no further operation: a file of the log has room for it.
const GROUP_BYTES: usize = FILE_BYTES / 2;

/// What the thread and its callers share.
pub(crate) struct Shared<E: Embedder> {
    embedder: Arc<E>,
    pub(crate) inbox: Inbox<E::State>,
    callers: Callers,
    pub(crate) stats: Arc<Stats>,
    pub(crate) commits: Arc<CommitStream>,
}

/// How the applier ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to, after all that waited was done.
    Closed,
    /// Writing or syncing failed, and the database did not open again with all that was taken, or not
    /// before the store was shut down.
    Failed(String),
}

/// The way to the thread.
pub(crate) struct Applier<E: Embedder> {
    pub(crate) shared: Arc<Shared<E>>,
    /// How the thread has ended, once it has.
    pub(crate) ended: watch::Receiver<Option<Ended>>,
    /// How long an operation waits for the disk.
    patience: Duration,
}

impl<E: Embedder> Applier<E> {
    /// Starts the thread on a database that is open.
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
                // Callers that still wait hear `Stopping`.
                writers.inbox.end();
                end.send_replace(Some(how));
            })?;
        Ok(Self {
            shared,
            ended,
            patience,
        })
    }

    /// Does an operation; answers when its effect is on disk, or when the disk has hung for long: then it
    /// may be done later.
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

    /// Does an operation some time soon, for what need not be durable when it is answered.
    pub(crate) fn hand_over<O: Operation<E::State>>(&self, operation: O) -> Result<(), Fault> {
        let (reply, _) = oneshot::channel();
        self.shared
            .inbox
            .push(Box::new(Submission { operation, reply }), O::CAN_WAIT)
    }

    /// How the thread has ended, once it has.
    pub(crate) async fn end(&self) -> Option<Ended> {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await;
        how.ok().and_then(|how| how.clone())
    }
}

impl<E: Embedder> Drop for Applier<E> {
    /// An engine that is dropped without having been shut down ends its threads all the same.
    fn drop(&mut self) {
        self.shared.inbox.close();
    }
}

/// An operation that the disk hung under. It knows no operation's type, so it is compiled once.
fn given_up() -> Fault {
    tracing::error!("the disk hangs: an operation was given up");
    Fault::Stopping
}

/// The thread: writes as long as the disk does, and goes on when it does again.
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
        // Whether those groups are there is known once the database is open again.
        shared.commits.cut_off();
        shared.inbox.restart();
        drop_quietly(writable);
        let acknowledged = acknowledged.into_inner();
        let reopened = opener.reopen(acknowledged, |time, fault| shared.inbox.pause(time, fault));
        // What was in doubt may be there after all.
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

/// Writes groups until the store is shut down, with the thread that brings the database behind them.
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
    // The reason of a thread that failed comes first; one may have failed after all was written.
    .map_err(|why| inbox.restart().unwrap_or(why))?;
    inbox.restart().map_or(Ok(()), Err)
}

/// The thread's own side.
struct Writer<'a, E: Embedder> {
    opener: &'a DatabaseOpener<E>,
    memtable: &'a Memtable,
    /// Of the group in the making.
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
                    // Nothing of these is written.
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

    /// Makes a group durable and shows it. Where that fails its callers hear `Stopping`: it
    /// may be on the disk or not.
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

    /// Returns when a group is on the disk.
    fn log(&mut self, number: u64, made: &Made) -> std::io::Result<()> {
        let ended = |checkpoint::Ended| std::io::Error::other("the database is not on the disk");
        if !self.journal.has_room(made) {
            // What the other file holds is written over, and what this one holds is next.
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

    /// Shows a group that is on the disk as a whole.
    fn show(&mut self, number: u64, made: &Arc<Made>) {
        let _readers_wait = self.opener.exclusive();
        self.memtable.show(&made.written);
        self.rows.show();
        self.shared.embedder.committed(&made.written);
        self.shared.commits.committed(number, made);
    }

    /// The last checkpoint. The next start finds a snapshot beside the database, which must not
    /// know of anything that a power cut can still take.
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
