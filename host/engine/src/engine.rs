//! The engine as its user has it: how operations and reads reach the rows, and how it ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sled::IVec;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use crate::applier::{Applier, Ended};
use crate::commit_stream::Subscription;
use crate::database::{Database, DatabaseOpener, DiskHooks, RESERVE, Shared, drop_quietly};
use crate::durable::free_bytes;
use crate::embedder::Embedder;
use crate::fault::{Fault, OpenError};
use crate::folder::Folder;
use crate::number::{self, PROBE};
use crate::open::{Opened, write_snapshot};
use crate::operation::Operation;
use crate::rebuild::disk_bytes;
use crate::rows::{Rows, Touched};
use crate::span::{Key, Order, Span};
use crate::state::State;
use crate::stats::{Stats, Took};
use crate::view::View;

/// Rows that are read at once where many are wanted: a part of a millisecond.
const AT_ONCE: usize = 64;
/// Reads that are under way at once; others wait. More would keep the writing thread from the processors, and
/// a disk that hangs holds a thread for each.
const READS: usize = 16;

/// What is shown of an embedder's state.
type ShownBy<E> = <<E as Embedder>::State as State>::Shown;

pub struct Engine<E: Embedder> {
    reader: Reader<E::State>,
    applier: Applier<E>,
    folder: Arc<Folder>,
    /// Whose turn it is to tidy up.
    tidying: Mutex<()>,
}

/// What an engine has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Operations that were applied.
    pub operations: u64,
    /// Groups that were written and synced.
    pub commits: u64,
    /// Bytes of keys and values in them.
    pub bytes: u64,
}

/// The disk under an engine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// What the engine's folder takes.
    pub used: u64,
    /// What this process may still write to its file system.
    pub free: u64,
    /// What has to stay free: with less, nothing new is taken.
    pub reserved: u64,
}

/// A slice of a read; the one that breaks has left the read's answer where its caller finds it.
type Slice<Shown> = Box<dyn FnMut(&View<'_, Shown>) -> Result<ControlFlow<()>, Fault> + Send>;

/// Reads of an open engine, each on a thread that may wait for the disk.
pub struct Reader<S: State> {
    database: Shared<S>,
    /// Leave for one read each.
    permits: Arc<Semaphore>,
    /// How long a read waits for the disk.
    patience: Duration,
    stats: Arc<Stats>,
}

impl<S: State> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self {
            database: Arc::clone(&self.database),
            permits: Arc::clone(&self.permits),
            patience: self.patience,
            stats: Arc::clone(&self.stats),
        }
    }
}

impl<S: State> Reader<S> {
    /// Reads what is on the disk, see [`read_aside`](Self::read_aside).
    ///
    /// # Errors
    /// Where the database cannot be read, and what `read` says.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_, S::Shown>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let mut read = Some(read);
        self.read_aside(move |view| match read.take() {
            Some(read) => read(view).map(ControlFlow::Break),
            None => Err(Fault::Stopping),
        })
        .await
    }

    /// Reads much: slice by slice, until one breaks with the answer. Groups are shown between two slices, so
    /// each [lets them](View::is_enough) in time. A read whose caller has gone ends with its slice.
    ///
    /// # Errors
    /// Where the database cannot be read, or none of it for as long as an operation waits for the disk; and
    /// what a slice says.
    pub async fn read_aside<T: Send + 'static>(
        &self,
        mut slice: impl FnMut(&View<'_, S::Shown>) -> Result<ControlFlow<T>, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let name = std::any::type_name_of_val(&slice);
        let answer = Arc::new(parking_lot::Mutex::new(None));
        let answered = Arc::clone(&answer);
        let slices = Box::new(move |view: &View<'_, S::Shown>| {
            let read = slice(view)?;
            Ok(read.map_break(|read| *answered.lock() = Some(read)))
        });
        self.run_slices(name, slices).await?;
        let answer = answer.lock().take();
        answer.ok_or(Fault::Stopping)
    }

    /// Runs slices until one breaks. It knows no read's type, so it is compiled once and not for each of them.
    async fn run_slices(
        &self,
        name: &'static str,
        mut slice: Slice<S::Shown>,
    ) -> Result<(), Fault> {
        let permit = self.permit().await?;
        let (database, stats) = (Arc::clone(&self.database), Arc::clone(&self.stats));
        let slices = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&slices);
        let mut run = move || {
            while Arc::strong_count(&counter) > 1 {
                let read = look(&database, |view| {
                    let read = slice(view);
                    stats.read(name, view.touched());
                    read
                });
                if read?.is_break() {
                    return Ok(());
                }
                counter.fetch_add(1, Ordering::Relaxed);
                // A scheduler would let the applier wait for milliseconds.
                std::thread::yield_now();
            }
            Err(Fault::Stopping)
        };
        // The caller gives the permit back, whose thread wakes the next one sooner. Where the caller has gone, it comes
        // back when the thread is done.
        let mut ran = tokio::task::spawn_blocking(move || (run(), permit));
        let mut seen = 0;
        loop {
            if let Ok(done) = timeout(self.patience, &mut ran).await {
                return done.map_or(Err(Fault::Stopping), |(ran, _permit)| ran);
            }
            let done = slices.load(Ordering::Relaxed);
            if done == seen {
                return Err(hangs());
            }
            seen = done;
        }
    }

    /// Leave to wait for the disk, on a thread that may.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let permit = timeout(self.patience, Arc::clone(&self.permits).acquire_owned()).await;
        permit.map_err(|_| hangs())?.map_err(|_| Fault::Stopping)
    }

    /// The rows of an open engine.
    pub fn memtable(&self) -> Option<Arc<crate::Memtable>> {
        match &*self.database.read() {
            Database::Open(memtable, _) => Some(Arc::clone(memtable)),
            Database::Failing(_) | Database::Closed => None,
        }
    }
}

/// Looks at what is on the disk. No group is shown meanwhile.
fn look<S: State, T>(
    database: &Shared<S>,
    look: impl FnOnce(&View<'_, S::Shown>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let database = database.read();
    let view = database.view()?;
    // sled panics over some kinds of damage.
    catch_unwind(AssertUnwindSafe(|| look(&view))).unwrap_or_else(|_| Err(Fault::unreadable()))
}

impl<E: Embedder> Engine<E> {
    /// Starts on a database that has just been opened.
    ///
    /// # Errors
    /// Where the system gives no thread or descriptor.
    pub fn start(
        folder: Folder,
        embedder: Arc<E>,
        opened: Opened<E::State>,
        hooks: DiskHooks,
    ) -> Result<Self, OpenError> {
        let folder = Arc::new(folder);
        let patience = hooks.patience;
        let (opener, writable) =
            DatabaseOpener::new(Arc::clone(&folder), Arc::clone(&embedder), hooks, opened)?;
        let database = opener.shared();
        let applier = Applier::start(embedder, opener, writable, patience)
            .map_err(|error| OpenError::System(error.to_string()))?;
        let reader = Reader {
            database,
            permits: Arc::new(Semaphore::new(READS)),
            patience,
            stats: Arc::clone(&applier.shared.stats),
        };
        Ok(Self {
            reader,
            applier,
            folder,
            tidying: Mutex::default(),
        })
    }

    /// Does an operation.
    ///
    /// # Errors
    /// Why it was not done. [`Fault::Stopping`] leaves that open.
    pub async fn operate<O: Operation<E::State>>(&self, operation: O) -> Result<O::Outcome, Fault> {
        self.applier.submit(operation).await
    }

    /// Does an operation that tidies up, and that no caller waits for. One waits in the applier's queue
    /// at a time, so callers pass by the others.
    ///
    /// # Errors
    /// As of any other operation.
    pub async fn tidy<O: Operation<E::State>>(&self, operation: O) -> Result<O::Outcome, Fault> {
        let _turn = self.tidying.lock().await;
        self.applier.submit(operation).await
    }

    /// Does an operation some time soon, for what need not be durable when it is answered.
    ///
    /// # Errors
    /// Where too many wait, or the engine is stopping.
    pub fn hand_over<O: Operation<E::State>>(&self, operation: O) -> Result<(), Fault> {
        self.applier.hand_over(operation)
    }

    /// Looks at what is shown of the state, on the caller; none where it would have to wait: for a group that
    /// is being shown, which may itself wait for a read of a disk that hangs.
    pub fn glance<T>(&self, look: impl FnOnce(&ShownBy<E>) -> T) -> Option<Result<T, Fault>> {
        let database = self.reader.database.try_read()?;
        Some(database.view().map(|view| look(view.shown())))
    }

    /// Reads rows that were all written lately, on the caller; none where it would have to wait, as above or for the
    /// disk.
    pub fn read_recent<T>(
        &self,
        read: impl FnOnce(&View<'_, ShownBy<E>>) -> Result<T, Fault>,
    ) -> Option<Result<T, Fault>> {
        let database = self.reader.database.try_read()?;
        match database.view().and_then(|view| read(&view.of_recent())) {
            Err(Fault::Busy) => None,
            read => Some(read),
        }
    }

    /// What reads; a clone of it can be kept.
    pub const fn reader(&self) -> &Reader<E::State> {
        &self.reader
    }

    /// The first rows of a span in an order, at most so many.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn rows_of(
        &self,
        mut span: Span,
        order: Order,
        most: usize,
    ) -> Result<Vec<(Key, IVec)>, Fault> {
        let mut rows = Vec::new();
        let read = self.reader.read_aside(move |view| {
            let some = AT_ONCE.min(most - rows.len());
            let found = view.scan_in(&span, order, some)?;
            let ended = found.len() < some;
            rows.extend(found);
            match rows.last() {
                Some((last, _)) if !ended && rows.len() < most => {
                    span = span.clone().behind(last, order);
                    Ok(ControlFlow::Continue(()))
                }
                _ => Ok(ControlFlow::Break(std::mem::take(&mut rows))),
            }
        });
        read.await
    }

    /// Subscribes to the groups that are committed from now on; none where there is a subscriber already.
    pub fn subscribe(&self) -> Option<Subscription> {
        self.applier.shared.commits.subscribe()
    }

    /// Whether the writing thread has ended, and how.
    pub fn ended(&self) -> watch::Receiver<Option<Ended>> {
        self.applier.ended.clone()
    }

    /// Resolves with the reason when the engine has ended because it cannot say what is on disk:
    /// after a disk that failed it did not open again with all that it had taken. It then answers
    /// [`Fault::Stopping`] to everything; the process has to end. Never resolves where the engine
    /// is shut down in order.
    pub async fn failed(&self) -> String {
        let mut ended = self.ended();
        let failed = |ended: &Option<Ended>| matches!(ended, Some(Ended::Failed(_)));
        if let Ok(ended) = ended.wait_for(failed).await
            && let Some(Ended::Failed(why)) = &*ended
        {
            return why.clone();
        }
        std::future::pending().await
    }

    /// What the engine has done since it was opened.
    pub fn counters(&self) -> Counters {
        let stats = &self.reader.stats;
        Counters {
            operations: stats.taken.load(Ordering::Relaxed),
            commits: stats.commits.load(Ordering::Relaxed),
            bytes: stats.bytes.load(Ordering::Relaxed),
        }
    }

    /// How much of its disk the engine takes, and how much is left. Looked up as a read is.
    ///
    /// # Errors
    /// What the file system says, and where it says nothing for as long as a read waits.
    pub async fn disk(&self) -> Result<Disk, Fault> {
        let permit = self.reader.permit().await?;
        let folder = Arc::clone(&self.folder);
        let look = tokio::task::spawn_blocking(move || -> io::Result<Disk> {
            let _permit = permit;
            Ok(Disk {
                used: disk_bytes(folder.path())?,
                free: free_bytes(&File::open(folder.path())?)?,
                reserved: RESERVE,
            })
        });
        let looked = timeout(self.reader.patience, look).await;
        let looked = looked.map_err(|_| hangs())?.map_err(|_| Fault::Stopping)?;
        looked.map_err(|error| Fault::Unavailable(error.to_string()))
    }

    /// Measures from now on what operations take of the writing thread, for [`Self::most`], and what reads
    /// touch, for [`Self::most_read`].
    pub fn watch(&self) {
        let stats = &self.reader.stats;
        stats.most.get_or_init(Default::default);
        stats.most_read.get_or_init(Default::default);
    }

    /// The most that one operation of each name has taken of the writing thread since [`Self::watch`].
    pub fn most(&self) -> BTreeMap<&'static str, Took> {
        let most = self.reader.stats.most.get();
        most.map(|most| most.lock().clone()).unwrap_or_default()
    }

    /// The most that one slice of each read has touched since [`Self::watch`], by where it stands.
    pub fn most_read(&self) -> BTreeMap<&'static str, Touched> {
        let most = self.reader.stats.most_read.get();
        most.map(|most| most.lock().clone()).unwrap_or_default()
    }

    /// Writes a row, so that a full or broken disk is noticed.
    ///
    /// # Errors
    /// Where it was not written.
    pub async fn probe(&self) -> Result<(), Fault> {
        self.operate(Probe).await
    }

    /// Ends the engine, once what waits is done.
    ///
    /// # Errors
    /// [`Fault::Stopping`] where it did not end in order.
    pub async fn shut_down(&self) -> Result<(), Fault> {
        self.applier.shared.inbox.close();
        let patience = self.reader.patience;
        // What the log holds is taken from it at the next start.
        let Ok(how) = timeout(patience, self.applier.end()).await else {
            tracing::error!("the disk hangs: the store was left as it is");
            return Err(Fault::Stopping);
        };
        let (database, folder) = (Arc::clone(&self.reader.database), Arc::clone(&self.folder));
        let is_closed = how == Some(Ended::Closed);
        // Closing writes what sled still holds; not on a worker that serves others.
        let closed = tokio::task::spawn_blocking(move || {
            let Some(mut shown) = database.try_write_for(patience) else {
                return Err(io::ErrorKind::TimedOut.into());
            };
            let database = std::mem::replace(&mut *shown, Database::Closed);
            drop(shown);
            let is_whole = is_closed && matches!(database, Database::Open(..));
            drop_quietly(database);
            if is_whole && let Err(error) = write_snapshot(&folder) {
                tracing::warn!(%error, "no snapshot is left for the next start");
            }
            folder.release()
        })
        .await;
        match (how, closed) {
            (Some(Ended::Closed), Ok(Ok(()))) => Ok(()),
            _ => Err(Fault::Stopping),
        }
    }
}

/// What the caller of a read is told that the disk does not answer.
fn hangs() -> Fault {
    tracing::error!("the disk hangs: a read was given up");
    Fault::Unavailable("the disk hangs; see to its health, the store goes on by itself".into())
}

/// Writes a row of the engine's own.
struct Probe;

impl<S: State> Operation<S> for Probe {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_, S>) -> Result<(), Fault> {
        let before = rows.get(PROBE)?;
        let count = before.and_then(|row| number::decode(PROBE, &row));
        let next = count.unwrap_or_default().wrapping_add(1);
        rows.put(PROBE.to_vec(), number::encode(PROBE, next));
        Ok(())
    }
}
