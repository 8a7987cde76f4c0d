//! The use cases of a payment: create, list methods, start, read callbacks, capture, close, expire.
//!
//! The gateway puts calls and store operations in order. It contains no rule about money (the domain does)
//! and knows no HTTP server. Each use case has its own result and error types, which `server` maps to HTTP.
//!
//! | module | contents |
//! |---|---|
//! | `auth`, `create`, `methods`, `start`, `checkout`, `callback`, `operator_acts`, `refunds`, `connect` | one use case each |
//! | `reseller` | requests that a reseller makes for merchants, and the merchants' consent |
//! | `rates` | tables of exchange rates from all sources |
//! | `routing`, `routing_records` | candidates, the verdicts of a method's module about them, and the routing log |
//! | `conversations` | calls to provider modules, recorded in the routing log |
//! | `trials` | versions on trial next to the active one: shadow, canary |
//! | `replay` | repeats recorded decisions with another version, setting or policy |
//! | `vendor` | calls to a provider module, with metrics and time limits |
//! | `apply` | applies reports: the only path from a provider's answer into the store |
//! | `modules`, `wasm` | the interface to the modules, and its implementation over the runtime |
//! | `directory_cache` | cache of keys, merchants, resellers, delegations and endpoints |
//! | `nonces` | accepts each signed request only once |
//! | `configured`, `settings`, `configure` | accounts as configured, and in the form that calls need |
//! | `webhooks` | merchants' endpoints, and the worker that delivers events |
//! | `keyed_lock`, `reconcile`, `workers` | one task per payment at a time, due actions, background tasks |
//! | `permits` | limits on concurrent calls to providers |
//! | `alerts` | messages to the operators' alert service |
//! | `watch`, `review_index` | metrics and log lines for operators; index of payments in review |
//!
//! Work that has started to call a provider always runs to its end: it runs in a separate task that continues
//! when the caller hangs up, and shutdown waits for it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod alerts;
mod apply;
pub mod auth;
pub mod callback;
pub mod checkout;
pub mod clock;
mod configure;
mod configured;
pub mod connect;
mod conversations;
pub mod create;
mod directory_cache;
pub mod explain;
pub mod health;
mod keyed_lock;
pub mod ledger;
pub mod methods;
pub mod modules;
pub mod nonces;
pub mod operator_acts;
mod permits;
mod rates;
mod read;
mod reconcile;
pub mod refunds;
pub mod replay;
pub mod reseller;
mod review_index;
mod routing;
mod routing_records;
pub mod settings;
pub mod shared_modules;
pub mod start;
pub mod trials;
mod unproved_notices;
mod vendor;
pub mod wasm;
mod watch;
pub mod webhooks;
pub mod workers;

/// Limits, for the documentation and messages for operators.
pub mod limits {
    pub use crate::conversations::{
        MOST as CONVERSATION_BYTES, UNPROVED_MOST as UNPROVED_CONVERSATION_BYTES,
        WAITING_MOST as CONVERSATIONS_WAITING,
    };
    pub use crate::permits::Kind;
    pub use crate::reconcile::{IN_TEST_AT_ONCE, IN_TEST_MOST, RECONCILED_AT_ONCE, WAITING_MOST};
    pub use crate::routing_records::WAITING_MOST as ROUTING_RECORDS;
    pub use crate::trials::SHADOWED;
    pub use crate::unproved_notices::{
        MOST as UNPROVED_NOTICES, PER_ADDRESS as UNPROVED_NOTICES_PER_ADDRESS,
    };

    /// Maximum number of log lines per second about starts, failed queries, refunds and failed deliveries,
    /// for each of these kinds.
    pub const FREQUENT_LINES_PER_SECOND: u32 = 20;
}

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::lifecycle::Step;
use kassette_domain::merchant::Merchant;
use kassette_domain::rates::RateTables;
use kassette_domain::time::Time;
use kassette_http::Client;
use kassette_runtime::{Runtime, Sampled};
use kassette_store::{About, Fault, Stepped, Store};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::callback::UnknownCaptures;
use crate::clock::Clock;
use crate::configure::Switches;
use crate::configured::Configured;
use crate::connect::Connecting;
use crate::conversations::Conversations;
use crate::directory_cache::DirectoryCache;
use crate::health::Measured;
use crate::keyed_lock::KeyedLock;
use crate::limits::FREQUENT_LINES_PER_SECOND;
use crate::modules::Modules;
use crate::permits::ProviderPermits;
use crate::reconcile::{QueryThrottle, Reconciler};
use crate::review_index::Reviews;
use crate::routing_records::RoutingRecords;
use crate::settings::Settings;
use crate::shared_modules::SharedModulesState;
use crate::trials::LocalTrials;
use crate::unproved_notices::UnprovedNotices;
use crate::wasm::WasmModules;
use crate::watch::LastGauges;
use crate::webhooks::Deliverer;
use crate::workers::Alarm;

/// Shared state of all use cases. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    modules: Arc<dyn Modules>,
    /// The runtime behind `modules`. `None` if another implementation is used, as in tests.
    runtime: Option<Arc<Runtime>>,
    clock: Arc<dyn Clock>,
    configured: ArcSwap<Configured>,
    rates: ArcSwap<RateTables>,
    /// Held during a change of settings, so that only one runs at a time.
    configuring: tokio::sync::Mutex<()>,
    /// Accounts that operators have switched off, from the last read.
    switches: ArcSwap<Switches>,
    directory: DirectoryCache,
    /// Keys used since the last write.
    seen: auth::UsedKeys,
    measured: Measured,
    unknown_captures: Mutex<UnknownCaptures>,
    reviews: Reviews,
    shown: LastGauges,
    payment_locks: KeyedLock,
    permits: ProviderPermits,
    unproved_notices: UnprovedNotices,
    /// Bounded by the number of configured accounts.
    refused_callbacks: Mutex<HashMap<(AccountId, &'static str), Sampled>>,
    lines: Lines,
    query_throttle: Mutex<QueryThrottle>,
    reconciler: Reconciler,
    alarm: Alarm,
    shared_modules: SharedModulesState,
    routing_records: RoutingRecords,
    conversations: Conversations,
    trials: LocalTrials,
    /// Allows one replay at a time.
    replays: Arc<Semaphore>,
    /// Cancelled when replays must end.
    end_replays: CancellationToken,
    deliverer: Deliverer,
    connecting: Connecting,
    /// Tasks that shutdown waits for.
    tasks: TaskTracker,
}

/// Limits for log lines that callers can cause: a maximum per second for each kind.
#[derive(Debug)]
struct Lines {
    /// Notices that the store could not record.
    not_stored: Sampled,
    /// Notices about attempts of another account.
    foreign: Sampled,
    /// Providers' answers to starts.
    starts: Sampled,
    /// Starts for which no account is left.
    barred: Sampled,
    /// Queries that a provider did not answer.
    queries: Sampled,
    /// Refund requests and refund queries.
    refunds: Sampled,
    /// Failed attempts to deliver an event.
    deliveries: Sampled,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            not_stored: Sampled::new("notice-not-stored", 1),
            foreign: Sampled::new("foreign-notice", 1),
            starts: Sampled::new("start", FREQUENT_LINES_PER_SECOND),
            barred: Sampled::new("start-barred", 1),
            queries: Sampled::new("query-unanswered", FREQUENT_LINES_PER_SECOND),
            refunds: Sampled::new("refund", FREQUENT_LINES_PER_SECOND),
            deliveries: Sampled::new("delivery-failed", FREQUENT_LINES_PER_SECOND),
        }
    }
}

impl Gateway {
    /// Creates a gateway over a store and the runtime's modules. Call [`Gateway::warm_up`] before it serves
    /// requests.
    pub fn new(
        store: Arc<dyn Store>,
        runtime: Arc<Runtime>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let modules = Arc::new(WasmModules::new(Arc::clone(&runtime)));
        let client = Client::new(settings.webhooks.guard());
        let client = client.through(settings.webhooks.proxy.clone());
        Self::over(store, modules, Some(runtime), clock, settings, client)
    }

    /// Creates a gateway over any implementation of [`Modules`].
    pub fn with_modules(
        store: Arc<dyn Store>,
        modules: Arc<dyn Modules>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let client = Client::new(settings.webhooks.guard());
        Self::delivering_through(store, modules, clock, settings, client)
    }

    /// Creates a gateway over any implementation of [`Modules`]. Its events and its requests to shops use the
    /// given client, for example on another network or with other certificate authorities.
    pub fn delivering_through(
        store: Arc<dyn Store>,
        modules: Arc<dyn Modules>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        client: Client,
    ) -> Self {
        Self::over(store, modules, None, clock, settings, client)
    }

    fn over(
        store: Arc<dyn Store>,
        modules: Arc<dyn Modules>,
        runtime: Option<Arc<Runtime>>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        client: Client,
    ) -> Self {
        let configured = Configured::new(settings);
        store.set_schedule(configured.settings.queries.clone());
        let connecting = Connecting::new(client.clone());
        let deliverer = Deliverer::new(client);
        let inner = Inner {
            store,
            modules,
            runtime,
            clock,
            configured: ArcSwap::from_pointee(configured),
            rates: ArcSwap::default(),
            configuring: tokio::sync::Mutex::default(),
            switches: ArcSwap::default(),
            directory: DirectoryCache::default(),
            seen: auth::UsedKeys::default(),
            measured: Measured::default(),
            unknown_captures: Mutex::default(),
            reviews: Reviews::default(),
            shown: LastGauges::default(),
            payment_locks: KeyedLock::default(),
            permits: ProviderPermits::default(),
            unproved_notices: UnprovedNotices::default(),
            refused_callbacks: Mutex::default(),
            lines: Lines::default(),
            query_throttle: Mutex::default(),
            reconciler: Reconciler::default(),
            alarm: Alarm::default(),
            shared_modules: SharedModulesState::default(),
            routing_records: RoutingRecords::default(),
            conversations: Conversations::default(),
            trials: LocalTrials::default(),
            replays: Arc::new(Semaphore::new(1)),
            end_replays: CancellationToken::new(),
            deliverer,
            connecting,
            tasks: TaskTracker::new(),
        };
        let inner = Arc::new(inner);
        if let Some(runtime) = &inner.runtime {
            runtime.accept_by(configure::acceptance(&inner));
        }
        Self { inner }
    }

    /// The store, for reads and directory changes that have no use case.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The WebAssembly runtime. `None` if the gateway uses another implementation of [`Modules`].
    pub fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.inner.runtime.as_ref()
    }

    /// The modules of methods and providers.
    pub fn modules(&self) -> &Arc<dyn Modules> {
        &self.inner.modules
    }

    /// The injected clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The current settings. A request reads them once, so that it sees one version.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.inner.configured.load().settings)
    }

    /// Waits for all work that has started to call a provider. The provider deadline bounds each call. The
    /// caller must not start anything new on this gateway.
    pub async fn finish(&self) {
        self.inner.reconciler.stopping.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    async fn cached_merchant(&self, id: MerchantId) -> Result<Option<Arc<Merchant>>, Fault> {
        self.inner
            .directory
            .merchant(self.store().as_ref(), id)
            .await
    }

    fn now(&self) -> Time {
        self.inner.clock.now()
    }

    fn configured(&self) -> Arc<Configured> {
        self.inner.configured.load_full()
    }

    /// Executes a step of the state machine, counts the changes in metrics, and wakes the worker if something
    /// is now due earlier.
    async fn step(
        &self,
        about: About,
        step: Step,
        audited: Option<Audited>,
    ) -> Result<Stepped, Fault> {
        let stepped = self
            .inner
            .store
            .step(about, step, audited, self.now())
            .await?;
        if let Stepped::Done {
            aggregate, change, ..
        } = &stepped
        {
            self.tell_of(aggregate, change).await;
            self.count_resolved(aggregate, &change.resolved);
            if let Some(due) = aggregate.due_at() {
                self.inner.alarm.due(due);
            }
            self.ask_as_early_notices_want(aggregate).await?;
        }
        Ok(stepped)
    }

    /// Runs `work` in a separate task, which continues if the caller goes away.
    async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Fault> {
        let task = self.inner.tasks.spawn(work);
        // The task panicked, or the process is ending: the store has the outcome so far.
        task.await.map_err(|_| Fault::Stopping)
    }
}

fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns a random token for a URL: 32 bytes from the operating system, as 43 characters of base64url.
fn url_token() -> Result<kassette_domain::secret::Secret, getrandom::Error> {
    use base64::Engine as _;
    let bytes = random::<32>()?;
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    Ok(kassette_domain::secret::Secret::new(text))
}
