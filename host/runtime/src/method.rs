//! A payment method's module, ready to be asked.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::routing::{self, Answer, Context, Ground, MethodDescription, Refusal};
use metrics::{Counter, Histogram};
use wasmtime::component::{Component, HasSelf, Instance, InstancePre, Linker};
use wasmtime::{Engine, Store};

use crate::config::Class;
use crate::engine::Loaded;
use crate::error::{CallError, LoadError};
use crate::guest::method::MethodState;
use crate::host::{Host, Identity};
use crate::load;
use crate::meter::{Metered as _, diagnose, limit};
use crate::shards::{ShardArc, Sharded, shard_arc};
use crate::v0_1;
use crate::v0_1::bindings::method::Method;
use crate::v0_1::routing::{Exports, Routing};
use crate::wasi::{self, Wasi};

/// What a thread needs for a call and shares with no other, see [`shards`](crate::shards).
struct MethodShard {
    who: ShardArc<Identity>,
    routing: Routing<MethodState>,
}

/// One version of a payment method's module. Immutable; each call gets a fresh instance.
pub struct MethodModule {
    who: Arc<Identity>,
    host: Arc<Host>,
    shards: Sharded<MethodShard>,
    description: MethodDescription,
    /// Whether it imports any of WASI, which then has to be told the context.
    wasi: bool,
    ranks: Histogram,
    cache_hits: Counter,
}

impl MethodModule {
    /// Its slot.
    pub fn slot(&self) -> &Slot {
        &self.who.slot
    }

    /// Of its file.
    pub fn digest(&self) -> Digest {
        self.who.digest
    }

    /// Its limits. A module of class `interpreted` takes milliseconds: call it where that blocks
    /// nobody.
    pub fn class(&self) -> Class {
        self.who.class
    }

    pub(crate) fn who(&self) -> &Identity {
        &self.who
    }

    /// What it says it is.
    pub fn description(&self) -> &MethodDescription {
        &self.description
    }

    /// Asks who may take a payment, best first. Runs on the caller's thread, for microseconds.
    ///
    /// The answer is checked against the host's own rules. A currency that the description leaves
    /// out is refused without a call; so is a question answered that this very version was asked
    /// before, to the last figure and the second, where the runtime remembers
    /// ([`RuntimeConfig::answer_cache_bytes`](crate::RuntimeConfig::answer_cache_bytes)).
    ///
    /// # Errors
    /// Why there is no answer that can be believed; then the method is to be omitted.
    pub fn rank(&self, context: &Context) -> Result<Answer, CallError> {
        self.answer(context).map(Arc::unwrap_or_clone)
    }

    /// The same, shared with what is remembered.
    ///
    /// # Errors
    /// As [`MethodModule::rank`].
    pub fn answer(&self, context: &Context) -> Result<Arc<Answer>, CallError> {
        let currencies = &self.description.currencies;
        if !currencies.is_empty() && !currencies.contains(&context.currency) {
            let detail = format!("not in {}", context.currency);
            return Ok(Arc::new(Err(Refusal {
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
                self.who.failed("rank", error, "");
            }
        })
    }

    /// What this version answered to this very question before, where that is remembered: without
    /// a call, whatever the module's class.
    pub fn cached_answer(&self, context: &Context) -> Option<Arc<Answer>> {
        let answer = self.host.answer_cache.get(&self.who.digest, context)?;
        // It counts as a call that went well: a fault among many good answers is a rare one, however
        // they came about.
        let (shard, _) = self.shards.current();
        self.who.quarantine.count_call(shard.unwrap_or_default());
        self.cache_hits.increment(1);
        Some(answer)
    }

    fn ask(&self, context: &Context) -> Result<Arc<Answer>, CallError> {
        let (number, shard) = self.shards.current();
        let _permits = self.host.acquire(self.who.class, number)?;
        self.who.quarantine.count_call(number.unwrap_or_default());
        let started = Instant::now();
        let question = v0_1::method::question(context);
        let wasi = match self.wasi {
            true => Wasi::about(context),
            false => Wasi::without_question(),
        };
        let state = MethodState::new(Arc::clone(&shard.who), wasi);
        let routing = &shard.routing;
        let (answer, silent) = call(routing.engine(), state, "rank", |store| {
            let instance = routing.instantiate(store)?;
            routing.rank(store, instance, &question)
        })?;
        self.ranks.record(started.elapsed());
        let answer = v0_1::method::verdicts(answer)?;
        if let Ok(verdicts) = &answer {
            routing::check(context, verdicts).map_err(CallError::Faulty)?;
        }
        let answer = Arc::new(answer);
        if silent {
            self.host
                .answer_cache
                .insert(&self.who.digest, context, &answer);
        }
        Ok(answer)
    }

    /// What a compiled component that has been found to belong to this world calls itself.
    pub(crate) fn id(who: &Arc<Identity>, component: &Component) -> Result<String, LoadError> {
        let (linked, _) = link(component)?;
        let (_, said) = describe(who, linked)?;
        Ok(said.id)
    }

    /// Links and describes a compiled component that has been found to belong to this world.
    pub(crate) fn load(
        host: &Arc<Host>,
        who: Arc<Identity>,
        loaded: &Loaded,
    ) -> Result<Self, LoadError> {
        let id = MethodId::parse(who.slot.name())
            .ok_or_else(|| LoadError::NoSuchMethod(who.slot.clone()))?;
        let (linked, wasi) = link(loaded.first())?;
        let (first, said) = describe(&who, linked)?;
        let shards = loaded.derive(first, |component| compare(&who, link(component)?.0))?;
        load::same_id(&said.id, &who.slot)?;
        let description = v0_1::method::description(id, said).map_err(LoadError::Describe)?;
        let ranks = who.calls("rank");
        let cache_hits = who.answer_cache_hits();
        Ok(Self {
            who,
            host: Arc::clone(host),
            shards,
            description,
            wasi,
            ranks,
            cache_hits,
        })
    }
}

/// A component that can be instantiated, and where its functions are.
type Linked = (InstancePre<MethodState>, Exports);

/// Links a compiled component; tells whether it imports any of WASI.
fn link(component: &Component) -> Result<(Linked, bool), LoadError> {
    let mut linker = Linker::new(component.engine());
    Method::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut MethodState| state)
        .map_err(load::types)?;
    let wasi = wasi::link(&mut linker, component).map_err(load::types)?;
    let pre = linker.instantiate_pre(component).map_err(load::types)?;
    let exports = Exports::of(component).map_err(load::types)?;
    Ok(((pre, exports), wasi))
}

/// Asks a new module what it is.
fn describe(
    who: &Arc<Identity>,
    (pre, exports): Linked,
) -> Result<(MethodShard, v0_1::method::Said), LoadError> {
    let who = shard_arc(who);
    let state = MethodState::new(Arc::clone(&who), Wasi::without_question());
    let described = call(&pre.engine().clone(), state, "describe", |store| {
        Routing::described(pre, exports, store)
    });
    let ((routing, said), _) = described.map_err(LoadError::Describe)?;
    Ok((MethodShard { who, routing }, said))
}

/// The same module for another shard: it has said what it is.
fn compare(who: &Arc<Identity>, (pre, exports): Linked) -> Result<MethodShard, LoadError> {
    let who = shard_arc(who);
    let state = MethodState::new(Arc::clone(&who), Wasi::without_question());
    let compared = call(&pre.engine().clone(), state, "describe", |store| {
        Routing::compared(pre, exports, store)
    });
    let ((routing, _), _) = compared.map_err(LoadError::Describe)?;
    Ok(MethodShard { who, routing })
}

/// One call in a fresh store, under the module's limits; with its answer whether it wrote nothing to
/// the log.
fn call<T>(
    engine: &Engine,
    state: MethodState,
    function: &'static str,
    call: impl FnOnce(&mut Store<MethodState>) -> wasmtime::Result<T>,
) -> Result<(T, bool), CallError> {
    let limits = state.who.limits;
    let mut store = Store::new(engine, state);
    limit(&mut store, &limits);
    let outcome = call(&mut store);
    store.data_mut().end_lines();
    let silent = store.data().lines.silent();
    outcome.map(|answer| (answer, silent)).map_err(|error| {
        let kind = diagnose(&error, store.data_mut().meter());
        let who = &store.data().who;
        who.failed(function, &kind, &format!("{error:#}"));
        kind
    })
}

/// One instance that is asked again and again, as no payment ever is: what the price of a fresh one
/// for every call is measured against (`tests/bench/calls`).
#[doc(hidden)]
pub struct Reused {
    module: Arc<MethodModule>,
    store: Store<MethodState>,
    instance: Instance,
}

impl Reused {
    /// Asks once more.
    #[doc(hidden)]
    pub fn rank(&mut self, context: &Context) -> Result<Answer, CallError> {
        self.store.set_epoch_deadline(1 << 32);
        self.store.set_hostcall_fuel(usize::MAX);
        let question = v0_1::method::question(context);
        let routing = &self.module.shards.first().routing;
        let answer = routing.rank(&mut self.store, self.instance, &question);
        v0_1::method::verdicts(answer.map_err(|_| CallError::Trap)?)
    }
}

impl MethodModule {
    /// An instance for measurements.
    #[doc(hidden)]
    pub fn reused(self: &Arc<Self>) -> Result<Reused, CallError> {
        let MethodShard { who, routing } = self.shards.first();
        let state = MethodState::new(Arc::clone(who), Wasi::without_question());
        let mut store = Store::new(routing.engine(), state);
        limit(&mut store, &self.who.limits);
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
            .field(&self.who.slot)
            .field(&self.who.digest)
            .finish()
    }
}
