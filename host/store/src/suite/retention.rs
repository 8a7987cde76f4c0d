//! Data that is deleted after a time.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::time::Time;

use super::Harness;
use super::fixtures::*;
use crate::{Created, Forgotten, History, KeptCallback, Retention, Store};

const DAY: u64 = 24 * 3600;
const KEEPS: Duration = Duration::from_secs(10 * DAY);

const EVERYTHING: Retention = Retention {
    decisions: Some(KEEPS),
    personal_data: Some(KEEPS),
    routing_log: Some(KEEPS),
    routing_log_bytes: None,
};

async fn history(store: &Arc<dyn Store>, name: &str) -> History {
    let id = PaymentId::from_bytes(id_of(name));
    store.history(id).await.unwrap().unwrap()
}

/// Deletes all data that has expired at a time. Returns the amounts, and the time at which more expires.
async fn forget(
    store: &Arc<dyn Store>,
    retention: Retention,
    now: Time,
) -> (u64, u64, Option<Time>) {
    let (mut decisions, mut redacted) = (0, 0);
    loop {
        let forgotten = store.forget(retention, now).await.unwrap();
        decisions += forgotten.decisions;
        redacted += forgotten.redacted;
        if forgotten.next.is_none_or(|next| now < next) {
            return (decisions, redacted, forgotten.next);
        }
    }
}

async fn paid(store: &Arc<dyn Store>, name: &str) {
    pay(store, name).await;
    let paid = report(&format!("vendor-{name}"), ProviderStatus::Completed);
    let step = news(&format!("attempt of {name}"), paid);
    done(store, payment_of(name), step, later(1)).await;
}

pub async fn what_is_over_is_forgotten_when_its_time_has_passed(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let before = history(&store, "a").await;
    assert_eq!(before.decisions.len(), 1);
    let end = NOW.after(KEEPS);
    let just_before = end.before(Duration::from_millis(1));
    assert_eq!(
        forget(&store, EVERYTHING, just_before).await,
        (0, 0, Some(end))
    );
    assert_eq!(history(&store, "a").await, before);
    assert_eq!(forget(&store, EVERYTHING, end).await, (1, 1, None));
    let after = history(&store, "a").await;
    assert_eq!(after.decisions, []);
    assert_eq!(
        (&after.transitions, &after.events),
        (&before.transitions, &before.events)
    );
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert_eq!(aggregate.payment.email, None);
    assert_eq!(aggregate.attempts[0].payer.ip, None);
    // The same request is still a replay.
    let replayed = store.create(new_payment("a"), None, end).await.unwrap();
    assert!(matches!(replayed, Created::Replay(_)), "{replayed:?}");
    assert_eq!(forget(&store, EVERYTHING, end).await, (0, 0, None));
}

pub async fn what_is_not_over_is_kept_and_looked_at_again(harness: &dyn Harness) {
    let store = harness.open().await;
    pay(&store, "a").await;
    paid(&store, "b").await;
    let end = NOW.after(KEEPS);
    let (decisions, redacted, next) = forget(&store, EVERYTHING, end).await;
    assert_eq!((decisions, redacted), (1, 1), "only what is over");
    let again = end.after(Duration::from_secs(DAY));
    assert_eq!(next, Some(again));
    assert_eq!(history(&store, "a").await.decisions.len(), 1);
    let step = news(
        "attempt of a",
        report("vendor-a", ProviderStatus::Completed),
    );
    done(&store, payment_of("a"), step, end).await;
    assert_eq!(forget(&store, EVERYTHING, end).await.0, 0);
    assert_eq!(forget(&store, EVERYTHING, again).await, (1, 1, None));
    assert_eq!(history(&store, "a").await.decisions, []);
}

pub async fn nothing_is_forgotten_where_it_is_kept_for_ever(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let end = later(3650 * DAY);
    let forgotten = store.forget(Retention::default(), end).await;
    assert_eq!(forgotten, Ok(Forgotten::default()));
    // A rule that is added later also covers earlier payments.
    let only = Retention {
        decisions: Some(KEEPS),
        ..Retention::default()
    };
    assert_eq!(forget(&store, only, end).await, (1, 0, None));
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert!(aggregate.payment.email.is_some());
    assert_eq!(forget(&store, EVERYTHING, end).await, (0, 1, None));
}

pub async fn much_is_forgotten_in_small_groups(harness: &dyn Harness) {
    let store = harness.open().await;
    for each in 0..100 {
        paid(&store, &each.to_string()).await;
    }
    let end = NOW.after(KEEPS);
    let first = store.forget(EVERYTHING, end).await.unwrap();
    assert!((1..=32).contains(&first.redacted), "{first:?}");
    assert!(first.next.is_some_and(|next| next <= end));
    let (decisions, redacted, next) = forget(&store, EVERYTHING, end).await;
    assert_eq!(
        (first.decisions + decisions, first.redacted + redacted),
        (100, 100)
    );
    assert_eq!(next, None);
}

pub async fn pending_callbacks_go_without_any_traffic(harness: &dyn Harness) {
    let store = harness.open().await;
    let keep = |at| store.keep_callback(account("sandbox-test"), "unknown".into(), None, at);
    assert_eq!(keep(NOW).await, Ok(KeptCallback::Kept));
    store
        .forget(Retention::default(), later(3601))
        .await
        .unwrap();
    let attempt = "attempt of a";
    create(&store, "a", NOW).await;
    done(&store, payment_of("a"), open(attempt, "sandbox-test"), NOW).await;
    // At a time when the notice would still be valid if it existed.
    let (_, change) = done(
        &store,
        payment_of("a"),
        started(attempt, "unknown"),
        later(60),
    )
    .await;
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert!(change.transitions.is_empty());
    assert_ne!(aggregate.attempts[0].queries.next(), Some(later(60)));
}
