//! Lists, newest first.

use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{Act, Step};
use kassette_domain::order::OrderId;
use kassette_domain::payment::Status;

use super::Harness;
use super::fixtures::*;
use crate::{Listed, Paging, PaymentFilter};

fn after(limit: usize, cursor: &str) -> Paging {
    Paging {
        limit,
        cursor: Some(cursor.to_owned()),
    }
}

pub async fn pages_are_newest_first_and_whole_while_items_arrive(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut expected = Vec::new();
    for each in 0..25_u64 {
        // Some have the same time, so that the test detects items lost between two pages.
        let payment = create(&store, &each.to_string(), later(each / 3)).await;
        expected.push((payment.created_at, payment.id));
    }
    let mut seen = Vec::new();
    let mut paging = first(4);
    for turn in 0.. {
        let listed = store.payments(PaymentFilter::default(), paging).await;
        let page = page(listed.unwrap());
        assert!(page.items.len() <= 4);
        seen.extend(page.items.iter().map(|item| (item.created_at, item.id)));
        create(&store, &format!("late-{turn}"), later(100 + turn)).await;
        match page.next {
            Some(next) => paging = after(4, &next),
            None => break,
        }
    }
    assert!(seen.is_sorted_by(|one, two| one.0 >= two.0));
    let mut sorted = seen.clone();
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected);
    // The end of the list is recognized.
    let all = store
        .payments(PaymentFilter::default(), first(100))
        .await
        .unwrap();
    let exact = store
        .payments(PaymentFilter::default(), first(page(all).items.len()))
        .await
        .unwrap();
    assert_eq!(page(exact).next, None);
}

pub async fn filters_hold_together(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, merchant, order, environment) in [
        ("a", 1, "one", Environment::Test),
        ("b", 1, "two", Environment::Test),
        ("c", 2, "one", Environment::Test),
        ("d", 1, "one", Environment::Live),
    ] {
        let mut request = request(name);
        request.merchant = MerchantId(merchant);
        request.order_id = OrderId::parse(order).unwrap();
        request.environment = environment;
        store
            .create(of_request(name, request), None, NOW)
            .await
            .unwrap();
    }
    done(&store, payment_of("b"), Step::Act(Act::Cancel), NOW).await;
    let found = async |filter: PaymentFilter| {
        let listed = store.payments(filter, first(100)).await.unwrap();
        let mut names: Vec<&str> = Vec::new();
        for item in page(listed).items {
            let is = |name: &&str| PaymentId::from_bytes(id_of(name)) == item.id;
            names.extend(["a", "b", "c", "d"].into_iter().find(is));
        }
        names.sort_unstable();
        names.concat()
    };
    let all = PaymentFilter::default;
    let one = || Some("one".to_owned());
    let merchant = Some(MerchantId(1));
    assert_eq!(found(all()).await, "abcd");
    assert_eq!(found(PaymentFilter { merchant, ..all() }).await, "abd");
    assert_eq!(
        found(PaymentFilter {
            order_id: one(),
            ..all()
        })
        .await,
        "acd"
    );
    assert_eq!(
        found(PaymentFilter {
            order_id: one(),
            merchant,
            ..all()
        })
        .await,
        "ad"
    );
    let status = Some(Status::Cancelled);
    assert_eq!(found(PaymentFilter { status, ..all() }).await, "b");
    let environment = Some(Environment::Live);
    assert_eq!(
        found(PaymentFilter {
            environment,
            merchant,
            order_id: one(),
            ..all()
        })
        .await,
        "d"
    );
    let order_id = Some("on".to_owned());
    assert_eq!(found(PaymentFilter { order_id, ..all() }).await, "");
}

pub async fn cursors_are_sealed_and_foreign_ones_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    for each in 0..3 {
        create(&store, &each.to_string(), NOW).await;
        let operator = operator(&each.to_string(), NOW);
        store
            .create_operator(operator, audited("operator.create"), NOW)
            .await
            .unwrap();
    }
    let operators = page(store.operators(first(1)).await.unwrap());
    let next = operators.next.unwrap();
    let again = page(store.operators(first(1)).await.unwrap());
    assert_ne!(again.next.as_deref(), Some(next.as_str()), "sealed anew");
    let long = "A".repeat(10_000);
    for cursor in ["", "1", "not base64!", "AAAA", next.as_str(), long.as_str()] {
        let listed = store
            .payments(PaymentFilter::default(), after(1, cursor))
            .await;
        assert_eq!(listed, Ok(Listed::BadCursor), "{cursor:.20}");
        let listed = store.audit_log(after(1, cursor)).await;
        assert_eq!(listed, Ok(Listed::BadCursor), "{cursor:.20}");
    }
    assert_eq!(
        page(store.operators(after(9, &next)).await.unwrap())
            .items
            .len(),
        2
    );
}

pub async fn a_clock_that_goes_backwards_loses_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    let newest = async || store.vitals().await.map(|vitals| vitals.newest);
    assert_eq!(newest().await, Ok(None));
    let newer = create(&store, "a", later(1000)).await;
    let older = create(&store, "b", later(10)).await;
    assert_eq!(newest().await, Ok(Some(later(1000))), "as a clock is told");
    let listed = store.payments(PaymentFilter::default(), first(9)).await;
    let ids: Vec<_> = page(listed.unwrap()).items.iter().map(|p| p.id).collect();
    assert_eq!(ids, [newer.id, older.id]);
    done(
        &store,
        payment_of("a"),
        open("one", "sandbox-test"),
        later(5),
    )
    .await;
    let (aggregate, _) = done(&store, payment_of("a"), started("one", "v"), later(2)).await;
    assert_eq!(store.aggregate(payment_of("a")).await, Ok(Some(aggregate)));
    let history = store.history(newer.id).await.unwrap().unwrap();
    assert!(!history.transitions.is_empty());
    // The audit log numbers its lines regardless of the clock.
    for seconds in [9, 3, 6] {
        store.audit(audited("x.y"), later(seconds)).await.unwrap();
    }
    let log = page(store.audit_log(first(9)).await.unwrap()).items;
    let ids: Vec<_> = log.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [3, 2, 1]);
}
