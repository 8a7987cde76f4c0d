//! A merchant's events, in pages.

use std::sync::Arc;

use kassette_domain::event::EventType;
use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::provider::ProviderStatus;

use super::Harness;
use super::fixtures::*;
use crate::{EventsAsked, Listed, Paging, Store};

const ASKED: EventsAsked = EventsAsked {
    merchant: MerchantId(1),
    environment: Environment::Test,
    kind: None,
    since: None,
    until: None,
    payments: None,
};

/// The event types of a list, page by page.
async fn kinds(store: &Arc<dyn Store>, asked: &EventsAsked, limit: usize) -> Vec<EventType> {
    let (mut found, mut paging) = (Vec::new(), first(limit));
    loop {
        let page = page(store.events(asked.clone(), paging).await.unwrap());
        assert!(page.items.len() <= limit);
        found.extend(page.items.iter().map(|(event, payment)| {
            assert_eq!(
                (event.payment, payment.merchant),
                (payment.id, asked.merchant)
            );
            event.kind
        }));
        let Some(next) = page.next else { return found };
        paging = Paging {
            limit,
            cursor: Some(next),
        };
    }
}

/// A payment with one declined attempt that was paid with another.
async fn paid(store: &Arc<dyn Store>) {
    pay(store, "a").await;
    let declined = report("vendor-a", ProviderStatus::Declined);
    done(
        store,
        payment_of("a"),
        news("attempt of a", declined),
        later(1),
    )
    .await;
    done(
        store,
        payment_of("a"),
        open("again", "sandbox-test"),
        later(2),
    )
    .await;
    done(
        store,
        payment_of("a"),
        started("again", "vendor-b"),
        later(2),
    )
    .await;
    let taken = report("vendor-b", ProviderStatus::Completed);
    done(store, payment_of("a"), news("again", taken), later(3)).await;
}

pub async fn events_are_listed_newest_first_whether_an_endpoint_wants_them_or_not(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    shop(&store).await;
    paid(&store).await;
    let expected = [
        EventType::PaymentCompleted,
        EventType::PaymentPending,
        EventType::PaymentAttemptFailed,
        EventType::PaymentPending,
    ];
    for limit in [1, 2, 3, 100] {
        assert_eq!(kinds(&store, &ASKED, limit).await, expected, "{limit}");
    }
    // The listed events equal those in the payment's history.
    let listed = page(store.events(ASKED, first(100)).await.unwrap()).items;
    let history = store.history(listed[0].1.id).await.unwrap().unwrap();
    let mut events: Vec<_> = listed.into_iter().map(|(event, _)| event).collect();
    events.reverse();
    assert_eq!(events, history.events);
    store.shut_down().await.unwrap();
    drop(store);
    let store = harness.open().await;
    assert_eq!(kinds(&store, &ASKED, 100).await, expected);
}

pub async fn events_are_those_that_were_asked_for_and_no_other_merchant_s(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    paid(&store).await;
    let pending = EventsAsked {
        kind: Some(EventType::PaymentPending),
        ..ASKED
    };
    assert_eq!(
        kinds(&store, &pending, 1).await,
        [EventType::PaymentPending; 2]
    );
    let since = EventsAsked {
        since: Some(later(2)),
        ..ASKED
    };
    let newest = [EventType::PaymentCompleted, EventType::PaymentPending];
    assert_eq!(kinds(&store, &since, 1).await, newest);
    let none = EventsAsked {
        since: Some(later(4)),
        ..ASKED
    };
    assert_eq!(kinds(&store, &none, 9).await, []);
    let others = EventsAsked {
        merchant: MerchantId(2),
        ..ASKED
    };
    let live = EventsAsked {
        environment: Environment::Live,
        ..ASKED
    };
    for asked in [others, live] {
        assert_eq!(kinds(&store, &asked, 9).await, []);
        let cursor = page(store.events(ASKED, first(1)).await.unwrap()).next;
        let foreign = Paging { limit: 1, cursor };
        assert_eq!(store.events(asked, foreign).await, Ok(Listed::BadCursor));
    }
    let until = EventsAsked {
        until: Some(later(2)),
        ..ASKED
    };
    let oldest = [EventType::PaymentAttemptFailed, EventType::PaymentPending];
    assert_eq!(kinds(&store, &until, 1).await, oldest);
}

pub async fn events_of_some_payments_are_listed_like_all_and_never_another_merchant_s(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    shop(&store).await;
    paid(&store).await;
    pay(&store, "c").await;
    let of = |payments: &[&str]| EventsAsked {
        payments: Some(
            payments
                .iter()
                .map(|name| PaymentId::from_bytes(id_of(name)))
                .collect(),
        ),
        ..ASKED
    };
    let of_a = [
        EventType::PaymentCompleted,
        EventType::PaymentPending,
        EventType::PaymentAttemptFailed,
        EventType::PaymentPending,
    ];
    for limit in [1, 3, 100] {
        assert_eq!(kinds(&store, &of(&["a"]), limit).await, of_a, "{limit}");
        let both = kinds(&store, &of(&["a", "c", "unknown"]), limit).await;
        assert_eq!(both, kinds(&store, &ASKED, limit).await, "{limit}");
    }
    assert_eq!(
        kinds(&store, &of(&["c"]), 9).await,
        [EventType::PaymentPending]
    );
    assert_eq!(kinds(&store, &of(&["unknown"]), 9).await, []);
    assert_eq!(kinds(&store, &of(&[]), 9).await, []);
    let completed = EventsAsked {
        kind: Some(EventType::PaymentCompleted),
        ..of(&["a", "c"])
    };
    assert_eq!(
        kinds(&store, &completed, 1).await,
        [EventType::PaymentCompleted]
    );
    for elsewhere in [
        EventsAsked {
            merchant: MerchantId(2),
            ..of(&["a"])
        },
        EventsAsked {
            environment: Environment::Live,
            ..of(&["a"])
        },
    ] {
        assert_eq!(kinds(&store, &elsewhere, 9).await, []);
    }
}
