//! Content of the disk, and opening it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::key::TokenHash;
use kassette_domain::method::MethodId;
use kassette_engine::CHECKPOINTED;

use super::*;
use crate::rows::schema;
use crate::sled::OpenError;
use crate::sled::memory::payment_index_rows::FULL;
use crate::sled::open::FORMAT;
use crate::suite::fixtures::*;
use crate::{
    Created, Fault, PaymentFilter, Payments as _, Retention, RoutingBatch, RoutingLog as _,
    Stepped, StoreHealth as _, Upkeep as _,
};

async fn written(path: &Path) -> Arc<SledStore> {
    let store = SledStore::open(&options(path)).unwrap();
    let dynamic: Arc<dyn Store> = store.clone();
    pay(&dynamic, "a").await;
    store
}

async fn closed(path: &Path) {
    let store = written(path).await;
    store.shut_down().await.unwrap();
}

fn files_under(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_under(&path));
        } else {
            files.push(path);
        }
    }
    files
}

fn holds(path: &Path, text: &str) -> bool {
    let found = |bytes: &[u8]| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    files_under(path)
        .iter()
        .any(|file| found(&fs::read(file).unwrap()))
}

#[tokio::test]
async fn nothing_secret_or_personal_stands_on_the_disk_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let store = written(folder.path()).await;
    let decision = RoutingBatch::group(&[routing_record(MethodId::Ideal, 1)]).unwrap();
    store.append_routing(decision, NOW).await.unwrap();
    store.shut_down().await.unwrap();
    drop(store);
    for text in [
        "mollie-live=60",
        EMAIL,
        "checkout-token-of-a",
        "return-token-of-attempt of a",
        "secret-link-of-attempt",
        "203.0.113.77",
    ] {
        assert!(!holds(folder.path(), text), "{text}");
    }
    // Shows that `holds` finds stored text.
    assert!(holds(folder.path(), "vendor-a"));
}

#[tokio::test]
async fn another_master_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    closed(folder.path()).await;
    let mut other = options(folder.path());
    other.master = MasterKey::from_bytes([8; 32]);
    let refused = SledStore::open(&other);
    assert!(
        matches!(refused, Err(OpenError::WrongMasterKey { .. })),
        "{refused:?}"
    );
    SledStore::open(&options(folder.path())).unwrap();
}

#[tokio::test]
async fn a_store_says_what_it_takes_and_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = written(folder.path()).await;
    let vitals = store.vitals().await.unwrap();
    assert!(vitals.used > 0 && vitals.newest == Some(NOW), "{vitals:?}");
    assert!(vitals.free > Some(0) && vitals.reserved > 0, "{vitals:?}");
    // The figures of its disk are returned even if the store cannot be read.
    store.shut_down().await.unwrap();
    let vitals = store.vitals().await.unwrap();
    assert!(vitals.used > 0 && vitals.newest.is_none(), "{vitals:?}");
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _store = written(folder.path()).await;
    let refused = SledStore::open(&options(folder.path()));
    assert!(
        matches!(
            refused,
            Err(OpenError::Engine(kassette_engine::OpenError::Locked { .. }))
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_later_format_is_refused() {
    let format = |format: u32| async move {
        let folder = tempfile::tempdir().unwrap();
        let store = written(folder.path()).await;
        let row = format.to_be_bytes().to_vec();
        store.memtable().plant(schema::FORMAT, row).unwrap();
        store.shut_down().await.unwrap();
        drop(store);
        SledStore::open(&options(folder.path())).map(drop)
    };
    let later = format(FORMAT + 1).await;
    assert!(
        matches!(later, Err(OpenError::Newer { found, .. }) if found == FORMAT + 1),
        "{later:?}"
    );
}

#[tokio::test]
async fn a_database_that_is_none_of_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(folder.path()).path;
    let db = sled::open(&path).unwrap();
    db.insert("some", "thing").unwrap();
    drop(db);
    let refused = SledStore::open(&options(folder.path()));
    assert!(
        matches!(
            refused,
            Err(OpenError::Engine(
                kassette_engine::OpenError::Damaged { .. }
            ))
        ),
        "{refused:?}"
    );
}

/// Restores a file, or removes it.
fn put_back(path: &Path, name: &str, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => fs::write(path.join(name), bytes).unwrap(),
        None => fs::remove_file(path.join(name)).unwrap(),
    }
    for file in files_under(path) {
        if file.to_string_lossy().contains("snap.") {
            fs::remove_file(file).unwrap();
        }
    }
}

/// A closed store to which this many payments were added. Returns its database before and after.
async fn behind(path: &Path, payments: usize) -> [Vec<u8>; 2] {
    closed(path).await;
    let database = options(path).path.join("db");
    let early = fs::read(&database).unwrap();
    let store = SledStore::open(&options(path)).unwrap();
    for number in 0..payments {
        let new = new_payment(&number.to_string());
        store.create(new, None, NOW).await.unwrap();
    }
    store.shut_down().await.unwrap();
    [early, fs::read(&database).unwrap()]
}

/// The files that a kill leaves of a store with this many payments: everything handed to the kernel.
async fn killed(folder: &Path, payments: usize) -> PathBuf {
    let store = written(&folder.join("alive")).await;
    for number in 0..payments {
        let new = new_payment(&number.to_string());
        store.create(new, None, NOW).await.unwrap();
    }
    let left = folder.join("left");
    damage::copy(&folder.join("alive"), &left);
    store.shut_down().await.unwrap();
    left
}

#[tokio::test]
async fn what_the_database_lacks_is_taken_from_the_log() {
    for payments in [0, 3, 150, 300, 700] {
        let folder = tempfile::tempdir().unwrap();
        let left = killed(folder.path(), payments).await;
        // Two times: the accepted payments must be in the database.
        for again in [false, true] {
            let store = SledStore::open(&options(&left)).unwrap();
            let names = (0..payments).map(|number| number.to_string());
            for name in names.chain(["a".into()]) {
                let aggregate = store.aggregate(payment_of(&name)).await.unwrap();
                assert!(aggregate.is_some(), "{name} of {payments}");
            }
            let made = store.create(new_payment("b"), None, NOW).await.unwrap();
            assert_eq!(matches!(made, Created::Replay(_)), again, "{made:?}");
            store.shut_down().await.unwrap();
        }
    }
}

/// Checks that a store is refused for this reason.
fn is_refused(folder: &Path, why: &str) {
    let refused = SledStore::open(&options(folder));
    assert!(
        matches!(&refused, Err(OpenError::Engine(kassette_engine::OpenError::Damaged { detail, .. })) if detail.contains(why)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_log_that_lost_what_the_database_may_have_in_part_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    let store = written(&alive).await;
    // Like sled when one of its buffers is full: none of it is known to be on the disk.
    let memtable = store.memtable();
    memtable.write_early().unwrap();
    memtable.database().flush().unwrap();
    drop(memtable);
    let left = folder.path().join("left");
    damage::copy(&alive, &left);
    store.shut_down().await.unwrap();
    let path = options(&left).path;
    let logs = kassette_engine::LOG_FILES.map(|name| path.join(name));
    let good = logs.each_ref().map(|log| fs::read(log).unwrap());
    // Without the end of the log.
    let log = usize::from(good[1].iter().any(|byte| *byte != 0));
    let end = good[log].iter().rposition(|byte| *byte != 0).unwrap();
    let mut bad = good[log].clone();
    bad[end - 100] ^= 1;
    fs::write(&logs[log], bad).unwrap();
    is_refused(&left, "the end of its log does not read back");
    // Without the log.
    for log in &logs {
        fs::remove_file(log).unwrap();
    }
    is_refused(&left, "its log is missing");
    for (log, good) in logs.iter().zip(good) {
        fs::write(log, good).unwrap();
    }
    let store = SledStore::open(&options(&left)).unwrap();
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_database_that_lost_what_was_acknowledged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(folder.path()).path;
    let [early, _] = behind(folder.path(), 1).await;
    put_back(&path, "db", Some(&early));
    // The log has it, but not the data that sled may have moved since.
    is_refused(folder.path(), "missing in its database");
    for name in [CHECKPOINTED].iter().chain(&kassette_engine::LOG_FILES) {
        fs::remove_file(path.join(name)).unwrap();
    }
    is_refused(folder.path(), "missing");
}

#[tokio::test]
async fn a_database_that_is_older_than_the_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(folder.path()).path;
    let [early, late] = behind(folder.path(), 1_000).await;
    put_back(&path, "db", Some(&early));
    fs::remove_file(path.join(CHECKPOINTED)).unwrap();
    is_refused(folder.path(), "between its database and its log");
    // Nothing was changed.
    put_back(&path, "db", Some(&late));
    let store = SledStore::open(&options(folder.path())).unwrap();
    assert!(store.aggregate(payment_of("999")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_database_that_was_emptied_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    closed(folder.path()).await;
    put_back(&options(folder.path()).path, "db", None);
    let refused = SledStore::open(&options(folder.path()));
    assert!(
        matches!(&refused, Err(OpenError::Engine(kassette_engine::OpenError::Damaged { detail, .. })) if detail.contains("empty")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_database_that_the_engine_cannot_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    closed(folder.path()).await;
    let path = options(folder.path()).path;
    let good = fs::read(path.join("db")).unwrap();
    // The engine either opens with everything that was acknowledged, or not at all.
    for at in (0..good.len()).step_by(good.len() / 8) {
        let mut bad = good.clone();
        let end = bad.len().min(at + 4096);
        bad[at..end].fill(0xa5);
        fs::write(path.join("db"), bad).unwrap();
        for file in files_under(&path) {
            if file.to_string_lossy().contains("snap.") {
                fs::remove_file(file).unwrap();
            }
        }
        match SledStore::open(&options(folder.path())) {
            Ok(store) => {
                let read = store.aggregate(payment_of("a")).await;
                assert!(!matches!(read, Ok(None)), "lost unnoticed at {at}");
                store.shut_down().await.unwrap();
            }
            Err(OpenError::Engine(kassette_engine::OpenError::Damaged { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_unfinished_snapshot_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    closed(folder.path()).await;
    let unfinished = options(folder.path())
        .path
        .join("snap.00000000FFFFFFFF.generating");
    fs::write(&unfinished, b"half a snapshot").unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    assert!(!unfinished.exists());
    let aggregate = store.aggregate(payment_of("a")).await.unwrap();
    assert!(aggregate.is_some());
}

#[tokio::test]
async fn a_flipped_bit_in_any_record_of_a_payment_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = written(folder.path()).await;
    let memtable = store.memtable();
    let id = PaymentId::from_bytes(id_of("a"));
    for key in [schema::payment(id), schema::attempt(id, 0)] {
        let good = memtable.get(&key).unwrap().unwrap();
        for bit in (0..good.len() * 8).step_by(7) {
            let mut flipped = good.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            memtable.plant(&key, flipped).unwrap();
            let read = store.aggregate(payment_of("a")).await;
            assert!(matches!(read, Err(Fault::Corrupt(_))), "{read:?}");
        }
        memtable.plant(&key, good).unwrap();
    }
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_payment_keeps_no_other_from_falling_due() {
    let folder = tempfile::tempdir().unwrap();
    let store = written(folder.path()).await;
    let dynamic: Arc<dyn Store> = store.clone();
    pay(&dynamic, "b").await;
    let id = PaymentId::from_bytes(id_of("a"));
    let memtable = store.memtable();
    let good = memtable
        .plant(&schema::payment(id), &b"damage"[..])
        .unwrap()
        .unwrap();
    let lease = Duration::from_secs(60);
    let other = PaymentId::from_bytes(id_of("b"));
    let claimed = store.claim_due(later(3600), lease, 9).await;
    assert_eq!(claimed, Ok(vec![other]));
    // After the repair it falls due again, exactly one time.
    memtable.plant(&schema::payment(id), good).unwrap();
    assert_eq!(store.claim_due(later(3659), lease, 9).await, Ok(vec![]));
    let mut claimed = store.claim_due(later(3660), lease, 9).await.unwrap();
    claimed.sort();
    let mut both = vec![id, other];
    both.sort();
    assert_eq!(claimed, both);
    let own = |key: &[u8]| matches!(schema::timer_about(key), Some(schema::TimerOf::One(_)));
    let rows = memtable.all().unwrap();
    assert_eq!(rows.iter().filter(|(key, _)| own(key)).count(), 2);
}

#[tokio::test]
async fn a_damaged_row_of_the_payment_index_is_told_and_keeps_no_other_payment_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    let dynamic: Arc<dyn Store> = store.clone();
    let names: Vec<String> = (0..=FULL).map(|number| number.to_string()).collect();
    for name in &names {
        create(&dynamic, name, NOW).await;
    }
    let (last, others) = names.split_last().unwrap();
    let memtable = store.memtable();
    let row = schema::payment_index(0);
    let good = memtable.plant(&row, &b"damage"[..]).unwrap().unwrap();

    let by_token = |name: &str| store.by_checkout(TokenHash::hash(&token(name)));
    let same_again = |name: &str| store.create(new_payment(name), None, later(1));
    assert!(matches!(by_token("3").await, Err(Fault::Corrupt(_))));
    assert!(matches!(same_again("3").await, Err(Fault::Corrupt(_))));
    let listed = store.payments(PaymentFilter::default(), first(100)).await;
    assert!(matches!(listed, Err(Fault::Corrupt(_))));
    let newest = store.payments(PaymentFilter::default(), first(1)).await;
    assert_eq!(page(newest.unwrap()).items.len(), 1);
    assert!(by_token(last).await.unwrap().is_some());
    assert!(matches!(same_again(last).await, Ok(Created::Replay(_))));
    let day = Duration::from_secs(24 * 3600);
    let retention = Retention {
        decisions: Some(day),
        ..Retention::default()
    };
    let end = later(25 * 3600);
    let mut left = 10;
    while store.forget(retention, end).await.unwrap().next == Some(end) {
        left -= 1;
        assert!(left > 0, "retention does not get past it");
    }

    let (lease, at) = (Duration::from_secs(60), later(26 * 3600));
    let id = |name: &String| PaymentId::from_bytes(id_of(name));
    assert_eq!(store.claim_due(at, lease, 256).await, Ok(vec![id(last)]));
    assert_eq!(store.next_due().await, Ok(Some(at.after(lease))));
    // After the repair they fall due again, each exactly one time.
    memtable.plant(&row, good).unwrap();
    assert_eq!(store.claim_due(at, lease, 256).await, Ok(vec![]));
    let mut claimed = store.claim_due(at.after(lease), lease, 256).await.unwrap();
    claimed.sort();
    let mut expected: Vec<_> = names.iter().map(id).collect();
    expected.sort();
    assert_eq!(claimed, expected);
    assert!(by_token(&others[3]).await.unwrap().is_some());
}

#[tokio::test]
async fn a_refused_step_writes_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let store = written(folder.path()).await;
    let dump = || store.memtable().all().unwrap();
    let before = dump();
    let step = open("two", "sandbox-test");
    let audited = Some(audited("x.y"));
    let stepped = store.step(payment_of("a"), step, audited, later(1)).await;
    assert!(matches!(stepped, Ok(Stepped::Refused { .. })));
    assert_eq!(dump(), before);
}
