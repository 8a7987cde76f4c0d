//! A disk that fails and recovers: accepted data is there, data in doubt is complete or missing, and the
//! store continues automatically.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::key::TokenHash;
use kassette_engine::{DiskHooks, Syncing};
use kassette_files::durable_write;
use parking_lot::{Condvar, Mutex};

use super::*;
use crate::sled::maintenance::receive;
use crate::suite::fixtures::*;
use crate::{Created, Fault, Nonces as _, Payments as _, Reserved, StoreHealth as _, Upkeep as _};

/// Next behavior of the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    Fine,
    /// Syncs fail; the written data may be on the disk nevertheless.
    FailsToSync,
    /// Files cannot be opened either.
    Gone,
}

fn on(disk: &Arc<Mutex<Disk>>) -> DiskHooks {
    failing_at(disk, |_| true)
}

/// A disk that fails at some syncs.
fn failing_at(disk: &Arc<Mutex<Disk>>, at: fn(Syncing) -> bool) -> DiskHooks {
    let disk = Arc::clone(disk);
    DiskHooks {
        before_sync: Box::new(move |syncing| match *disk.lock() {
            Disk::Fine => Ok(()),
            _ if at(syncing) => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        }),
        ..DiskHooks::default()
    }
}

/// Waits until the store accepts operations again.
async fn recovered(store: &SledStore) {
    while store.probe().await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_failed_sync_is_told_and_the_store_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let store = SledStore::start(&options(folder.path()), on(&disk)).unwrap();
    store
        .create(new_payment("before"), None, NOW)
        .await
        .unwrap();
    *disk.lock() = Disk::FailsToSync;
    let doubtful = store.create(new_payment("doubtful"), None, NOW).await;
    assert_eq!(doubtful, Err(Fault::Stopping));
    *disk.lock() = Disk::Fine;
    recovered(&store).await;
    assert!(
        store
            .aggregate(payment_of("before"))
            .await
            .unwrap()
            .is_some()
    );
    // Missing or complete: the same request creates exactly one payment.
    let there = store.aggregate(payment_of("doubtful")).await.unwrap();
    let again = store
        .create(new_payment("doubtful"), None, NOW)
        .await
        .unwrap();
    assert_eq!(there.is_some(), matches!(again, Created::Replay(_)));
    let listed = page(store.payments(Default::default(), first(9)).await.unwrap());
    assert_eq!(listed.items.len(), 2);
    store.shut_down().await.unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    assert!(
        store
            .aggregate(payment_of("doubtful"))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn while_the_disk_is_gone_everything_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let store = SledStore::start(&options(folder.path()), on(&disk)).unwrap();
    store.create(new_payment("a"), None, NOW).await.unwrap();
    // Like a read-only file system for sled: `conf` cannot be opened.
    let conf = options(folder.path()).path.join("conf");
    let aside = folder.path().join("conf");
    std::fs::rename(&conf, &aside).unwrap();
    std::fs::create_dir(&conf).unwrap();
    *disk.lock() = Disk::Gone;
    let create = store.create(new_payment("b"), None, NOW).await;
    assert_eq!(create, Err(Fault::Stopping));
    for _ in 0..3 {
        let Err(Fault::Unavailable(why)) = store.probe().await else {
            panic!("a probe was taken");
        };
        assert!(why.contains("the disk failed"), "{why}");
        let read = store.aggregate(payment_of("a")).await;
        assert!(matches!(read, Err(Fault::Unavailable(_))), "{read:?}");
    }
    std::fs::remove_dir(&conf).unwrap();
    std::fs::rename(&aside, &conf).unwrap();
    *disk.lock() = Disk::Fine;
    recovered(&store).await;
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_store_is_shut_down_while_the_disk_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let store = SledStore::start(&options(folder.path()), on(&disk)).unwrap();
    store.create(new_payment("a"), None, NOW).await.unwrap();
    *disk.lock() = Disk::FailsToSync;
    store.create(new_payment("b"), None, NOW).await.unwrap_err();
    assert_eq!(store.shut_down().await, Err(Fault::Stopping));
    drop(store);
    let store = SledStore::open(&options(folder.path())).unwrap();
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_last_checkpoint_that_fails_is_no_orderly_stop_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let hooks = failing_at(&disk, |syncing| syncing == Syncing::Database);
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    store.create(new_payment("a"), None, NOW).await.unwrap();
    *disk.lock() = Disk::FailsToSync;
    assert_eq!(store.shut_down().await, Err(Fault::Stopping));
    let why = store.failed().await;
    assert!(why.contains("its disk failed"), "{why}");
    drop(store);
    let store = SledStore::open(&options(folder.path())).unwrap();
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_disk_that_hangs_is_told_and_what_waited_for_it_is_done_later() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new((Mutex::new(false), Condvar::new()));
    let held = Arc::clone(&disk);
    let hooks = DiskHooks {
        before_sync: Box::new(move |_| {
            let mut hangs = held.0.lock();
            while *hangs {
                held.1.wait(&mut hangs);
            }
            Ok(())
        }),
        patience: Duration::from_millis(50),
        ..DiskHooks::default()
    };
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    *disk.0.lock() = true;
    let waits = store.create(new_payment("a"), None, NOW).await;
    assert_eq!(waits, Err(Fault::Stopping));
    assert_eq!(store.probe().await, Err(Fault::Stopping));
    assert_eq!(store.aggregate(payment_of("a")).await, Ok(None));
    *disk.0.lock() = false;
    disk.1.notify_all();
    recovered(&store).await;
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
    *disk.0.lock() = true;
    let hangs = store.create(new_payment("b"), None, NOW).await;
    assert_eq!(hangs, Err(Fault::Stopping));
    assert_eq!(store.shut_down().await, Err(Fault::Stopping));
    *disk.0.lock() = false;
    disk.1.notify_all();
}

#[tokio::test]
async fn reads_of_a_disk_that_hangs_are_given_up_and_hold_up_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let hooks = DiskHooks {
        patience: Duration::from_millis(500),
        ..DiskHooks::default()
    };
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    store.create(new_payment("old"), None, NOW).await.unwrap();
    created(&store, 0..400).await.unwrap();
    let by_token = || store.by_checkout(TokenHash::hash(&token("old")));
    assert!(by_token().await.unwrap().is_some());
    store.create(new_payment("a"), None, NOW).await.unwrap();
    let disk = Arc::new((Mutex::new(true), Condvar::new()));
    let begun = Arc::new(AtomicU64::new(0));
    // On a busy machine, reads may be given up before they start.
    while begun.load(Ordering::SeqCst) == 0 {
        let reads = (0..99).map(|_| {
            let (store, disk, begun) = (Arc::clone(&store), Arc::clone(&disk), Arc::clone(&begun));
            tokio::spawn(async move {
                let hangs = store.read(move |_| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    let mut hangs = disk.0.lock();
                    while *hangs {
                        disk.1.wait(&mut hangs);
                    }
                    Ok(())
                });
                hangs.await
            })
        });
        for read in reads.collect::<Vec<_>>() {
            let read = read.await.unwrap();
            let Err(Fault::Unavailable(why)) = read else {
                panic!("{read:?}");
            };
            assert!(why.contains("the disk hangs"), "{why}");
        }
    }
    // Recently written and cached data is read without the disk.
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
    assert!(by_token().await.unwrap().is_some());
    let replay = store.replay(request("old")).await;
    assert!(matches!(replay, Ok(Some(Created::Replay(_)))), "{replay:?}");
    let other_old = store.aggregate(payment_of("0")).await;
    assert!(matches!(other_old, Err(Fault::Unavailable(_))));
    // A group cannot be shown in the meantime, and no caller waits for that on a thread that others need.
    let create = store.create(new_payment("b"), None, NOW).await;
    assert_eq!(create, Err(Fault::Stopping));
    let read = store.payment(PaymentId::from_bytes(id_of("a"))).await;
    assert!(matches!(read, Err(Fault::Unavailable(_))), "{read:?}");
    let vitals = store.vitals().await;
    assert!(matches!(vitals, Err(Fault::Unavailable(_))), "{vitals:?}");
    *disk.0.lock() = false;
    disk.1.notify_all();
    recovered(&store).await;
    assert!(store.aggregate(payment_of("b")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_read_that_is_slow_and_comes_forward_is_not_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let patience = Duration::from_millis(500);
    let hooks = DiskHooks {
        patience,
        ..DiskHooks::default()
    };
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    let began = std::time::Instant::now();
    let slow = store.read_aside(move |_| {
        std::thread::yield_now();
        Ok(match began.elapsed() > patience * 2 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    });
    assert_eq!(slow.await, Ok(()));
}

/// Fills more than two epochs of the log.
async fn created(store: &SledStore, payments: std::ops::Range<usize>) -> Result<(), Fault> {
    for number in payments {
        let new = new_payment(&number.to_string());
        store.create(new, None, NOW).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_database_that_does_not_sync_is_told_and_nothing_is_lost() {
    nothing_is_lost_where(|syncing| syncing == Syncing::Database).await;
}

#[tokio::test]
async fn a_database_that_gets_no_epoch_is_told_and_nothing_is_lost() {
    nothing_is_lost_where(|syncing| syncing == Syncing::Epoch).await;
}

#[tokio::test]
async fn a_database_whose_own_writes_do_not_sync_is_told_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    let database = File::open(options(folder.path()).path.join("db")).unwrap();
    let mut made = 0;
    // Two times: a failed sync after another one is reported too.
    for _ in 0..2 {
        durable_write::distrust(&database).unwrap();
        while created(&store, made..made + 1).await.is_ok() {
            made += 1;
        }
        recovered(&store).await;
    }
    assert!(made > 100, "{made}");
    store.shut_down().await.unwrap();
    drop(store);
    let store = SledStore::open(&options(folder.path())).unwrap();
    for number in 0..made {
        let there = store
            .aggregate(payment_of(&number.to_string()))
            .await
            .unwrap();
        assert!(there.is_some(), "{number}");
    }
}

/// Checks that nothing is lost if the database fails somewhere behind the log.
async fn nothing_is_lost_where(fails: fn(Syncing) -> bool) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let hooks = failing_at(&disk, fails);
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    store
        .create(new_payment("before"), None, NOW)
        .await
        .unwrap();
    *disk.lock() = Disk::FailsToSync;
    let mut made = 0;
    // The log accepts groups until it would overwrite an epoch that the database lacks.
    while created(&store, made..made + 1).await.is_ok() {
        made += 1;
    }
    assert!(made > 100, "{made}");
    *disk.lock() = Disk::Fine;
    recovered(&store).await;
    created(&store, made..made + 600).await.unwrap();
    store.shut_down().await.unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    for number in 0..made + 600 {
        let there = store
            .aggregate(payment_of(&number.to_string()))
            .await
            .unwrap();
        assert!(there.is_some(), "{number}");
    }
}

#[tokio::test]
async fn a_disk_that_lost_what_was_taken_ends_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(folder.path()).path;
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let store = SledStore::start(&options(folder.path()), on(&disk)).unwrap();
    let files = ["db"].iter().chain(&kassette_engine::LOG_FILES);
    let files: Vec<_> = files.map(|name| path.join(name)).collect();
    let early: Vec<_> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    store.create(new_payment("a"), None, NOW).await.unwrap();
    *disk.lock() = Disk::FailsToSync;
    store.create(new_payment("b"), None, NOW).await.unwrap_err();
    // Written in place, as if the disk had lost it.
    for (file, early) in files.iter().zip(early) {
        std::fs::write(file, early).unwrap();
    }
    let why = store.failed().await;
    assert!(why.contains("missing") || why.contains("lost"), "{why}");
    let read = store.aggregate(payment_of("a")).await;
    assert_eq!(read, Err(Fault::Stopping));
    assert_eq!(store.probe().await, Err(Fault::Stopping));
    assert_eq!(store.shut_down().await, Err(Fault::Stopping));
}

/// Free bytes that the store sees. Only one test uses it, so that it does not disturb others.
static FREE: AtomicU64 = AtomicU64::new(u64::MAX);

#[tokio::test]
async fn a_full_disk_takes_nothing_new_and_still_reads() {
    let folder = tempfile::tempdir().unwrap();
    let hooks = DiskHooks {
        free_bytes: |_: &File| Ok(FREE.load(Ordering::SeqCst)),
        ..DiskHooks::default()
    };
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    store.create(new_payment("a"), None, NOW).await.unwrap();
    FREE.store(12 << 20, Ordering::SeqCst);
    let full = store.create(new_payment("b"), None, NOW).await;
    let Err(Fault::Unavailable(why)) = full else {
        panic!("{full:?}");
    };
    assert!(why.contains("12 MiB are left"), "{why}");
    assert!(matches!(store.probe().await, Err(Fault::Unavailable(_))));
    assert!(store.aggregate(payment_of("a")).await.unwrap().is_some());
    assert_eq!(store.aggregate(payment_of("b")).await, Ok(None));
    // Another disk may have space for a backup.
    let mut pieces = store.backup(NOW).await.unwrap().unwrap();
    let mut file = Vec::new();
    while let Some(piece) = pieces.recv().await {
        file.extend(piece);
    }
    let received = receive(file.as_slice(), &mut Vec::new(), &()).unwrap();
    assert_eq!(received.payments, 1);
    FREE.store(u64::MAX, Ordering::SeqCst);
    let made = store.create(new_payment("b"), None, NOW).await.unwrap();
    assert!(matches!(made, Created::New(_)), "{made:?}");
}

#[tokio::test]
async fn a_nonce_in_doubt_is_taken_by_one_at_the_most() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Mutex::new(Disk::Fine));
    let store = SledStore::start(&options(folder.path()), on(&disk)).unwrap();
    let take = |name: &str| store.reserve_nonce(nonce_of(name, NOW), NOW);
    assert_eq!(take("before").await, Ok(Reserved::Fresh));
    *disk.lock() = Disk::FailsToSync;
    assert_eq!(take("doubtful").await, Err(Fault::Stopping));
    *disk.lock() = Disk::Fine;
    recovered(&store).await;
    assert_eq!(take("before").await, Ok(Reserved::Used));
    // Reserved or not; now it is.
    take("doubtful").await.unwrap();
    assert_eq!(take("doubtful").await, Ok(Reserved::Used));
}
