//! The nodes of a store, as seen by its only node.

use std::time::Duration;

use kassette_domain::id::AttemptId;

use super::Harness;
use super::fixtures::*;
use crate::{NodeInfo, NodeShare, Task};

/// Longer than the interval at which a node announces itself.
const LONG: Duration = Duration::from_secs(30);

pub async fn a_node_alone_tells_of_itself_and_has_all_there_is(harness: &dyn Harness) {
    let store = harness.open().await;
    let told = NodeInfo {
        version: "1.2.3".into(),
        started_at: NOW,
        draining: true,
        ..NodeInfo::default()
    };
    store.announce(told.clone());
    let is_told = async {
        loop {
            let nodes = store.nodes().await.unwrap();
            assert_eq!(nodes.len(), 1);
            assert!(nodes[0].is_self);
            if nodes[0].info == told && nodes[0].lag == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, is_told).await.unwrap();
    assert_eq!((store.live_nodes(), store.share()), (1, NodeShare::WHOLE));
    store.demanded();
    assert_eq!(store.share().share_of(10), 10);
    let waiting = store.reviewed().await.unwrap();
    assert!(waiting.is_none_or(|waiting| waiting.is_empty()));
    let attempt = AttemptId::from_bytes([1; 16]);
    for task in [Task::Forget, Task::Forget, Task::Ask(attempt)] {
        assert_eq!(store.take_task(task, LONG).await, Ok(true));
    }
}
