//! Moves stores in both directions.

mod interrupted;
mod lists;
mod refused;
mod round;
mod speed;

use std::sync::Arc;

use kassette_domain::time::Time;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::{Copied, CopyError};
use crate::postgres::scratch::Scratch;
use crate::postgres::{self, PostgresStore};
use crate::report::Progress;
use crate::rows::seal::MasterKey;
use crate::sled::maintenance::AuditNote;
use crate::sled::{self, SledStore};
use crate::suite::fixtures::later;
use crate::suite::full;
use crate::{Payments as _, Store, StoreHealth as _};

/// A store in a folder, an empty database, and a folder without a store.
struct Places {
    folder: TempDir,
    scratch: Scratch,
    back: TempDir,
    /// Due time of the next payment before it was claimed.
    due: Time,
}

impl Places {
    /// Fills the first store with rows of every kind. `None` without PostgreSQL.
    async fn filled() -> Option<Self> {
        if !Scratch::available().unwrap() {
            eprintln!("NOT RUN: no PostgreSQL is installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let store = SledStore::open(&options(&folder)).unwrap();
        let shared: Arc<dyn Store> = store.clone();
        full::fill(&shared).await;
        // The lease of a worker that no longer runs must not delay the payment.
        let due = store.next_due().await.unwrap().unwrap();
        let leased = store.claim_due(due, std::time::Duration::from_secs(3600), 9);
        assert!(!leased.await.unwrap().is_empty());
        store.shut_down().await.unwrap();
        Some(Self {
            folder,
            scratch: Scratch::new().await.unwrap(),
            back: tempfile::tempdir().unwrap(),
            due,
        })
    }

    async fn to_postgres(&self) -> Result<Copied, CopyError> {
        to_postgres(options(&self.folder), self.scratch.options(), ()).await
    }

    async fn to_sled(&self) -> Result<Copied, CopyError> {
        to_sled(self.scratch.options(), options(&self.back), ()).await
    }
}

fn options(folder: &TempDir) -> sled::OpenOptions {
    under(folder, 7)
}

fn under(folder: &TempDir, key: u8) -> sled::OpenOptions {
    sled::OpenOptions {
        path: folder.path().join("store"),
        master: MasterKey::from_bytes([key; 32]),
        cache_bytes: 8 << 20,
    }
}

fn note() -> AuditNote {
    AuditNote {
        actor: Some("ann".into()),
        reason: None,
        at: later(200),
    }
}

async fn to_postgres(
    from: sled::OpenOptions,
    to: postgres::OpenOptions,
    progress: impl Progress + Send + Sync + 'static,
) -> Result<Copied, CopyError> {
    let runtime = Handle::current();
    let copy = move || super::to_postgres(&runtime, &from, &to, note(), &progress);
    tokio::task::spawn_blocking(copy).await.unwrap()
}

async fn to_sled(
    from: postgres::OpenOptions,
    to: sled::OpenOptions,
    progress: impl Progress + Send + Sync + 'static,
) -> Result<Copied, CopyError> {
    let runtime = Handle::current();
    let copy = move || super::to_sled(&runtime, &from, &to, note(), &progress);
    tokio::task::spawn_blocking(copy).await.unwrap()
}

async fn assert_serves(store: Arc<dyn Store>) {
    store.probe().await.unwrap();
    store.shut_down().await.unwrap();
}
