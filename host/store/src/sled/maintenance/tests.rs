//! Backup, restore, verification and rebuilding of real stores.

mod backups;
mod damage;
mod rebuilding;

use std::sync::Arc;

use kassette_domain::id::EndpointId;
use kassette_domain::key::TokenHash;
use kassette_domain::provider::ProviderStatus;
use tempfile::TempDir;

use crate::rows::seal::{MasterKey, Sealer};
use crate::rows::stored::AttemptKey;
use crate::rows::{records, schema};
use crate::sled::SledStore;
use crate::sled::maintenance::format::FileError;
use crate::sled::maintenance::{
    AuditNote, BackupSource, Compacted, MaintenanceError, OpenError, OpenOptions, Progress,
    Rekeyed, Restored, Stopped, VerifyReport, always, backup, verify, verify_audit,
};
use crate::suite::fixtures::{open, secrets as secrets_of, *};
use crate::suite::full::{self, NAMES};
use crate::suite::resellers::opens;
use crate::{
    Deliveries as _, Directory as _, Payments as _, Resellers as _, Store, StoreHealth as _,
    Upkeep as _,
};

const CACHE_BYTES: u64 = 8 << 20;

fn options(folder: &TempDir) -> OpenOptions {
    under(folder, 7)
}

/// Authenticates the rows of a store under [`options`].
fn sealer() -> Sealer {
    Sealer::new(&MasterKey::from_bytes([7; 32]))
}

fn under(folder: &TempDir, key: u8) -> OpenOptions {
    OpenOptions {
        path: folder.path().join("store"),
        master: MasterKey::from_bytes([key; 32]),
        cache_bytes: CACHE_BYTES,
    }
}

/// Restores under the store's own key, without actor and reason. The next three functions do the same.
fn restore(
    options: &OpenOptions,
    file: &[u8],
    despite_findings: bool,
    progress: &dyn Progress,
) -> Result<Restored, MaintenanceError> {
    let source = BackupSource::new(file);
    crate::sled::maintenance::restore(
        options,
        source,
        despite_findings,
        AuditNote::at(NOW),
        progress,
        &always,
    )
}

fn verify_backup(
    options: &OpenOptions,
    file: &[u8],
    progress: &dyn Progress,
) -> Result<Restored, MaintenanceError> {
    crate::sled::maintenance::verify_backup(options, BackupSource::new(file), progress)
}

fn compact(options: &OpenOptions, progress: &dyn Progress) -> Result<Compacted, MaintenanceError> {
    crate::sled::maintenance::compact(options, AuditNote::at(NOW), progress, &always)
}

fn rekey(
    options: &OpenOptions,
    new: &MasterKey,
    progress: &dyn Progress,
) -> Result<Rekeyed, MaintenanceError> {
    crate::sled::maintenance::rekey(options, new, AuditNote::at(NOW), progress, &always)
}

/// A store with a row of every kind.
async fn full(options: &OpenOptions) -> Arc<SledStore> {
    let store = SledStore::open(options).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    full::fill(&shared).await;
    store
}

async fn everything_in(store: &Arc<SledStore>) -> String {
    let shared: Arc<dyn Store> = store.clone();
    let mut all = String::new();
    for name in NAMES {
        all += &everything(&shared, name).await;
    }
    // Maintenance tasks add a line to the audit log.
    let line = "AuditEntry {";
    let kept = all
        .split(line)
        .filter(|told| !told.contains("action: \"store."));
    kept.collect::<Vec<_>>().join(line)
}

async fn closed(store: Arc<SledStore>) {
    store.shut_down().await.unwrap();
}

/// The content of a closed store.
async fn everything_under(options: &OpenOptions) -> String {
    let store = SledStore::open(options).unwrap();
    let all = everything_in(&store).await;
    closed(store).await;
    all
}

#[track_caller]
fn whole(options: &OpenOptions) -> VerifyReport {
    let report = verify(options, &()).unwrap();
    assert_eq!(report.findings, []);
    report
}

/// Checks that the folder contains only the store.
#[track_caller]
fn alone(folder: &TempDir) {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store"]);
}

#[tokio::test]
async fn a_delivery_that_is_pruned_leaves_nothing_of_its_event_or_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let pruned = store.prune_deliveries(later(9), None, 100).await.unwrap();
    assert_eq!(pruned.deliveries, 1);
    closed(store).await;
    whole(&options(&folder));
}

#[tokio::test]
async fn a_return_token_leads_to_an_attempt_by_all_of_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    let of_a = TokenHash::hash("return-token-of-attempt of a");
    let of_another = TokenHash::hash("another token");
    // As if the other hash started like that of "a".
    let stopped = Stopped::open(&options(&folder)).unwrap();
    let [key, alike] = [of_a, of_another].map(schema::returning);
    let row = stopped.db.get(&key).unwrap().unwrap();
    let attempt_key: AttemptKey = records::decode(&sealer(), &key, &row).unwrap();
    let row = records::encode(&sealer(), &alike, &attempt_key).unwrap();
    stopped.db.insert(alike, row).unwrap();
    drop(stopped);
    let store = SledStore::open(&options(&folder)).unwrap();
    assert!(store.by_return(of_a).await.unwrap().is_some());
    assert_eq!(store.by_return(of_another).await, Ok(None));
    closed(store).await;
}
