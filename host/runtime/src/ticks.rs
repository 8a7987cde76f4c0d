//! Increments the epochs of the engines, which measure the time of calls: every millisecond while stores exist in
//! which guests could run, and otherwise not, so that an idle gateway wakes no processor.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use wasmtime::EngineWeak;

use crate::shards::{MAX_SHARDS, thread_number};

/// Length of a tick. Deadlines are counted in ticks until the thread's CPU clock is used.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// Number of ticks without a store after which a ticker sleeps. Waking it costs a call some microseconds, which a
/// busy gateway should avoid.
const LINGER: u32 = 50;
/// Interval at which a sleeping ticker checks whether its engines still exist.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// State shared by the stores and tickers of a process.
static PULSE: Pulse = Pulse::new();

struct Pulse {
    /// Number of stores, counted separately by thread so that calls do not wait for each other's cache lines.
    stores: [CachePadded<AtomicUsize>; MAX_SHARDS],
    /// Number of sleeping tickers.
    sleeping: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

/// Keeps ticks running until it is dropped. Part of each store.
pub(crate) struct Ticking(&'static AtomicUsize);

impl Ticking {
    pub(crate) fn begin() -> Self {
        PULSE.begin()
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Pulse {
    const fn new() -> Self {
        Self {
            stores: [const { CachePadded::new(AtomicUsize::new(0)) }; MAX_SHARDS],
            sleeping: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    fn begin(&'static self) -> Ticking {
        let [first, ..] = &self.stores;
        let stores = self.stores.get(thread_number() % MAX_SHARDS);
        let stores = stores.unwrap_or(first);
        stores.fetch_add(1, Ordering::SeqCst);
        // A ticker increments `sleeping` before it checks the counts: either it sees this store, or this sees it.
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            drop(self.sleep.lock());
            self.wake.notify_all();
        }
        Ticking(stores)
    }

    fn is_idle(&self) -> bool {
        let mut stores = self.stores.iter();
        stores.all(|stores| stores.load(Ordering::SeqCst) == 0)
    }

    /// Runs as long as engines exist.
    fn run(&self, tick: impl Fn(), is_left: impl Fn() -> bool) {
        let mut idle = 0;
        while is_left() {
            tick();
            std::thread::sleep(TICK);
            idle = if self.is_idle() { idle + 1 } else { 0 };
            if idle < LINGER {
                continue;
            }
            let mut sleep = self.sleep.lock();
            self.sleeping.fetch_add(1, Ordering::SeqCst);
            while self.is_idle() && is_left() {
                self.wake.wait_for(&mut sleep, LOOK_EVERY);
            }
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
            idle = 0;
        }
    }
}

/// Starts the thread that ticks engines. It has only weak references, so it ends with them.
pub(crate) fn start(engines: Vec<EngineWeak>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("plugin-ticks".into())
        .spawn(move || {
            // A module, and with it some of the engines, may outlive its runtime.
            let left = || engines.iter().filter_map(EngineWeak::upgrade);
            let tick = || left().for_each(|engine| engine.increment_epoch());
            PULSE.run(tick, || left().next().is_some());
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::Instant;

    use super::*;

    /// A separate ticker, the number of its ticks, and a flag that ends it.
    fn ticker() -> (&'static Pulse, &'static AtomicU64, &'static AtomicBool) {
        let pulse: &Pulse = Box::leak(Box::new(Pulse::new()));
        let ticks: &AtomicU64 = Box::leak(Box::default());
        let is_over: &AtomicBool = Box::leak(Box::default());
        std::thread::spawn(move || {
            let tick = || {
                ticks.fetch_add(1, Ordering::SeqCst);
            };
            pulse.run(tick, || !is_over.load(Ordering::SeqCst));
            ticks.store(u64::MAX, Ordering::SeqCst);
        });
        (pulse, ticks, is_over)
    }

    fn reached(what: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !what() {
            assert!(Instant::now() < until, "it never came about");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_ticker_sleeps_while_there_is_no_store_and_wakes_with_each() {
        let (pulse, ticks, is_over) = ticker();
        for _ in 0..3 {
            reached(|| pulse.sleeping.load(Ordering::SeqCst) == 1);
            let before = ticks.load(Ordering::SeqCst);
            let stores = [pulse.begin(), pulse.begin()];
            reached(|| ticks.load(Ordering::SeqCst) > before + 2 * u64::from(LINGER));
            drop(stores);
        }
        is_over.store(true, Ordering::SeqCst);
        reached(|| ticks.load(Ordering::SeqCst) == u64::MAX);
    }
}
