//! Who is told that something was queued.

use std::collections::BTreeSet;

use kassette_domain::id::EndpointId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Rings where something was queued for endpoints; one worker listens.
#[derive(Default)]
pub(crate) struct Bell {
    /// Endpoints that something was queued for since the last answer.
    queued: Mutex<BTreeSet<EndpointId>>,
    rings: Notify,
}

impl Bell {
    /// Waits until something was queued; says for whom.
    pub(crate) async fn queued(&self) -> Vec<EndpointId> {
        loop {
            let rung = self.rings.notified();
            let queued = std::mem::take(&mut *self.queued.lock());
            if !queued.is_empty() {
                return queued.into_iter().collect();
            }
            rung.await;
        }
    }

    /// Tells that something was queued for endpoints.
    pub(crate) fn ring(&self, endpoints: &[EndpointId]) {
        if !endpoints.is_empty() {
            self.queued.lock().extend(endpoints);
            self.rings.notify_one();
        }
    }
}
