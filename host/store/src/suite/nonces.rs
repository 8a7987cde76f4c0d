//! Nonces of signed requests.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::ResellerId;
use kassette_domain::signing::NONCE_LIFE;
use kassette_domain::time::Time;

use super::Harness;
use super::fixtures::*;
use crate::{Fault, Reservation, Reserved, Retention, Store};

/// Far more than any of these tests uses.
const PLENTY: usize = 10_000;
/// Lifetime in seconds.
const LIFE: u64 = NONCE_LIFE.as_secs();

async fn take(store: &Arc<dyn Store>, reseller: u64, nonce: &str, now: Time) -> Reserved {
    take_of(store, reseller, nonce, PLENTY, now).await
}

async fn take_of(
    store: &Arc<dyn Store>,
    reseller: u64,
    nonce: &str,
    at_most: usize,
    now: Time,
) -> Reserved {
    let reservation = Reservation {
        reseller: ResellerId(reseller),
        at_most,
        ..nonce_of(nonce, now)
    };
    store.reserve_nonce(reservation, now).await.unwrap()
}

pub async fn of_many_who_ask_at_once_one_gets_a_nonce(harness: &dyn Harness) {
    let store = harness.open().await;
    for round in 0..8 {
        let asked: Vec<_> = (0..64)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { take(&store, 1, &round.to_string(), NOW).await })
            })
            .collect();
        let mut fresh = 0;
        for each in asked {
            match each.await.unwrap() {
                Reserved::Fresh => fresh += 1,
                told => assert_eq!(told, Reserved::Used),
            }
        }
        assert_eq!(fresh, 1);
    }
}

pub async fn a_nonce_is_taken_until_its_time_and_not_a_moment_longer(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(take(&store, 1, "a", NOW).await, Reserved::Fresh);
    let end = later(LIFE);
    let just_before = end.before(Duration::from_millis(1));
    assert_eq!(take(&store, 1, "a", just_before).await, Reserved::Used);
    // The same nonce of another reseller is a different one.
    assert_eq!(take(&store, 2, "a", just_before).await, Reserved::Fresh);
    assert_eq!(take(&store, 1, "a", end).await, Reserved::Fresh);
    assert_eq!(take(&store, 1, "a", end).await, Reserved::Used);
    // Removal of expired nonces keeps those that are used again.
    for each in 0..10 {
        let fresh = take(&store, 1, &format!("more{each}"), end).await;
        assert_eq!(fresh, Reserved::Fresh);
    }
    let again = later(2 * LIFE).before(Duration::from_millis(1));
    assert_eq!(take(&store, 1, "a", again).await, Reserved::Used);
}

pub async fn nonces_stay_taken_when_the_store_is_opened_again(harness: &dyn Harness) {
    let store = harness.open().await;
    for nonce in ["a", "b", "c"] {
        assert_eq!(take(&store, 1, nonce, NOW).await, Reserved::Fresh);
    }
    store.shut_down().await.unwrap();
    drop(store);
    let store = harness.open().await;
    for nonce in ["a", "b", "c"] {
        assert_eq!(take(&store, 1, nonce, later(1)).await, Reserved::Used);
    }
    assert_eq!(take(&store, 1, "d", later(1)).await, Reserved::Fresh);
    assert_eq!(take(&store, 1, "a", later(LIFE)).await, Reserved::Fresh);
}

pub async fn a_reseller_has_so_many_nonces_at_once(harness: &dyn Harness) {
    let store = harness.open().await;
    for each in 0..4 {
        let at = later(each);
        let fresh = take_of(&store, 1, &format!("n{each}"), 4, at).await;
        assert_eq!(fresh, Reserved::Fresh);
    }
    let next = later(LIFE);
    let at = later(10);
    let full = take_of(&store, 1, "more", 4, at).await;
    assert_eq!(full, Reserved::Full { next });
    // A used nonce is still reported as used, and other resellers have their own limit.
    assert_eq!(take_of(&store, 1, "n0", 4, at).await, Reserved::Used);
    assert_eq!(take_of(&store, 2, "n0", 4, at).await, Reserved::Fresh);
    assert_eq!(take_of(&store, 1, "more", 4, next).await, Reserved::Fresh);
    let full = take_of(&store, 1, "most", 4, next).await;
    assert!(matches!(full, Reserved::Full { .. }), "{full:?}");
}

pub async fn nonces_that_are_over_go_without_any_traffic(harness: &dyn Harness) {
    let store = harness.open().await;
    for each in 0..100 {
        take(&store, 1, &format!("n{each}"), NOW).await;
    }
    let end = later(LIFE);
    let just_before = end.before(Duration::from_millis(1));
    let kept = Retention::default();
    let forgotten = store.forget(kept, just_before).await.unwrap();
    // Later, if several nodes may have different clocks.
    let end = forgotten.next.filter(|next| *next >= end).unwrap();
    let mut groups = 0;
    while store.forget(kept, end).await.unwrap().next.is_some() {
        groups += 1;
    }
    assert!((1..=10).contains(&groups), "{groups}");
    assert_eq!(take(&store, 1, "n7", end).await, Reserved::Fresh);
}

pub async fn a_clock_that_comes_back_frees_no_nonce(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(take(&store, 1, "a", NOW).await, Reserved::Fresh);
    // Requests that overtake each other are not treated as a clock that was set back.
    let end = later(LIFE);
    assert_eq!(take(&store, 1, "b", end).await, Reserved::Fresh);
    let overtaken = end.before(Duration::from_secs(1));
    assert_eq!(take(&store, 1, "c", overtaken).await, Reserved::Fresh);
    assert_eq!(take(&store, 1, "d", later(9 * LIFE)).await, Reserved::Fresh);
    let refuses = async |store: &Arc<dyn Store>| {
        for nonce in ["a", "b", "new"] {
            let again = store.reserve_nonce(nonce_of(nonce, later(9)), later(9));
            let again = again.await;
            assert!(matches!(again, Err(Fault::Unavailable(_))), "{again:?}");
        }
    };
    refuses(&store).await;
    store.shut_down().await.unwrap();
    drop(store);
    let store = harness.open().await;
    refuses(&store).await;
    assert_eq!(take(&store, 1, "a", later(2 * LIFE)).await, Reserved::Fresh);
}
