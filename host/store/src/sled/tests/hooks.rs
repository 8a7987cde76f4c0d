//! A damaged row of webhooks or of the routing log blocks nothing else.

use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use kassette_domain::webhook::{DeliveryAttempt, DeliveryStatus, Endpoint, HELD_BACK_MOST, Tried};

use super::*;
use crate::rows::schema;
use crate::suite::fixtures::*;
use crate::{
    Deliveries as _, Fault, Pruned, Recovered, Retention, RoutingBatch, RoutingLog as _,
    StoreHealth as _, Swept, Upkeep as _,
};

const DAMAGE: &[u8] = b"damage";

/// A store with an endpoint that has this many waiting tests, one per second.
async fn waiting(folder: &Folder, count: u64) -> (Arc<SledStore>, EndpointId, Vec<DeliveryId>) {
    let store = SledStore::open(&options(folder.0.path())).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    shop(&shared).await;
    let endpoint = listen(&shared, endpoint("a", NOW)).await.id;
    let mut ids = Vec::new();
    for at in 0..count {
        let queued = store.queue_test(endpoint, audited("endpoint.test"), later(at));
        ids.push(queued.await.unwrap().unwrap().id);
    }
    (store, endpoint, ids)
}

async fn record(store: &SledStore, id: DeliveryId, delivered: bool) {
    let attempts = if delivered { 1 } else { 8 };
    for after in 0..attempts {
        let attempt = DeliveryAttempt {
            at: NOW,
            status: None,
            duration_ms: 9,
            error: None,
            response: None,
        };
        let tried = Tried {
            attempt,
            after,
            delivered,
            retry_at: NOW,
        };
        store.tried(id, tried, None, NOW).await.unwrap();
    }
}

/// Key of the body of a delivery's event.
async fn body_of(store: &SledStore, id: DeliveryId) -> Vec<u8> {
    let delivery = store.delivery(id).await.unwrap().unwrap();
    schema::webhooks::body(delivery.created_at, delivery.event)
}

async fn status_of(store: &SledStore, id: DeliveryId) -> DeliveryStatus {
    store.delivery(id).await.unwrap().unwrap().status
}

/// Prunes in pages of one delivery. Returns their number.
async fn prune(store: &SledStore) -> u64 {
    let (mut count, mut after) = (0, None);
    for _ in 0..9 {
        let page = store.prune_deliveries(later(999), after, 1).await.unwrap();
        let Pruned { deliveries, next } = page;
        count += deliveries;
        match next {
            None => return count,
            next => after = next,
        }
    }
    panic!("it does not end");
}

#[tokio::test]
async fn what_stands_behind_a_damaged_delivery_is_pruned() {
    let folder = Folder::new();
    let (store, _, ids) = waiting(&folder, 4).await;
    for id in &ids {
        record(&store, *id, true).await;
    }
    let memtable = store.memtable();
    let (row, body) = (
        schema::webhooks::delivery(ids[0]),
        body_of(&store, ids[1]).await,
    );
    let good_row = memtable.plant(&row, DAMAGE).unwrap().unwrap();
    let good_body = memtable.plant(&body, DAMAGE).unwrap().unwrap();
    assert_eq!(prune(&store).await, 2);
    // After the repair they are pruned like all others, with all their rows.
    assert_eq!(status_of(&store, ids[1]).await, DeliveryStatus::Delivered);
    memtable.plant(&row, good_row).unwrap();
    memtable.plant(&body, good_body).unwrap();
    assert_eq!(prune(&store).await, 2);
    let left = |key: &[u8]| {
        [&b"dl"[..], b"meta/pending"]
            .iter()
            .any(|of| key.starts_with(of))
    };
    let left: Vec<_> = memtable
        .all()
        .unwrap()
        .into_iter()
        .filter(|(key, _)| left(key))
        .collect();
    assert_eq!(left.len(), 1, "only the count is left: {left:?}");
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn an_endpoint_with_a_damaged_delivery_is_deleted_and_swept() {
    let folder = Folder::new();
    let (store, endpoint, ids) = waiting(&folder, 3).await;
    let damaged = schema::webhooks::delivery(ids[0]);
    store.memtable().plant(&damaged, DAMAGE).unwrap();
    let deleted = store.delete_endpoint(endpoint, audited("endpoint.delete"), NOW);
    assert_eq!(deleted.await.unwrap().unwrap().cancelled, 2);
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    for id in &ids[1..] {
        assert_eq!(status_of(&store, *id).await, DeliveryStatus::Cancelled);
    }
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn a_sweep_ends_where_all_that_is_left_is_damaged() {
    let folder = Folder::new();
    let (store, endpoint, ids) = waiting(&folder, 401).await;
    let ended = Swept {
        cancelled: 0,
        exhausted: 0,
        next: None,
    };
    // The endpoint is deleted. Some deliveries remain for a sweep, and cannot be read.
    for id in &ids[200..] {
        store
            .memtable()
            .plant(&schema::webhooks::delivery(*id), DAMAGE)
            .unwrap();
    }
    let deleted = store.delete_endpoint(endpoint, audited("endpoint.delete"), NOW);
    let mut cancelled = deleted.await.unwrap().unwrap().cancelled;
    assert!(
        (1..200).contains(&cancelled),
        "{cancelled} in one operation"
    );
    let mut left = 20;
    loop {
        let swept = store.sweep(endpoint, NOW).await.unwrap();
        cancelled += swept.cancelled;
        if swept.next.is_none() {
            break;
        }
        left -= 1;
        assert!(left > 0 && swept.next == Some(NOW), "{swept:?}");
    }
    assert_eq!(cancelled, 200);
    assert_eq!(store.sweep(endpoint, NOW).await, Ok(ended));
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    // A remaining row of an ended delivery changes nothing.
    let stray = schema::webhooks::due(endpoint, later(7), ids[0]);
    store.memtable().plant(&stray, b"").unwrap();
    assert_eq!(store.sweep(endpoint, NOW).await, Ok(ended));
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn what_a_disabled_endpoint_holds_back_ends_beside_a_damaged_delivery() {
    let folder = Folder::new();
    let (store, id, ids) = waiting(&folder, 3).await;
    let before = store.endpoint(id).await.unwrap().unwrap();
    let after = Endpoint {
        enabled: false,
        ..before.clone()
    };
    let off = store.replace_endpoint(before, after, audited("endpoint.update"), NOW);
    off.await.unwrap();
    store
        .memtable()
        .plant(&schema::webhooks::delivery(ids[0]), DAMAGE)
        .unwrap();
    let at = |seconds| -> Time { later(seconds).after(HELD_BACK_MOST) };
    let one = Swept {
        cancelled: 0,
        exhausted: 1,
        next: Some(at(2)),
    };
    assert_eq!(store.sweep(id, at(1)).await, Ok(one));
    let last = Swept { next: None, ..one };
    assert_eq!(store.sweep(id, at(2)).await, Ok(last));
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn a_payment_goes_on_where_the_number_of_pending_deliveries_is_damaged() {
    let folder = Folder::new();
    let (store, endpoint, ids) = waiting(&folder, 2).await;
    let damage = || {
        store
            .memtable()
            .plant(schema::webhooks::PENDING, DAMAGE)
            .unwrap()
    };
    let shared: Arc<dyn Store> = store.clone();
    damage();
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    pay(&shared, "a").await;
    assert_eq!(
        store.backlog().await.unwrap().pending,
        1,
        "counted from zero"
    );
    damage();
    record(&store, ids[0], true).await;
    assert_eq!(
        store.backlog().await.unwrap().pending,
        0,
        "and never below it"
    );
    damage();
    let deleted = store.delete_endpoint(endpoint, audited("endpoint.delete"), NOW);
    assert_eq!(deleted.await.unwrap().unwrap().cancelled, 2);
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn what_failed_is_queued_again_beside_what_is_damaged() {
    let folder = Folder::new();
    let (store, endpoint, ids) = waiting(&folder, 5).await;
    for id in &ids {
        record(&store, *id, false).await;
    }
    let damaged = [
        schema::webhooks::delivery(ids[0]),
        body_of(&store, ids[1]).await,
        schema::webhooks::failed(endpoint, ids[2]),
    ];
    let plant = |key: &Vec<u8>| store.memtable().plant(key, DAMAGE).unwrap().unwrap();
    let good = damaged.each_ref().map(plant);
    let recover = || store.recover(endpoint, NOW, None, None, later(99));
    let queued = |queued| Ok(Recovered::Page { queued, next: None });
    assert_eq!(recover().await, queued(2));
    let lease = Duration::from_secs(60);
    let claimed = store.claim(endpoint, later(99), lease, 9).await.unwrap();
    let crate::ClaimedDeliveries::Due { deliveries, .. } = claimed else {
        panic!("the endpoint is held");
    };
    assert_eq!(deliveries.len(), 2);
    // After the repair the others are queued too, each one time.
    for (key, good) in damaged.iter().zip(good) {
        store.memtable().plant(key, good).unwrap();
    }
    assert_eq!(recover().await, queued(3));
    assert_eq!(recover().await, queued(0));
    assert_eq!(store.backlog().await.unwrap().pending, 5);
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn decisions_are_forgotten_beside_damaged_rows_of_their_log() {
    let folder = Folder::new();
    let store = SledStore::open(&options(folder.0.path())).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    pay(&shared, "a").await;
    let method = MethodId::Ideal;
    for number in 0..3 {
        let batches = RoutingBatch::group(&[routing_record(method, number)]).unwrap();
        store.append_routing(batches, later(number)).await.unwrap();
    }
    let plant = |key: &[u8]| store.memtable().plant(key, DAMAGE).unwrap();
    let slot = Slot::of_method(method);
    plant(&schema::routing_batch(&slot, NOW, 0));
    plant(&schema::routing_by_time(later(1), 1, &slot));
    let read = store.routing_log(method, None).await;
    assert!(matches!(read, Err(Fault::Corrupt(_))), "{read:?}");
    let retention = Retention {
        decisions: Some(Duration::ZERO),
        routing_log: Some(Duration::ZERO),
        ..Retention::default()
    };
    let forgotten = store.forget(retention, later(9)).await.unwrap();
    assert_eq!(
        forgotten.routing_records, 2,
        "one of the three is not known"
    );
    let read = store.routing_log(method, None).await.unwrap();
    assert_eq!((read.records, read.next), (vec![], None));
    // If the total is damaged, nothing is overwritten, and payments continue.
    plant(schema::ROUTING_LOG);
    let batches = RoutingBatch::group(&[routing_record(method, 9)]).unwrap();
    let written = store.append_routing(batches, later(9)).await;
    assert!(matches!(written, Err(Fault::Corrupt(_))), "{written:?}");
    store.forget(retention, later(9)).await.unwrap();
    pay(&shared, "b").await;
    store.shut_down().await.unwrap();
}
