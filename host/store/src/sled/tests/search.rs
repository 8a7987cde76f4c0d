//! Limits on the rows that one page of a search reads.

use std::sync::Arc;

use super::*;
use crate::sled::payments::search::MAX_REFERRED;
use crate::suite::fixtures::*;
use crate::suite::search::called;
use crate::{Paging, PaymentFilter};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_search_ends_after_so_many_rows() {
    let folder = Folder::new();
    let store = folder.open().await;
    let made = (0..2_100_u64).map(|each| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { create(&store, &each.to_string(), later(each)).await })
    });
    for made in made.collect::<Vec<_>>() {
        made.await.unwrap();
    }
    let filter = PaymentFilter {
        account: Some(account("one-test")),
        ..PaymentFilter::default()
    };
    let one = page(store.payments(filter.clone(), first(9)).await.unwrap());
    assert_eq!(one.items, []);
    let rest = Paging {
        limit: 9,
        cursor: Some(one.next.unwrap()),
    };
    let two = page(store.payments(filter, rest).await.unwrap());
    assert_eq!((two.items, two.next), (vec![], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_everything_is_called_is_found_page_by_page() {
    let folder = Folder::new();
    let opened = SledStore::open(&options(folder.0.path())).unwrap();
    let store: Arc<dyn Store> = opened.clone();
    opened.watch();
    let count = MAX_REFERRED + 20;
    let made = (0..count).map(|each| {
        let (store, name) = (Arc::clone(&store), each.to_string());
        tokio::spawn(async move {
            pay(&store, &name).await;
            called(&store, &name, &format!("vendor-{name}"), &["a payment"]).await;
        })
    });
    for made in made.collect::<Vec<_>>() {
        made.await.unwrap();
    }
    let by = |order: Option<&str>| PaymentFilter {
        reference: Some("a payment".into()),
        order_id: order.map(str::to_owned),
        ..PaymentFilter::default()
    };
    let mut ids = Vec::new();
    let mut paging = first(100);
    loop {
        let page = page(store.payments(by(None), paging).await.unwrap());
        ids.extend(page.items.iter().map(|item| item.id));
        match page.next {
            Some(next) => {
                paging = Paging {
                    limit: 100,
                    cursor: Some(next),
                };
            }
            None => break,
        }
    }
    assert_eq!(ids.len(), count);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
    let nothing = page(store.payments(by(Some("none")), first(100)).await.unwrap());
    assert!(nothing.items.is_empty() && nothing.next.is_some());
    bounds::reads_in_slices(&opened, &["by_reference"]);
}

/// `cargo test --release -p kassette-store --lib -- --ignored --nocapture searching`; KASSETTE_TEST_PAYMENTS sets the number of
/// payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "it tells what it measured")]
async fn searching_takes_milliseconds() {
    let payments = std::env::var("KASSETTE_TEST_PAYMENTS").ok();
    let payments = payments
        .and_then(|text| text.parse().ok())
        .unwrap_or(100_000);
    let folder = Folder::new();
    let store = folder.open().await;
    let medians = crate::suite::search::searching_among(&store, payments).await;
    println!("embedded, {payments} payments: {medians:?}");
    assert!(medians.iter().all(|(_, millis)| *millis <= 50));
}
