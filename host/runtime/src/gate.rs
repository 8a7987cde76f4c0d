//! Back-pressure for calls that do not wait: never more at once than the pool holds.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long a caller waits for a place. Calls last microseconds, so a full house for this long
/// means overload, and the honest answer is "busy".
const PATIENCE: Duration = Duration::from_millis(5);

/// A fixed number of places.
#[derive(Debug)]
pub(crate) struct Gate {
    free: Mutex<u32>,
    freed: Condvar,
}

/// A place, given back on drop.
pub(crate) struct Place<'a>(&'a Gate);

impl Gate {
    pub(crate) fn new(places: u32) -> Self {
        Self {
            free: Mutex::new(places),
            freed: Condvar::new(),
        }
    }

    /// A place, or none after a short wait.
    pub(crate) fn enter(&self) -> Option<Place<'_>> {
        let mut free = self.free.lock();
        if *free == 0 {
            self.freed
                .wait_while_for(&mut free, |free| *free == 0, PATIENCE);
        }
        *free = free.checked_sub(1)?;
        Some(Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_house_answers_busy_and_a_freed_place_is_taken() {
        let gate = Gate::new(1);
        let place = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(place);
        assert!(gate.enter().is_some());
    }
}
