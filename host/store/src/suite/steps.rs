//! Steps with all their consequences.

use std::sync::Arc;

use kassette_domain::id::PaymentId;
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{Act, Change, NewEvent, Step};
use kassette_domain::payment::{RoutingDecision, Status};
use kassette_domain::provider::ProviderStatus;
use kassette_domain::secret::Secret;

use super::Harness;
use super::fixtures::*;
use crate::{About, History, Stepped};

/// Checks that the timeline contains exactly the changes of the steps, in order.
fn assert_told(history: &History, changes: &[Change]) {
    let all = |of: fn(&Change) -> usize| changes.iter().map(of).sum::<usize>();
    let transitions: Vec<_> = changes
        .iter()
        .flat_map(|change| &change.transitions)
        .collect();
    assert_eq!(history.transitions.iter().collect::<Vec<_>>(), transitions);
    let decisions: Vec<&RoutingDecision> = changes
        .iter()
        .flat_map(|change| &change.decisions)
        .collect();
    assert_eq!(history.decisions.iter().collect::<Vec<_>>(), decisions);
    let events: Vec<_> = changes.iter().flat_map(|change| &change.events).collect();
    let told: Vec<_> = history
        .events
        .iter()
        .map(|event| NewEvent {
            kind: event.kind,
            status: event.status,
            settlement: event.settlement,
            subject: event.subject.as_deref().cloned(),
        })
        .collect();
    assert_eq!(told.iter().collect::<Vec<_>>(), events);
    let mut ids: Vec<_> = history.events.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all(|change| change.events.len()));
}

pub async fn a_step_writes_payment_attempt_timeline_and_events_together(harness: &dyn Harness) {
    let store = harness.open().await;
    let payment = create(&store, "a", NOW).await;
    let mut changes = Vec::new();
    let mut last = None;
    let steps = [
        open("one", "sandbox-test"),
        started("one", "vendor-1"),
        news("one", report("vendor-1", ProviderStatus::Processing)),
        news("one", report("vendor-1", ProviderStatus::Completed)),
    ];
    for (at, step) in steps.into_iter().enumerate() {
        let (aggregate, change) = done(&store, payment_of("a"), step, later(at as u64)).await;
        let read = store.aggregate(payment_of("a")).await.unwrap();
        assert_eq!(read.as_ref(), Some(&aggregate));
        changes.push(change);
        let history = store.history(payment.id).await.unwrap().unwrap();
        assert_told(&history, &changes);
        // Two times, because the first read may fill a cache.
        for _ in 0..2 {
            let read = store.payment(payment.id).await.unwrap();
            assert_eq!(read.as_deref(), Some(&aggregate.payment));
        }
        last = Some(aggregate);
    }
    let aggregate = last.unwrap();
    assert_eq!(aggregate.payment.status, Status::Completed);
    assert_eq!(
        store.payment(payment.id).await.unwrap().as_deref(),
        Some(&aggregate.payment)
    );
    let events = store.history(payment.id).await.unwrap().unwrap().events;
    assert!(events.len() >= 2 && events.iter().all(|event| event.payment == payment.id));
    assert_eq!(events.last().map(|event| event.created_at), Some(later(3)));
}

pub async fn a_history_is_of_one_moment_while_its_payment_goes_on(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in (0..100).map(|number| number.to_string()) {
        let id = create(&store, &name, NOW).await.id;
        let reference = format!("vendor-{name}");
        let steps = [
            open(&name, "sandbox-test"),
            started(&name, &reference),
            news(&name, report(&reference, ProviderStatus::Completed)),
        ];
        let writing = tokio::spawn({
            let (store, about) = (store.clone(), payment_of(&name));
            async move {
                for step in steps {
                    done(&store, about.clone(), step, NOW).await;
                }
            }
        });
        loop {
            let is_last = writing.is_finished();
            let history = store.history(id).await.unwrap().unwrap();
            let mut moves = history.transitions.iter().filter(|line| line.applied);
            let told = moves.next_back().map_or(Status::Created, |line| line.to);
            assert_eq!(told, history.aggregate.payment.status);
            let is_told = history.events.iter().any(|event| event.status == told);
            assert!(is_told || told == Status::Created, "{history:?}");
            if is_last {
                break;
            }
        }
        writing.await.unwrap();
    }
}

pub async fn a_refused_step_leaves_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    pay(&store, "a").await;
    let before = everything(&store, "a").await;
    let refused = [
        open("two", "sandbox-test"),
        Step::Act(Act::Cancel),
        started("nobody", "vendor-9"),
        news("attempt of a", {
            let mut report = report("vendor-a", ProviderStatus::Completed);
            report.currency.clear();
            report
        }),
    ];
    for step in refused {
        let audited = Some(audited("payment.step"));
        let stepped = store.step(payment_of("a"), step, audited, later(1)).await;
        assert!(
            matches!(stepped, Ok(Stepped::Refused { .. })),
            "{stepped:?}"
        );
        assert_eq!(everything(&store, "a").await, before);
    }
    let unknown = About::Attempt(attempt_id("two"));
    assert_eq!(store.aggregate(unknown).await.unwrap(), None);
    let token = TokenHash::hash("return-token-of-two");
    assert_eq!(store.by_return(token).await.unwrap(), None);
}

pub async fn the_same_step_at_once_is_done_once(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    let mut callers = Vec::new();
    for caller in 0..32 {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            let step = open(&format!("attempt {caller}"), "sandbox-test");
            store.step(payment_of("a"), step, None, NOW).await
        }));
    }
    let mut opened = 0;
    for caller in callers {
        match caller.await.unwrap().unwrap() {
            Stepped::Done { .. } => opened += 1,
            Stepped::Refused { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(opened, 1);
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert_eq!(aggregate.attempts.len(), 1);
}

pub async fn an_unknown_payment_is_said_to_be_unknown(harness: &dyn Harness) {
    let store = harness.open().await;
    let abouts = [
        payment_of("nobody"),
        About::Attempt(attempt_id("nobody")),
        About::Reference {
            account: account("sandbox-test"),
            reference: "nothing".into(),
        },
    ];
    for about in abouts {
        let release = Step::Release { claimed_until: NOW };
        let stepped = store
            .step(about.clone(), release, Some(audited("x.y")), NOW)
            .await;
        assert_eq!(stepped, Ok(Stepped::Unknown));
        assert_eq!(store.aggregate(about).await, Ok(None));
    }
    let id = PaymentId::from_bytes(id_of("nobody"));
    assert_eq!(store.payment(id).await, Ok(None));
    assert_eq!(store.history(id).await, Ok(None));
    assert_eq!(store.by_checkout(TokenHash::hash("no")).await, Ok(None));
    assert!(
        page(store.audit_log(first(9)).await.unwrap())
            .items
            .is_empty()
    );
}

pub async fn a_taken_reference_changes_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    pay(&store, "a").await;
    create(&store, "b", NOW).await;
    done(&store, payment_of("b"), open("two", "sandbox-test"), NOW).await;
    let before = everything(&store, "b").await;
    let step = started("two", "vendor-a");
    let audited = Some(audited("x.y"));
    let stepped = store
        .step(payment_of("b"), step, audited, later(1))
        .await
        .unwrap();
    let aggregate = store.aggregate(payment_of("b")).await.unwrap().unwrap();
    assert_eq!(stepped, Stepped::ReferenceTaken(aggregate));
    assert_eq!(everything(&store, "b").await, before);
    // The same reference at another account is a different one.
    create(&store, "c", NOW).await;
    done(&store, payment_of("c"), open("three", "other-test"), NOW).await;
    done(&store, payment_of("c"), started("three", "vendor-a"), NOW).await;
}

pub async fn an_attempt_is_found_by_id_reference_and_return_token(harness: &dyn Harness) {
    let store = harness.open().await;
    let aggregate = pay(&store, "a").await;
    pay(&store, "b").await;
    let id = attempt_id("attempt of a");
    let by_reference = |at: &str, reference: &str| About::Reference {
        account: account(at),
        reference: reference.into(),
    };
    for about in [About::Attempt(id), by_reference("sandbox-test", "vendor-a")] {
        assert_eq!(store.aggregate(about).await, Ok(Some(aggregate.clone())));
    }
    for wrong in [
        by_reference("other-test", "vendor-a"),
        by_reference("sandbox-test", "vendor-"),
    ] {
        assert_eq!(store.aggregate(wrong).await, Ok(None));
    }
    let returning = TokenHash::hash("return-token-of-attempt of a");
    assert_eq!(
        store.by_return(returning).await,
        Ok(Some((id, aggregate.clone())))
    );
    let checkout = TokenHash::hash(&token("a"));
    assert_eq!(
        store.by_checkout(checkout).await,
        Ok(Some(aggregate.clone()))
    );
    // An additional reference is known like the first one.
    let step = news("attempt of a", report("renamed", ProviderStatus::Pending));
    let (aggregate, _) = done(&store, payment_of("a"), step, later(2)).await;
    for reference in ["vendor-a", "renamed"] {
        let about = by_reference("sandbox-test", reference);
        assert_eq!(store.aggregate(about).await, Ok(Some(aggregate.clone())));
    }
}

pub async fn an_audit_line_is_written_only_with_a_step_that_was_done(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    let cancel = || Step::Act(Act::Cancel);
    for _ in 0..2 {
        let audited = Some(audited("payment.cancel"));
        store
            .step(payment_of("a"), cancel(), audited, later(1))
            .await
            .unwrap();
    }
    let log = page(store.audit_log(first(9)).await.unwrap()).items;
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].audited, audited("payment.cancel"));
}

pub async fn accounts_are_in_use_while_money_can_move(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(store.accounts_in_use().await, Ok(vec![]));
    pay(&store, "a").await;
    create(&store, "b", NOW).await;
    done(&store, payment_of("b"), open("two", "sandbox-test-2"), NOW).await;
    let mut accounts = store.accounts_in_use().await.unwrap();
    accounts.sort();
    assert_eq!(
        accounts,
        [account("sandbox-test"), account("sandbox-test-2")]
    );
    let paid = news(
        "attempt of a",
        report("vendor-a", ProviderStatus::Completed),
    );
    done(&store, payment_of("a"), paid, later(2)).await;
    assert_eq!(
        store.accounts_in_use().await,
        Ok(vec![account("sandbox-test-2")])
    );
}

pub async fn secrets_of_an_attempt_come_back_and_can_be_erased(harness: &dyn Harness) {
    let store = harness.open().await;
    let aggregate = pay(&store, "a").await;
    let expected = choice("attempt of a", "sandbox-test");
    assert_eq!(aggregate.attempts[0].payer, expected.payer);
    assert_eq!(aggregate.attempts[0].return_token, expected.return_token);
    let returned = Step::Returned {
        attempt: attempt_id("attempt of a"),
        query: Secret::new("x=1"),
    };
    done(&store, payment_of("a"), returned, later(1)).await;
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    let returned = aggregate.attempts[0].returned.as_ref();
    assert_eq!(returned.map(Secret::expose), Some("x=1"));
    done(&store, payment_of("a"), Step::Redact, later(2)).await;
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert_eq!(aggregate.payment.email, None);
    assert_eq!(aggregate.attempts[0].payer, Default::default());
    assert_eq!(aggregate.attempts[0].returned, None);
}
