//! Contents of slots with several nodes.

use std::sync::Arc;

use kassette_domain::candidate::{Canary, Candidate};
use kassette_domain::id::{Digest, Slot};

use super::nodes::{node, scratch};
use crate::postgres::PostgresStore;
use crate::suite::fixtures::*;
use crate::{
    KEPT_VERSIONS, Proposal, SharedModules as _, SlotChange, SlotContent, SlotStage,
    StoreHealth as _, TRIAL_CAUSE, Trials as _,
};

fn slot() -> Slot {
    Slot::parse("method.ideal").unwrap()
}

fn proposal(bytes: &[u8], cause: &str) -> Proposal {
    Proposal {
        slot: slot(),
        bytes: bytes.to_vec(),
        cause: cause.into(),
    }
}

fn version(change: &SlotChange) -> Digest {
    match &change.content {
        SlotContent::Version { digest, .. } => *digest,
        other => panic!("{other:?}"),
    }
}

async fn propose(store: &PostgresStore, bytes: &[u8]) -> Option<u64> {
    let proposal = proposal(bytes, "upload");
    store.propose_version(proposal, NOW).await.unwrap()
}

async fn settle(store: &PostgresStore, number: u64) -> Option<u64> {
    let line = Some(audited("plugin.upload"));
    store.settle_version(number, line, NOW).await.unwrap()
}

/// Proposes and settles a version that serves from then on.
async fn serve(store: &PostgresStore, bytes: &[u8]) {
    let number = propose(store, bytes).await.unwrap();
    settle(store, number).await.unwrap();
}

/// Adds a version that can then be put on trial.
async fn bring(store: &PostgresStore, bytes: &[u8]) {
    let proposed = store.propose_version(proposal(bytes, TRIAL_CAUSE), NOW);
    let number = proposed.await.unwrap().unwrap();
    settle(store, number).await.unwrap();
}

/// A change that puts a version on trial, or ends a trial.
async fn try_out(store: &PostgresStore, bytes: Option<&[u8]>) -> SlotContent {
    let canary = Canary::begin(&[5, 25], 600, [7; 16], NOW).unwrap();
    let on_trial = bytes.map(|bytes| Candidate {
        digest: Digest::hash(bytes),
        since: NOW,
        canary: Some(canary),
    });
    let content = SlotContent::Candidate(on_trial);
    let line = audited("plugin.canary");
    let changed = store.change_slot(slot(), content.clone(), line, NOW);
    changed.await.unwrap();
    content
}

/// The versions that serve or have served, earliest first.
async fn served(store: &PostgresStore) -> Vec<Digest> {
    let served = |change: &SlotChange| match &change.content {
        SlotContent::Version { digest, cause } if cause != TRIAL_CAUSE => Some(*digest),
        _ => None,
    };
    seen(store, 0).await.iter().filter_map(served).collect()
}

async fn is_kept(store: &PostgresStore, bytes: &[u8]) -> bool {
    let kept = store.module_bytes(Digest::hash(bytes)).await.unwrap();
    assert!(kept.as_ref().is_none_or(|kept| kept == bytes));
    kept.is_some()
}

/// The changes that another node sees after a number.
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

    // A node that has followed a concurrent switch still sees the settled change.
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
    assert_eq!(b.module_bytes(Digest::hash(b"one")).await.unwrap(), None);

    // A withdrawn proposal leaves nothing.
    let number = propose(&b, b"three").await.unwrap();
    b.withdraw_version(number).await.unwrap();
    assert_eq!(settle(&b, number).await, None);
    assert_eq!(b.module_bytes(Digest::hash(b"three")).await.unwrap(), None);
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
    let expected = (last - KEPT_VERSIONS..last).map(|each| Digest::hash(&bytes(each)));
    assert_eq!(kept, expected.collect::<Vec<_>>());
    assert_eq!(a.module_bytes(Digest::hash(&bytes(0))).await.unwrap(), None);
    assert!(a.module_bytes(kept[0]).await.unwrap().is_some());

    // Removal: only the removal itself is retained.
    let line = audited("plugin.remove");
    a.change_slot(slot(), SlotContent::Removed, line, NOW)
        .await
        .unwrap();
    let left = seen(&a, 0).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].content, SlotContent::Removed);
    assert_eq!(a.module_bytes(kept[0]).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_on_trial_is_told_to_all_nodes_beside_what_serves_until_nothing_is() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    serve(&a, b"active").await;
    bring(&a, b"candidate").await;
    let on_trial = try_out(&a, Some(b"candidate")).await;
    let told = async || {
        let told = seen(&b, 0).await.into_iter();
        let told = told.filter(|change| matches!(change.content, SlotContent::Candidate(_)));
        told.map(|change| change.content).collect::<Vec<_>>()
    };
    assert_eq!(told().await, [on_trial]);
    assert_eq!(served(&b).await, [Digest::hash(b"active")]);
    // The two settings are independent.
    let off = SlotContent::Disabled(true);
    let line = audited("plugin.disable");
    b.change_slot(slot(), off.clone(), line, NOW).await.unwrap();
    let larger = try_out(&a, Some(b"candidate")).await;
    assert_eq!(told().await, [larger], "the last alone");
    let none = try_out(&b, None).await;
    assert_eq!(told().await, [none]);
    let all = seen(&b, 0).await;
    assert_eq!(all.iter().filter(|change| change.content == off).count(), 1);
    assert_eq!(served(&b).await, [Digest::hash(b"active")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_served_and_versions_on_trial_push_none_of_each_other_out() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a = node(&scratch, "a").await;
    let bytes = |number: usize| format!("version {number}").into_bytes();
    let tried = |number: usize| format!("candidate {number}").into_bytes();
    for each in 0..KEPT_VERSIONS {
        serve(&a, &bytes(each)).await;
    }
    let versions = served(&a).await;
    assert_eq!(versions.len(), KEPT_VERSIONS);
    // The oldest version is put on trial again, and is retained during the trial.
    try_out(&a, Some(&bytes(0))).await;
    serve(&a, b"newest").await;
    assert!(is_kept(&a, &bytes(0)).await && !served(&a).await.contains(&versions[0]));
    let versions = served(&a).await;
    for each in 0..KEPT_VERSIONS + 3 {
        bring(&a, &tried(each)).await;
        // A version that one node puts on trial remains if another has just ended a trial.
        try_out(&a, None).await;
        assert!(is_kept(&a, &tried(each)).await);
        try_out(&a, Some(&tried(each))).await;
    }
    assert!(!is_kept(&a, &bytes(0)).await);
    assert_eq!(served(&a).await, versions);
    for digest in versions {
        assert!(a.module_bytes(digest).await.unwrap().is_some());
    }
    // Attempts may still be in flight with versions that were on trial.
    let kept = (0..KEPT_VERSIONS + 3).map(async |each| is_kept(&a, &tried(each)).await);
    let mut found = Vec::new();
    for kept in kept {
        found.push(kept.await);
    }
    assert_eq!(found, [vec![false; 3], vec![true; KEPT_VERSIONS]].concat());
    // A version on trial outlives any number of versions that serve.
    let on_trial = tried(KEPT_VERSIONS + 2);
    for each in 0..KEPT_VERSIONS + 3 {
        serve(&a, &bytes(100 + each)).await;
    }
    assert!(is_kept(&a, &on_trial).await);
    assert_eq!(served(&a).await.len(), KEPT_VERSIONS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_is_taken_away_takes_its_trial_and_its_counts_along_and_no_others() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a = node(&scratch, "a").await;
    serve(&a, b"active").await;
    bring(&a, b"candidate").await;
    try_out(&a, Some(b"candidate")).await;
    let counted = vec![(5, counts(1))];
    for other in ["method.ideal", "method.paypal"] {
        let counting = a.count_trial(trial(other, NOW), counted.clone());
        assert_eq!(counting.await, Ok(counted.clone()));
    }
    let line = audited("plugin.remove");
    let removed = a.change_slot(slot(), SlotContent::Removed, line, NOW);
    removed.await.unwrap();
    let left = seen(&a, 0).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].content, SlotContent::Removed);
    assert!(!is_kept(&a, b"candidate").await && !is_kept(&a, b"active").await);
    let sums = async |slot| a.count_trial(trial(slot, NOW), vec![]).await.unwrap();
    assert_eq!(sums("method.ideal").await, []);
    assert_eq!(sums("method.paypal").await, counted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_nodes_count_at_once_is_all_counted() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = [node(&scratch, "a").await, node(&scratch, "b").await];
    for round in 0..10_u64 {
        // Includes the first count of a trial, which inserts its row or replaces another's.
        let trial = trial("method.ideal", later(round));
        let adds = (0..8).map(|number| {
            let (node, trial) = (Arc::clone(&nodes[number % 2]), trial.clone());
            tokio::spawn(async move { node.count_trial(trial, vec![(5, counts(1))]).await })
        });
        for add in adds.collect::<Vec<_>>() {
            add.await.unwrap().unwrap();
        }
        for node in &nodes {
            let sums = node.count_trial(trial.clone(), vec![]).await;
            assert_eq!(sums, Ok(vec![(5, counts(8))]));
        }
    }
}
