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

use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::checkpoint::{self, Checkpoints};
use super::commit_stream::{CommitStream, Subscription};
use super::engine::{BeforeSync, Keeper, Reopened, Syncing, Writable, drop_quietly, failing};
use super::inbox::{Inbox, Next};
use super::journal::{FILE_BYTES, Journal};
use super::memtable::Memtable;
use super::operation::{Job, Operation, Settle, Submission};
use super::payment_cache::PaymentCache;
use super::payment_index::PaymentIndex;
use super::payment_index_rows::{Entered, Tail};
use super::rows::{Made, Rows};
use super::span::{Span, Written};
use super::stats::Stats;
#[cfg(any(test, feature = "suite"))]
use super::stats::Took;
use super::taken_nonces::AllTaken;
use super::waiting::Callers;
use super::{records, schema};
use crate::Fault;

/// Most operations of one batch: beyond it a sync is no longer what the time goes to, and the first
/// of the group would wait for the last.
const GROUP: usize = 256;
/// Rows from which on a group takes no further operation. Readers wait while they go into the memtable;
/// more would save syncs that hardly count any more.
const GROUP_ROWS: usize = 1024;
/// Bytes of rows from which on a group takes no further operation: a file of the log has room for it.
const GROUP_BYTES: usize = FILE_BYTES / 2;

/// Rows that are read with every request or delivery, and so remembered by callers: keys, merchants,
/// resellers, what merchants have granted them, and webhook endpoints with their secrets. When a key
/// was last used is none of them, and neither is what waits for an endpoint.
const DIRECTORY: [&[u8]; 5] = [
    schema::API_KEYS,
    schema::MERCHANTS,
    schema::resellers::RESELLERS,
    schema::resellers::DELEGATIONS,
    schema::webhooks::ENDPOINTS,
];

/// What the thread and its callers share.
#[derive(Default)]
pub(super) struct Shared {
    inbox: Inbox,
    /// Counts the groups that changed rows of [`DIRECTORY`], and those of which it is not known.
    directory: AtomicU64,
    payments: PaymentCache,
    callers: Callers,
    stats: Stats,
    commits: Arc<CommitStream>,
}

impl Shared {
    /// A group is on disk and in the memtable, and no caller has heard of it or can read it yet.
    fn committed(&self, number: u64, made: &Arc<Made>) {
        let directory = DIRECTORY
            .iter()
            .any(|prefix| Span::prefix(prefix).touches(&made.written));
        if directory {
            self.directory.fetch_add(1, Ordering::AcqRel);
        }
        self.payments.invalidate(&made.written);
        self.commits.committed(number, made);
    }
}

/// How the applier ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was asked to, after all that waited was done.
    Closed,
    /// Writing or syncing failed, and the database did not open again with all that was taken, or not
    /// before the store was shut down.
    Failed(String),
}

/// The way to the thread.
pub(super) struct Applier {
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Ended>>,
    /// How long an operation waits for the disk.
    patience: Duration,
}

impl Applier {
    /// Starts the thread on a database that is open.
    pub(super) fn start(
        mut keeper: Keeper,
        writable: Writable,
        patience: Duration,
    ) -> std::io::Result<Self> {
        let (end, ended) = watch::channel(None);
        let shared = Arc::new(Shared::default());
        let writers = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store-applier".into())
            .spawn(move || {
                let how = run(&mut keeper, writable, &writers);
                if let Ended::Failed(why) = &how {
                    tracing::error!(%why, "the store does not end in order");
                    keeper.close();
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
    pub(super) async fn submit<O: Operation>(&self, operation: O) -> Result<O::Outcome, Fault> {
        let (reply, answer) = oneshot::channel();
        self.shared.callers.note();
        self.shared
            .inbox
            .push(Box::new(Submission { operation, reply }))?;
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.unwrap_or(Err(Fault::Stopping)),
            Err(_) => {
                tracing::error!("the disk hangs: an operation was given up");
                Err(Fault::Stopping)
            }
        }
    }

    /// Does an operation some time soon, for what need not be durable when it is answered.
    pub(super) fn hand_over<O: Operation>(&self, operation: O) -> Result<(), Fault> {
        let (reply, _) = oneshot::channel();
        self.shared
            .inbox
            .push(Box::new(Submission { operation, reply }))
    }

    /// Subscribes to the groups that are committed from now on; none where there is a subscriber already.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        self.shared.commits.subscribe()
    }

    /// Changes before a change to rows of the directory is answered.
    pub(super) fn directory(&self) -> u64 {
        self.shared.directory.load(Ordering::Acquire)
    }

    /// Payments as they were last read.
    pub(super) fn payment_cache(&self) -> &PaymentCache {
        &self.shared.payments
    }

    /// Takes no more operations; those that wait are done.
    pub(super) fn close(&self) {
        self.shared.inbox.close();
    }

    /// How long callers wait for the disk.
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// How the thread has ended, once it has.
    pub(super) async fn end(&self) -> Option<Ended> {
        let mut ended = self.ended();
        let how = ended.wait_for(Option::is_some).await;
        how.ok().and_then(|how| how.clone())
    }

    /// Whether the thread has ended, and how.
    pub(super) fn ended(&self) -> watch::Receiver<Option<Ended>> {
        self.ended.clone()
    }

    /// What it has done so far.
    pub(super) fn stats(&self) -> &Stats {
        &self.shared.stats
    }
}

impl Drop for Applier {
    /// A store that is dropped without having been shut down ends its threads all the same.
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread: writes as long as the disk does, and goes on when it does again.
fn run(keeper: &mut Keeper, mut writable: Writable, shared: &Shared) -> Ended {
    loop {
        let acknowledged = AtomicU64::new(writable.last_group);
        let run = catch_unwind(AssertUnwindSafe(|| {
            write(keeper, &mut writable, shared, &acknowledged)
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
        keeper.fail(&why);
        // Whether those groups are there is known once the database is open again.
        shared.commits.cut_off();
        shared.inbox.restart();
        drop_quietly(writable);
        let acknowledged = acknowledged.into_inner();
        let reopened = keeper.reopen(acknowledged, |time, fault| shared.inbox.pause(time, fault));
        // What was in doubt may be there after all.
        shared.directory.fetch_add(1, Ordering::AcqRel);
        shared.payments.clear();
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
fn write(
    keeper: &Keeper,
    writable: &mut Writable,
    shared: &Shared,
    acknowledged: &AtomicU64,
) -> Result<(), String> {
    let Writable {
        memtable,
        watchdog,
        files,
        journal,
        before_sync,
        last_group,
        index,
        tail,
        nonces,
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
            keeper,
            memtable,
            index,
            nonces: &*nonces,
            journal,
            before_sync,
            checkpoints: Checkpoints::new(asked, checkpointed),
            last_group,
            tail,
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
struct Writer<'a> {
    keeper: &'a Keeper,
    memtable: &'a Memtable,
    index: &'a RwLock<PaymentIndex>,
    nonces: &'a Mutex<AllTaken>,
    journal: &'a mut Journal,
    before_sync: &'a BeforeSync,
    checkpoints: Checkpoints,
    last_group: &'a mut u64,
    tail: &'a mut Tail,
    acknowledged: &'a AtomicU64,
    shared: &'a Shared,
}

impl Writer<'_> {
    fn run(&mut self) -> Result<(), String> {
        let (memtable, index, nonces) = (self.memtable, self.index, self.nonces);
        let empty = || Rows::new(memtable, index, nonces);
        let mut rows = empty();
        let mut settles: Vec<Settle> = Vec::new();
        loop {
            let begun = !settles.is_empty();
            let room =
                settles.len() < GROUP && rows.len() < GROUP_ROWS && rows.bytes() < GROUP_BYTES;
            match self.shared.inbox.next(begun, room) {
                Next::Job(job) if !begun => match self.keeper.room() {
                    Ok(()) => settles.push(self.apply(job, &mut rows)),
                    Err(full) => job.refuse(Fault::Unavailable(full.to_string())),
                },
                Next::Job(job) => settles.push(self.apply(job, &mut rows)),
                Next::Write => {
                    let made = std::mem::replace(&mut rows, empty()).into_parts();
                    let settles = std::mem::take(&mut settles);
                    let waiting = self.shared.inbox.len();
                    self.shared.stats.took(settles.len(), waiting);
                    self.commit(made)?;
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

    #[cfg(any(test, feature = "suite"))]
    fn apply(&self, job: Box<dyn Job>, rows: &mut Rows<'_>) -> Settle {
        let (name, began) = (job.name(), Instant::now());
        let settle = job.apply(rows);
        let took = Took::new(rows.touched(), began.elapsed());
        self.shared.stats.applied(name, took);
        settle
    }

    #[cfg(not(any(test, feature = "suite")))]
    #[expect(clippy::unused_self, reason = "with the suite it counts")]
    fn apply(&self, job: Box<dyn Job>, rows: &mut Rows<'_>) -> Settle {
        job.apply(rows)
    }

    /// Makes a group durable and shows it. Where that fails its callers hear `Stopping`: it
    /// may be on the disk or not.
    fn commit(&mut self, (mut written, entered): (Written, Vec<Entered>)) -> Result<(), String> {
        let mut nonces = self.nonces.lock();
        if written.is_empty() && entered.is_empty() && !nonces.has_new() {
            return Ok(());
        }
        let began = Instant::now();
        let number = *self.last_group + 1;
        let row = records::encode(schema::GROUP, &number);
        let row = row.map_err(|fault| fault.to_string())?;
        written.insert(schema::GROUP.to_vec(), Some(row));
        self.tail
            .write(&entered, &mut written)
            .and_then(|()| nonces.write(number, &mut written))
            .map_err(|fault| fault.to_string())?;
        drop(nonces);
        let made = Arc::new(Made::new(written, entered));
        self.log(number, &made)
            .map_err(|error| format!("a group was not written: {error}"))?;
        *self.last_group = number;
        self.acknowledged.store(number, Ordering::Release);
        self.show(number, &made);
        self.shared.stats.committed(made.bytes, began.elapsed());
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
    fn show(&self, number: u64, made: &Arc<Made>) {
        let _nobody_reads = self.keeper.exclusive();
        self.memtable.show(&made.written);
        if !made.entered.is_empty() {
            let mut index = self.index.write();
            for new in &made.entered {
                index.enter(&new.entry);
            }
        }
        self.shared.committed(number, made);
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
