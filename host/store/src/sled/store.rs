//! The store itself: how operations and reads reach the rows, and how it ends.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::sled::IVec;
use arc_swap::ArcSwap;
use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::payment::Payment;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::applier::{Applier, Ended};
use super::claims::Claims;
use super::engine::{Engine, Keeper, Seams, Shared, drop_quietly};
use super::maintenance::open;
use super::open::{Folder, OpenError, OpenOptions, write_snapshot};
use super::operation::Operation;
use super::payment_cache::{Began, PaymentCache};
use super::rows::Rows;
use super::schema::Key;
use super::seal::Sealer;
use super::source::Source;
use super::span::Span;
use super::view::View;
use super::{Secrets, records, schema};
use crate::{Answer, Fault, Health};

/// Rows that are read at once where many are wanted: a part of a millisecond.
const AT_ONCE: usize = 64;

/// The embedded store. Open one per folder and share it.
pub struct SledStore {
    pub(super) engine: Shared,
    pub(super) applier: Applier,
    pub(super) secrets: Arc<Secrets>,
    pub(super) claims: Arc<Claims>,
    /// When providers are asked about attempts.
    pub(super) schedule: ArcSwap<QuerySchedule>,
    folder: Arc<Folder>,
    /// Whose turn it is to tidy up.
    tidying: Mutex<()>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Operations that were applied.
    pub operations: u64,
    /// Groups that were written and synced.
    pub commits: u64,
    /// Bytes of keys and values in them.
    pub bytes: u64,
}

impl SledStore {
    /// Opens the store in a folder, or makes one. Blocks: it reads the log of what was not yet in
    /// a snapshot.
    ///
    /// # Errors
    /// What stands in the way and what to do about it.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        Self::start(options, Seams::default())
    }

    /// Opens a store with something around the disk.
    pub(super) fn start(options: &OpenOptions, seams: Seams) -> Result<Arc<Self>, OpenError> {
        let sealer = Sealer::new(&options.master);
        let (folder, opened) = open(options, &sealer)?;
        let folder = Arc::new(folder);
        let secrets = Arc::new(Secrets {
            sealer,
            marker: opened.marker.clone(),
        });
        let patience = seams.patience;
        let (keeper, writable) =
            Keeper::new(Arc::clone(&folder), Arc::clone(&secrets), seams, opened)?;
        let engine = keeper.shared();
        let applier = Applier::start(keeper, writable, patience)
            .map_err(|error| OpenError::System(error.to_string()))?;
        Ok(Arc::new(Self {
            engine,
            applier,
            secrets,
            claims: Arc::default(),
            schedule: ArcSwap::default(),
            folder,
            tidying: Mutex::default(),
        }))
    }

    /// Resolves with the reason when the store has ended because it cannot say what is on disk:
    /// after a disk that failed it did not open again with all that it had taken. It then answers
    /// [`Fault::Stopping`] to everything; the process has to end. Never resolves where the store
    /// is shut down in order.
    pub async fn failed(&self) -> String {
        let mut ended = self.applier.ended();
        let failed = |ended: &Option<Ended>| matches!(ended, Some(Ended::Failed(_)));
        if let Ok(ended) = ended.wait_for(failed).await
            && let Some(Ended::Failed(why)) = &*ended
        {
            return why.clone();
        }
        std::future::pending().await
    }

    /// What the store has done since it was opened.
    pub fn counters(&self) -> Counters {
        let stats = self.applier.stats();
        Counters {
            operations: stats.taken.load(Ordering::Relaxed),
            commits: stats.commits.load(Ordering::Relaxed),
            bytes: stats.bytes.load(Ordering::Relaxed),
        }
    }

    /// The most that one operation of each name has taken of the writing thread since the store was
    /// opened.
    #[cfg(any(test, feature = "suite"))]
    pub fn most(&self) -> std::collections::BTreeMap<&'static str, super::Took> {
        self.applier.stats().most.lock().clone()
    }

    /// Changes before a change to rows of the directory is answered.
    pub(super) fn directory(&self) -> u64 {
        self.applier.directory()
    }

    /// What is remembered of a payment, where the store can be read at all.
    pub(super) fn cached_payment(
        &self,
        id: PaymentId,
    ) -> Result<Result<Arc<Payment>, Began>, Fault> {
        self.engine.read().open()?;
        Ok(self.payment_cache().get(id))
    }

    /// Payments as they were last read.
    pub(super) fn payment_cache(&self) -> &PaymentCache {
        self.applier.payment_cache()
    }

    /// Does an operation.
    pub(super) fn operate<O: Operation>(&self, operation: O) -> Answer<'_, O::Outcome> {
        Box::pin(self.applier.submit(operation))
    }

    /// Does an operation that tidies up, and that no caller waits for. One waits in the applier's queue
    /// at a time, so callers pass by the others.
    pub(super) fn tidy<O: Operation>(&self, operation: O) -> Answer<'_, O::Outcome> {
        Box::pin(async move {
            let _turn = self.tidying.lock().await;
            self.applier.submit(operation).await
        })
    }

    /// Reads on the caller, from what is on the disk.
    pub(super) fn read<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&View<'_>) -> Result<T, Fault> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let engine = self.engine.read();
            let (memtable, index) = engine.open()?;
            let view = View::new(memtable, index);
            // sled panics over some kinds of damage.
            catch_unwind(AssertUnwindSafe(|| read(&view)))
                .unwrap_or_else(|_| Err(records::unreadable()))
        })
    }

    /// Reads much, on a thread that may wait for the disk: slice by slice, until one breaks with the
    /// answer. Groups are shown between two slices, so each [lets them](View::is_enough) in time.
    pub(super) fn read_aside<T: Send + 'static>(
        &self,
        mut slice: impl FnMut(&View<'_>) -> Result<ControlFlow<T>, Fault> + Send + 'static,
    ) -> Answer<'_, T> {
        let engine = Arc::clone(&self.engine);
        let read = move || {
            loop {
                {
                    let engine = engine.read();
                    let (memtable, index) = engine.open()?;
                    if let ControlFlow::Break(read) = slice(&View::new(memtable, index))? {
                        return Ok(read);
                    }
                }
                // A scheduler would let the applier wait for milliseconds.
                std::thread::yield_now();
            }
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(read).await {
                Ok(read) => read,
                // sled panics over some kinds of damage.
                Err(error) if error.is_panic() => Err(records::unreadable()),
                Err(_) => Err(Fault::Stopping),
            }
        })
    }

    /// The first rows of a span, at most so many.
    pub(super) fn rows_of(&self, mut span: Span, most: usize) -> Answer<'_, Vec<(Key, IVec)>> {
        let mut rows = Vec::new();
        self.read_aside(move |view| {
            let some = AT_ONCE.min(most - rows.len());
            let found = view.scan(&span, some)?;
            let ended = found.len() < some;
            rows.extend(found);
            match rows.last() {
                Some((last, _)) if !ended && rows.len() < most => {
                    span = span.clone().after(last);
                    Ok(ControlFlow::Continue(()))
                }
                _ => Ok(ControlFlow::Break(std::mem::take(&mut rows))),
            }
        })
    }

    #[cfg(test)]
    pub(super) fn memtable(&self) -> Arc<super::memtable::Memtable> {
        match &*self.engine.read() {
            Engine::Open(memtable, _) => Arc::clone(memtable),
            Engine::Failing(_) | Engine::Closed => panic!("the store is not open"),
        }
    }
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").finish_non_exhaustive()
    }
}

/// Writes a row, so that a full or broken disk is noticed.
struct Probe;

impl Operation for Probe {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        let count: u64 = rows.load(schema::PROBE)?.unwrap_or_default();
        rows.save(schema::PROBE.to_vec(), &count.wrapping_add(1))
    }
}

impl Health for SledStore {
    fn probe(&self) -> Answer<'_, ()> {
        self.operate(Probe)
    }

    fn shut_down(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.applier.close();
            // What the log holds is taken from it at the next start.
            let Ok(how) = timeout(self.applier.patience(), self.applier.end()).await else {
                tracing::error!("the disk hangs: the store was left as it is");
                return Err(Fault::Stopping);
            };
            let engine = std::mem::replace(&mut *self.engine.write(), Engine::Closed);
            let folder = Arc::clone(&self.folder);
            let is_whole = how == Some(Ended::Closed) && matches!(engine, Engine::Open(..));
            // Closing writes what sled still holds; not on a worker that serves others.
            let closed = tokio::task::spawn_blocking(move || {
                drop_quietly(engine);
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
        })
    }
}
