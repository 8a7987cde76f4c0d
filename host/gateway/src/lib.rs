//! The use cases of a payment: create, list methods, start, read callbacks, capture, close, expire.
//!
//! The gateway sequences; it holds no rule about money (those are the domain's) and knows no HTTP
//! server. Each use case answers with a type of its own whose errors the edge maps to HTTP.
//!
//! | file | holds |
//! |---|---|
//! | `auth`, `create`, `methods`, `start`, `checkout`, `callback`, `operator_acts`, `refunds`, `connect` | a use case each |
//! | `reseller` | what a reseller does for merchants, and how they let it |
//! | `rates` | tables of exchange rates, whatever their source |
//! | `routing`, `routing_records` | candidates, what a method's module says of them, and the log of that |
//! | `conversations` | calls of provider modules, on their way into the same log |
//! | `trials` | versions that are tried beside the active one: shadow, canary |
//! | `replay` | another version, setting or policy, asked what the log holds |
//! | `vendor` | calls to a provider's module, measured and bounded |
//! | `apply` | reports: the one way from a vendor's answer into the store |
//! | `modules`, `wasm` | the port to the modules, and the runtime behind it |
//! | `directory_cache` | keys, merchants, resellers, delegations and endpoints, between requests |
//! | `nonces` | each signed request once |
//! | `configured`, `settings`, `configure` | accounts as configured, and as calls need them |
//! | `webhooks` | merchants' endpoints, and the worker that delivers events |
//! | `keyed_lock`, `reconcile`, `workers` | one task per payment at a time, what is due and is done, and what runs by itself |
//! | `permits` | how many calls to vendors run at once |
//! | `alerts` | messages to the operators' own service |
//! | `watch`, `review_index` | what operators see: counts, gauges and lines of the log; payments that wait for a person |
//!
//! Whatever has begun to speak to a vendor is carried to its end: it runs in a task of its own that a
//! caller who hangs up does not end, and shutting down waits for it.
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

/// How much at once, as operators are told.
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

    /// Lines of the log a second that tell of starts, of questions and of deliveries, each.
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

/// Everything that a use case needs; cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    modules: Arc<dyn Modules>,
    /// The runtime behind `modules`; none where another port stands there.
    runtime: Option<Arc<Runtime>>,
    clock: Arc<dyn Clock>,
    configured: ArcSwap<Configured>,
    /// Exchange rates of sources.
    rates: ArcSwap<RateTables>,
    /// One change of settings at a time.
    configuring: tokio::sync::Mutex<()>,
    /// Accounts that operators switched, as they were last read.
    switches: ArcSwap<Switches>,
    /// Keys and their owners as they were last read.
    directory: DirectoryCache,
    /// Keys used since the last write.
    seen: auth::UsedKeys,
    measured: Measured,
    reviews: Reviews,
    shown: LastGauges,
    payment_locks: KeyedLock,
    permits: ProviderPermits,
    unproved_notices: UnprovedNotices,
    /// Bounded by the accounts of the configuration.
    refused_callbacks: Mutex<HashMap<(AccountId, &'static str), Sampled>>,
    lines: Lines,
    query_throttle: Mutex<QueryThrottle>,
    reconciler: Reconciler,
    alarm: Alarm,
    shared_modules: SharedModulesState,
    routing_records: RoutingRecords,
    conversations: Conversations,
    trials: LocalTrials,
    /// One replay at a time.
    replays: Arc<Semaphore>,
    /// No replay goes on.
    end_replays: CancellationToken,
    deliverer: Deliverer,
    connecting: Connecting,
    /// Work that is carried to its end.
    tasks: TaskTracker,
}

/// Lines of the log that callers can cause, each kind so many a second.
#[derive(Debug)]
struct Lines {
    /// Notices that the store did not take.
    not_stored: Sampled,
    /// Notices about attempts of another account.
    foreign: Sampled,
    /// What vendors answered to starts.
    starts: Sampled,
    /// Starts for which no account is left.
    barred: Sampled,
    /// Questions that a vendor did not answer.
    queries: Sampled,
    /// Refunds that were sent or asked about.
    refunds: Sampled,
    /// Attempts to deliver an event that failed.
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
    /// A gateway over a store and the runtime's modules. [`Gateway::warm_up`] it before it serves.
    pub fn new(
        store: Arc<dyn Store>,
        runtime: Arc<Runtime>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let modules = Arc::new(WasmModules::new(Arc::clone(&runtime)));
        let client = Client::new(settings.webhooks.guard());
        Self::over(store, modules, Some(runtime), clock, settings, client)
    }

    /// A gateway over modules of any kind.
    pub fn with_modules(
        store: Arc<dyn Store>,
        modules: Arc<dyn Modules>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let client = Client::new(settings.webhooks.guard());
        Self::delivering_through(store, modules, clock, settings, client)
    }

    /// A gateway over modules of any kind, whose events and questions to shops go out through a
    /// client of its own: on another network, or with other authorities.
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

    /// The store, for reads and directory changes that are no use case of their own.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The WebAssembly runtime; none where the gateway stands over other modules.
    pub fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.inner.runtime.as_ref()
    }

    pub fn modules(&self) -> &Arc<dyn Modules> {
        &self.inner.modules
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The settings of now; a request takes them once.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.inner.configured.load().settings)
    }

    /// Waits for everything that has begun to speak to a vendor; each call is bounded by the
    /// provider's deadline. Nothing new must be asked of the gateway any more.
    pub async fn finish(&self) {
        self.inner.reconciler.stopping.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// A merchant, as every request needs it.
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

    /// Does a step of the machine, counts what it applied, and wakes the worker where something is
    /// due sooner than it sleeps.
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

    /// Carries work to its end even where the caller goes away.
    async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Fault> {
        let task = self.inner.tasks.spawn(work);
        // It panicked, or the process is ending: what became of it stands in the store.
        task.await.map_err(|_| Fault::Stopping)
    }
}

/// Random bytes from the operating system.
fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// A token for a URL: 32 bytes of the operating system's randomness, 43 characters of base64url.
fn url_token() -> Result<kassette_domain::secret::Secret, getrandom::Error> {
    use base64::Engine as _;
    let bytes = random::<32>()?;
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    Ok(kassette_domain::secret::Secret::new(text))
}
