//! The ledger.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AttemptId, MerchantId, MovementId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{NewCorrection, NewWork, PaymentAggregate, Step, StepOutcome};
use kassette_domain::money::Minor;
use kassette_domain::movement::{Balance, Bucket, Effect, Movement, MovementKind, Source};
use kassette_domain::order::IdempotencyKey;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkKey, WorkKind};

use super::Harness;
use super::fixtures::*;
use super::refunds::{answered, claimed, order, paid};
use crate::{Booking, CLOSES_AFTER, MAX_CLOCK_STEP, MovementFilter, RefundOrdered, Stepped, Store};

fn id_of_payment(name: &str) -> PaymentId {
    PaymentId::from_bytes(id_of(name))
}

/// All movements that match a filter, read in short pages.
async fn listed(store: &Arc<dyn Store>, filter: MovementFilter) -> Vec<Movement> {
    let (mut all, mut paging) = (Vec::new(), first(2));
    loop {
        let found = page(store.movements(filter.clone(), paging).await.unwrap());
        all.extend(found.items);
        let Some(next) = found.next else {
            return all;
        };
        paging = crate::Paging {
            limit: 2,
            cursor: Some(next),
        };
    }
}

fn kinds(movements: &[Movement]) -> Vec<MovementKind> {
    let mut kinds: Vec<_> = movements.iter().map(|movement| movement.kind).collect();
    kinds.sort();
    kinds
}

pub fn correction(name: &str, of: &str) -> NewCorrection {
    NewCorrection {
        attempt: attempt_id(&format!("attempt of {of}")),
        effect: Effect::Out,
        bucket: Bucket::Own,
        amount: Minor(100),
        currency: "EUR".into(),
        occurred_at: NOW,
        provider_references: vec!["statement 7".into()],
        key: IdempotencyKey::parse(&format!("correction-{name}")).unwrap(),
    }
}

/// Captured money of an attempt without a payment.
pub fn unknown(name: &str, amount: u64) -> (NewWork, Movement) {
    let attempt = AttemptId::from_bytes(id_of(name));
    let found = NewWork {
        key: WorkKey {
            attempt,
            kind: WorkKind::Unknown,
            subject: String::new(),
        },
        account: account("sandbox-test"),
        amount: Minor(amount),
        currency: "EUR".into(),
        received: Minor(amount),
        detail: "money of an unknown payment".into(),
        deadline: None,
    };
    let kind = MovementKind::Captured;
    let movement = Movement {
        id: MovementId::derived(&account("sandbox-test"), name, kind, 0),
        account: account("sandbox-test"),
        environment: Environment::Live,
        merchant: None,
        payment: None,
        attempt: Some(attempt),
        kind,
        effect: Effect::In,
        bucket: Some(Bucket::Own),
        from_bucket: None,
        amount: Minor(amount),
        currency: "EUR".into(),
        provider_references: vec![name.into()],
        occurred_at: NOW,
        booked_at: NOW,
        source: Source::Notification,
    };
    (found, movement)
}

/// A refund of a paid payment, up to the provider's answer.
async fn refunded(store: &Arc<dyn Store>, name: &str, of: &str) -> PaymentAggregate {
    let order = order(name, of, Some(1000));
    let about = crate::About::Refund(order.id);
    let ordered = store.refund(id_of_payment(of), order, None, None, later(2));
    assert!(matches!(ordered.await.unwrap(), RefundOrdered::New { .. }));
    done(store, about.clone(), claimed(name, 60), later(3)).await;
    let answer = answered(name, kassette_domain::provider::RefundState::Succeeded);
    done(store, about, answer, later(4)).await.0
}

pub async fn a_step_books_its_movements_and_a_repeated_report_books_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    for seconds in [5, 6] {
        let report = report("vendor-a", ProviderStatus::Completed);
        done(
            &store,
            payment_of("a"),
            news("attempt of a", report),
            later(seconds),
        )
        .await;
    }
    let aggregate = refunded(&store, "one", "a").await;
    let movements = store.movements_of(id_of_payment("a")).await.unwrap();
    let expected = [MovementKind::Captured, MovementKind::Refunded];
    assert_eq!(kinds(&movements), expected);
    assert_eq!(listed(&store, MovementFilter::default()).await, movements);
    let balance = Balance::from_movements(&movements);
    assert_eq!(balance, aggregate.attempts[0].funds.balance);
    for movement in &movements {
        let found = store.movement(movement.payment, movement.id).await;
        assert_eq!(found.unwrap().as_ref(), Some(movement));
        assert_eq!(store.movement(None, movement.id).await, Ok(None));
    }
    store.shut_down().await.unwrap();
    drop(store);
    let store = harness.open().await;
    assert_eq!(listed(&store, MovementFilter::default()).await, movements);
}

pub async fn movements_are_listed_by_booking_time_and_as_filtered(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b", "c"] {
        paid(&store, name).await;
    }
    refunded(&store, "one", "b").await;
    let (found, movement) = unknown("nobody's", 300);
    store
        .unknown_money(found, movement, later(9))
        .await
        .unwrap();
    let all = listed(&store, MovementFilter::default()).await;
    assert_eq!(all.len(), 5);
    assert!(all.is_sorted_by_key(|movement| (movement.booked_at, movement.id)));
    let filters = [
        MovementFilter {
            merchant: Some(MerchantId(1)),
            ..MovementFilter::default()
        },
        MovementFilter {
            environment: Some(Environment::Live),
            ..MovementFilter::default()
        },
        MovementFilter {
            payment: Some(id_of_payment("b")),
            ..MovementFilter::default()
        },
        MovementFilter {
            kind: Some(MovementKind::Refunded),
            account: Some(account("sandbox-test")),
            ..MovementFilter::default()
        },
        MovementFilter {
            since: Some(later(4)),
            until: Some(later(9)),
            ..MovementFilter::default()
        },
    ];
    for (filter, expected) in filters.into_iter().zip([4, 1, 2, 1, 1]) {
        let found = listed(&store, filter.clone()).await;
        assert_eq!(found.len(), expected, "{filter:?}");
        let fitting = all.iter().filter(|movement| filter.matches(movement));
        assert!(fitting.eq(&found), "{filter:?}");
    }
    let foreign = crate::Paging {
        limit: 2,
        cursor: Some("bm90aGluZw".into()),
    };
    let refused = store.movements(MovementFilter::default(), foreign).await;
    assert_eq!(refused, Ok(crate::Listed::BadCursor));
}

pub async fn nothing_is_booked_in_a_closed_period(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let day = Duration::from_secs(24 * 3600);
    let closed = NOW.after(day);
    let advanced = store.advance_closed_until(closed.after(CLOSES_AFTER), true);
    assert_eq!(advanced.await.unwrap().closed_until, closed);
    // A clock that is set back does not move it back.
    let advanced = store.advance_closed_until(later(60), false);
    assert_eq!(advanced.await.unwrap().closed_until, closed);
    let before = listed(&store, MovementFilter::default()).await;
    let aggregate = refunded(&store, "one", "a").await;
    let (found, movement) = unknown("nobody's", 300);
    store
        .unknown_money(found, movement, later(9))
        .await
        .unwrap();
    let late = listed(
        &store,
        MovementFilter {
            since: Some(closed),
            ..MovementFilter::default()
        },
    )
    .await;
    assert_eq!(late.len(), 2);
    assert!(late.iter().all(|movement| movement.booked_at == closed));
    assert_eq!(aggregate.payment.last_booked, closed);
    let filter = MovementFilter {
        until: Some(closed),
        ..MovementFilter::default()
    };
    assert_eq!(listed(&store, filter).await, before);
    store.shut_down().await.unwrap();
    drop(store);
    let store = harness.open().await;
    assert_eq!(store.ledger().await.unwrap().closed_until, closed);
}

pub async fn a_jump_of_the_clock_closes_nothing_until_it_is_confirmed(harness: &dyn Harness) {
    let store = harness.open().await;
    let confirm = |at: Time| store.confirm_clock(audited("finance.confirm_clock"), at);
    store.advance_closed_until(NOW, true).await.unwrap();
    assert_eq!(confirm(NOW).await, Ok(None));
    let jumped = NOW.after(MAX_CLOCK_STEP * 3);
    let waiting = store.advance_closed_until(jumped, false).await.unwrap();
    assert_eq!(waiting.closed_until, NOW.before(CLOSES_AFTER));
    assert!(waiting.jump.is_some());
    // Until then time continues as if the clock had not jumped.
    let (found, movement) = unknown("one", 300);
    let minute = Duration::from_secs(60);
    let at = jumped.after(minute);
    store.unknown_money(found, movement, at).await.unwrap();
    let booked = listed(&store, MovementFilter::default()).await;
    assert_eq!(booked[0].booked_at, NOW.after(minute));
    let waiting = store.advance_closed_until(at, false).await.unwrap();
    assert_eq!(waiting.closed_until, NOW.after(minute).before(CLOSES_AFTER));
    let confirmed = confirm(at).await.unwrap().unwrap();
    assert_eq!(confirmed.jump, None);
    assert_eq!(confirmed.closed_until, at.before(CLOSES_AFTER));
    assert_eq!(store.ledger().await, Ok(confirmed));
    let log = page(store.audit_log(first(9)).await.unwrap()).items;
    assert_eq!(log.len(), 1);
}

pub async fn a_correction_is_booked_once(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let correct = async |name: &str| {
        let step = Step::Correct(Box::new(correction(name, "a")));
        let line = Some(audited("finance.correct"));
        match store
            .step(payment_of("a"), step, line, later(5))
            .await
            .unwrap()
        {
            Stepped::Done {
                outcome, aggregate, ..
            } => (outcome, aggregate),
            other => panic!("{other:?}"),
        }
    };
    let (outcome, first_time) = correct("one").await;
    assert_eq!(outcome, StepOutcome::Done);
    let (outcome, again) = correct("one").await;
    assert_eq!((outcome, &again), (StepOutcome::Nothing, &first_time));
    let net = again.attempts[0].funds.balance.total().net();
    assert_eq!(net, 4890);
    let log = page(store.audit_log(first(9)).await.unwrap()).items;
    assert_eq!(log.len(), 1);
    let kind = MovementKind::Correction;
    let object = NewCorrection::object(&correction("one", "a").key);
    let id = MovementId::derived(&account("sandbox-test"), &object, kind, 0);
    let booked = store.movement(Some(id_of_payment("a")), id).await.unwrap();
    assert_eq!(booked.map(|movement| movement.amount), Some(Minor(100)));
}

pub async fn a_movement_without_a_payment_is_booked_once(harness: &dyn Harness) {
    let store = harness.open().await;
    let (_, movement) = unknown("a payout", 300);
    let book = |seconds| {
        let line = Some(audited("finance.match"));
        store.book(movement.clone(), line, later(seconds))
    };
    let booked = match book(1).await.unwrap() {
        Booking::New(booked) => booked,
        Booking::Known(known) => panic!("{known:?}"),
    };
    assert_eq!(booked.booked_at, later(1));
    assert_eq!(book(2).await, Ok(Booking::Known(booked.clone())));
    assert_eq!(listed(&store, MovementFilter::default()).await, [booked]);
    let log = page(store.audit_log(first(9)).await.unwrap()).items;
    assert_eq!(log.len(), 1);
}

pub async fn unknown_money_is_listed_and_booked_once(harness: &dyn Harness) {
    let store = harness.open().await;
    for (seconds, amount) in [(1, 300), (2, 300), (3, 500)] {
        let (found, mut movement) = unknown("nobody's", amount);
        let kind = movement.kind;
        let object = format!("nobody's {amount}");
        movement.id = MovementId::derived(&movement.account, &object, kind, 0);
        store
            .unknown_money(found, movement, later(seconds))
            .await
            .unwrap();
    }
    let items = page(store.work(true, first(9)).await.unwrap()).items;
    assert_eq!(items.len(), 1);
    assert_eq!((items[0].amount, items[0].payment), (Minor(500), None));
    assert_eq!(items[0].environment, Environment::Live);
    let booked = listed(&store, MovementFilter::default()).await;
    let amounts: Vec<_> = booked.iter().map(|movement| movement.amount.0).collect();
    assert_eq!(amounts, [300, 500]);
}
