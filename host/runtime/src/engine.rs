//! The engines: pooled instances, copy-on-write memories.
//!
//! There are two kinds, which differ in nothing but how they clear a memory after a call; each module is
//! loaded for the one that suits it. Asking the system which pages a guest wrote takes longer than
//! to clear a whole small memory, so that of a module which fits one page of WebAssembly, as methods
//! do that are built with the SDK, is cleared unasked: a `rank` takes 1.4 us less. Larger ones are
//! not: clearing the megabyte of a guest that is not tuned takes twice as long as asking. Of the kind that
//! clears whole there is one for each [shard](crate::shards).

use wasmtime::component::Component;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::error::RuntimeError;
use crate::limits::{Limits, PoolSizes};
use crate::shards::{self, Sharded};
use crate::ticks;

/// Core instances, memories and tables of a component that is written in a compiled language, its
/// adapters included (one to three were seen).
const PARTS_NATIVE: u32 = 4;
/// The same for one that carries an interpreter: componentize-py makes 38 core instances.
const PARTS_INTERPRETED: u32 = 64;
/// Interpreted calls that may run at once; the pool holds parts for so many beside the native ones.
pub const INTERPRETED_AT_ONCE: u32 = 8;
/// Memories of one component; QuickJS was seen with three.
const MEMORIES: u32 = 4;
/// Bytes of an instance's memory that stay mapped between calls. More than a tuned guest touches;
/// with the page map scanned only what was written is cleared. Without both a fresh call takes three
/// times as long, and does not scale beyond one thread: mapping memory takes the kernel's locks.
const KEEP_MEMORY: usize = 1 << 20;
/// Likewise for tables.
const KEEP_TABLE: usize = 64 << 10;
/// A memory that begins with no more is cleared whole; what it grows by is given back.
const PAGE: usize = 64 << 10;
/// Stack of a guest. The SDK's guests live on 32 KiB of their own.
const WASM_STACK: usize = 256 << 10;
/// Stack of a fiber: the guest's and room for the host functions it calls.
const FIBER_STACK: usize = 1 << 20;

/// The engines of one runtime. What one of them compiles is the other's too.
pub(crate) struct Engines {
    scanned: Engine,
    cleared: Sharded<Engine>,
}

/// A component, loaded for each engine that may run it.
pub(crate) type LoadedComponent = Sharded<Component>;

impl Engines {
    /// The engines, and the thread that ticks them for as long as a handle to one is held.
    pub(crate) fn new(sizes: PoolSizes, limits: &Limits) -> Result<Self, RuntimeError> {
        let failed = |error: wasmtime::Error| RuntimeError::Engine(format!("{error:#}"));
        let engine = |pool| Engine::new(&config(pool)).map_err(failed);
        let count = shards::count(sizes.methods);
        let share = shards::share(sizes.methods, count);
        let cleared = |calls| engine(pool(calls, limits, PAGE, Enabled::No));
        // Providers that fit a page are loaded for the first.
        let first = cleared(PoolSizes {
            methods: share,
            ..sizes
        })?;
        let other = PoolSizes {
            methods: share,
            providers: 0,
        };
        let others = (1..count).map(|_| cleared(other));
        let mut scanned = pool(sizes, limits, KEEP_MEMORY, Enabled::Auto);
        let calls = sizes.methods + sizes.providers;
        scanned
            .total_memories(calls + INTERPRETED_AT_ONCE * MEMORIES)
            .max_memories_per_component(MEMORIES);
        let engines = Self {
            scanned: engine(scanned)?,
            cleared: Sharded::per_shard(first, others.collect::<Result<_, _>>()?),
        };
        let all = std::iter::once(&engines.scanned).chain(engines.cleared.all());
        ticks::start(all.map(Engine::weak).collect())
            .map_err(|error| RuntimeError::Engine(error.to_string()))?;
        Ok(engines)
    }

    /// One that compiles for all.
    pub(crate) const fn compiler(&self) -> &Engine {
        &self.scanned
    }

    pub(crate) const fn shards(&self) -> usize {
        self.cleared.len()
    }

    /// Loads machine code for the engines that suit the module.
    pub(crate) fn load(
        &self,
        load: impl Fn(&Engine) -> wasmtime::Result<Component>,
    ) -> wasmtime::Result<LoadedComponent> {
        let component = load(&self.scanned)?;
        match fits_a_page(&component) {
            true => self.cleared.derive(load(self.cleared.first())?, load),
            false => Ok(Sharded::shared(component)),
        }
    }

    #[cfg(test)]
    pub(crate) fn alike(engine: Engine) -> Self {
        Self {
            scanned: engine.clone(),
            cleared: Sharded::shared(engine),
        }
    }
}

/// Whether a module has one memory, of one page; one whose parts are not known in advance has not.
fn fits_a_page(component: &Component) -> bool {
    component.resources_required().is_some_and(|needs| {
        needs.num_memories == 1
            && needs
                .max_initial_memory_size
                .is_some_and(|pages| pages <= 1)
    })
}

/// An engine that only compiles, for those above: the same code comes out, and no address space
/// is reserved for a pool.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    Engine::new(&code())
}

/// What machine code depends on.
///
/// Decided 2026-11-21: left as they are, each tried with the `rank` of four candidates in a fresh instance (7.9 us):
/// the compiler's inlining (8.1 us; the guests are optimised as a whole before, and it compiles three
/// to five times as long), tables filled at once (1.5 us more), no backtraces (the same).
fn code() -> Config {
    let mut config = Config::new();
    config
        // A fresh memory maps the module's data instead of copying it. For our own guests, whose data
        // are three kilobytes, copying would take 0.2 us less; interpreters have a megabyte and more.
        .memory_init_cow(true)
        // The deadline's alarm costs 0.4 us of a call; fuel, the other way, costs a quarter.
        .epoch_interruption(true)
        // Of the component model's own concurrency nothing is used. With it a call that may wait
        // costs 7 us more, without it less than half of one.
        .concurrency_support(false);
    config
}

/// Room for so many calls, each with one memory.
fn pool(sizes: PoolSizes, limits: &Limits, keep: usize, scan: Enabled) -> PoolingAllocationConfig {
    let calls = sizes.methods + sizes.providers;
    let parts = calls * PARTS_NATIVE + INTERPRETED_AT_ONCE * PARTS_INTERPRETED;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(calls)
        .total_core_instances(parts)
        .total_tables(parts)
        .total_memories(calls)
        .total_stacks(sizes.providers.max(1))
        .max_core_instances_per_component(PARTS_INTERPRETED)
        .max_tables_per_component(PARTS_INTERPRETED)
        .max_memories_per_component(1)
        .max_memory_size(limits.native.memory.max(limits.interpreted.memory))
        .linear_memory_keep_resident(keep)
        .table_keep_resident(KEEP_TABLE)
        // Whatever was used stays ready: a slot that went cold is mapped anew.
        .max_unused_warm_slots(calls)
        .pagemap_scan(scan);
    pool
}

fn config(pool: PoolingAllocationConfig) -> Config {
    let mut config = code();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK);
    config
}
