//! Deletes many exhausted deliveries, each with eight responses, page by page. Deleting a few keys adds little to
//! our log but makes sled write whole pages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::webhook::{
    ATTEMPTS, Delivery, DeliveryAttempt, DeliveryStatus, MAX_RESPONSE, Tried,
};
use kassette_store::suite::fixtures::*;
use kassette_store::{ClaimedDeliveries, DeliveryFilter, SledStore, Store, TRIED_MOST};

use crate::driver::options;

/// Number of deliveries that one step deletes, as in the gateway.
const PAGE: usize = 32;

/// Number of steps that delete this many deliveries.
pub(crate) const fn steps(deliveries: usize) -> usize {
    deliveries.div_ceil(PAGE)
}

/// Creates a store with this many deliveries to delete.
pub(crate) async fn fill(root: &Path, deliveries: usize) {
    let store: Arc<dyn Store> = SledStore::open(&options(root)).unwrap();
    shop(&store).await;
    let endpoint = listen(&store, endpoint("a", NOW)).await.id;
    let numbers: Vec<usize> = (0..deliveries).collect();
    for some in numbers.chunks(256) {
        let tasks = some.iter().map(|number| {
            let store = Arc::clone(&store);
            let (name, at) = (number.to_string(), later(*number as u64));
            tokio::spawn(async move {
                create(&store, &name, at).await;
                let attempt = format!("attempt of {name}");
                let step = open(&attempt, "sandbox-test");
                done(&store, payment_of(&name), step, at).await;
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
    let mut now = later(1_000_000);
    for after in 0..ATTEMPTS {
        now = now.after(Duration::from_secs(100_000));
        loop {
            let claimed = store.claim(endpoint, now, Duration::from_secs(60), TRIED_MOST);
            let ClaimedDeliveries::Due { deliveries, .. } = claimed.await.unwrap() else {
                panic!("the endpoint is held back");
            };
            if deliveries.is_empty() {
                break;
            }
            let tried = deliveries.iter().map(|delivery| {
                let attempt = DeliveryAttempt {
                    at: now,
                    status: Some(503),
                    duration_ms: 9,
                    error: Some("the receiver answered 503".into()),
                    response: Some("x".repeat(MAX_RESPONSE)),
                };
                let retry_at = now.after(Duration::from_secs(1000));
                let delivered = false;
                (
                    delivery.id,
                    Tried {
                        attempt,
                        after,
                        delivered,
                        retry_at,
                    },
                )
            });
            store.tried_all(tried.collect(), now).await.unwrap();
        }
    }
    store.shut_down().await.unwrap();
}

/// Deletes a page.
pub(crate) async fn act(store: &Arc<dyn Store>) {
    store
        .prune_deliveries(later(100_000_000), None, PAGE)
        .await
        .unwrap();
}

/// Number of deleted pages.
///
/// # Errors A page is partly deleted, or cannot be read.
pub(crate) async fn stands(store: &Arc<dyn Store>, deliveries: usize) -> Result<usize, String> {
    let unread = |fault: kassette_store::Fault| fault.to_string();
    let (mut left, mut paging) = (0, first(100));
    loop {
        // A delivery of the judge's own payment is pending, and therefore not counted.
        let filter = DeliveryFilter {
            status: Some(DeliveryStatus::Exhausted),
            ..DeliveryFilter::default()
        };
        let listed = store.deliveries(filter, paging.clone());
        let page = page(listed.await.map_err(unread)?);
        let whole = |each: &&Delivery| each.attempts.len() == ATTEMPTS;
        if let Some(part) = page.items.iter().find(|each| !whole(each)) {
            return Err(format!("a delivery has {} attempts", part.attempts.len()));
        }
        left += page.items.len();
        if page.next.is_none() {
            break;
        }
        paging.cursor = page.next;
    }
    for number in 0..deliveries {
        let id = PaymentId::from_bytes(id_of(&number.to_string()));
        let found = store.payment(id).await.map_err(unread)?;
        found.ok_or_else(|| format!("payment {number} is gone"))?;
    }
    match deliveries - left {
        gone if gone % PAGE == 0 || left == 0 => Ok(gone.div_ceil(PAGE)),
        gone => Err(format!("{gone} deliveries are gone")),
    }
}
