//! The public interface of the engine: operations, reads and shutdown.

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

/// Rows per slice of a scan; takes a part of a millisecond.
const AT_ONCE: usize = 64;
/// Maximum number of concurrent reads; others wait. More would take the processors from the writing thread, and a
/// disk that hangs blocks one thread per read.
const READS: usize = 16;

/// The shared part of an embedder's state.
type ShownBy<E> = <<E as Embedder>::State as State>::Shown;

pub struct Engine<E: Embedder> {
    reader: Reader<E::State>,
    applier: Applier<E>,
    folder: Arc<Folder>,
    /// Held during a [`tidy`](Engine::tidy) operation.
    tidying: Mutex<()>,
}

/// Work done since the engine was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Operations that were applied.
    pub operations: u64,
    /// Groups that were written and synced.
    pub commits: u64,
    /// Bytes of keys and values in these groups.
    pub bytes: u64,
}

/// Disk usage of an engine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Blocks allocated for the engine's folder.
    pub used: u64,
    /// Bytes that this process may still write to the file system.
    pub free: u64,
    /// Bytes that must stay free. With less, operations are refused.
    pub reserved: u64,
}

/// One slice of a read. The slice that breaks has stored the result for the caller.
type Slice<Shown> = Box<dyn FnMut(&View<'_, Shown>) -> Result<ControlFlow<()>, Fault> + Send>;

/// Reads of an open engine. Each runs on a thread that may block on the disk.
pub struct Reader<S: State> {
    database: Shared<S>,
    /// One permit per concurrent read.
    permits: Arc<Semaphore>,
    /// Maximum time that a read waits for the disk.
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
    /// Runs a read in one slice; see [`read_aside`](Self::read_aside).
    ///
    /// # Errors
    /// The database cannot be read, or the error of `read`.
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

    /// Runs a long read slice by slice until a slice breaks with the result. Groups become visible only between
    /// slices, so a slice must end once [`View::is_enough`] returns true. If the caller drops the future, the read
    /// ends after the current slice.
    ///
    /// # Errors
    /// The database cannot be read, no slice finishes within the operation timeout, or a slice fails.
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

    /// Runs slices until one breaks. Not generic over the result, so that it is compiled only once.
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
                // Without this, the scheduler would let the applier wait for milliseconds.
                std::thread::yield_now();
            }
            Err(Fault::Stopping)
        };
        // The caller's task drops the permit, because that wakes the next reader sooner than this thread could. If
        // the caller has left, the permit is dropped when the thread has finished.
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

    /// Waits for a permit to block on the disk.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let permit = timeout(self.patience, Arc::clone(&self.permits).acquire_owned()).await;
        permit.map_err(|_| hangs())?.map_err(|_| Fault::Stopping)
    }

    /// The rows, or `None` if the database is not open.
    pub fn memtable(&self) -> Option<Arc<crate::Memtable>> {
        match &*self.database.read() {
            Database::Open(memtable, _) => Some(Arc::clone(memtable)),
            Database::Failing(_) | Database::Closed => None,
        }
    }
}

/// Runs a closure on a view of the rows. No group becomes visible during it.
fn look<S: State, T>(
    database: &Shared<S>,
    look: impl FnOnce(&View<'_, S::Shown>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let database = database.read();
    let view = database.view()?;
    // sled panics on some kinds of damage.
    catch_unwind(AssertUnwindSafe(|| look(&view))).unwrap_or_else(|_| Err(Fault::unreadable()))
}

impl<E: Embedder> Engine<E> {
    /// Starts on a database that has just been opened.
    ///
    /// # Errors
    /// The system provides no thread or descriptor.
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

    /// Runs an operation. Returns when its effect is on disk.
    ///
    /// # Errors
    /// Why it was not done. After [`Fault::Stopping`] it may have been done or not.
    pub async fn operate<O: Operation<E::State>>(&self, operation: O) -> Result<O::Outcome, Fault> {
        self.applier.submit(operation).await
    }

    /// Runs a cleanup operation. Only one such operation is in the applier's queue at a time, so that operations
    /// with waiting callers are not delayed by many of them.
    ///
    /// # Errors
    /// As for any other operation.
    pub async fn tidy<O: Operation<E::State>>(&self, operation: O) -> Result<O::Outcome, Fault> {
        let _turn = self.tidying.lock().await;
        self.applier.submit(operation).await
    }

    /// Queues an operation without waiting for its outcome, for changes that need not be durable yet.
    ///
    /// # Errors
    /// Too many operations wait, or the engine is stopping.
    pub fn hand_over<O: Operation<E::State>>(&self, operation: O) -> Result<(), Fault> {
        self.applier.hand_over(operation)
    }

    /// Reads the shared state on the caller's thread. `None` if that would have to wait for a group that is being
    /// shown, which in turn may wait for a read of a disk that hangs.
    pub fn glance<T>(&self, look: impl FnOnce(&ShownBy<E>) -> T) -> Option<Result<T, Fault>> {
        let database = self.reader.database.try_read()?;
        Some(database.view().map(|view| look(view.shown())))
    }

    /// Reads recently written rows on the caller's thread. `None` if that would have to wait for a group that is
    /// being shown or for the disk.
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

    /// Handle for reads, which can be cloned.
    pub const fn reader(&self) -> &Reader<E::State> {
        &self.reader
    }

    /// At most `most` rows of a span, starting with the first in this order.
    ///
    /// # Errors
    /// The database cannot be read.
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

    /// Subscribes to all groups committed from now on. `None` if there is already a subscriber.
    pub fn subscribe(&self) -> Option<Subscription> {
        self.applier.shared.commits.subscribe()
    }

    /// Watches how the writing thread ends. `None` while it runs.
    pub fn ended(&self) -> watch::Receiver<Option<Ended>> {
        self.applier.ended.clone()
    }

    /// Resolves with a reason when the engine has failed: it lost its disk and could not reopen the database with
    /// everything that was acknowledged. From then on it answers [`Fault::Stopping`], and the process must end.
    /// Never resolves after an orderly shutdown.
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

    /// Counters since the engine was opened.
    pub fn counters(&self) -> Counters {
        let stats = &self.reader.stats;
        Counters {
            operations: stats.taken.load(Ordering::Relaxed),
            commits: stats.commits.load(Ordering::Relaxed),
            bytes: stats.bytes.load(Ordering::Relaxed),
        }
    }

    /// Disk usage of the engine and free space. Needs a permit like a read.
    ///
    /// # Errors
    /// The file system reports an error, or does not answer within the timeout of a read.
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

    /// Starts to record the maxima that [`Self::most`] and [`Self::most_read`] return.
    pub fn watch(&self) {
        let stats = &self.reader.stats;
        stats.most.get_or_init(Default::default);
        stats.most_read.get_or_init(Default::default);
    }

    /// Maximum cost of a single operation since [`Self::watch`], by name of the operation.
    pub fn most(&self) -> BTreeMap<&'static str, Took> {
        let most = self.reader.stats.most.get();
        most.map(|most| most.lock().clone()).unwrap_or_default()
    }

    /// Maximum cost of a single read slice since [`Self::watch`], by type name of its closure.
    pub fn most_read(&self) -> BTreeMap<&'static str, Touched> {
        let most = self.reader.stats.most_read.get();
        most.map(|most| most.lock().clone()).unwrap_or_default()
    }

    /// Writes a row, to detect a full or broken disk.
    ///
    /// # Errors
    /// The row was not written.
    pub async fn probe(&self) -> Result<(), Fault> {
        self.operate(Probe).await
    }

    /// Shuts the engine down after all waiting operations are done.
    ///
    /// # Errors
    /// [`Fault::Stopping`] if the shutdown was not orderly.
    pub async fn shut_down(&self) -> Result<(), Fault> {
        self.applier.shared.inbox.close();
        let patience = self.reader.patience;
        // The next start recovers from the log what the database lacks.
        let Ok(how) = timeout(patience, self.applier.end()).await else {
            tracing::error!("the disk hangs: the store was left as it is");
            return Err(Fault::Stopping);
        };
        let (database, folder) = (Arc::clone(&self.reader.database), Arc::clone(&self.folder));
        let is_closed = how == Some(Ended::Closed);
        // Closing writes the data that sled still holds, so it must not block an async worker.
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

/// Fault for the caller of a read when the disk hangs.
fn hangs() -> Fault {
    tracing::error!("the disk hangs: a read was given up");
    Fault::Unavailable("the disk hangs; see to its health, the store goes on by itself".into())
}

/// Writes the engine's probe row.
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
