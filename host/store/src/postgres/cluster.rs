//! `Cluster` on PostgreSQL.

use std::time::Duration;

use crate::postgres::PostgresStore;
use crate::{Answer, Cluster, NodeInfo, NodeStatus, Share, Task};

impl Cluster for PostgresStore {
    fn nodes(&self) -> Answer<'_, Vec<NodeStatus>> {
        Box::pin(async {
            Ok(vec![NodeStatus {
                name: self.name.clone(),
                incarnation: 0,
                is_self: true,
                beat_age: Duration::ZERO,
                adopted: self.standing.directory(),
                lag: 0,
                info: self.announced.lock().clone(),
            }])
        })
    }

    fn announce(&self, info: NodeInfo) {
        *self.announced.lock() = info;
    }

    fn live_nodes(&self) -> u32 {
        1
    }

    fn demanded(&self) {}

    fn share(&self) -> Share {
        Share::WHOLE
    }

    fn take_task(&self, _task: Task, _lease: Duration) -> Answer<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}
