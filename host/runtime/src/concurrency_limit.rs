//! Back-pressure for calls that do not wait: never more at once than the pool holds.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long a caller waits for a permit. Calls last microseconds, so none for this long means
/// overload, and the honest answer is "busy".
const MAX_WAIT: Duration = Duration::from_millis(5);

/// A fixed number of permits.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    free: Mutex<u32>,
    freed: Condvar,
}

/// Given back on drop.
pub(crate) struct Permit<'a>(&'a ConcurrencyLimit);

impl ConcurrencyLimit {
    pub(crate) fn new(permits: u32) -> Self {
        Self {
            free: Mutex::new(permits),
            freed: Condvar::new(),
        }
    }

    /// A permit, or none after a short wait.
    pub(crate) fn acquire(&self) -> Option<Permit<'_>> {
        let mut free = self.free.lock();
        if *free == 0 {
            self.freed
                .wait_while_for(&mut free, |free| *free == 0, MAX_WAIT);
        }
        *free = free.checked_sub(1)?;
        Some(Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_free_permit_there_is_none_and_a_freed_one_is_taken() {
        let limit = ConcurrencyLimit::new(1);
        let permit = limit.acquire().unwrap();
        assert!(limit.acquire().is_none());
        drop(permit);
        assert!(limit.acquire().is_some());
    }
}
