//! The behavioural suite on PostgreSQL, and what only PostgreSQL can get wrong.

mod beside;
mod hostile;
mod opening;
mod proxy;

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

mod suite {
    use super::Database;

    crate::store_suite!(Database::default());
}
