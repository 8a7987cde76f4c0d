//! What a call may use: memory, CPU time.

use std::time::Duration;

use cpu_time::ThreadTime;
use wasmtime::{ResourceLimiter, Store, Trap, UpdateDeadline};

use crate::config::CallLimits;
use crate::engine::TICK;
use crate::error::CallError;

/// Elements of all tables of a module together; an interpreter's function table has thousands.
const MAX_TABLE_ELEMENTS: usize = 20_000;
/// Bytes that the host copies out of a guest in one crossing. Far above the largest request
/// (256 KiB) or reply; the default would let one call make the host hold 128 MiB.
const HOSTCALL_BYTES: usize = 2 << 20;

/// Counts the memory of one call, all memories together.
#[derive(Debug)]
pub(crate) struct Meter {
    left: usize,
    elements: usize,
    /// Whether anything was refused: then what follows (a panic, usually) is for lack of memory.
    refused: bool,
}

impl Meter {
    pub(crate) fn new(limits: &CallLimits) -> Self {
        Self {
            left: limits.memory,
            elements: MAX_TABLE_ELEMENTS,
            refused: false,
        }
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let fits = more <= self.left;
        if fits {
            self.left -= more;
        } else {
            self.refused = true;
        }
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let fits = more <= self.elements;
        if fits {
            self.elements -= more;
        }
        Ok(fits)
    }
}

/// What every store's data offers.
pub(crate) trait Metered: Send + 'static {
    fn meter(&mut self) -> &mut Meter;
    /// How often the call came back from a wait.
    fn waits(&self) -> u32;
}

/// Puts a store under its limits.
///
/// A tick is wall-clock time, and a thread that the system parked has done nothing wrong. So the
/// first alarm only starts the thread's own CPU clock, and the later ones judge by that. Between
/// two waits a guest stays on one thread; after a wait the clock starts anew.
pub(crate) fn limit<T: Metered>(store: &mut Store<T>, limits: &CallLimits) {
    let allowed = limits.cpu;
    let again = ticks(allowed / 4);
    store.limiter(|data| data.meter());
    store.set_hostcall_fuel(HOSTCALL_BYTES);
    store.set_epoch_deadline(ticks(allowed));
    let mut started: Option<(u32, Duration)> = None;
    store.epoch_deadline_callback(move |store| {
        let (waits, now) = (store.data().waits(), ThreadTime::now().as_duration());
        match started {
            Some((seen, from)) if seen == waits => {
                if now.saturating_sub(from) >= allowed {
                    return Err(Trap::Interrupt.into());
                }
            }
            _ => started = Some((waits, now)),
        }
        Ok(UpdateDeadline::Continue(again))
    });
}

/// A duration in ticks, at least one.
fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos() / TICK.as_nanos())
        .unwrap_or(u64::MAX)
        .clamp(1, 1 << 32)
}

/// What a failed call died of.
pub(crate) fn diagnose(error: &wasmtime::Error, meter: &Meter) -> CallError {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => CallError::Deadline,
        Some(Trap::StackOverflow) => CallError::Stack,
        _ if meter.refused => CallError::Memory,
        _ => CallError::Trap,
    }
}
