//! Limits the calls that do not wait for I/O to the size of the pool.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Maximum time that a caller waits for a permit. Calls last microseconds, so a longer wait means overload.
const MAX_WAIT: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    free: Mutex<u32>,
    freed: Condvar,
}

/// Released on drop.
pub(crate) struct Permit<'a>(&'a ConcurrencyLimit);

impl ConcurrencyLimit {
    pub(crate) fn new(permits: u32) -> Self {
        Self {
            free: Mutex::new(permits),
            freed: Condvar::new(),
        }
    }

    /// Waits up to [`MAX_WAIT`] for a permit. `None` if all are in use.
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
