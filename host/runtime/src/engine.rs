//! The one engine: pooled instances, copy-on-write memories, a tick every millisecond.

use std::time::Duration;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::config::{Limits, PoolSizes};
use crate::error::RuntimeError;

/// Length of a tick. Deadlines are counted in ticks before a thread's own clock takes over.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Core instances, memories and tables of a component that is written in a compiled language, its
/// adapters included (one to three were seen).
const PARTS_NATIVE: u32 = 4;
/// The same for one that carries an interpreter: componentize-py makes 38 core instances.
const PARTS_INTERPRETED: u32 = 64;
/// Interpreted calls that may run at once; the pool holds parts for so many beside the native ones.
pub(crate) const INTERPRETED_AT_ONCE: u32 = 8;
/// Memories of one component; QuickJS was seen with three.
const MEMORIES: u32 = 4;
/// Bytes of an instance's memory that stay mapped between calls. More than a tuned guest touches;
/// with the page map scanned only what was written is cleared. Without both a fresh call takes three
/// times as long, and does not scale beyond one thread: mapping memory takes the kernel's locks.
const KEEP_MEMORY: usize = 1 << 20;
/// Likewise for tables.
const KEEP_TABLE: usize = 64 << 10;
/// Stack of a guest. The SDK's guests live on 32 KiB of their own.
const WASM_STACK: usize = 256 << 10;
/// Stack of a fiber: the guest's and room for the host functions it calls.
const FIBER_STACK: usize = 1 << 20;

/// The engine, and the thread that ticks it for as long as anyone holds it.
pub(crate) fn engine(sizes: PoolSizes, limits: &Limits) -> Result<Engine, RuntimeError> {
    let failed = |error: wasmtime::Error| RuntimeError::Engine(format!("{error:#}"));
    let engine = Engine::new(&config(sizes, limits)).map_err(failed)?;
    tick(&engine).map_err(|error| RuntimeError::Engine(error.to_string()))?;
    Ok(engine)
}

/// An engine that only compiles, for the one above: the same code comes out, and no address space
/// is reserved for a pool.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    Engine::new(&code())
}

/// What machine code depends on.
///
/// Left as they are, each tried with the `rank` of four candidates in a fresh instance (7.9 us):
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

fn config(sizes: PoolSizes, limits: &Limits) -> Config {
    let calls = sizes.methods + sizes.providers;
    let parts = calls * PARTS_NATIVE + INTERPRETED_AT_ONCE * PARTS_INTERPRETED;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(calls)
        .total_core_instances(parts)
        .total_tables(parts)
        .total_memories(calls + INTERPRETED_AT_ONCE * MEMORIES)
        .total_stacks(sizes.providers)
        .max_core_instances_per_component(PARTS_INTERPRETED)
        .max_tables_per_component(PARTS_INTERPRETED)
        .max_memories_per_component(MEMORIES)
        .max_memory_size(limits.native.memory.max(limits.interpreted.memory))
        .linear_memory_keep_resident(KEEP_MEMORY)
        .table_keep_resident(KEEP_TABLE)
        // Whatever was used stays ready: a slot that went cold is mapped anew.
        .max_unused_warm_slots(calls)
        .pagemap_scan(Enabled::Auto);
    let mut config = code();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK);
    config
}

/// Raises the engine's epoch every [`TICK`]. Holds only a weak handle, so it ends with the engine.
fn tick(engine: &Engine) -> std::io::Result<()> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("plugin-ticks".into())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })?;
    Ok(())
}
