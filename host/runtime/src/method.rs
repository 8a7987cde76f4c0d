//! A method module that is ready for calls.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::routing::{
    self, Context, Ground, MethodDescription, RankAnswer, RoutingRefusal,
};
use metrics::{Counter, Histogram};
use wasmtime::component::{Component, HasSelf, Instance, InstancePre, Linker};
use wasmtime::{Engine, Store};

use crate::engine::LoadedComponent;
use crate::error::{CallError, LoadError};
use crate::guest::method::MethodState;
use crate::guest::wasi;
use crate::guest::wasi_state::Wasi;
use crate::host::{Host, Identity};
use crate::limits::{CallLimits, ModuleClass};
use crate::meter::{Metered as _, apply_limits, diagnose};
use crate::quarantine::FaultSource;
use crate::shards::{ShardArc, Sharded, shard_arc};
use crate::v0_2;
use crate::v0_2::bindings::method::Method;
use crate::v0_2::routing::{Exports, Routing};

/// Data that each thread needs for a call and does not share, see [`shards`](crate::shards).
struct MethodShard {
    identity: ShardArc<Identity>,
    routing: Routing<MethodState>,
}

/// One version of a method module. Immutable; each call gets a new instance.
pub struct MethodModule {
    identity: Arc<Identity>,
    host: Arc<Host>,
    shards: Sharded<MethodShard>,
    description: Arc<MethodDescription>,
    /// Whether the module imports WASI, which then needs the context.
    wasi: bool,
    ranks: Histogram,
    cache_hits: Counter,
}

impl MethodModule {
    pub fn slot(&self) -> &Slot {
        &self.identity.slot
    }

    /// Digest of the module file.
    pub fn digest(&self) -> Digest {
        self.identity.digest
    }

    /// Class, which decides the limits. A module of class `interpreted` takes milliseconds: call it on a thread
    /// where it does not block other requests.
    pub fn class(&self) -> ModuleClass {
        self.identity.class
    }

    /// Limits of one call.
    pub fn limits(&self) -> CallLimits {
        self.identity.limits
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Content of the module's description.
    pub fn description(&self) -> &Arc<MethodDescription> {
        &self.description
    }

    /// Ranks the accounts that may take a payment, best first. Runs on the caller's thread, for microseconds if
    /// the module is native.
    ///
    /// The answer is checked against the rules of the host. A currency that is not in the description is refused
    /// without a call. If the runtime caches answers
    /// ([`RuntimeConfig::answer_cache_bytes`](crate::RuntimeConfig::answer_cache_bytes)), an identical question to
    /// the same version, including the second, needs no call either.
    ///
    /// # Errors Reason why there is no valid answer. The method must not be offered then.
    pub fn rank(&self, context: &Context) -> Result<RankAnswer, CallError> {
        self.answer(context).map(Arc::unwrap_or_clone)
    }

    /// Like [`MethodModule::rank`], but the result is shared with the cache.
    ///
    /// # Errors Like [`MethodModule::rank`].
    pub fn answer(&self, context: &Context) -> Result<Arc<RankAnswer>, CallError> {
        let currencies = &self.description.currencies;
        if !currencies.is_empty() && !currencies.contains(&context.currency) {
            let detail = format!("not in {}", context.currency);
            return Ok(Arc::new(Err(RoutingRefusal {
                ground: Ground::Currency,
                detail,
            })));
        }
        if let Some(answer) = self.cached_answer(context) {
            return Ok(answer);
        }
        self.ask(context).inspect_err(|error| {
            if matches!(
                error,
                CallError::Busy | CallError::BadReply(_) | CallError::Faulty(_)
            ) {
                let source = source(context);
                self.identity
                    .record_failure("rank", error, "", Some(&source));
            }
        })
    }

    /// Returns this version's cached answer to the same question, without a call. `None` if it is not cached.
    pub fn cached_answer(&self, context: &Context) -> Option<Arc<RankAnswer>> {
        if self.identity.is_trial {
            return None;
        }
        let answer = self.host.answer_cache.get(&self.identity.digest, context)?;
        // Counts as a successful call: a fault is rare among many good answers, even if these come from the cache.
        let (shard, _) = self.shards.current();
        let quarantine = &self.identity.quarantine;
        quarantine.count(context.environment, shard.unwrap_or_default());
        self.cache_hits.increment(1);
        Some(answer)
    }

    /// Lets the module check the operator's settings together. The inner error is its message for the operator.
    ///
    /// # Errors Reason why the call has no answer.
    pub fn check_settings(
        &self,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        let (number, shard) = self.shards.current();
        let _permits = self.host.acquire(self.identity.class, number)?;
        let wasi = Wasi::without_question();
        let state = MethodState::new(Arc::clone(&shard.identity), wasi);
        let routing = &shard.routing;
        let (judged, _) = call(routing.engine(), state, "check-settings", None, |store| {
            let instance = routing.instantiate(store)?;
            routing.check_settings(store, instance, settings)
        })?;
        Ok(v0_2::settings::judged(judged))
    }

    fn ask(&self, context: &Context) -> Result<Arc<RankAnswer>, CallError> {
        let (number, shard) = self.shards.current();
        let _permits = self.host.acquire(self.identity.class, number)?;
        let quarantine = &self.identity.quarantine;
        quarantine.count(context.environment, number.unwrap_or_default());
        let started = Instant::now();
        let question = v0_2::method::question(context);
        let wasi = match self.wasi {
            true => Wasi::for_question(context),
            false => Wasi::without_question(),
        };
        let state = MethodState::new(Arc::clone(&shard.identity), wasi);
        let routing = &shard.routing;
        let source = source(context);
        let (answer, is_silent) = call(routing.engine(), state, "rank", Some(&source), |store| {
            let instance = routing.instantiate(store)?;
            routing.rank(store, instance, &question)
        })?;
        self.ranks.record(started.elapsed());
        let answer = v0_2::method::verdicts(answer)?;
        if let Ok(verdicts) = &answer {
            routing::check_verdicts(context, verdicts).map_err(CallError::Faulty)?;
        }
        let answer = Arc::new(answer);
        if is_silent && !self.identity.is_trial {
            self.host
                .answer_cache
                .insert(&self.identity.digest, context, &answer);
        }
        Ok(answer)
    }

    /// Returns the id in the description of a component that fits this world.
    pub(crate) fn described_id(
        identity: &Arc<Identity>,
        component: &Component,
    ) -> Result<String, LoadError> {
        let (linked, _) = link(component)?;
        let (_, described) = describe(identity, linked)?;
        Ok(described.id)
    }

    /// Links a component that fits this world and reads its description.
    pub(crate) fn load(
        host: &Arc<Host>,
        identity: Arc<Identity>,
        loaded: &LoadedComponent,
    ) -> Result<Self, LoadError> {
        let id = MethodId::parse(identity.slot.name())
            .ok_or_else(|| LoadError::NoSuchMethod(identity.slot.clone()))?;
        let (linked, wasi) = link(loaded.first())?;
        let (first, described) = describe(&identity, linked)?;
        let shards = loaded.derive(first, |component| {
            check_types(&identity, link(component)?.0)
        })?;
        identity.check_id(&described.id)?;
        let description = v0_2::method::description(id, described).map_err(LoadError::Describe)?;
        let ranks = identity.call_histogram("rank");
        let cache_hits = identity.answer_cache_hits();
        Ok(Self {
            identity,
            host: Arc::clone(host),
            shards,
            description: Arc::new(description),
            wasi,
            ranks,
            cache_hits,
        })
    }
}

/// A component ready for instantiation, and its exports.
type Linked = (InstancePre<MethodState>, Exports);

/// Links a component. Returns also whether it imports WASI.
fn link(component: &Component) -> Result<(Linked, bool), LoadError> {
    let mut linker = Linker::new(component.engine());
    Method::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut MethodState| state)
        .map_err(LoadError::types)?;
    let wasi = wasi::link(&mut linker, component).map_err(LoadError::types)?;
    let pre = linker
        .instantiate_pre(component)
        .map_err(LoadError::types)?;
    let exports = Exports::find(component).map_err(LoadError::types)?;
    Ok(((pre, exports), wasi))
}

/// Calls `describe` of a new module.
fn describe(
    identity: &Arc<Identity>,
    (pre, exports): Linked,
) -> Result<(MethodShard, v0_2::method::Description), LoadError> {
    let identity = shard_arc(identity);
    let state = MethodState::new(Arc::clone(&identity), Wasi::without_question());
    let outcome = call(&pre.engine().clone(), state, "describe", None, |store| {
        Routing::described(pre, exports, store)
    });
    let ((routing, described), _) = outcome.map_err(LoadError::Describe)?;
    Ok((MethodShard { identity, routing }, described))
}

/// Prepares the module for another shard, without reading its description again.
fn check_types(identity: &Arc<Identity>, (pre, exports): Linked) -> Result<MethodShard, LoadError> {
    let identity = shard_arc(identity);
    let state = MethodState::new(Arc::clone(&identity), Wasi::without_question());
    let outcome = call(&pre.engine().clone(), state, "describe", None, |store| {
        Routing::check_types(pre, exports, store)
    });
    let ((routing, _), _) = outcome.map_err(LoadError::Describe)?;
    Ok(MethodShard { identity, routing })
}

/// Source of a routing fault. No data of a provider takes part.
fn source(context: &Context) -> FaultSource {
    FaultSource {
        environment: context.environment,
        account: None,
    }
}

/// Runs one call in a new store with the module's limits. Returns also whether it wrote nothing to the log.
fn call<T>(
    engine: &Engine,
    state: MethodState,
    function: &'static str,
    source: Option<&FaultSource>,
    call: impl FnOnce(&mut Store<MethodState>) -> wasmtime::Result<T>,
) -> Result<(T, bool), CallError> {
    let limits = state.identity.limits;
    let mut store = Store::new(engine, state);
    apply_limits(&mut store, &limits);
    let outcome = call(&mut store);
    store.data_mut().flush_output();
    let is_silent = store.data().log.is_silent();
    outcome.map(|answer| (answer, is_silent)).map_err(|error| {
        let kind = diagnose(&error, store.data_mut().meter());
        let identity = &store.data().identity;
        identity.record_failure(function, &kind, &format!("{error:#}"), source);
        kind
    })
}

/// An instance for repeated calls, only to measure the cost of new instances (`tests/bench/calls`).
#[doc(hidden)]
pub struct Reused {
    module: Arc<MethodModule>,
    store: Store<MethodState>,
    instance: Instance,
}

impl Reused {
    /// Calls `rank` again in the same instance.
    #[doc(hidden)]
    pub fn rank(&mut self, context: &Context) -> Result<RankAnswer, CallError> {
        self.store.set_epoch_deadline(1 << 32);
        self.store.set_hostcall_fuel(usize::MAX);
        let question = v0_2::method::question(context);
        let routing = &self.module.shards.first().routing;
        let answer = routing.rank(&mut self.store, self.instance, &question);
        v0_2::method::verdicts(answer.map_err(|_| CallError::Trap)?)
    }
}

impl MethodModule {
    /// Creates an instance for measurements.
    #[doc(hidden)]
    pub fn reused(self: &Arc<Self>) -> Result<Reused, CallError> {
        let MethodShard { identity, routing } = self.shards.first();
        let state = MethodState::new(Arc::clone(identity), Wasi::without_question());
        let mut store = Store::new(routing.engine(), state);
        apply_limits(&mut store, &self.identity.limits);
        let instance = routing.instantiate(&mut store);
        let instance = instance.map_err(|_| CallError::Trap)?;
        let module = Arc::clone(self);
        Ok(Reused {
            module,
            store,
            instance,
        })
    }
}

impl fmt::Debug for MethodModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodModule")
            .field(&self.identity.slot)
            .field(&self.identity.digest)
            .finish()
    }
}
