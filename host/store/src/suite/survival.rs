//! Data after the store was closed and opened again.

use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::money::Minor;
use kassette_domain::provider::ProviderStatus;

use super::Harness;
use super::fixtures::*;
use crate::{Created, Fault};

pub async fn reopening_shows_everything(harness: &dyn Harness) {
    let store = harness.open().await;
    let made = store
        .create_merchant(merchant(true), audited("merchant.create"), NOW)
        .await
        .unwrap();
    let key = api_key("key", KeyOwner::Merchant(made.id), Environment::Live);
    store
        .issue_key(key.clone(), audited("key.create"), NOW)
        .await
        .unwrap();
    store
        .create_operator(operator("ann", NOW), audited("operator.create"), NOW)
        .await
        .unwrap();
    store
        .switch_account(account("x-test"), false, audited("provider.change"), NOW)
        .await
        .unwrap();
    pay(&store, "a").await;
    for returned in [0, 100] {
        let mut report = report("vendor-a", ProviderStatus::Completed);
        report.returned = Minor(returned);
        done(
            &store,
            payment_of("a"),
            news("attempt of a", report),
            later(1),
        )
        .await;
    }
    pay(&store, "b").await;
    let before = [everything(&store, "a").await, everything(&store, "b").await];
    store.shut_down().await.unwrap();
    drop(store);

    let store = harness.open().await;
    assert_eq!(everything(&store, "a").await, before[0]);
    assert_eq!(everything(&store, "b").await, before[1]);
    assert_eq!(store.merchant(made.id).await, Ok(Some(made)));
    assert_eq!(store.key(key.hash).await, Ok(Some(key)));
    let ann = store.operator(TokenHash::hash("ann")).await.unwrap();
    assert_eq!(ann, Some(operator("ann", NOW)));
    let switches = store.account_switches().await;
    assert_eq!(switches, Ok(vec![(account("x-test"), false)]));
    // Addresses are still compared, and counters continue.
    let replay = store.replay(request("a")).await.unwrap();
    assert!(matches!(replay, Some(Created::Replay(_))), "{replay:?}");
    let next = store
        .create_merchant(merchant(true), audited("merchant.create"), NOW)
        .await
        .unwrap();
    assert_eq!(next.id.0, 2);
    let entry = store.audit(audited("x.y"), NOW).await.unwrap();
    assert_eq!(entry.id, 6);
}

pub async fn a_closed_store_takes_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    store.shut_down().await.unwrap();
    let created = store.create(new_payment("b"), None, NOW).await;
    assert_eq!(created, Err(Fault::Stopping));
    let read = store.aggregate(payment_of("a")).await;
    assert_eq!(read, Err(Fault::Stopping));
    assert_eq!(store.probe().await, Err(Fault::Stopping));
}

pub async fn a_probe_is_written(harness: &dyn Harness) {
    let store = harness.open().await;
    for _ in 0..3 {
        store.probe().await.unwrap();
    }
}
