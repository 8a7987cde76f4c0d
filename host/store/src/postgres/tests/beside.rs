//! Two stores on one database at once: each holds leases and claims that the other cannot take.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::connect::CodeUse;
use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{Step, Via};
use kassette_domain::provider::ProviderStatus;
use kassette_domain::webhook::{Endpoint, EventFilter};

use crate::postgres::PostgresStore;
use crate::postgres::scratch::Scratch;
use crate::suite::deliveries::arrived;
use crate::suite::fixtures::*;
use crate::{
    ClaimedDeliveries, CodeIssued, CodeUsed, Created, DeliveryFilter, Exchanged, Reserved, Stepped,
    Store, TriedOutcome,
};

/// A database with two stores. `None` without PostgreSQL.
async fn two() -> Option<(Scratch, [Arc<dyn Store>; 2])> {
    if !Scratch::available().unwrap() {
        return None;
    }
    let scratch = Scratch::new().await.unwrap();
    let serves = PostgresStore::open(&scratch.options()).await.unwrap();
    let beside = PostgresStore::visit(&scratch.options()).await.unwrap();
    Some((scratch, [serves, beside]))
}

/// Sends concurrent calls to both stores alternately.
async fn race<T, F>(
    stores: &[Arc<dyn Store>; 2],
    callers: usize,
    ask: impl Fn(Arc<dyn Store>, usize) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let asking =
        (0..callers).map(|caller| tokio::spawn(ask(Arc::clone(&stores[caller % 2]), caller)));
    let mut answers = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        answers.push(asked.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_delivery_is_claimed_by_two_stores() {
    let Some((_scratch, stores)) = two().await else {
        return;
    };
    shop(&stores[0]).await;
    let endpoint = listen(&stores[0], endpoint("a", NOW)).await.id;
    let queued = race(&stores, 48, move |store: Arc<dyn Store>, _| async move {
        store
            .queue_test(endpoint, audited("endpoint.test"), NOW)
            .await
            .unwrap()
            .unwrap()
            .id
    });
    let queued: BTreeSet<_> = queued.await.into_iter().collect();
    let claimed = race(&stores, 8, move |store: Arc<dyn Store>, _| async move {
        let mut taken = Vec::new();
        loop {
            let claimed = store
                .claim(endpoint, NOW, Duration::from_secs(60), 3)
                .await
                .unwrap();
            let ClaimedDeliveries::Due { deliveries, .. } = claimed else {
                panic!("the endpoint is held");
            };
            if deliveries.is_empty() {
                return taken;
            }
            taken.extend(deliveries.into_iter().map(|due| due.id));
        }
    });
    let claimed = claimed.await.concat();
    assert_eq!(
        claimed.len(),
        queued.len(),
        "some were taken twice, or by none"
    );
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), queued);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_one_store_is_not_given_back_by_the_other() {
    let Some((_scratch, [a, b])) = two().await else {
        return;
    };
    shop(&a).await;
    let endpoint = listen(&a, endpoint("a", NOW)).await.id;
    a.queue_test(endpoint, audited("endpoint.test"), NOW)
        .await
        .unwrap();
    let lease = Duration::from_secs(60);
    let claim =
        async |store: &Arc<dyn Store>, at| match store.claim(endpoint, at, lease, 9).await.unwrap()
        {
            ClaimedDeliveries::Due { deliveries, .. } => deliveries,
            ClaimedDeliveries::Held => panic!("the endpoint is held"),
        };
    let due = claim(&a, NOW).await;
    assert_eq!(claim(&b, later(59)).await, []);
    // The lease has expired, and its former holder releases it too late.
    assert_eq!(claim(&b, later(60)).await, due);
    a.give_back(vec![due[0].id]).await.unwrap();
    assert_eq!(claim(&a, later(61)).await, [], "the other store has it");
    // Both record the outcome of their attempts: one is in the log.
    let records = [
        a.tried(due[0].id, arrived(0), None, later(61)),
        b.tried(due[0].id, arrived(0), None, later(61)),
    ];
    let [first, second] = records;
    let taken = |outcome: &TriedOutcome| matches!(outcome, TriedOutcome::Taken { .. });
    let outcomes = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(outcomes.iter().filter(|outcome| taken(outcome)).count(), 1);
    assert_eq!(
        b.delivery(due[0].id).await.unwrap().unwrap().attempts.len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_makes_one_payment_over_two_stores() {
    let Some((_scratch, stores)) = two().await else {
        return;
    };
    let created = race(&stores, 64, |store: Arc<dyn Store>, caller| async move {
        let mut new = new_payment("a");
        new.id = PaymentId::from_bytes(id_of(&caller.to_string()));
        store.create(new, None, NOW).await.unwrap()
    });
    let (mut made, mut replayed) = (Vec::new(), Vec::new());
    for each in created.await {
        match each {
            Created::New(payment) => made.push(payment.id),
            Created::Replay(payment) => replayed.push(payment.id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made.len(), replayed.len()), (1, 63));
    assert!(replayed.iter().all(|id| *id == made[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nonce_has_one_winner_over_two_stores() {
    let Some((_scratch, stores)) = two().await else {
        return;
    };
    for round in 0..8 {
        let asked = race(&stores, 32, move |store: Arc<dyn Store>, _| async move {
            store
                .reserve_nonce(nonce_of(&format!("n{round}"), NOW), NOW)
                .await
                .unwrap()
        });
        let fresh = asked
            .await
            .into_iter()
            .filter(|reserved| *reserved == Reserved::Fresh);
        assert_eq!(fresh.count(), 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_done_once_over_two_stores_and_told_once() {
    let Some((_scratch, stores)) = two().await else {
        return;
    };
    shop(&stores[0]).await;
    let endpoint = listen(&stores[0], endpoint("a", NOW)).await.id;
    create(&stores[0], "a", NOW).await;
    let opened = race(&stores, 32, |store: Arc<dyn Store>, caller| async move {
        let step = open(&format!("attempt {caller}"), "sandbox-test");
        store.step(payment_of("a"), step, None, NOW).await.unwrap()
    });
    let done = opened
        .await
        .into_iter()
        .filter(|stepped| matches!(stepped, Stepped::Done { .. }));
    assert_eq!(done.count(), 1);
    let aggregate = stores[1].aggregate(payment_of("a")).await.unwrap().unwrap();
    let attempt = aggregate.attempts[0].id;
    assert_eq!(aggregate.attempts.len(), 1);
    // The provider repeats the same report to both.
    race(&stores, 32, move |store: Arc<dyn Store>, _| async move {
        let step = Step::Report {
            attempt,
            report: report("vendor-a", ProviderStatus::Completed),
            via: Via::Callback,
            asked: None,
        };
        store.step(payment_of("a"), step, None, NOW).await.unwrap()
    })
    .await;
    let filter = DeliveryFilter {
        endpoint: Some(endpoint),
        ..DeliveryFilter::default()
    };
    let told = page(stores[1].deliveries(filter, first(100)).await.unwrap()).items;
    assert_eq!(told.len(), 2, "pending and completed: {told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_redeemed_once_over_two_stores_and_its_uses_are_counted() {
    let Some((_scratch, stores)) = two().await else {
        return;
    };
    shop(&stores[0]).await;
    let code = connect_code("code", "https://shop.example", Environment::Test);
    let issued = stores[0]
        .issue_connect_code(code.clone(), audited("connect-code.create"), NOW)
        .await;
    assert_eq!(issued, Ok(CodeIssued::Done(code.clone())));
    let hash = code.hash;
    let used = race(&stores, 20, move |store: Arc<dyn Store>, _| async move {
        store
            .use_connect_code(hash, CodeUse::Fetch, NOW)
            .await
            .unwrap()
    });
    assert!(
        used.await
            .iter()
            .all(|used| matches!(used, CodeUsed::Counted(_)))
    );
    let more = stores[1].use_connect_code(hash, CodeUse::Fetch, NOW).await;
    assert_eq!(more, Ok(CodeUsed::NoMore));
    let exchanged = race(&stores, 16, move |store: Arc<dyn Store>, caller| {
        let exchange = exchange_of(&code, &format!("made {caller}"));
        async move {
            store
                .exchange(exchange, audited("connect.exchange"), NOW)
                .await
                .unwrap()
        }
    });
    let done = exchanged
        .await
        .into_iter()
        .filter(|each| matches!(each, Exchanged::Done { .. }));
    assert_eq!(done.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_one_store_changes_is_told_so_by_the_other() {
    let Some((_scratch, [a, b])) = two().await else {
        return;
    };
    shop(&a).await;
    let made = listen(&a, endpoint("a", NOW)).await;
    let deaf = Endpoint {
        event_types: EventFilter::only(&[]),
        ..made.clone()
    };
    b.replace_endpoint(made.clone(), deaf, audited("endpoint.update"), NOW)
        .await
        .unwrap();
    pay(&a, "x").await;
    assert_eq!(
        a.backlog().await.unwrap().pending,
        0,
        "it hears of nothing any more"
    );
}
