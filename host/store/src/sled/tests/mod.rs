//! The behavioral suite on sled, and tests of sled's own failure modes.

mod bounds;
pub(crate) mod damage;
mod disk;
mod failing;
mod groups;
mod hooks;
mod search;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use tempfile::TempDir;

use crate::Store;
use crate::rows::seal::MasterKey;
use crate::sled::{OpenOptions, SledStore};
use crate::suite::Harness;

/// Enough for a test, and small enough that pages are evicted from memory.
const CACHE_BYTES: u64 = 8 << 20;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Harness for Folder {
    fn open(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async {
            let store: Arc<dyn Store> = SledStore::open(&options(self.0.path())).unwrap();
            store
        })
    }
}

fn options(path: &Path) -> OpenOptions {
    OpenOptions {
        path: path.join("store"),
        master: MasterKey::from_bytes([7; 32]),
        cache_bytes: CACHE_BYTES,
    }
}

mod suite {
    use super::Folder;

    crate::store_suite!(Folder::new());
}
