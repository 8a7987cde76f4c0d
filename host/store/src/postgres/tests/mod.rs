//! The behavioural suite on PostgreSQL, and tests of failures that only PostgreSQL can have.

mod authentic;
mod beside;
mod hostile;
mod ledger;
mod modules;
mod nodes;
mod opening;
mod proxy;
mod standby;
mod tls;
mod verify;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::Store;
use crate::postgres::PostgresStore;
use crate::postgres::scratch::Scratch;
use crate::suite::Harness;

/// A database of a test.
#[derive(Default)]
struct Database(OnceCell<Scratch>);

impl Harness for Database {
    fn is_available(&self) -> bool {
        Scratch::available().unwrap()
    }

    fn open(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async {
            let scratch = self
                .0
                .get_or_init(async || Scratch::new().await.unwrap())
                .await;
            let store: Arc<dyn Store> = PostgresStore::open(&scratch.serving()).await.unwrap();
            store
        })
    }
}

/// Verifies the database at the end of each test.
impl Drop for Database {
    fn drop(&mut self) {
        let Some(scratch) = self.0.get().filter(|_| !std::thread::panicking()) else {
            return;
        };
        let options = scratch.options();
        // A separate runtime: the test's may be shutting down.
        let read = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime
                .unwrap()
                .block_on(crate::postgres::verify(&options, &()))
        });
        assert_eq!(read.join().unwrap().unwrap().findings, []);
    }
}

mod suite {
    use super::Database;

    crate::store_suite!(Database::default());
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
    let database = Database::default();
    if !database.is_available() {
        return;
    }
    let store = database.open().await;
    let medians = crate::suite::search::searching_among(&store, payments).await;
    println!("PostgreSQL, {payments} payments: {medians:?}");
    assert!(medians.iter().all(|(_, millis)| *millis <= 50));
}
