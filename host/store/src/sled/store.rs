//! The store: its engine and its caches.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::time::Time;
use kassette_engine::{
    Counters, DiskHooks, Embedder, Engine, Folder, IVec, Key, Opened, Operation, Order, Span,
    Written,
};
use parking_lot::Mutex;

use crate::rows::schema;
use crate::rows::seal::Secrets;
use crate::sled::audit;
use crate::sled::memory::claims::Claims;
use crate::sled::memory::payment_cache::PaymentCache;
use crate::sled::memory::{Memory, View};
use crate::sled::open::{OpenError, open_in};
use crate::{Fault, NodeInfo, StoreFuture, StoreHealth, Vitals};

/// Rows that every request or delivery needs, so that callers cache them: keys, merchants, resellers,
/// delegations, webhook endpoints with their secrets, and account switches. Last-used times of keys and
/// waiting deliveries are not included.
const DIRECTORY: [&[u8]; 6] = [
    schema::API_KEYS,
    schema::MERCHANTS,
    schema::SWITCHES,
    schema::resellers::RESELLERS,
    schema::resellers::DELEGATIONS,
    schema::webhooks::ENDPOINTS,
];

/// Memory of the store that depends on committed groups, and the function that opens its database.
pub(crate) struct Memories {
    secrets: Arc<Secrets>,
    /// Number of groups that changed rows of [`DIRECTORY`] or may have done so.
    directory: AtomicU64,
    payments: Arc<PaymentCache>,
}

impl Embedder for Memories {
    type State = Memory;

    fn open(&self, folder: &Folder) -> Result<Opened<Memory>, kassette_engine::OpenError> {
        match open_in(folder, &self.secrets.sealer) {
            Ok((opened, _)) => Ok(opened),
            Err(OpenError::Engine(error)) => Err(error),
            Err(error) => Err(kassette_engine::OpenError::Refused(error.to_string())),
        }
    }

    fn committed(&self, rows: &Written) {
        let directory = DIRECTORY
            .iter()
            .any(|prefix| Span::prefix(prefix).touches(rows));
        if directory {
            self.directory.fetch_add(1, Ordering::AcqRel);
        }
        self.payments.invalidate(rows);
    }

    fn shown(&self, rows: &Written) {
        audit::log(&self.secrets.sealer, rows);
    }

    fn reopened(&self) {
        self.directory.fetch_add(1, Ordering::AcqRel);
        self.payments.clear();
    }
}

/// The embedded store. Open one per folder and share it.
pub struct SledStore {
    pub(crate) engine: Engine<Memories>,
    memories: Arc<Memories>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) claims: Arc<Claims>,
    /// Times at which providers are queried about attempts.
    pub(crate) schedule: ArcSwap<QuerySchedule>,
    /// Start time of the last completely sent backup, in milliseconds since the epoch. 0 if there is none.
    pub(crate) backed_up: Arc<AtomicU64>,
    /// The information that the process has announced about itself.
    pub(crate) announced: Mutex<NodeInfo>,
}

impl SledStore {
    /// The store on an open database.
    pub(crate) fn on(
        folder: Folder,
        opened: Opened<Memory>,
        secrets: Secrets,
        hooks: DiskHooks,
    ) -> Result<Arc<Self>, OpenError> {
        let secrets = Arc::new(secrets);
        let memories = Arc::new(Memories {
            secrets: Arc::clone(&secrets),
            directory: AtomicU64::new(0),
            payments: Arc::default(),
        });
        let engine = Engine::start(folder, Arc::clone(&memories), opened, hooks)?;
        Ok(Arc::new(Self {
            engine,
            memories,
            secrets,
            claims: Arc::default(),
            schedule: ArcSwap::default(),
            backed_up: Arc::default(),
            announced: Mutex::default(),
        }))
    }

    /// Counters since the store was opened.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// From now on measures the writing thread's time per operation, see [`Engine::most`].
    pub fn watch(&self) {
        self.engine.watch();
    }

    /// The longest time of one operation of each name on the writing thread since [`Self::watch`].
    pub fn most(&self) -> std::collections::BTreeMap<&'static str, crate::sled::Took> {
        self.engine.most()
    }

    /// Version of the directory. Increases before a change of its rows is answered.
    pub(crate) fn directory(&self) -> u64 {
        self.memories.directory.load(Ordering::Acquire)
    }

    /// Returns an error if the store cannot be read at all.
    pub(crate) async fn readable(&self) -> Result<(), Fault> {
        match self.engine.glance(|_| ()) {
            Some(readable) => readable,
            None => self.engine.reader().read(|_| Ok(())).await,
        }
    }

    /// The cache of payments.
    pub(crate) fn payment_cache(&self) -> Arc<PaymentCache> {
        Arc::clone(&self.memories.payments)
    }

    pub(crate) fn operate<O: Operation<Memory>>(
        &self,
        operation: O,
    ) -> StoreFuture<'_, O::Outcome> {
        Box::pin(self.engine.operate(operation))
    }

    /// Runs an operation of maintenance that no caller waits for.
    pub(crate) fn tidy<O: Operation<Memory>>(&self, operation: O) -> StoreFuture<'_, O::Outcome> {
        Box::pin(self.engine.tidy(operation))
    }

    /// Reads from the disk, on a thread that may wait for it.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.engine.reader().read(read))
    }

    /// Reads a few rows, immediately if all of them were written recently, such as those of a payment in
    /// progress.
    pub(crate) fn read_few<T: Send + 'static>(
        &self,
        read: impl Fn(&View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        match self.engine.read_recent(&read) {
            Some(read) => Box::pin(std::future::ready(read)),
            None => self.read(read),
        }
    }

    /// Reads much data, on a thread that may wait for the disk, see
    /// [`Reader::read_aside`](kassette_engine::Reader::read_aside).
    pub(crate) fn read_aside<T: Send + 'static>(
        &self,
        slice: impl FnMut(&View<'_>) -> Result<ControlFlow<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.engine.reader().read_aside(slice))
    }

    /// The first rows of a span in an order, at most `most`.
    pub(crate) fn rows_of(
        &self,
        span: Span,
        order: Order,
        most: usize,
    ) -> StoreFuture<'_, Vec<(Key, IVec)>> {
        Box::pin(self.engine.rows_of(span, order, most))
    }

    /// The largest amount that one slice of each read has touched since [`Self::watch`].
    #[cfg(test)]
    pub(crate) fn most_read(
        &self,
    ) -> std::collections::BTreeMap<&'static str, kassette_engine::Touched> {
        self.engine.most_read()
    }

    #[cfg(test)]
    pub(crate) fn memtable(&self) -> Arc<kassette_engine::Memtable> {
        self.engine.reader().memtable().expect("the store is open")
    }
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").finish_non_exhaustive()
    }
}

impl StoreHealth for SledStore {
    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.engine.probe())
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        Box::pin(async move {
            let disk = self.engine.disk().await?;
            // If the store cannot be read, the disk figures are still returned.
            let newest = self.read(|view| Ok(view.shown().read().latest())).await;
            Ok(Vitals {
                used: disk.used,
                free: Some(disk.free),
                reserved: disk.reserved,
                newest: newest.unwrap_or_default(),
                backed_up: Some(Time::from_millis(self.backed_up.load(Ordering::Relaxed))),
            })
        })
    }

    fn shut_down(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.engine.shut_down())
    }

    fn failed(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(async {
            let why = self.engine.failed().await;
            format!(
                "its disk did not give back what it had taken: {why}; repair the disk and start again"
            )
        })
    }
}
