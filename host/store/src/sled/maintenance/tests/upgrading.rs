//! A store of the layout before this one.

use kassette_domain::id::RefundId;
use kassette_domain::money::Minor;
use kassette_domain::provider::{ProviderRefund, RefundState};

use super::*;
use crate::About;
use crate::rows::seal::Sealer;
use crate::rows::stored::previous::written;
use crate::sled::open::FORMAT;

/// Writes a closed store's rows as the layout before wrote them.
fn take_back(options: &OpenOptions) {
    let sealer = Sealer::new(&options.master);
    let stopped = Stopped::open(options).unwrap();
    for row in stopped.db.iter() {
        let (key, row) = row.unwrap();
        let old = match key.get(..4).unwrap() {
            b"att/" => written::attempt(&sealer, &key, &row),
            b"evt/" => written::event(&key, &row),
            b"prk/" => written::pending_callback(&key, &row),
            b"rfi/" => {
                stopped.db.remove(key).unwrap();
                continue;
            }
            _ => continue,
        };
        stopped.db.insert(key, old).unwrap();
    }
    let format = (FORMAT - 1).to_be_bytes();
    stopped.db.insert(schema::FORMAT, &format).unwrap();
}

#[tokio::test]
async fn a_store_of_the_layout_before_is_brought_to_this_one_with_its_refunds() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = SledStore::open(&options(&folder)).unwrap();
    for name in NAMES {
        pay(&store, name).await;
    }
    let mut returned = report("vendor-a", VendorStatus::Completed);
    returned.returned = Minor(300);
    returned.particulars.refunds = vec![ProviderRefund {
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
