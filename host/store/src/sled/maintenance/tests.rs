//! Backups, restoring, verifying and rebuilding over real stores.

mod backups;
mod damage;
mod rebuilding;
mod upgrading;

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{EndpointId, PaymentId};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::provider::VendorStatus;
use kassette_domain::signing::NONCE_LIFE;
use kassette_domain::webhook::{DeliveryAttempt, Tried};
use tempfile::TempDir;

use crate::rows::seal::MasterKey;
use crate::rows::stored::AttemptKey;
use crate::rows::{records, schema};
use crate::sled::SledStore;
use crate::sled::maintenance::format::FileError;
use crate::sled::maintenance::{
    AuditNote, Compacted, MaintenanceError, OpenError, OpenOptions, Progress, Rekeyed, Report,
    Restored, Source, Stopped, backup, verify, verify_audit,
};
use crate::suite::fixtures::{open, secrets as secrets_of, *};
use crate::suite::refunds;
use crate::suite::resellers::{everything_of_a_reseller, opens};
use crate::{
    Connects as _, Deliveries as _, DeliveryFilter, Directory as _, Exchanged, Health as _,
    Nonces as _, PaymentFilter, Payments as _, RefundOrdered, Resellers as _, Reserved, Retention,
    Store, Upkeep as _,
};

const CACHE_BYTES: u64 = 8 << 20;
/// The payments of [`full`].
const NAMES: [&str; 3] = ["a", "b", "c"];

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
    let source = Source::new(file);
    crate::sled::maintenance::restore(
        options,
        source,
        despite_findings,
        AuditNote::at(NOW),
        progress,
    )
}

fn verify_backup(
    options: &OpenOptions,
    file: &[u8],
    progress: &dyn Progress,
) -> Result<Restored, MaintenanceError> {
    crate::sled::maintenance::verify_backup(options, Source::new(file), progress)
}

fn compact(options: &OpenOptions, progress: &dyn Progress) -> Result<Compacted, MaintenanceError> {
    crate::sled::maintenance::compact(options, AuditNote::at(NOW), progress)
}

fn rekey(
    options: &OpenOptions,
    new: &MasterKey,
    progress: &dyn Progress,
) -> Result<Rekeyed, MaintenanceError> {
    crate::sled::maintenance::rekey(options, new, AuditNote::at(NOW), progress)
}

/// A store with a row of every kind.
async fn full(options: &OpenOptions) -> Arc<SledStore> {
    let store = SledStore::open(options).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    let merchant = shop(&shared).await;
    let listening = listen(&shared, endpoint("listening", NOW)).await;
    for name in NAMES {
        pay(&shared, name).await;
    }
    let paid = news("attempt of a", report("vendor-a", VendorStatus::Completed));
    done(&shared, payment_of("a"), paid, later(1)).await;
    // Money that is given back is work for an operator.
    let mut returned = report("vendor-a", VendorStatus::Completed);
    returned.returned.0 = 100;
    returned.particulars.references = vec!["statement-a".into()];
    let step = news("attempt of a", returned);
    done(&shared, payment_of("a"), step, later(2)).await;
    let refund = refunds::order("a", "a", Some(1000));
    let payment = PaymentId::from_bytes(id_of("a"));
    let ordered = store.refund(payment, refund, None, None, later(3)).await;
    assert!(matches!(ordered, Ok(RefundOrdered::New { .. })));
    fail_a_delivery(&store, listening.id).await;
    store
        .keep_callback(account("sandbox-test"), "unknown".into(), None, NOW)
        .await
        .unwrap();
    // The second frees the first.
    for at in [NOW.before(NONCE_LIFE), NOW] {
        let taken = store.reserve_nonce(nonce_of("a", at), at).await;
        assert_eq!(taken, Ok(Reserved::Fresh));
    }
    everything_of_a_reseller(&shared).await;
    let code = connect_code("code", "https://shop.example", Environment::Test);
    let exchange = exchange_of(&code, "connected");
    store
        .issue_connect_code(code, audited("connect-code.create"), NOW)
        .await
        .unwrap();
    let exchanged = store.exchange(exchange, audited("connect.exchange"), NOW);
    assert!(matches!(exchanged.await, Ok(Exchanged::Done { .. })));
    let key = api_key("key", KeyOwner::Merchant(merchant), Environment::Test);
    let hash = key.hash;
    store
        .issue_key(key, audited("key.create"), NOW)
        .await
        .unwrap();
    store.keys_seen(vec![(hash, later(9))]).await.unwrap();
    store
        .create_operator(operator("ann", NOW), audited("operator.create"), NOW)
        .await
        .unwrap();
    let switched = audited("provider.change");
    store
        .switch_account(account("sandbox-test"), true, switched, NOW)
        .await
        .unwrap();
    // Some payments are over and some are not when their time has passed.
    let retention = Retention {
        decisions: None,
        personal_data: Some(Duration::from_secs(60)),
    };
    store.forget(retention, later(120)).await.unwrap();
    store.probe().await.unwrap();
    store
}

/// Eight attempts in vain, with a long answer.
async fn fail_a_delivery(store: &Arc<SledStore>, endpoint: EndpointId) {
    let filter = DeliveryFilter {
        of: None,
        endpoint: Some(endpoint),
        status: None,
    };
    let queued = page(store.deliveries(filter, first(9)).await.unwrap()).items;
    for after in 0..8 {
        let attempt = DeliveryAttempt {
            at: NOW,
            status: Some(503),
            duration_ms: 9,
            error: None,
            response: Some("busy ".repeat(200)),
        };
        let tried = Tried {
            attempt,
            after,
            delivered: false,
            retry_at: NOW,
        };
        store.tried(queued[0].id, tried, None, NOW).await.unwrap();
    }
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
fn whole(options: &OpenOptions) -> Report {
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
