//! The one thread that writes. It takes all waiting operations, applies them to one overlay of rows,
//! writes one batch, makes it durable, and answers all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use ::sled::Batch;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::engine::{Keeper, Pause, Reopened, Writable, drop_quietly};
use super::register::Register;
use super::registered::Entered;
use super::rows::{Made, Rows, Written};
use super::stats::Stats;
use super::{keys, records};
use crate::Fault;

/// Operations that may wait. At 20,000 a second this is a fifth of a second: whoever comes later is
/// better told to try again than kept waiting.
const QUEUE: usize = 4096;
/// Most operations of one batch: beyond it a sync is no longer what the time goes to, and the first
/// of the group would wait for the last.
const GROUP: usize = 256;
/// Rows from which on a group takes no further operation. sled lets nobody read while it writes a
/// batch, at a few microseconds a row; more would save syncs that hardly count any more.
const GROUP_ROWS: usize = 1024;

/// One thing that can happen to the store. No closures from outside: what can happen is a list.
pub(super) trait Operation: Send + 'static {
    /// What it answers.
    type Outcome: Send + 'static;

    /// Reads and writes rows. What it wrote is taken back where it fails.
    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault>;
}

type Settle = Box<dyn FnOnce(Result<(), Fault>) + Send>;

trait Job: Send {
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
        Box::new(move |durable| {
            // Whoever asked may be gone.
            let _gone = reply.send(durable.and(outcome));
        })
    }

    fn refuse(self: Box<Self>, fault: Fault) {
        let _gone = self.reply.send(Err(fault));
    }
}

/// What a group has written, while it is not yet on disk.
pub(super) struct Group {
    written: Written,
    /// None until it is known whether the group is on disk.
    durable: watch::Sender<Option<bool>>,
}

impl Group {
    /// What it has written.
    pub(super) const fn written(&self) -> &Written {
        &self.written
    }

    /// Returns when the group is on disk.
    pub(super) async fn settled(&self) -> Result<(), Fault> {
        let mut durable = self.durable.subscribe();
        let is_durable = durable.wait_for(Option::is_some).await;
        match is_durable.as_deref() {
            Ok(Some(true)) => Ok(()),
            _ => Err(Fault::Stopping),
        }
    }
}

/// What the applier's thread and its callers share.
#[derive(Default)]
struct Shared {
    pending: RwLock<Option<Arc<Group>>>,
    stats: Stats,
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
    jobs: Mutex<Option<SyncSender<Box<dyn Job>>>>,
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Ended>>,
}

impl Applier {
    /// Starts the thread on a database that is open.
    pub(super) fn start(mut keeper: Keeper, writable: Writable) -> std::io::Result<Self> {
        let (jobs, waiting) = sync_channel(QUEUE);
        let (end, ended) = watch::channel(None);
        let shared = Arc::new(Shared::default());
        let writers = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store-applier".into())
            .spawn(move || {
                let how = run(&mut keeper, writable, &waiting, &writers);
                if let Ended::Failed(why) = &how {
                    tracing::error!(%why, "the store stops: it cannot say what is on disk");
                    keeper.close();
                }
                end.send_replace(Some(how));
                // Operations that still wait are dropped with the queue: their callers hear `Stopping`.
            })?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            shared,
            ended,
        })
    }

    /// Does an operation; answers when its effect is on disk.
    pub(super) async fn submit<O: Operation>(&self, operation: O) -> Result<O::Outcome, Fault> {
        let (reply, answer) = oneshot::channel();
        self.queue(Box::new(Asked { operation, reply }))?;
        answer.await.unwrap_or(Err(Fault::Stopping))
    }

    /// Does an operation some time soon, for what need not be durable when it is answered.
    pub(super) fn hand_over<O: Operation>(&self, operation: O) -> Result<(), Fault> {
        let (reply, _) = oneshot::channel();
        self.queue(Box::new(Asked { operation, reply }))
    }

    fn queue(&self, job: Box<dyn Job>) -> Result<(), Fault> {
        let jobs = self.jobs.lock();
        let jobs = jobs.as_ref().ok_or(Fault::Stopping)?;
        match jobs.try_send(job) {
            Ok(()) => {
                self.shared.stats.queued.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                metrics::counter!("kassette_store_queue_full_total").increment(1);
                Err(Fault::Unavailable("too many operations wait".into()))
            }
            Err(TrySendError::Disconnected(_)) => Err(Fault::Stopping),
        }
    }

    /// The group that is being made durable.
    pub(super) fn pending(&self) -> Option<Arc<Group>> {
        self.shared.pending.read().clone()
    }

    /// Takes no more operations; those that wait are done.
    pub(super) fn close(&self) {
        self.jobs.lock().take();
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

/// The thread: writes as long as the disk does, and goes on when it does again.
fn run(
    keeper: &mut Keeper,
    mut writable: Writable,
    jobs: &Receiver<Box<dyn Job>>,
    shared: &Shared,
) -> Ended {
    loop {
        let mut writer = Writer { writable, shared };
        let run = catch_unwind(AssertUnwindSafe(|| writer.run(keeper, jobs)));
        let why = match run {
            Ok(Ok(())) => {
                drop_quietly(writer);
                return Ended::Closed;
            }
            Ok(Err(why)) => why,
            Err(_) => "the applier panicked".into(),
        };
        tracing::error!(%why, "the disk failed: the store is closed and tried again");
        let acknowledged = writer.writable.last_group;
        keeper.fail(&why);
        shared.give_up();
        drop_quietly(writer);
        let reopened = keeper.reopen(acknowledged, |time, fault| pause(jobs, time, fault));
        writable = match reopened {
            Reopened::Open(writable) => writable,
            Reopened::Closed => return Ended::Closed,
            Reopened::Lost(why) => return Ended::Failed(why),
        };
    }
}

/// Refuses what is asked for some time.
fn pause(jobs: &Receiver<Box<dyn Job>>, time: Duration, fault: &Fault) -> Pause {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match jobs.recv_timeout(left) {
            Ok(job) => job.refuse(fault.clone()),
            Err(RecvTimeoutError::Timeout) => return Pause::Over,
            Err(RecvTimeoutError::Disconnected) => return Pause::Closing,
        }
    }
}

impl Shared {
    /// Tells those who wait for a group that it may not be on disk.
    fn give_up(&self) {
        if let Some(group) = self.pending.write().take() {
            group.durable.send_replace(Some(false));
        }
    }
}

/// From here on new payments are found; their rows are in the tree.
fn enter(register: &RwLock<Register>, entered: &[Entered]) {
    if !entered.is_empty() {
        let mut register = register.write();
        for new in entered {
            register.enter(&new.entry);
        }
    }
}

/// The thread's own side.
struct Writer<'a> {
    writable: Writable,
    shared: &'a Shared,
}

impl Writer<'_> {
    fn run(&mut self, keeper: &Keeper, jobs: &Receiver<Box<dyn Job>>) -> Result<(), String> {
        while let Ok(first) = jobs.recv() {
            if let Err(full) = keeper.room() {
                first.refuse(Fault::Unavailable(full.to_string()));
                continue;
            }
            let Writable { tree, register, .. } = &self.writable;
            let mut rows = Rows::new(tree, register);
            let mut settles: Vec<Settle> = vec![first.apply(&mut rows)];
            while settles.len() < GROUP && rows.len() < GROUP_ROWS {
                match jobs.try_recv() {
                    Ok(job) => settles.push(job.apply(&mut rows)),
                    Err(_) => break,
                }
            }
            let made = rows.into_made();
            self.shared.stats.took(settles.len());
            let done = self.commit(made);
            for settle in settles {
                settle(done.clone().map_err(|_| Fault::Stopping));
            }
            done?;
        }
        Ok(())
    }

    /// Writes a group and makes it durable. What it writes is in `pending` before the tree shows it,
    /// and until it is on disk.
    fn commit(&mut self, (mut written, entered): Made) -> Result<(), String> {
        if written.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let number = self.writable.last_group + 1;
        let row = records::encode(keys::GROUP, &number).map_err(|fault| fault.to_string())?;
        written.insert(keys::GROUP.to_vec(), Some(row));
        self.writable
            .tail
            .write(&entered, &mut written)
            .map_err(|fault| fault.to_string())?;
        let mut batch = Batch::default();
        for (key, row) in &written {
            match row {
                Some(row) => batch.insert(key.as_slice(), row),
                None => batch.remove(key.as_slice()),
            }
        }
        let group = Arc::new(Group {
            written,
            durable: watch::Sender::new(None),
        });
        *self.shared.pending.write() = Some(Arc::clone(&group));
        let Writable {
            tree,
            nudge,
            durable,
            register,
            ..
        } = &mut self.writable;
        tree.apply_batch(batch)
            .map_err(|error| format!("a batch was not written: {error}"))?;
        enter(register, &entered);
        nudge
            .flush(tree)
            .map_err(|error| format!("a batch was not flushed: {error}"))?;
        durable
            .sync()
            .and_then(|()| durable.acknowledge(number))
            .map_err(|error| format!("a batch was not synced: {error}"))?;
        self.writable.last_group = number;
        group.durable.send_replace(Some(true));
        *self.shared.pending.write() = None;
        self.shared.stats.committed(began.elapsed());
        Ok(())
    }
}
