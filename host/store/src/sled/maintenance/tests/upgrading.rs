//! Stores of earlier formats: one made here, and those that other releases left.

use std::path::Path;
use std::process::Command;

use kassette_domain::event::EventType;
use kassette_domain::id::{MerchantId, PaymentId, RefundId};
use kassette_domain::key::Environment;
use kassette_domain::money::Minor;
use kassette_domain::payment::Status;
use kassette_domain::provider::{RefundState, VendorRefund};
use kassette_domain::work::WorkKind;

use super::*;
use crate::rows::seal::Sealer;
use crate::rows::stored::previous::v4::written;
use crate::{About, EventsAsked};

/// Writes a closed store's rows as format 4 wrote them.
fn take_back(options: &OpenOptions) {
    let sealer = Sealer::new(&options.master);
    let stopped = Stopped::open(options).unwrap();
    for row in stopped.db.iter() {
        let (key, row) = row.unwrap();
        let old = match key.get(..4).unwrap() {
            b"att/" => written::attempt(&sealer, &key, &row),
            b"evt/" => written::event(&key, &row),
            b"prk/" => written::pending_callback(&key, &row),
            b"rfi/" | b"evl/" => {
                stopped.db.remove(key).unwrap();
                continue;
            }
            _ => continue,
        };
        stopped.db.insert(key, old).unwrap();
    }
    let format = 4_u32.to_be_bytes();
    stopped.db.insert(schema::FORMAT, &format).unwrap();
}

#[tokio::test]
async fn a_store_of_format_4_is_brought_to_this_one_with_its_refunds() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = SledStore::open(&options(&folder)).unwrap();
    for name in NAMES {
        pay(&store, name).await;
    }
    let mut returned = report("vendor-a", VendorStatus::Completed);
    returned.returned = Minor(300);
    returned.particulars.refunds = vec![VendorRefund {
        id: "re-1".into(),
        order: None,
        amount: Minor(100),
        state: RefundState::Succeeded,
    }];
    let mut of_late = returned.clone();
    of_late.reference = "later".into();
    let paid = news("attempt of a", report("vendor-a", VendorStatus::Completed));
    done(&store, payment_of("a"), paid, later(1)).await;
    let step = news("attempt of a", returned);
    let (before, _) = done(&store, payment_of("a"), step, later(2)).await;
    let kept = store.keep_callback(
        account("sandbox-test"),
        "later".into(),
        Some(of_late),
        later(2),
    );
    kept.await.unwrap();
    store.shut_down().await.unwrap();
    drop(store);
    take_back(&options(&folder));

    let store: Arc<dyn Store> = SledStore::open(&options(&folder)).unwrap();
    let after = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert_eq!(after, before);
    let ids: Vec<RefundId> = after
        .refunds()
        .iter()
        .map(|(_, refund)| refund.id)
        .collect();
    assert_eq!(ids.len(), 2);
    for id in ids {
        let found = store.aggregate(About::Refund(id)).await;
        assert_eq!(found, Ok(Some(after.clone())));
    }
    // What was pending is read again when its reference is known.
    create(&store, "late", later(3)).await;
    done(
        &store,
        payment_of("late"),
        open("late", "sandbox-test"),
        later(3),
    )
    .await;
    let (late, _) = done(
        &store,
        payment_of("late"),
        started("late", "later"),
        later(3),
    )
    .await;
    assert_eq!(late.attempts[0].returns.total(), Minor(300));
    store.shut_down().await.unwrap();
    drop(store);
    whole(&options(&folder));
    alone(&folder);
}

/// The newest events of the merchant, with the attempts' names of their payments.
async fn listed(store: &Arc<dyn Store>) -> Vec<(EventType, PaymentId)> {
    let asked = EventsAsked {
        merchant: MerchantId(1),
        environment: Environment::Test,
        kind: None,
        since: None,
    };
    let events = page(store.events(asked, first(100)).await.unwrap()).items;
    let each = events
        .iter()
        .map(|(event, payment)| (event.kind, payment.id));
    each.collect()
}

#[tokio::test]
async fn events_of_a_store_of_format_5_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = SledStore::open(&options(&folder)).unwrap();
    for name in NAMES {
        pay(&store, name).await;
    }
    let before = listed(&store).await;
    assert_eq!(before.len(), NAMES.len());
    store.shut_down().await.unwrap();
    drop(store);
    let stopped = Stopped::open(&options(&folder)).unwrap();
    for row in stopped.db.scan_prefix(b"evl/") {
        stopped.db.remove(row.unwrap().0).unwrap();
    }
    let format = 5_u32.to_be_bytes();
    stopped.db.insert(schema::FORMAT, &format).unwrap();
    drop(stopped);

    let store: Arc<dyn Store> = SledStore::open(&options(&folder)).unwrap();
    assert_eq!(listed(&store).await, before);
    store.shut_down().await.unwrap();
    drop(store);
    whole(&options(&folder));
    alone(&folder);
}

/// The store that a commit's server left, which the tests of the program keep.
fn left_by(commit: &str) -> (TempDir, OpenOptions) {
    let folder = tempfile::tempdir().unwrap();
    let archive = format!("../../tests/e2e/earlier/{commit}.tar.gz");
    let unpacked = Command::new("tar")
        .arg("-xzf")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(archive))
        .arg("-C")
        .arg(folder.path())
        .status();
    assert!(unpacked.unwrap().success());
    let key = std::fs::read_to_string(folder.path().join("master.key")).unwrap();
    let options = OpenOptions {
        master: MasterKey::parse(&key).unwrap(),
        ..options(&folder)
    };
    (folder, options)
}

#[tokio::test]
async fn a_store_of_format_3_is_brought_to_this_one_with_its_rates_returns_and_work() {
    let (_folder, options) = left_by("954ffda");
    let store: Arc<dyn Store> = SledStore::open(&options).unwrap();
    let filter = PaymentFilter {
        status: Some(Status::Completed),
        ..PaymentFilter::default()
    };
    let completed = page(store.payments(filter, first(99)).await.unwrap()).items;
    assert!(!completed.is_empty());
    for payment in completed {
        assert!(payment.completed_at.is_some(), "{payment:?}");
        assert_eq!(payment.rate.to_string(), "1.08", "{payment:?}");
    }
    let work = page(store.work(true, first(9)).await.unwrap()).items;
    assert_eq!(work.len(), 2);
    let of_refund = work.iter().find(|line| line.kind == WorkKind::Refund);
    let line = of_refund.unwrap();
    let payment = line.payment.unwrap();
    let paid = store.aggregate(About::Payment(payment)).await.unwrap();
    let paid = paid.unwrap();
    let refunds = paid.refunds();
    let [(_, refund)] = refunds[..] else {
        panic!("{paid:?}")
    };
    assert_eq!(refund.amount, line.amount);
    let found = store.aggregate(About::Refund(refund.id)).await;
    assert_eq!(found, Ok(Some(paid)));
    store.shut_down().await.unwrap();
    drop(store);
    whole(&options);
}
