//! What serves in slots, for several nodes.

use std::sync::Arc;

use kassette_domain::id::{Digest, Slot};

use super::nodes::{node, scratch};
use crate::postgres::PostgresStore;
use crate::suite::fixtures::*;
use crate::{
    Health as _, KEPT_VERSIONS, Proposal, SharedModules as _, SlotChange, SlotContent, SlotStage,
};

fn slot() -> Slot {
    Slot::parse("method.ideal").unwrap()
}

fn proposal(bytes: &[u8]) -> Proposal {
    Proposal {
        slot: slot(),
        bytes: bytes.to_vec(),
        cause: "upload".into(),
    }
}

fn version(change: &SlotChange) -> Digest {
    match &change.content {
        SlotContent::Version { digest, .. } => *digest,
        other => panic!("{other:?}"),
    }
}

async fn propose(store: &PostgresStore, bytes: &[u8]) -> Option<u64> {
    store.propose_version(proposal(bytes), NOW).await.unwrap()
}

async fn settle(store: &PostgresStore, number: u64) -> Option<u64> {
    let line = Some(audited("plugin.upload"));
    store.settle_version(number, line, NOW).await.unwrap()
}

/// What another node sees of a change that is followed from there on.
async fn seen(store: &PostgresStore, after: u64) -> Vec<SlotChange> {
    store.slot_changes(after).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_is_proposed_to_all_nodes_and_settled_once() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let number = propose(&a, b"one").await.unwrap();
    let found = seen(&b, 0).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].number, found[0].stage),
        (number, SlotStage::Proposed)
    );
    let bytes = b.module_bytes(version(&found[0])).await.unwrap();
    assert_eq!(bytes.as_deref(), Some(&b"one"[..]));
    assert_eq!(propose(&b, b"two").await, None, "one at a time");

    // A switch that is made meanwhile does not hide the settlement from a node that has followed it.
    let off = SlotContent::Disabled(true);
    let line = audited("plugin.disable");
    let switched = b.change_slot(slot(), off.clone(), line, NOW).await.unwrap();
    let settled = settle(&a, number).await.unwrap();
    assert!(settled > switched);
    let found = seen(&b, switched).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].number, found[0].stage),
        (settled, SlotStage::Settled)
    );
    assert_eq!(settle(&a, number).await, None, "once");
    let all = seen(&b, 0).await;
    assert_eq!(all.iter().filter(|change| change.content == off).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_proposed_is_in_no_ones_way_and_settles_no_more() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let number = propose(&a, b"one").await.unwrap();
    a.shut_down().await.unwrap();
    let next = propose(&b, b"two").await.unwrap();
    assert_eq!(settle(&b, number).await, None);
    assert!(settle(&b, next).await.is_some());
    assert_eq!(b.module_bytes(Digest::of(b"one")).await.unwrap(), None);

    // A proposal that is taken back leaves nothing.
    let number = propose(&b, b"three").await.unwrap();
    b.withdraw_version(number).await.unwrap();
    assert_eq!(settle(&b, number).await, None);
    assert_eq!(b.module_bytes(Digest::of(b"three")).await.unwrap(), None);
    assert_eq!(seen(&b, 0).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_versions_of_a_slot_are_kept_as_attempts_may_need() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a: Arc<PostgresStore> = node(&scratch, "a").await;
    let bytes = |number: usize| format!("version {number}").into_bytes();
    let last = KEPT_VERSIONS + 3;
    for each in 0..last {
        let number = propose(&a, &bytes(each)).await.unwrap();
        settle(&a, number).await.unwrap();
    }
    let kept: Vec<_> = seen(&a, 0).await.iter().map(version).collect();
    let expected = (last - KEPT_VERSIONS..last).map(|each| Digest::of(&bytes(each)));
    assert_eq!(kept, expected.collect::<Vec<_>>());
    assert_eq!(a.module_bytes(Digest::of(&bytes(0))).await.unwrap(), None);
    assert!(a.module_bytes(kept[0]).await.unwrap().is_some());

    // Taken away: nothing of it is kept but that.
    let line = audited("plugin.remove");
    a.change_slot(slot(), SlotContent::Removed, line, NOW)
        .await
        .unwrap();
    let left = seen(&a, 0).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].content, SlotContent::Removed);
    assert_eq!(a.module_bytes(kept[0]).await.unwrap(), None);
}
