//! Backups, restoring, verifying and rebuilding over real stores.

mod backups;
mod damage;
mod rebuilding;
mod upgrading;

use std::sync::Arc;

use kassette_domain::id::EndpointId;
use kassette_domain::key::TokenHash;
use kassette_domain::provider::VendorStatus;
use tempfile::TempDir;

use crate::rows::seal::MasterKey;
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
    Deliveries as _, Directory as _, PaymentFilter, Payments as _, Resellers as _, Store,
    StoreHealth as _, Upkeep as _,
};

const CACHE_BYTES: u64 = 8 << 20;

fn options(folder: &TempDir) -> OpenOptions {
    under(folder, 7)
}

fn under(folder: &TempDir, key: u8) -> OpenOptions {
    OpenOptions {
        path: folder.path().join("store"),
        master: MasterKey::from_bytes([key; 32]),
        cache_bytes: CACHE_BYTES,
    }
}

/// Under the store's own key, and without a word of who and why; so are the next three.
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
    // What is done with a whole store leaves a line of its own.
    let line = "AuditEntry {";
    let kept = all
        .split(line)
        .filter(|told| !told.contains("action: \"store."));
    kept.collect::<Vec<_>>().join(line)
}

async fn closed(store: Arc<SledStore>) {
    store.shut_down().await.unwrap();
}

/// What a store holds that is closed again.
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

/// Nothing but the store is left in the folder.
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
    let of_a = TokenHash::of("return-token-of-attempt of a");
    let of_another = TokenHash::of("another token");
    // As if the other's hash began like that of "a".
    let stopped = Stopped::open(&options(&folder)).unwrap();
    let [key, alike] = [of_a, of_another].map(schema::returning);
    let row = stopped.db.get(&key).unwrap().unwrap();
    let attempt_key: AttemptKey = records::decode(&key, &row).unwrap();
    let row = records::encode(&alike, &attempt_key).unwrap();
    stopped.db.insert(alike, row).unwrap();
    drop(stopped);
    let store = SledStore::open(&options(&folder)).unwrap();
    assert!(store.by_return(of_a).await.unwrap().is_some());
    assert_eq!(store.by_return(of_another).await, Ok(None));
    closed(store).await;
}
