//! Signal that deliveries were queued.

use std::collections::BTreeSet;

use kassette_domain::id::EndpointId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Signals that deliveries were queued for endpoints. One worker waits for it.
#[derive(Default)]
pub(crate) struct Bell {
    /// Endpoints with deliveries queued since the last call of [`Bell::queued`].
    queued: Mutex<BTreeSet<EndpointId>>,
    rings: Notify,
}

impl Bell {
    /// Waits until deliveries were queued. Returns their endpoints.
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

    /// Signals that deliveries were queued for endpoints.
    pub(crate) fn ring(&self, endpoints: &[EndpointId]) {
        if !endpoints.is_empty() {
            self.queued.lock().extend(endpoints);
            self.rings.notify_one();
        }
    }
}
