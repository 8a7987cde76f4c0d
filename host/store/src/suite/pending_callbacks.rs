//! Notices that arrive before the answer to the start.

use kassette_domain::event::EventType;
use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{Change, StepOutcome};
use kassette_domain::payment::Status;
use kassette_domain::provider::ProviderStatus;

use super::Harness;
use super::fixtures::*;
use crate::{KeptCallback, Stepped};

pub async fn a_pending_report_is_applied_when_its_reference_is_known(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    done(&store, payment_of("a"), open("one", "sandbox-test"), NOW).await;
    let at = || account("sandbox-test");
    let paid = || Some(report("vendor-1", ProviderStatus::Completed));
    for _ in 0..2 {
        let kept = store
            .keep_callback(at(), "vendor-1".into(), paid(), later(1))
            .await;
        assert_eq!(kept, Ok(KeptCallback::Kept));
    }
    // The same reference at another account is a different one.
    let elsewhere = Some(report("vendor-1", ProviderStatus::Failed));
    store
        .keep_callback(
            account("other-test"),
            "vendor-1".into(),
            elsewhere,
            later(1),
        )
        .await
        .unwrap();
    let step = started("one", "vendor-1");
    let stepped = store.step(payment_of("a"), step, None, later(2)).await;
    let Ok(Stepped::Done {
        aggregate,
        outcome,
        change,
    }) = stepped
    else {
        panic!("{stepped:?}");
    };
    assert_eq!(outcome, StepOutcome::Done);
    assert_eq!(aggregate.payment.status, Status::Completed);
    assert_eq!(store.aggregate(payment_of("a")).await, Ok(Some(aggregate)));
    let history = store
        .history(PaymentId::from_bytes(id_of("a")))
        .await
        .unwrap()
        .unwrap();
    let told = history.events.iter().map(|event| event.kind);
    assert!(told.eq(change_events_with_pending(&change)));
}

/// Events without the `pending` event of the opening: those of the start and of the notice.
fn change_events_with_pending(change: &Change) -> impl Iterator<Item = EventType> + '_ {
    let opened = EventType::PaymentPending;
    std::iter::once(opened).chain(change.events.iter().map(|told| told.kind))
}

pub async fn a_bare_pending_callback_makes_the_vendor_be_asked(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    done(&store, payment_of("a"), open("one", "sandbox-test"), NOW).await;
    let account = account("sandbox-test");
    store
        .keep_callback(account, "vendor-1".into(), None, later(1))
        .await
        .unwrap();
    let (aggregate, _) = done(
        &store,
        payment_of("a"),
        started("one", "vendor-1"),
        later(2),
    )
    .await;
    assert_eq!(aggregate.attempts[0].queries.next(), Some(later(2)));
    assert_eq!(store.next_due().await, Ok(aggregate.due_at()));
}

pub async fn a_pending_callback_lives_for_an_hour(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    done(&store, payment_of("a"), open("one", "sandbox-test"), NOW).await;
    let paid = Some(report("vendor-1", ProviderStatus::Completed));
    store
        .keep_callback(account("sandbox-test"), "vendor-1".into(), paid, NOW)
        .await
        .unwrap();
    let step = started("one", "vendor-1");
    let (aggregate, _) = done(&store, payment_of("a"), step, later(3600)).await;
    assert_eq!(aggregate.payment.status, Status::Pending);
}

pub async fn a_callback_about_a_known_reference_is_not_kept(harness: &dyn Harness) {
    let store = harness.open().await;
    let aggregate = pay(&store, "a").await;
    let kept = store
        .keep_callback(account("sandbox-test"), "vendor-a".into(), None, later(1))
        .await;
    assert_eq!(kept, Ok(KeptCallback::Known(aggregate.attempts[0].id)));
}

/// More than a store accepts for one reference.
const MANY: usize = 1000;

pub async fn a_vendor_cannot_fill_the_store_with_callbacks(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut full = 0;
    for each in 0..MANY {
        let mut report = report("vendor-1", ProviderStatus::Pending);
        report.detail = each.to_string();
        let account = account("sandbox-test");
        let kept = store.keep_callback(account, "vendor-1".into(), Some(report), NOW);
        match kept.await.unwrap() {
            KeptCallback::Kept => {}
            KeptCallback::Full => full += 1,
            other => panic!("{other:?}"),
        }
        if full > 0 {
            break;
        }
    }
    assert!(full > 0, "a thousand notices of one reference were kept");
    // After an hour they expire and make space.
    let account = account("sandbox-test");
    let kept = store.keep_callback(account, "vendor-1".into(), None, later(3600));
    assert_eq!(kept.await, Ok(KeptCallback::Kept));
}
