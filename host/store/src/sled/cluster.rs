//! `Cluster` on sled: one process holds the folder, so it is the only node.

use std::time::Duration;

use kassette_domain::id::PaymentId;

use crate::sled::SledStore;
use crate::{Cluster, ModulesInfo, NodeInfo, NodeShare, NodeStatus, StoreFuture, Task};

/// The name of the only node.
const NAME: &str = "only";

impl Cluster for SledStore {
    fn nodes(&self) -> StoreFuture<'_, Vec<NodeStatus>> {
        Box::pin(async {
            Ok(vec![NodeStatus {
                name: NAME.into(),
                incarnation: 0,
                is_self: true,
                beat_age: Duration::ZERO,
                adopted: self.directory(),
                lag: 0,
                info: self.announced.lock().clone(),
                modules: ModulesInfo::default(),
            }])
        })
    }

    fn announce(&self, info: NodeInfo) {
        *self.announced.lock() = info;
    }

    fn announce_modules(&self, _modules: ModulesInfo) {}

    fn live_nodes(&self) -> u32 {
        1
    }

    fn demanded(&self) {}

    fn share(&self) -> NodeShare {
        NodeShare::WHOLE
    }

    fn reviewed(&self) -> StoreFuture<'_, Option<Vec<PaymentId>>> {
        Box::pin(async { Ok(None) })
    }

    fn take_task(&self, _task: Task, _lease: Duration) -> StoreFuture<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}
