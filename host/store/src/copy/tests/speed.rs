//! How fast a store is copied: `cargo test --release -p kassette-store --lib -- --ignored --nocapture copy::tests::speed`.

use std::time::Instant;

use super::*;
use crate::suite::fixtures::pay;

/// Payments, each with an attempt.
const PAYMENTS: usize = 20_000;
/// Payments that are made at once.
const AT_ONCE: usize = 250;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "it tells what it measured")]
async fn rows_per_second() {
    let Some(places) = Places::filled().await else {
        return;
    };
    let store = SledStore::open(&options(&places.folder)).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    for first in (0..PAYMENTS).step_by(AT_ONCE) {
        let made = (first..first + AT_ONCE).map(|number| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { pay(&shared, &format!("paid-{number}")).await })
        });
        for made in made.collect::<Vec<_>>() {
            made.await.unwrap();
        }
    }
    store.shut_down().await.unwrap();
    let told = |began: Instant, copied: Copied| {
        let (seconds, rows) = (
            began.elapsed().as_secs_f64(),
            copied.rows.values().sum::<u64>(),
        );
        println!("{rows} rows, {:.0} a second", rows as f64 / seconds);
    };
    let began = Instant::now();
    told(began, places.to_postgres().await.unwrap());
    let began = Instant::now();
    told(began, places.to_sled().await.unwrap());
}
