//! Measures and limits the memory and CPU time of a call.

use std::time::Duration;

use cpu_time::ThreadTime;
use wasmtime::{ResourceLimiter, Store, Trap, UpdateDeadline};

use crate::error::CallError;
use crate::limits::CallLimits;
use crate::ticks::{TICK, Ticking};

/// Maximum number of elements in all tables of a module. The function table of an interpreter has thousands.
const MAX_TABLE_ELEMENTS: usize = 20_000;
/// Maximum number of bytes that a guest can pass in one host call. Far more than the largest request (256 KiB) or
/// reply needs; with the default, one call could make the host hold 128 MiB.
const HOSTCALL_BYTES: usize = 2 << 20;

/// Counts the memory and table elements of one call.
pub(crate) struct Meter {
    left: usize,
    elements: usize,
    /// Whether memory was refused. An error after that, usually a panic, is due to a lack of memory.
    refused: bool,
    _ticking: Ticking,
}

impl Meter {
    pub(crate) fn new(limits: &CallLimits) -> Self {
        Self {
            left: limits.memory,
            elements: MAX_TABLE_ELEMENTS,
            refused: false,
            _ticking: Ticking::begin(),
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

/// State that every store has.
pub(crate) trait Metered: Send + 'static {
    fn meter(&mut self) -> &mut Meter;
    /// Number of waits of the call so far.
    fn waits(&self) -> u32;
}

/// Applies limits to a store.
///
/// Ticks measure wall-clock time, in which the thread may not have been running. So the first alarm only starts to
/// measure the CPU time of the thread, and later alarms compare it with the limit.
pub(crate) fn apply_limits<T: Metered>(store: &mut Store<T>, limits: &CallLimits) {
    let allowed = limits.cpu;
    let again = ticks(allowed / 4);
    store.limiter(|data| data.meter());
    store.set_hostcall_fuel(HOSTCALL_BYTES);
    store.set_epoch_deadline(ticks(allowed));
    let mut used = CpuUsed::default();
    store.epoch_deadline_callback(move |store| {
        let now = ThreadTime::now().as_duration();
        match used.is_over(store.data().waits(), now, allowed) {
            true => Err(Trap::Interrupt.into()),
            false => Ok(UpdateDeadline::Continue(again)),
        }
    });
}

/// CPU time that a call has used since its first alarm.
#[derive(Debug, Default)]
struct CpuUsed {
    time: Duration,
    /// Number of waits and CPU time of the thread at the last alarm.
    last: Option<(u32, Duration)>,
}

impl CpuUsed {
    /// Whether a call has exceeded its limit. `now` is the CPU time of the thread at this alarm.
    ///
    /// Between two waits a guest stays on one thread; after a wait the measurement restarts. At most half of the
    /// limit is counted between two alarms: a running guest is checked every few ticks, so the rest was not its
    /// own time. The kernel charges a thread for interrupts that it happens to serve, and for waiting for locks
    /// and other processors. One such pause must not end a call.
    fn is_over(&mut self, waits: u32, now: Duration, allowed: Duration) -> bool {
        match self.last {
            Some((seen, from)) if seen == waits => {
                self.time += now.saturating_sub(from).min(allowed / 2);
            }
            _ => self.time = Duration::ZERO,
        }
        self.last = Some((waits, now));
        self.time >= allowed
    }
}

/// Converts a duration to ticks, at least one.
fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos() / TICK.as_nanos())
        .unwrap_or(u64::MAX)
        .clamp(1, 1 << 32)
}

/// Returns the cause of a failed call.
pub(crate) fn diagnose(error: &wasmtime::Error, meter: &Meter) -> CallError {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => CallError::Deadline,
        Some(Trap::StackOverflow) => CallError::Stack,
        _ if meter.refused => CallError::Memory,
        _ => CallError::Trap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_millis(5);

    /// Index of the first alarm at which the call is over, for alarms with these waits and CPU times.
    fn over(waits_and_millis: &[(u32, u64)]) -> Option<usize> {
        let mut used = CpuUsed::default();
        let mut alarms = waits_and_millis.iter();
        alarms.position(|(waits, millis)| {
            used.is_over(*waits, Duration::from_millis(*millis), ALLOWED)
        })
    }

    #[test]
    fn a_guest_that_runs_on_is_over_once_it_has_used_its_time() {
        assert_eq!(over(&[(0, 90), (0, 91), (0, 92), (0, 93), (0, 94)]), None);
        let alarms = [(0, 90), (0, 91), (0, 92), (0, 93), (0, 94), (0, 95)];
        assert_eq!(over(&alarms), Some(5));
        // The delay of the alarms does not matter.
        assert_eq!(over(&[(0, 90), (0, 130), (0, 170)]), Some(2));
    }

    #[test]
    fn one_pause_that_is_billed_to_the_thread_ends_no_call() {
        assert_eq!(over(&[(0, 90), (0, 190), (0, 191), (0, 192)]), None);
    }

    #[test]
    fn a_wait_starts_the_clock_anew_on_whatever_thread_it_ends() {
        assert_eq!(over(&[(0, 90), (0, 94), (1, 2), (1, 4), (2, 500)]), None);
        assert_eq!(over(&[(0, 90), (1, 500), (1, 503), (1, 506)]), Some(3));
    }
}
