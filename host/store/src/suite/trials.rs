//! Counts of versions on trial.

use std::sync::Arc;

use kassette_domain::candidate::Counts;
use kassette_domain::id::Digest;

use super::Harness;
use super::fixtures::*;
use crate::{Store, Trial};

/// Adds counts. Returns the sums of the trial.
async fn count(
    store: &Arc<dyn Store>,
    trial: &Trial,
    counted: &[(u8, Counts)],
) -> Vec<(u8, Counts)> {
    let sums = store.count_trial(trial.clone(), counted.to_vec());
    sums.await.unwrap()
}

pub async fn what_is_counted_under_each_share_adds_up(harness: &dyn Harness) {
    let store = harness.open().await;
    let trial = trial("method.ideal", NOW);
    assert_eq!(count(&store, &trial, &[]).await, []);
    let first = [(25, counts(1)), (1, counts(2))];
    let sums = [(1, counts(2)), (25, counts(1))];
    assert_eq!(count(&store, &trial, &first).await, sums);
    // The same share may occur repeatedly.
    let more = [(25, counts(3)), (100, counts(4)), (25, counts(5))];
    let sums = [(1, counts(2)), (25, counts(9)), (100, counts(4))];
    assert_eq!(count(&store, &trial, &more).await, sums);
    for nothing in [&[][..], &[(5, Counts::default())]] {
        assert_eq!(count(&store, &trial, nothing).await, sums);
    }
    let far = Counts::of_figures([u64::MAX - 1; Counts::FIGURES]);
    let full = Counts::of_figures([u64::MAX; Counts::FIGURES]);
    count(&store, &trial, &[(1, far)]).await;
    assert_eq!(count(&store, &trial, &[]).await[0], (1, full));
}

pub async fn a_later_trial_takes_the_place_of_an_earlier_one(harness: &dyn Harness) {
    let store = harness.open().await;
    let early = trial("method.ideal", NOW);
    let late = trial("method.ideal", later(1));
    let counted = [(5, counts(1))];
    assert_eq!(count(&store, &early, &counted).await, counted);
    // A later trial of the same version: until something is counted for it, the slot's row belongs to the
    // earlier one.
    assert_eq!(count(&store, &late, &[]).await, []);
    assert_eq!(count(&store, &early, &counted).await, [(5, counts(2))]);
    let other = [(10, counts(7))];
    assert_eq!(count(&store, &late, &other).await, other);
    for counted in [&counted[..], &[]] {
        assert_eq!(count(&store, &early, counted).await, [], "it is over");
    }
    assert_eq!(count(&store, &late, &[]).await, other);
    // Of two versions that started together, one stays.
    let rival = Trial {
        digest: Digest::hash(b"rival"),
        ..late.clone()
    };
    let at_once = [
        count(&store, &rival, &counted).await,
        count(&store, &late, &counted).await,
        count(&store, &rival, &counted).await,
    ];
    let rival_stays = [vec![(5, counts(1))], vec![], vec![(5, counts(2))]];
    let late_stays = [vec![], vec![(5, counts(1)), (10, counts(7))], vec![]];
    assert!(
        at_once == rival_stays || at_once == late_stays,
        "{at_once:?}"
    );
}

pub async fn slots_are_counted_apart(harness: &dyn Harness) {
    let store = harness.open().await;
    let slots = ["method.ideal", "method.ideal_2", "provider.ideal"];
    for (number, slot) in (1..).zip(slots) {
        // A trial that starts later in another slot ends none here.
        let counted = [(5, counts(number))];
        assert_eq!(
            count(&store, &trial(slot, later(number)), &counted).await,
            counted
        );
    }
    for (number, slot) in (1..).zip(slots) {
        let sums = count(&store, &trial(slot, later(number)), &[]).await;
        assert_eq!(sums, [(5, counts(number))]);
    }
}

pub async fn what_is_added_at_once_is_all_counted(harness: &dyn Harness) {
    let store = harness.open().await;
    let adds = (0..48_u8).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let trial = trial("method.ideal", NOW);
            count(&store, &trial, &[(number % 3, counts(1)), (9, counts(2))]).await
        })
    });
    for add in adds.collect::<Vec<_>>() {
        let sums = add.await.unwrap();
        assert!(sums.iter().any(|(percent, _)| *percent == 9), "{sums:?}");
    }
    let sums = count(&store, &trial("method.ideal", NOW), &[]).await;
    let each = (0..3).map(|percent| (percent, counts(16)));
    assert_eq!(sums, each.chain([(9, counts(96))]).collect::<Vec<_>>());
}

pub async fn counts_are_kept_when_the_store_is_opened_again(harness: &dyn Harness) {
    for sitting in 1..4 {
        let store = harness.open().await;
        let trial = trial("provider.sandbox", NOW);
        let counted = [(50, counts(1))];
        let sums = [(50, counts(sitting))];
        assert_eq!(count(&store, &trial, &counted).await, sums);
        store.shut_down().await.unwrap();
    }
}
