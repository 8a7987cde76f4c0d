//! The wasmtime engines: pooled instances, copy-on-write memories.
//!
//! There are two kinds, which differ only in how they clear a memory after a call. Each module is loaded for the
//! kind that suits it. Asking the kernel which pages a guest wrote takes longer than clearing a small memory. So a
//! memory of one WebAssembly page, as in methods built with the SDK, is cleared completely, which makes a `rank`
//! 1.4 us faster. Larger memories are scanned: clearing the megabyte of an untuned guest takes two times as long
//! as asking. Of the clearing kind there is one engine for each [shard](crate::shards).

use wasmtime::component::Component;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::error::RuntimeError;
use crate::limits::{Limits, PoolSizes};
use crate::shards::{self, Sharded};
use crate::ticks;

/// Maximum number of core instances, memories and tables of a component in a compiled language, with its adapters.
/// One to three were seen.
const PARTS_NATIVE: u32 = 4;
/// The same for a component with an interpreter. componentize-py creates 38 core instances.
const PARTS_INTERPRETED: u32 = 64;
/// Maximum number of interpreted calls at a time. The pool has parts for them in addition to the native ones.
pub const INTERPRETED_AT_ONCE: u32 = 8;
/// Maximum number of memories of a component. QuickJS uses three.
const MEMORIES: u32 = 4;
/// Bytes of an instance's memory that stay mapped between calls: more than a tuned guest uses. With the page map
/// scan, only written pages are cleared. Without both, a call takes three times as long and does not scale beyond
/// one thread, because mapping memory takes locks of the kernel.
const KEEP_MEMORY: usize = 1 << 20;
/// The same for tables.
const KEEP_TABLE: usize = 64 << 10;
/// Maximum initial size of a memory that is cleared completely. Memory that it grows by is unmapped.
const PAGE: usize = 64 << 10;
/// Stack of a guest, in bytes. Guests built with the SDK use 32 KiB of their own memory.
const WASM_STACK: usize = 256 << 10;
/// Stack of a fiber, in bytes: the guest's stack and that of the host functions it calls.
const FIBER_STACK: usize = 1 << 20;

/// The engines of a runtime. All can load code that any of them compiled.
pub(crate) struct Engines {
    scanned: Engine,
    cleared: Sharded<Engine>,
}

/// A component, loaded for each engine that may run it.
pub(crate) type LoadedComponent = Sharded<Component>;

impl Engines {
    /// Creates the engines and a thread that ticks them as long as one of them exists.
    pub(crate) fn new(sizes: PoolSizes, limits: &Limits) -> Result<Self, RuntimeError> {
        let failed = |error: wasmtime::Error| RuntimeError::Engine(format!("{error:#}"));
        let engine = |pool| Engine::new(&config(pool)).map_err(failed);
        let count = shards::count(sizes.methods);
        let share = shards::share(sizes.methods, count);
        let cleared = |calls| engine(pool(calls, limits, PAGE, Enabled::No));
        // The first engine also runs providers that fit a page.
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

    /// The engine that compiles for all.
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

/// Whether a module has exactly one memory, of at most one page. False if its parts are not known in advance.
fn fits_a_page(component: &Component) -> bool {
    component.resources_required().is_some_and(|needs| {
        needs.num_memories == 1
            && needs
                .max_initial_memory_size
                .is_some_and(|pages| pages <= 1)
    })
}

/// An engine that only compiles. It gives the same code as the engines above, and reserves no address space for a
/// pool.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    Engine::new(&code())
}

/// The settings that machine code depends on.
///
/// Decided 2026-11-21: these defaults stay, each measured with the `rank` of four candidates in a new instance
/// (7.9 us): the compiler's inlining (8.1 us; guests are already optimized as a whole, and compiling takes three
/// to five times as long), eager tables (1.5 us more), no backtraces (no difference).
fn code() -> Config {
    let mut config = Config::new();
    config
        // A new memory maps the module's data instead of copying it. Copying the three kilobytes of our own guests
        // would be 0.2 us faster, but interpreters have a megabyte and more.
        .memory_init_cow(true)
        // Epochs enforce the time limit at 0.4 us per call. The alternative, fuel, costs a quarter of the time.
        .epoch_interruption(true)
        // The component model's own concurrency is not used. With it, an async call takes 7 us more; without it,
        // less than 0.5 us.
        .concurrency_support(false);
    config
}

/// A pool for this many calls, each with one memory.
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
        // All used slots stay ready: a cold one must be mapped again.
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
