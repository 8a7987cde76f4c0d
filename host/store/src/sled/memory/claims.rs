//! Claims of deliveries, and the signal that something was queued. Both exist only in memory, because only
//! one process uses the store. After its end all claimed deliveries are due as before.

use std::collections::HashMap;

use kassette_domain::id::DeliveryId;
use kassette_domain::time::Time;
use parking_lot::Mutex;

use crate::bell::Bell;

/// Number of leases at which ended ones are removed.
const SWEEP_FROM: usize = 4096;

/// Leases, and the signal.
#[derive(Default)]
pub(crate) struct Claims {
    leases: Mutex<HashMap<DeliveryId, Time>>,
    pub(crate) bell: Bell,
}

impl Claims {
    /// Ends leases.
    pub(crate) fn give_back(&self, deliveries: &[DeliveryId]) {
        let mut leases = self.leases.lock();
        for id in deliveries {
            leases.remove(id);
        }
    }

    /// Whether a delivery is unclaimed.
    pub(crate) fn is_free(&self, id: DeliveryId, now: Time) -> bool {
        let leases = self.leases.lock();
        leases.get(&id).is_none_or(|until| *until <= now)
    }

    /// Claims a delivery if it is unclaimed.
    pub(crate) fn take(&self, id: DeliveryId, now: Time, until: Time) -> bool {
        let mut leases = self.leases.lock();
        let is_free = leases.get(&id).is_none_or(|until| *until <= now);
        if is_free {
            leases.insert(id, until);
        }
        is_free
    }

    /// Removes ended leases if there are many.
    pub(crate) fn sweep(&self, now: Time) {
        let mut leases = self.leases.lock();
        if leases.len() >= SWEEP_FROM {
            leases.retain(|_, until| now < *until);
        }
    }
}
