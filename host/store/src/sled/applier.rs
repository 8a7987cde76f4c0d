//! The one thread that writes. It takes all waiting operations, applies them to one overlay of rows,
//! and writes one batch; `pipeline` makes it durable and answers all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use ::sled::{Batch, Tree};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::engine::{Keeper, Reopened, Writable, drop_quietly, failing};
use super::inbox::{Inbox, Next};
use super::nonces::AllTaken;
use super::pipeline::{Batched, Group, Unsynced, flush, guarded, sync};
use super::recent::Recent;
use super::register::Register;
use super::registered::{Entered, Tail};
use super::rows::{Made, Rows, Span, Written};
use super::stats::Stats;
use super::tap::{Listener, Tap};
use super::{keys, records, reseller_keys};
use crate::Fault;

/// Most operations of one batch: beyond it a sync is no longer what the time goes to, and the first
/// of the group would wait for the last.
const GROUP: usize = 256;
/// Rows from which on a group takes no further operation. sled lets nobody read while it writes a
/// batch, at a few microseconds a row; more would save syncs that hardly count any more.
const GROUP_ROWS: usize = 1024;
/// Bytes of rows from which on a group takes no further operation. sled writes each row about ten
/// times in the worst case (with its page, that page's other rows, and their parent), so the three
/// groups that can be unsynced stay below a segment: see `pipeline`.
pub(super) const GROUP_BYTES: usize = super::open::SEGMENT_BYTES / 32;

/// Rows that are read with every request, and so remembered by callers: keys, merchants, resellers and
/// what merchants have granted them. When a key was last used is none of them.
const DIRECTORY: [&[u8]; 4] = [
    keys::API_KEYS,
    keys::MERCHANTS,
    reseller_keys::RESELLERS,
    reseller_keys::DELEGATIONS,
];

/// One thing that can happen to the store. No closures from outside: what can happen is a list.
pub(super) trait Operation: Send + 'static {
    /// What it answers.
    type Outcome: Send + 'static;

    /// Reads and writes rows. What it wrote is taken back where it fails.
    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault>;
}

/// Answers: with what the operation came to, or why it was not done. Whoever is not answered hears
/// [`Fault::Stopping`].
pub(super) type Settle = Box<dyn FnOnce(Result<(), Fault>) + Send>;

pub(super) trait Job: Send {
    fn apply(self: Box<Self>, rows: &mut Rows<'_>) -> Settle;

    /// Answers without doing anything.
    fn refuse(self: Box<Self>, fault: Fault);
}

struct Asked<O: Operation> {
    operation: O,
    reply: oneshot::Sender<Result<O::Outcome, Fault>>,
}

impl<O: Operation> Job for Asked<O> {
    fn apply(self: Box<Self>, rows: &mut Rows<'_>) -> Settle {
        let Self { operation, reply } = *self;
        // Nothing here should panic; where it does, one payment suffers and not all of them. The
        // overlay is rolled back to what it was, so nothing half-written is seen.
        let outcome = catch_unwind(AssertUnwindSafe(|| operation.apply(rows)))
            .unwrap_or_else(|_| Err(Fault::Unavailable("the operation panicked".into())));
        match outcome {
            Ok(_) => rows.keep(),
            Err(_) => rows.roll_back(),
        }
        Box::new(move |done| {
            // Whoever asked may be gone.
            let _gone = reply.send(done.and(outcome));
        })
    }

    fn refuse(self: Box<Self>, fault: Fault) {
        let _gone = self.reply.send(Err(fault));
    }
}

/// What the applier's threads and its callers share.
#[derive(Default)]
pub(super) struct Shared {
    inbox: Inbox,
    pub(super) unsynced: Unsynced,
    /// Counts the groups that changed rows of [`DIRECTORY`], and those of which it is not known.
    directory: AtomicU64,
    recent: Recent,
    stats: Stats,
    pub(super) tap: Tap,
}

impl Shared {
    /// A group is on disk, and nobody has heard of it.
    fn committed(&self, number: u64, group: &Arc<Group>) {
        let directory = DIRECTORY
            .iter()
            .any(|prefix| Span::prefix(prefix).touches(group.written()));
        if directory {
            // After the tree shows it, so that nobody remembers the old row under the new number.
            self.directory.fetch_add(1, Ordering::AcqRel);
        }
        self.recent.forget(group.written());
        self.tap.committed(number, group);
    }
}

/// How the applier ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was asked to, after all that waited was done.
    Closed,
    /// Writing or syncing failed, and the database did not open again with all that was taken.
    Failed(String),
}

/// The way to the thread.
pub(super) struct Applier {
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Ended>>,
}

impl Applier {
    /// Starts the thread on a database that is open.
    pub(super) fn start(mut keeper: Keeper, writable: Writable) -> std::io::Result<Self> {
        let (end, ended) = watch::channel(None);
        let shared = Arc::new(Shared::default());
        let writers = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store-applier".into())
            .spawn(move || {
                let how = run(&mut keeper, writable, &writers);
                if let Ended::Failed(why) = &how {
                    tracing::error!(%why, "the store stops: it cannot say what is on disk");
                    keeper.close();
                }
                // Whoever still waits hears `Stopping`.
                writers.inbox.end();
                end.send_replace(Some(how));
            })?;
        Ok(Self { shared, ended })
    }

    /// Does an operation; answers when its effect is on disk.
    pub(super) async fn submit<O: Operation>(&self, operation: O) -> Result<O::Outcome, Fault> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .inbox
            .push(Box::new(Asked { operation, reply }))?;
        answer.await.unwrap_or(Err(Fault::Stopping))
    }

    /// Does an operation some time soon, for what need not be durable when it is answered.
    pub(super) fn hand_over<O: Operation>(&self, operation: O) -> Result<(), Fault> {
        let (reply, _) = oneshot::channel();
        self.shared.inbox.push(Box::new(Asked { operation, reply }))
    }

    /// The last group that is not yet on disk and has written what `touches` looks for.
    pub(super) fn unsynced(&self, touches: impl Fn(&Written) -> bool) -> Option<Arc<Group>> {
        self.shared.unsynced.last(touches)
    }

    /// Listens to the groups that are committed from now on; none where somebody does already.
    pub(super) fn listen(&self) -> Option<Listener> {
        Listener::to(&self.shared)
    }

    /// Changes before a change to rows of the directory is answered.
    pub(super) fn directory(&self) -> u64 {
        self.shared.directory.load(Ordering::Acquire)
    }

    /// Payments as they were last read.
    pub(super) fn recent(&self) -> &Recent {
        &self.shared.recent
    }

    /// Takes no more operations; those that wait are done.
    pub(super) fn close(&self) {
        self.shared.inbox.close();
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
        shared.unsynced.give_up();
        // Whether those groups are there once the database is open again, nobody knows before.
        shared.tap.cut_off();
        shared.inbox.restart();
        drop_quietly(writable);
        let acknowledged = acknowledged.into_inner();
        let reopened = keeper.reopen(acknowledged, |time, fault| shared.inbox.pause(time, fault));
        // What was in doubt may be there after all.
        shared.directory.fetch_add(1, Ordering::AcqRel);
        shared.recent.forget_all();
        writable = match reopened {
            Reopened::Open(writable) => *writable,
            Reopened::Closed => return Ended::Closed,
            Reopened::Lost(why) => return Ended::Failed(why),
        };
    }
}

/// Writes groups until the store is shut down, with the threads that take them to the disk.
fn write(
    keeper: &Keeper,
    writable: &mut Writable,
    shared: &Shared,
    acknowledged: &AtomicU64,
) -> Result<(), String> {
    let Writable {
        tree,
        nudge,
        durable,
        last_group,
        register,
        tail,
        nonces,
    } = writable;
    let Shared {
        inbox,
        unsynced,
        stats,
        ..
    } = shared;
    let (tree, nudge) = (&*tree, &*nudge);
    // One group waits here at most: the next is written only when the flusher is free.
    let (flushes, to_flush) = sync_channel(1);
    // None waits here: a group is handed over when the one before is synced.
    let (syncs, to_sync) = sync_channel(0);
    std::thread::scope(move |threads| {
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let started = thread("store-flusher")
            .spawn_scoped(threads, move || {
                guarded(inbox, || flush(&to_flush, &syncs, tree, nudge, inbox));
            })
            .and_then(|_| {
                thread("store-syncer").spawn_scoped(threads, move || {
                    guarded(inbox, || {
                        sync(
                            &to_sync,
                            &mut **durable,
                            acknowledged,
                            unsynced,
                            |number, group| shared.committed(number, group),
                            inbox,
                            stats,
                        )
                    });
                })
            });
        started.map_err(|error| format!("a thread was not started: {error}"))?;
        let mut writer = Writer {
            tree,
            register,
            nonces: &*nonces,
            last_group,
            tail,
            shared,
            flushes,
        };
        writer.run(keeper)
    })
    // The reason of a thread that failed comes first; one may have failed after all was written.
    .map_err(|why| inbox.restart().unwrap_or(why))?;
    inbox.restart().map_or(Ok(()), Err)
}

/// The thread's own side.
struct Writer<'a> {
    tree: &'a Tree,
    register: &'a RwLock<Register>,
    nonces: &'a Mutex<AllTaken>,
    last_group: &'a mut u64,
    tail: &'a mut Tail,
    shared: &'a Shared,
    flushes: SyncSender<Batched>,
}

impl Writer<'_> {
    fn run(&mut self, keeper: &Keeper) -> Result<(), String> {
        let (tree, register, nonces) = (self.tree, self.register, self.nonces);
        let empty = || Rows::new(tree, register, nonces);
        let mut rows = empty();
        let mut settles: Vec<Settle> = Vec::new();
        loop {
            let begun = !settles.is_empty();
            let room =
                settles.len() < GROUP && rows.len() < GROUP_ROWS && rows.bytes() < GROUP_BYTES;
            match self.shared.inbox.next(begun, room) {
                Next::Job(job) if !begun => match keeper.room() {
                    Ok(()) => settles.push(job.apply(&mut rows)),
                    Err(full) => job.refuse(Fault::Unavailable(full.to_string())),
                },
                Next::Job(job) => settles.push(job.apply(&mut rows)),
                Next::Write => {
                    let made = std::mem::replace(&mut rows, empty()).into_made();
                    self.write(made, std::mem::take(&mut settles))?;
                }
                Next::Closed => return Ok(()),
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

    /// Writes a group and sends it on. What it writes is in `unsynced` before the tree shows it, and
    /// until it is on disk.
    fn write(&mut self, (mut written, entered): Made, settles: Vec<Settle>) -> Result<(), String> {
        let Shared {
            inbox,
            unsynced,
            stats,
            ..
        } = self.shared;
        stats.took(settles.len(), inbox.len());
        let mut batched = Batched {
            group: None,
            number: *self.last_group,
            bytes: 0,
            began: Instant::now(),
            settles,
        };
        let mut nonces = self.nonces.lock();
        if !(written.is_empty() && entered.is_empty() && !nonces.has_new()) {
            batched.number += 1;
            let row = records::encode(keys::GROUP, &batched.number);
            let row = row.map_err(|fault| fault.to_string())?;
            written.insert(keys::GROUP.to_vec(), Some(row));
            self.tail
                .write(&entered, &mut written)
                .and_then(|()| nonces.write(batched.number, &mut written))
                .map_err(|fault| fault.to_string())?;
            drop(nonces);
            let mut batch = Batch::default();
            for (key, row) in &written {
                batched.bytes += key.len() + row.as_ref().map_or(0, |row| row.len());
                match row {
                    Some(row) => batch.insert(key.as_slice(), row),
                    None => batch.remove(key.as_slice()),
                }
            }
            batched.group = Some(unsynced.add(written));
            *self.last_group = batched.number;
            self.tree
                .apply_batch(batch)
                .map_err(|error| format!("a batch was not written: {error}"))?;
            self.enter(&entered);
        }
        let gone = |_| "the thread that flushes has ended".to_owned();
        self.flushes.send(batched).map_err(gone)
    }

    /// From here on new payments are found; their rows are in the tree.
    fn enter(&self, entered: &[Entered]) {
        if !entered.is_empty() {
            let mut register = self.register.write();
            for new in entered {
                register.enter(&new.entry);
            }
        }
    }
}
