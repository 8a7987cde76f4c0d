//! Due payments and their claims.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{Act, Step};
use kassette_domain::time::Time;

use super::Harness;
use super::fixtures::*;
use crate::{Created, Store};

const LEASE: Duration = Duration::from_secs(60);
/// Long after everything in a test has fallen due.
const END: Time = Time::from_secs(1_900_000_000);

/// A payment that expires after this many seconds and has no other due actions.
async fn expiring(store: &Arc<dyn Store>, name: &str, seconds: u64) -> PaymentId {
    let mut new = new_payment(name);
    new.expires_at = later(seconds);
    match store.create(new, None, NOW).await.unwrap() {
        Created::New(payment) => payment.id,
        other => panic!("{other:?}"),
    }
}

pub async fn what_is_due_is_claimed_once_in_order_of_time(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(store.next_due().await, Ok(None));
    let last = expiring(&store, "a", 300).await;
    let second = expiring(&store, "b", 200).await;
    let first = expiring(&store, "c", 100).await;
    assert_eq!(store.next_due().await, Ok(Some(later(100))));
    assert_eq!(store.claim_due(later(99), LEASE, 9).await, Ok(vec![]));
    let claimed = store.claim_due(later(250), LEASE, 1).await;
    assert_eq!(claimed, Ok(vec![first]));
    let claimed = store.claim_due(later(250), LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![second]));
    assert_eq!(store.claim_due(later(250), LEASE, 9).await, Ok(vec![]));
    assert_eq!(store.next_due().await, Ok(Some(later(300))));
    let claimed = store.claim_due(later(300), LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![last]));
}

pub async fn a_lease_ends_by_release_or_by_time(harness: &dyn Harness) {
    let store = harness.open().await;
    let id = expiring(&store, "a", 100).await;
    let claimed = store.claim_due(later(100), LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![id]));
    assert_eq!(store.next_due().await, Ok(Some(later(160))));
    assert_eq!(store.claim_due(later(159), LEASE, 9).await, Ok(vec![]));
    let claimed = store.claim_due(later(160), LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![id]));
    let release = |seconds| Step::Release {
        claimed_until: later(seconds),
    };
    // The first claim has expired: its worker is too late.
    done(&store, payment_of("a"), release(160), later(161)).await;
    assert_eq!(store.next_due().await, Ok(Some(later(220))));
    done(&store, payment_of("a"), release(220), later(161)).await;
    assert_eq!(store.next_due().await, Ok(Some(later(100))));
    let claimed = store.claim_due(later(161), LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![id]));
}

pub async fn a_step_moves_what_is_due(harness: &dyn Harness) {
    let store = harness.open().await;
    let aggregate = pay(&store, "a").await;
    assert_eq!(store.next_due().await, Ok(aggregate.due_at()));
    let ask = Step::AskAt {
        attempt: aggregate.attempts[0].id,
        at: later(7),
    };
    let (aggregate, _) = done(&store, payment_of("a"), ask, later(1)).await;
    assert_eq!(store.next_due().await, Ok(aggregate.due_at()));
    let due = aggregate.due_at().unwrap();
    let claimed = store.claim_due(due, LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![aggregate.payment.id]));
    // A payment that can no longer change has nothing due.
    expiring(&store, "b", 100).await;
    done(&store, payment_of("b"), Step::Act(Act::Cancel), later(1)).await;
    let claimed = store.claim_due(END, LEASE, 9).await;
    assert_eq!(claimed, Ok(vec![aggregate.payment.id]));
}

pub async fn claims_at_once_share_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut expected = Vec::new();
    for each in 0..40 {
        expected.push(expiring(&store, &each.to_string(), 10 + each).await);
    }
    let mut workers = Vec::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        workers.push(tokio::spawn(async move {
            store.claim_due(later(1000), LEASE, 7).await
        }));
    }
    let mut claimed = Vec::new();
    for worker in workers {
        claimed.extend(worker.await.unwrap().unwrap());
    }
    claimed.sort();
    expected.sort();
    assert_eq!(claimed, expected);
}
