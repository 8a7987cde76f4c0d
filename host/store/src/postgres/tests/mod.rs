//! The behavioural suite on PostgreSQL, and what only PostgreSQL can get wrong.

mod beside;
mod hostile;
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
            let store: Arc<dyn Store> = PostgresStore::open(&scratch.options()).await.unwrap();
            store
        })
    }
}

/// Whatever a test has done, its database reads through.
impl Drop for Database {
    fn drop(&mut self) {
        let Some(scratch) = self.0.get().filter(|_| !std::thread::panicking()) else {
            return;
        };
        let options = scratch.options();
        // A runtime of its own: this may be the end of the test's.
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
