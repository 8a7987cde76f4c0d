//! Delivery of events to endpoints.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kassette_domain::decline::DeclineCode;
use kassette_domain::event::{EventSubject, EventType};
use kassette_domain::id::{DeliveryId, EndpointId, EventId, MerchantId, PaymentId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::lifecycle::{Act, Step};
use kassette_domain::provider::ProviderStatus;
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    Delivery, DeliveryAttempt, DeliveryStatus, Endpoint, EventFilter, MAX_RESPONSE, Tried,
};

use super::Harness;
use super::fixtures::*;
use super::resellers::{delegate, reseller, resellers_endpoint, resold, roll_out};
use crate::{
    Backlog, ClaimedDeliveries, Created, DeliveryFilter, DueDelivery, Listed, MadeDue, Oldest,
    Page, Paging, Recovered, Redelivered, Store, Swept, SwitchOff, TRIED_MOST, TriedOutcome,
};

const LEASE: Duration = Duration::from_secs(60);

/// Claims the endpoint's due deliveries. Returns them with the time of the next one.
async fn claim(
    store: &Arc<dyn Store>,
    endpoint: EndpointId,
    now: Time,
) -> (Vec<DueDelivery>, Option<Time>) {
    match store.claim(endpoint, now, LEASE, 64).await.unwrap() {
        ClaimedDeliveries::Due { deliveries, next } => (deliveries, next),
        ClaimedDeliveries::Held => panic!("the endpoint is held"),
    }
}

async fn log(store: &Arc<dyn Store>, filter: DeliveryFilter) -> Vec<Delivery> {
    page(store.deliveries(filter, first(100)).await.unwrap()).items
}

async fn to(store: &Arc<dyn Store>, endpoint: EndpointId) -> Vec<Delivery> {
    let filter = DeliveryFilter {
        endpoint: Some(endpoint),
        ..DeliveryFilter::default()
    };
    log(store, filter).await
}

async fn with_status(
    store: &Arc<dyn Store>,
    endpoint: EndpointId,
    status: DeliveryStatus,
) -> usize {
    let filter = DeliveryFilter {
        endpoint: Some(endpoint),
        status: Some(status),
        ..DeliveryFilter::default()
    };
    log(store, filter).await.len()
}

fn kinds(deliveries: &[Delivery]) -> Vec<EventType> {
    deliveries.iter().map(|delivery| delivery.kind).collect()
}

fn attempt(at: Time, answer: Option<&str>) -> DeliveryAttempt {
    DeliveryAttempt {
        at,
        status: answer.map(|_| 503),
        duration_ms: 12,
        error: Some("the receiver answered 503".into()),
        response: answer.map(str::to_owned),
    }
}

fn failed(after: usize, retry_at: Time) -> Tried {
    Tried {
        attempt: attempt(NOW, Some("busy")),
        after,
        delivered: false,
        retry_at,
    }
}

pub fn arrived(after: usize) -> Tried {
    Tried {
        delivered: true,
        ..failed(after, NOW)
    }
}

async fn exhaust(store: &Arc<dyn Store>, id: DeliveryId) {
    for after in 0..8 {
        let outcome = store.tried(id, failed(after, NOW), None, NOW).await;
        assert!(
            matches!(outcome, Ok(TriedOutcome::Taken { .. })),
            "{outcome:?}"
        );
    }
}

/// A shop with an endpoint for all events, and the delivery of one event.
async fn one_event(store: &Arc<dyn Store>) -> (Endpoint, DeliveryId) {
    shop(store).await;
    let endpoint = listen(store, endpoint("a", NOW)).await;
    pay(store, "a").await;
    let id = to(store, endpoint.id).await[0].id;
    (endpoint, id)
}

pub async fn an_event_goes_to_each_endpoint_that_wants_it_then(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let other_shop = shop(&store).await;
    let all = listen(&store, endpoint("all", NOW)).await;
    let one = Endpoint {
        event_types: EventFilter::only(&[EventType::PaymentCompleted]),
        ..endpoint("one", NOW)
    };
    let elsewhere = Endpoint {
        environment: Environment::Live,
        ..endpoint("live", NOW)
    };
    let others = Endpoint {
        owner: KeyOwner::Merchant(other_shop),
        ..endpoint("other", NOW)
    };
    let off = Endpoint {
        enabled: false,
        ..endpoint("off", NOW)
    };
    for endpoint in [&one, &elsewhere, &others, &off] {
        listen(&store, endpoint.clone()).await;
    }
    pay(&store, "a").await;
    let report = report("vendor-a", ProviderStatus::Completed);
    done(
        &store,
        payment_of("a"),
        news("attempt of a", report),
        later(1),
    )
    .await;
    let told = to(&store, all.id).await;
    let expected = [EventType::PaymentCompleted, EventType::PaymentPending];
    assert_eq!(kinds(&told), expected);
    assert!(
        told.iter()
            .all(|each| each.status == DeliveryStatus::Pending
                && each.payment == PaymentId::from_bytes(id_of("a")))
    );
    assert_eq!(told[0].created_at, later(1));
    assert_eq!(told[0].next_attempt_at, Some(later(1)));
    let only = to(&store, one.id).await;
    assert_eq!(kinds(&only), [EventType::PaymentCompleted]);
    for silent in [&elsewhere, &others, &off] {
        assert_eq!(to(&store, silent.id).await, []);
    }
    // One event has one id and one body for all endpoints.
    assert_eq!(only[0].event, told[0].event);
    let (due, _) = claim(&store, all.id, later(1)).await;
    let (same, _) = claim(&store, one.id, later(1)).await;
    assert_eq!(due[1].body, same[0].body);
    let history = store.history(told[0].payment).await.unwrap().unwrap();
    let event = history.events.last().unwrap();
    assert_eq!(event.id, told[0].event);
    assert!(due[1].body.contains(&event.id.to_string()) && due[1].body.contains("order a"));
    // An endpoint that is enabled later gets only later events.
    let on = Endpoint {
        enabled: true,
        ..off.clone()
    };
    store
        .replace_endpoint(off.clone(), on, audited("endpoint.update"), NOW)
        .await
        .unwrap();
    assert_eq!(to(&store, off.id).await, []);
}

/// Creates a payment of reseller 1 for a merchant and opens an attempt.
async fn resell(store: &Arc<dyn Store>, name: &str, merchant: u64, environment: Environment) {
    let made = store.create(resold(name, merchant, environment), None, NOW);
    assert!(matches!(made.await.unwrap(), Created::New(_)), "{name}");
    let opened = open(&format!("attempt of {name}"), "sandbox-test");
    done(store, payment_of(name), opened, NOW).await;
}

/// Reports a status of its attempt.
async fn says(store: &Arc<dyn Store>, name: &str, status: ProviderStatus) {
    let (attempt, vendor) = (format!("attempt of {name}"), format!("vendor-{name}"));
    let step = news(&attempt, report(&vendor, status));
    done(store, payment_of(name), step, NOW).await;
}

pub async fn a_reseller_hears_of_its_own_payments_alone(harness: &dyn Harness) {
    let store = harness.open().await;
    for _ in 0..2 {
        let merchant = shop(&store).await;
        reseller(&store).await;
        delegate(&store, merchant.0, true, NOW).await;
    }
    let own = listen(&store, resellers_endpoint("own")).await;
    let merchants = listen(&store, endpoint("merchants", NOW)).await;
    let picky = Endpoint {
        event_types: EventFilter::only(&[EventType::PaymentCompleted]),
        ..resellers_endpoint("picky")
    };
    let live = Endpoint {
        environment: Environment::Live,
        ..resellers_endpoint("live")
    };
    let others = Endpoint {
        owner: KeyOwner::Reseller(ResellerId(2)),
        ..resellers_endpoint("others")
    };
    for endpoint in [&picky, &live, &others] {
        listen(&store, endpoint.clone()).await;
    }
    pay(&store, "direct").await;
    assert_eq!(to(&store, own.id).await, []);
    resell(&store, "first", 1, Environment::Test).await;
    resell(&store, "second", 2, Environment::Test).await;
    let told = to(&store, own.id).await;
    let payments: BTreeSet<_> = told.iter().map(|each| each.payment).collect();
    let resold = ["first", "second"].map(|name| PaymentId::from_bytes(id_of(name)));
    assert_eq!(payments, resold.into());
    assert_eq!(kinds(&told), [EventType::PaymentPending; 2]);
    for silent in [&picky, &live, &others] {
        assert_eq!(to(&store, silent.id).await, []);
    }
    // The merchant gets the same event. Only the reseller's body names its reference and the merchant.
    let (due, _) = claim(&store, own.id, NOW).await;
    let (same, _) = claim(&store, merchants.id, NOW).await;
    let of_first = |due: &[DueDelivery]| {
        let mut of_it = due.iter().filter(|each| each.payment == resold[0]);
        let delivery = of_it.next().unwrap();
        let body: serde_json::Value = serde_json::from_str(&delivery.body).unwrap();
        (delivery.event, body)
    };
    let ((event, mut body), (same_event, same_body)) = (of_first(&due), of_first(&same));
    let data = body["data"].as_object_mut().unwrap();
    assert_eq!(data.remove("client_ref").unwrap(), "ref-first");
    assert_eq!(data.remove("merchant_id").unwrap(), 1);
    assert_eq!((event, body), (same_event, same_body));
    says(&store, "first", ProviderStatus::Completed).await;
    assert_eq!(
        kinds(&to(&store, picky.id).await),
        [EventType::PaymentCompleted]
    );
    // Its deliveries are listed only for the reseller.
    let listed = async |of| {
        let filter = DeliveryFilter {
            of: Some((KeyOwner::Reseller(ResellerId(of)), Some(Environment::Test))),
            ..DeliveryFilter::default()
        };
        log(&store, filter).await.len()
    };
    assert_eq!((listed(1).await, listed(2).await), (4, 0));
}

pub async fn events_show_metadata_until_it_is_erased(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let endpoint = listen(&store, endpoint("a", NOW)).await;
    let mut noted = request("a");
    noted.extras.notes = notes();
    let created = store.create(of_request("a", noted), None, NOW).await;
    assert!(matches!(created, Ok(Created::New(_))));
    done(&store, payment_of("a"), Step::Act(Act::Cancel), NOW).await;
    let sent = async |at| {
        let (due, _) = claim(&store, endpoint.id, at).await;
        let body: serde_json::Value = serde_json::from_str(&due[0].body).unwrap();
        (due[0].id, body["data"]["metadata"].clone())
    };
    let (id, metadata) = sent(NOW).await;
    assert_eq!(metadata, serde_json::json!({ "cart": "c-1042" }));
    done(&store, payment_of("a"), Step::Redact, NOW).await;
    // Both a waiting delivery and a redelivery.
    assert_eq!(sent(later(61)).await, (id, serde_json::Value::Null));
    store.tried(id, arrived(0), None, later(61)).await.unwrap();
    let again = store.redeliver(id, audited("delivery.redeliver"), later(62));
    assert!(matches!(again.await, Ok(Redelivered::Queued(_))));
    assert_eq!(sent(later(63)).await.1, serde_json::Value::Null);
}

pub async fn a_reseller_hears_nothing_while_it_may_not_work_for_the_merchant(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    shop(&store).await;
    reseller(&store).await;
    delegate(&store, 1, true, NOW).await;
    roll_out(&store, true).await;
    let test = listen(&store, resellers_endpoint("test")).await;
    let live = Endpoint {
        environment: Environment::Live,
        ..resellers_endpoint("live")
    };
    let live = listen(&store, live).await;
    let merchants = listen(&store, endpoint("merchants", NOW)).await;
    resell(&store, "a", 1, Environment::Test).await;
    resell(&store, "b", 1, Environment::Live).await;
    for told in [&test, &live] {
        assert_eq!(
            kinds(&to(&store, told.id).await),
            [EventType::PaymentPending]
        );
    }
    delegate(&store, 1, false, later(1)).await;
    says(&store, "a", ProviderStatus::Processing).await;
    says(&store, "b", ProviderStatus::Processing).await;
    for silent in [&test, &live] {
        assert_eq!(to(&store, silent.id).await.len(), 1);
    }
    let told = to(&store, merchants.id).await;
    let expected = [EventType::PaymentPending, EventType::PaymentProcessing];
    assert_eq!(
        kinds(&told).into_iter().collect::<BTreeSet<_>>(),
        expected.into()
    );
    // After it is authorized again, it gets later events. Live events also require the rollout.
    delegate(&store, 1, true, later(2)).await;
    roll_out(&store, false).await;
    says(&store, "a", ProviderStatus::Completed).await;
    says(&store, "b", ProviderStatus::VerificationPending).await;
    assert_eq!(to(&store, live.id).await.len(), 1);
    roll_out(&store, true).await;
    says(&store, "b", ProviderStatus::Completed).await;
    for told in [&test, &live] {
        let told: BTreeSet<_> = kinds(&to(&store, told.id).await).into_iter().collect();
        let expected = [EventType::PaymentPending, EventType::PaymentCompleted];
        assert_eq!(told, expected.into());
    }
}

pub async fn a_failed_attempt_goes_to_those_that_name_it_with_its_reason(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let all = listen(&store, endpoint("all", NOW)).await;
    let naming = Endpoint {
        event_types: EventFilter::only(&[EventType::PaymentAttemptFailed]),
        ..endpoint("naming", NOW)
    };
    let naming = listen(&store, naming).await;
    pay(&store, "a").await;
    let mut refused = report("vendor-a", ProviderStatus::Declined);
    refused.particulars.reason = Some("insufficient_funds".into());
    done(&store, payment_of("a"), news("attempt of a", refused), NOW).await;
    assert_eq!(
        kinds(&to(&store, all.id).await),
        [EventType::PaymentPending]
    );
    let told = to(&store, naming.id).await;
    assert_eq!(kinds(&told), [EventType::PaymentAttemptFailed]);
    let (due, _) = claim(&store, naming.id, NOW).await;
    assert!(
        due[0]
            .body
            .contains(r#""decline_code":"insufficient_funds""#)
    );
    let history = store.history(told[0].payment).await.unwrap().unwrap();
    let event = history.events.last().unwrap();
    let decline = EventSubject::Decline(DeclineCode::InsufficientFunds);
    assert_eq!(event.subject.as_deref(), Some(&decline));
}

pub async fn a_payment_s_end_is_told_however_often_its_vendor_changes_its_mind(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    shop(&store).await;
    let end = Endpoint {
        event_types: EventFilter::only(&[EventType::PaymentCompleted]),
        ..endpoint("a", NOW)
    };
    let end = listen(&store, end).await;
    pay(&store, "a").await;
    let says = async |status| {
        let news = news("attempt of a", report("vendor-a", status));
        done(&store, payment_of("a"), news, NOW).await
    };
    for _ in 0..520 {
        says(ProviderStatus::Processing).await;
        says(ProviderStatus::VerificationPending).await;
    }
    says(ProviderStatus::Completed).await;
    let told = to(&store, end.id).await;
    assert_eq!(kinds(&told), [EventType::PaymentCompleted]);
}

pub async fn nothing_is_queued_where_nobody_wants_it(harness: &dyn Harness) {
    let store = harness.open().await;
    let only = Endpoint {
        event_types: EventFilter::only(&[]),
        ..endpoint("a", NOW)
    };
    shop(&store).await;
    listen(&store, only).await;
    pay(&store, "a").await;
    assert_eq!(log(&store, DeliveryFilter::default()).await, []);
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    assert_eq!(store.backlog().await.unwrap().pending, 0);
}

pub async fn a_refused_step_queues_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, _) = one_event(&store).await;
    let again = store
        .step(payment_of("a"), open("second", "sandbox-test"), None, NOW)
        .await
        .unwrap();
    assert!(matches!(again, crate::Stepped::Refused { .. }), "{again:?}");
    assert_eq!(to(&store, endpoint.id).await.len(), 1);
}

pub async fn what_is_claimed_is_one_worker_s_until_its_lease_ends(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let (due, next) = claim(&store, endpoint.id, NOW).await;
    assert_eq!((due.len(), next), (1, None));
    assert_eq!((due[0].id, due[0].attempts, due[0].due_at), (id, 0, NOW));
    let just_before = NOW.after(LEASE).before(Duration::from_millis(1));
    assert_eq!(
        claim(&store, endpoint.id, just_before).await,
        (vec![], None)
    );
    let (again, _) = claim(&store, endpoint.id, NOW.after(LEASE)).await;
    assert_eq!(again, due);
    store.give_back(vec![id]).await.unwrap();
    assert_eq!(claim(&store, endpoint.id, NOW).await.0, due);
}

pub async fn claims_of_many_workers_share_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let endpoint = listen(&store, endpoint("a", NOW)).await;
    for at in 0..40 {
        pay(&store, &format!("p{at}")).await;
    }
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let claimed = store.claim(endpoint.id, NOW, LEASE, 3).await.unwrap();
                    let ClaimedDeliveries::Due { deliveries, .. } = claimed else {
                        panic!("the endpoint is held");
                    };
                    if deliveries.is_empty() {
                        return taken;
                    }
                    taken.extend(deliveries.into_iter().map(|each| each.id));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    assert_eq!(all.len(), 40);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 40);
}

pub async fn a_failed_attempt_moves_the_delivery_and_is_logged(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let taken = |status, next_attempt_at: Option<Time>| {
        Ok(TriedOutcome::Taken {
            status,
            next_attempt_at,
            ended: next_attempt_at.is_none(),
        })
    };
    let long = "x".repeat(MAX_RESPONSE);
    let mut tried = failed(0, later(300));
    tried.attempt = attempt(NOW, Some(&long));
    let outcome = store.tried(id, tried, None, NOW).await;
    let retry = Some(later(300));
    assert_eq!(outcome, taken(DeliveryStatus::Pending, retry));
    assert_eq!(
        claim(&store, endpoint.id, later(299)).await,
        (vec![], retry)
    );
    assert_eq!(
        store.waiting(None, 9).await,
        Ok(vec![(endpoint.id, later(300))])
    );
    let (due, _) = claim(&store, endpoint.id, later(300)).await;
    assert_eq!((due[0].attempts, due[0].due_at), (1, later(300)));
    // A late record of the previous attempt has no effect.
    let late = store.tried(id, arrived(0), None, later(300)).await;
    assert_eq!(late, Ok(TriedOutcome::Late));
    let outcome = store.tried(id, arrived(1), None, later(301)).await;
    assert_eq!(outcome, taken(DeliveryStatus::Delivered, None));
    let whole = store.delivery(id).await.unwrap().unwrap();
    assert_eq!(whole.attempts[0], attempt(NOW, Some(&long)));
    assert_eq!(whole.attempts[1], attempt(NOW, Some("busy")));
    assert_eq!(to(&store, endpoint.id).await, [whole]);
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    let nobody = DeliveryId::from_bytes([1; 16]);
    let unknown = store.tried(nobody, arrived(0), None, NOW).await;
    assert_eq!(unknown, Ok(TriedOutcome::Unknown));
}

pub async fn several_attempts_are_recorded_at_once(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, _) = one_event(&store).await;
    let test = || store.queue_test(endpoint.id, audited("endpoint.test"), NOW);
    for _ in 0..3 {
        test().await.unwrap().unwrap();
    }
    let (due, next) = claim(&store, endpoint.id, NOW).await;
    assert_eq!((due.len(), next), (4, None));
    let nobody = DeliveryId::from_bytes([1; 16]);
    let tried = vec![
        (due[2].id, arrived(0)),
        (due[0].id, arrived(0)),
        (nobody, arrived(0)),
        (due[1].id, arrived(3)),
        (due[0].id, arrived(0)),
    ];
    let outcomes = store.tried_all(tried, NOW).await.unwrap();
    let delivered = TriedOutcome::Taken {
        status: DeliveryStatus::Delivered,
        next_attempt_at: None,
        ended: true,
    };
    assert_eq!(
        outcomes,
        [
            delivered,
            delivered,
            TriedOutcome::Unknown,
            TriedOutcome::Late,
            TriedOutcome::Late
        ]
    );
    let is_delivered = DeliveryStatus::Delivered;
    assert_eq!(with_status(&store, endpoint.id, is_delivered).await, 2);
    assert_eq!(store.backlog().await.unwrap().pending, 2);
    // The delivery with the late record can be claimed, as after any record; the fourth is still claimed.
    let (due_again, _) = claim(&store, endpoint.id, NOW).await;
    assert_eq!(
        due_again.iter().map(|due| due.id).collect::<Vec<_>>(),
        [due[1].id]
    );
}

pub async fn a_record_says_whether_the_delivery_ended_with_it(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, failing) = one_event(&store).await;
    let test = async || {
        let queued = store.queue_test(endpoint.id, audited("endpoint.test"), NOW);
        queued.await.unwrap().unwrap().id
    };
    let (arriving, arriving_late, missing_late) = (test().await, test().await, test().await);
    let record = async |id, tried| match store.tried(id, tried, None, NOW).await.unwrap() {
        TriedOutcome::Taken { status, ended, .. } => (status, ended),
        other => panic!("{other:?}"),
    };
    for after in 0..7 {
        let waits_on = (DeliveryStatus::Pending, false);
        assert_eq!(record(failing, failed(after, NOW)).await, waits_on);
    }
    let given_up = (DeliveryStatus::Exhausted, true);
    assert_eq!(record(failing, failed(7, NOW)).await, given_up);
    let has_arrived = (DeliveryStatus::Delivered, true);
    assert_eq!(record(arriving, arrived(0)).await, has_arrived);
    // Cancelled while attempts are in flight, which ends these two.
    let deleted = store.delete_endpoint(endpoint.id, audited("endpoint.delete"), NOW);
    assert_eq!(deleted.await.unwrap().unwrap().cancelled, 2);
    let stays = (DeliveryStatus::Cancelled, false);
    assert_eq!(record(missing_late, failed(0, NOW)).await, stays);
    let came_after_all = (DeliveryStatus::Delivered, false);
    assert_eq!(record(arriving_late, arrived(0)).await, came_after_all);
}

pub async fn a_410_switches_the_endpoint_off_with_the_record(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let off = |url: &str| SwitchOff {
        url: url.into(),
        audited: audited("endpoint.disable"),
    };
    // A response of the endpoint's previous address has no effect on the current one.
    let old = Some(off("https://old.example/hook"));
    let elsewhere = store.tried(id, failed(0, later(5)), old, NOW).await;
    assert!(matches!(elsewhere, Ok(TriedOutcome::Taken { .. })));
    let on = store.endpoint(endpoint.id).await.unwrap().unwrap();
    assert!(on.enabled);
    let line = off(&endpoint.url);
    let gone = store
        .tried(id, failed(1, later(5)), Some(line.clone()), NOW)
        .await;
    assert!(matches!(gone, Ok(TriedOutcome::Taken { .. })));
    let off = store.endpoint(endpoint.id).await.unwrap().unwrap();
    assert!(!off.enabled);
    let claimed = store.claim(endpoint.id, later(5), LEASE, 9).await;
    assert_eq!(claimed, Ok(ClaimedDeliveries::Held));
    // Disabled already: no second audit line.
    let again = store.tried(id, failed(2, later(9)), Some(line), NOW).await;
    assert!(matches!(again, Ok(TriedOutcome::Taken { .. })));
    let lines = page(store.audit_log(first(9)).await.unwrap()).items;
    let disabled = lines
        .iter()
        .filter(|entry| entry.audited.action == "endpoint.disable");
    assert_eq!(disabled.count(), 1);
    pay(&store, "b").await;
    assert_eq!(to(&store, endpoint.id).await.len(), 1);
}

pub async fn what_was_made_while_an_endpoint_was_off_is_queued_once(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let watcher = Endpoint {
        event_types: EventFilter::only(&[EventType::WebhookDisabled]),
        ..super::fixtures::endpoint("watcher", NOW)
    };
    let watcher = listen(&store, watcher).await;
    let off = SwitchOff {
        url: endpoint.url.clone(),
        audited: audited("endpoint.disable"),
    };
    let gone = store
        .tried(id, failed(0, later(5)), Some(off), later(100))
        .await;
    assert!(matches!(gone, Ok(TriedOutcome::Taken { .. })));
    let (told, _) = claim(&store, watcher.id, later(100)).await;
    let told: serde_json::Value = serde_json::from_str(&told[0].body).unwrap();
    assert_eq!(told["type"], "webhook.disabled");
    assert_eq!(told["data"]["endpoint_id"], endpoint.id.to_string());

    let off = store.endpoint(endpoint.id).await.unwrap().unwrap();
    assert_eq!(off.off, [(later(100), None)]);
    pay(&store, "b").await;
    let on = Endpoint {
        enabled: true,
        ..off.clone()
    };
    let on = store.replace_endpoint(off, on, audited("endpoint.change"), later(200));
    assert!(matches!(on.await, Ok(crate::EndpointReplaced::Done(_))));
    let on = store.endpoint(endpoint.id).await.unwrap().unwrap();
    assert_eq!(on.off, [(later(100), Some(later(200)))]);
    let asked = crate::EventsAsked {
        merchant: MerchantId(1),
        environment: Environment::Test,
        kind: None,
        since: None,
        until: None,
        payments: None,
    };
    let events = page(store.events(asked, first(100)).await.unwrap()).items;
    // The event of the first payment was queued at its creation.
    assert_eq!(events.len(), 2);
    for expected in [1, 0] {
        let queued = store.queue_missed(endpoint.id, events.clone(), later(300));
        assert_eq!(queued.await, Ok(expected));
    }
    let of_b = PaymentId::from_bytes(id_of("b"));
    let (due, _) = claim(&store, endpoint.id, later(300)).await;
    assert_eq!(due.iter().filter(|each| each.payment == of_b).count(), 1);
    let nobody = super::fixtures::endpoint("nobody", NOW).id;
    assert_eq!(store.queue_missed(nobody, events, later(300)).await, Ok(0));
}

pub async fn a_disabled_endpoint_holds_back_for_72_hours(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let off = Endpoint {
        enabled: false,
        ..endpoint.clone()
    };
    let turn = |before: &Endpoint, after: &Endpoint| {
        store.replace_endpoint(
            before.clone(),
            after.clone(),
            audited("endpoint.update"),
            NOW,
        )
    };
    turn(&endpoint, &off).await.unwrap();
    let end = later(72 * 3600);
    let held = Swept {
        cancelled: 0,
        exhausted: 0,
        next: Some(end),
    };
    let just_before = end.before(Duration::from_millis(1));
    assert_eq!(store.sweep(endpoint.id, just_before).await, Ok(held));
    // Enabled in time, it continues as before.
    turn(&off, &endpoint).await.unwrap();
    assert_eq!(claim(&store, endpoint.id, just_before).await.0.len(), 1);
    store.give_back(vec![id]).await.unwrap();
    turn(&endpoint, &off).await.unwrap();
    let swept = Swept {
        cancelled: 0,
        exhausted: 1,
        next: None,
    };
    assert_eq!(store.sweep(endpoint.id, end).await, Ok(swept));
    let exhausted = store.delivery(id).await.unwrap().unwrap();
    assert_eq!(exhausted.status, DeliveryStatus::Exhausted);
    assert_eq!(
        (exhausted.attempts.len(), exhausted.next_attempt_at),
        (0, None)
    );
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
}

pub async fn a_deleted_endpoint_cancels_what_waits(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let endpoint = listen(&store, endpoint("a", NOW)).await;
    // More than one transaction can end.
    for at in 0..450 {
        store
            .queue_test(endpoint.id, audited("endpoint.test"), later(at))
            .await
            .unwrap();
    }
    let delivered = to(&store, endpoint.id).await[0].id;
    store.tried(delivered, arrived(0), None, NOW).await.unwrap();
    let deleted = store
        .delete_endpoint(endpoint.id, audited("endpoint.delete"), NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(deleted.endpoint, endpoint);
    let mut cancelled = deleted.cancelled;
    let left = store.backlog().await.unwrap().pending;
    assert!(left < 449, "{left} wait on for an endpoint that is gone");
    assert_eq!(cancelled, 449 - left);
    let claimed = store.claim(endpoint.id, later(999), LEASE, 9).await;
    assert_eq!(claimed, Ok(ClaimedDeliveries::Held));
    for _ in 0..9 {
        let swept = store.sweep(endpoint.id, NOW).await.unwrap();
        cancelled += swept.cancelled;
        if swept.next.is_none() {
            break;
        }
    }
    assert_eq!(cancelled, 449, "each is counted once");
    assert_eq!(store.waiting(None, 9).await, Ok(vec![]));
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    let mut paging = first(100);
    let mut statuses = Vec::new();
    loop {
        let filter = DeliveryFilter {
            endpoint: Some(endpoint.id),
            ..DeliveryFilter::default()
        };
        let listed = page(store.deliveries(filter, paging.clone()).await.unwrap());
        statuses.extend(listed.items.iter().map(|each| each.status));
        paging.cursor = listed.next;
        if paging.cursor.is_none() {
            break;
        }
    }
    let count = |status| statuses.iter().filter(|each| **each == status).count();
    assert_eq!(count(DeliveryStatus::Delivered), 1);
    assert_eq!(count(DeliveryStatus::Cancelled), 449);
    let redelivered = store
        .redeliver(delivered, audited("delivery.redeliver"), NOW)
        .await;
    assert_eq!(redelivered, Ok(Redelivered::EndpointDeleted));
}

pub async fn deliveries_are_found_by_payment_event_owner_time_and_failure(harness: &dyn Harness) {
    let store = harness.open().await;
    let merchant = shop(&store).await;
    let other = Endpoint {
        environment: Environment::Live,
        ..endpoint("b", NOW)
    };
    let one = listen(&store, endpoint("a", NOW)).await;
    listen(&store, other).await;
    for (name, seconds) in [("a", 1), ("b", 2)] {
        create(&store, name, later(seconds)).await;
        let step = open(&format!("attempt of {name}"), "one-test");
        done(&store, payment_of(name), step, later(10 * seconds)).await;
    }
    let all = log(&store, DeliveryFilter::default()).await;
    let [of_b, of_a] = &all[..] else {
        panic!("{all:?}")
    };
    let again = store
        .redeliver(of_a.id, audited("delivery.redeliver"), later(30))
        .await;
    let Ok(Redelivered::Queued(again)) = again else {
        panic!("{again:?}")
    };
    store
        .tried(of_b.id, failed(0, later(99)), None, later(20))
        .await
        .unwrap();
    let any = DeliveryFilter::default;
    let owner = KeyOwner::Merchant(merchant);
    for (filter, expected) in [
        (
            DeliveryFilter {
                payment: Some(of_a.payment),
                ..any()
            },
            vec![again.id, of_a.id],
        ),
        (
            DeliveryFilter {
                event: Some(of_a.event),
                ..any()
            },
            vec![again.id, of_a.id],
        ),
        (
            DeliveryFilter {
                event: Some(of_b.event),
                payment: Some(of_a.payment),
                ..any()
            },
            vec![],
        ),
        (
            DeliveryFilter {
                event: Some(EventId::from_bytes([9; 16])),
                ..any()
            },
            vec![],
        ),
        (
            DeliveryFilter {
                of: Some((owner, None)),
                ..any()
            },
            vec![again.id, of_b.id, of_a.id],
        ),
        (
            DeliveryFilter {
                of: Some((owner, Some(Environment::Live))),
                ..any()
            },
            vec![],
        ),
        (
            DeliveryFilter {
                of: Some((owner, None)),
                payment: Some(of_b.payment),
                ..any()
            },
            vec![of_b.id],
        ),
        (
            DeliveryFilter {
                of: Some((KeyOwner::Merchant(MerchantId(77)), None)),
                ..any()
            },
            vec![],
        ),
        (
            DeliveryFilter {
                since: Some(later(20)),
                ..any()
            },
            vec![again.id, of_b.id],
        ),
        (
            DeliveryFilter {
                until: Some(later(20)),
                ..any()
            },
            vec![of_a.id],
        ),
        (
            DeliveryFilter {
                of: Some((owner, None)),
                since: Some(later(20)),
                until: Some(later(30)),
                ..any()
            },
            vec![of_b.id],
        ),
        (
            DeliveryFilter {
                failed: true,
                ..any()
            },
            vec![of_b.id],
        ),
        (
            DeliveryFilter {
                endpoint: Some(one.id),
                until: Some(later(20)),
                ..any()
            },
            vec![of_a.id],
        ),
    ] {
        for limit in [1, 100] {
            let (mut ids, mut paging) = (Vec::new(), first(limit));
            loop {
                let listed = page(store.deliveries(filter, paging.clone()).await.unwrap());
                ids.extend(listed.items.iter().map(|delivery| delivery.id));
                paging.cursor = listed.next;
                if paging.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(ids, expected, "{filter:?} in pages of {limit}");
        }
    }
}

pub async fn a_test_goes_to_its_endpoint_whatever_it_wants(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let deaf = Endpoint {
        event_types: EventFilter::only(&[]),
        ..endpoint("a", NOW)
    };
    listen(&store, deaf.clone()).await;
    listen(&store, endpoint("b", NOW)).await;
    let test = |id| store.queue_test(id, audited("endpoint.test"), NOW);
    let queued = test(deaf.id).await.unwrap().unwrap();
    assert_eq!(queued.kind, EventType::WebhookTest);
    let told = log(&store, DeliveryFilter::default()).await;
    assert_eq!(told, std::slice::from_ref(&queued));
    let (due, _) = claim(&store, deaf.id, NOW).await;
    assert_eq!((due[0].id, due[0].event), (queued.id, queued.event));
    assert!(due[0].body.contains("webhook-test"));
    let nobody = test(endpoint("nobody", NOW).id).await;
    assert_eq!(nobody, Ok(None));
}

pub async fn a_redelivery_is_a_new_delivery_of_the_same_event(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let (first_due, _) = claim(&store, endpoint.id, NOW).await;
    exhaust(&store, id).await;
    let again = |id| store.redeliver(id, audited("delivery.redeliver"), later(9));
    let Ok(Redelivered::Queued(new)) = again(id).await else {
        panic!("it was not queued");
    };
    assert_ne!(new.id, id);
    assert_eq!((new.created_at, new.attempts.len()), (later(9), 0));
    let (due, _) = claim(&store, endpoint.id, later(9)).await;
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].id, due[0].event), (new.id, first_due[0].event));
    assert_eq!(due[0].body, first_due[0].body);
    exhaust(&store, new.id).await;
    let old = store.delivery(id).await.unwrap().unwrap();
    assert_eq!(
        (old.status, old.attempts.len()),
        (DeliveryStatus::Exhausted, 8)
    );
    let unknown = again(DeliveryId::from_bytes([1; 16])).await;
    assert_eq!(unknown, Ok(Redelivered::Unknown));
}

pub async fn what_failed_since_a_time_is_queued_again_once(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let a = listen(&store, endpoint("a", NOW)).await;
    let b = listen(&store, endpoint("b", NOW)).await;
    let mut ids = Vec::new();
    // More than one page, to test paging too.
    for seconds in 0..230 {
        for endpoint in [&a, &b] {
            let queued = store
                .queue_test(endpoint.id, audited("endpoint.test"), later(seconds))
                .await;
            ids.push(queued.unwrap().unwrap().id);
        }
    }
    // The first of `a` is delivered; all others fail.
    store.tried(ids[0], arrived(0), None, NOW).await.unwrap();
    for id in &ids[1..] {
        exhaust(&store, *id).await;
    }
    let recover = |since| {
        let store = Arc::clone(&store);
        async move {
            let (mut count, mut after, mut line) = (0, None, Some(audited("endpoint.recover")));
            loop {
                let page = store.recover(a.id, since, after, line.take(), later(999));
                match page.await.unwrap() {
                    Recovered::Page { queued, next } => {
                        count += queued;
                        after = next;
                        if next.is_none() {
                            return count;
                        }
                    }
                    Recovered::Unknown => panic!("the endpoint is unknown"),
                }
            }
        }
    };
    assert_eq!(recover(later(220)).await, 10);
    assert_eq!(recover(NOW).await, 219);
    assert_eq!(recover(NOW).await, 0);
    assert_eq!(store.backlog().await.unwrap().pending, 229);
    assert_eq!(
        with_status(&store, a.id, DeliveryStatus::Exhausted).await,
        100
    );
    let lines = page(store.audit_log(first(9)).await.unwrap()).items;
    let recoveries = lines
        .iter()
        .filter(|entry| entry.audited.action == "endpoint.recover");
    assert_eq!(recoveries.count(), 3);
    let nobody = endpoint("nobody", NOW).id;
    let unknown = store.recover(nobody, NOW, None, None, NOW).await;
    assert_eq!(unknown, Ok(Recovered::Unknown));
}

pub async fn what_waits_is_made_due_at_once_and_keeps_its_attempts(harness: &dyn Harness) {
    const MANY: u64 = 230;
    let store = harness.open().await;
    shop(&store).await;
    let a = listen(&store, endpoint("a", NOW)).await;
    let b = listen(&store, endpoint("b", NOW)).await;
    let mut ids = Vec::new();
    // More than one page, to test paging too.
    for _ in 0..MANY {
        for endpoint in [&a, &b] {
            let queued = store
                .queue_test(endpoint.id, audited("endpoint.test"), NOW)
                .await;
            ids.push(queued.unwrap().unwrap().id);
        }
    }
    // All fail one time and wait. Of `a`, the first has ended and the second is due.
    store.tried(ids[0], arrived(0), None, NOW).await.unwrap();
    for (seconds, id) in (1..).zip(&ids[1..]) {
        let tried = failed(0, later(1000 + seconds));
        store.tried(*id, tried, None, NOW).await.unwrap();
    }
    let at = later(1002);
    let hasten = |of: EndpointId| {
        let store = Arc::clone(&store);
        async move {
            let (mut count, mut after, mut line) = (0, None, Some(audited("endpoint.deliver")));
            loop {
                match store.hasten(of, after, line.take(), at).await.unwrap() {
                    MadeDue::Page { hastened, next } => {
                        count += hastened;
                        after = next;
                        if next.is_none() {
                            return count;
                        }
                    }
                    MadeDue::Unknown => panic!("the endpoint is unknown"),
                }
            }
        }
    };
    let (due, next) = claim(&store, a.id, at).await;
    assert_eq!(due.iter().map(|each| each.id).collect::<Vec<_>>(), [ids[2]]);
    assert_eq!(next, Some(later(1004)));
    assert_eq!(hasten(a.id).await, MANY - 2);
    assert_eq!(hasten(a.id).await, 0);
    let mut found = 0;
    loop {
        let (due, _) = claim(&store, a.id, at).await;
        if due.is_empty() {
            break;
        }
        found += due.len() as u64;
        let is_kept = |each: &DueDelivery| each.due_at == at && each.attempts == 1;
        assert!(due.iter().all(is_kept), "{due:?}");
    }
    assert_eq!(found, MANY - 2);
    let whole = store.delivery(ids[4]).await.unwrap().unwrap();
    assert_eq!(
        (whole.next_attempt_at, whole.attempts.len(), whole.status),
        (Some(at), 1, DeliveryStatus::Pending)
    );
    // The other endpoint is unchanged.
    let (due, next) = claim(&store, b.id, later(1000)).await;
    assert_eq!((due.len(), next), (0, Some(later(1001))));
    assert_eq!(store.backlog().await.unwrap().pending, 2 * MANY - 1);
    let lines = page(store.audit_log(first(9)).await.unwrap()).items;
    let made = lines.iter();
    let made = made.filter(|entry| entry.audited.action == "endpoint.deliver");
    assert_eq!(made.count(), 2, "one for each command");
    let missing = endpoint("missing", NOW).id;
    let unknown = store.hasten(missing, None, None, NOW).await;
    assert_eq!(unknown, Ok(MadeDue::Unknown));
}

pub async fn deliveries_are_listed_newest_first(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let a = listen(&store, endpoint("a", NOW)).await;
    let b = listen(&store, endpoint("b", NOW)).await;
    let mut ids = Vec::new();
    for seconds in 1..=9 {
        for endpoint in [&a, &b] {
            let queued = store
                .queue_test(endpoint.id, audited("endpoint.test"), later(seconds))
                .await;
            ids.push(queued.unwrap().unwrap().id);
        }
    }
    ids.sort_unstable();
    ids.reverse();
    let all = log(&store, DeliveryFilter::default()).await;
    assert_eq!(all.iter().map(|each| each.id).collect::<Vec<_>>(), ids);
    let filter = DeliveryFilter {
        endpoint: Some(b.id),
        status: Some(DeliveryStatus::Pending),
        ..DeliveryFilter::default()
    };
    let one = page(store.deliveries(filter, first(4)).await.unwrap());
    assert_eq!(one.items.len(), 4);
    let rest = Paging {
        limit: 9,
        cursor: one.next.clone(),
    };
    let rest = page(store.deliveries(filter, rest).await.unwrap());
    assert_eq!((rest.items.len(), rest.next), (5, None));
    assert!(
        one.items
            .iter()
            .chain(&rest.items)
            .all(|each| each.endpoint == b.id)
    );
    let foreign = Paging {
        limit: 9,
        cursor: Some("AAAA".into()),
    };
    let refused = store.deliveries(filter, foreign).await;
    assert_eq!(refused, Ok(Listed::BadCursor));
}

pub async fn what_is_pending_is_listed_however_much_has_arrived_since(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let endpoint = listen(&store, endpoint("a", NOW)).await;
    let test = |at| store.queue_test(endpoint.id, audited("endpoint.test"), later(at));
    let mut waiting = Vec::new();
    for at in 0..3 {
        waiting.push(test(at).await.unwrap().unwrap().id);
    }
    // Due in another order than that of the list.
    let tried = failed(0, later(9999));
    store.tried(waiting[0], tried, None, NOW).await.unwrap();
    for page in 0..40 {
        let queueing: Vec<_> = (0..TRIED_MOST)
            .map(|_| {
                let (store, id) = (Arc::clone(&store), endpoint.id);
                tokio::spawn(async move {
                    let queued = store.queue_test(id, audited("endpoint.test"), later(9 + page));
                    queued.await.unwrap().unwrap().id
                })
            })
            .collect();
        let mut tried = Vec::new();
        for queued in queueing {
            tried.push((queued.await.unwrap(), arrived(0)));
        }
        store.tried_all(tried, NOW).await.unwrap();
    }
    let filter = DeliveryFilter {
        endpoint: Some(endpoint.id),
        status: Some(DeliveryStatus::Pending),
        ..DeliveryFilter::default()
    };
    let ids = |page: &Page<Delivery>| page.items.iter().map(|each| each.id).collect::<Vec<_>>();
    let one = page(store.deliveries(filter, first(2)).await.unwrap());
    assert_eq!(ids(&one), [waiting[2], waiting[1]]);
    // New deliveries are on no later page, and delivered ones move nothing.
    test(99).await.unwrap();
    let rest = Paging {
        limit: 2,
        cursor: one.next,
    };
    let last = (vec![waiting[0]], None);
    for _ in 0..2 {
        let rest = page(store.deliveries(filter, rest.clone()).await.unwrap());
        assert_eq!((ids(&rest), rest.next), last);
        let done = store.tried(waiting[1], arrived(0), None, NOW);
        done.await.unwrap();
    }
}

pub async fn whoever_delivers_hears_of_what_is_queued(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let listening = listen(&store, endpoint("a", NOW)).await;
    let heard = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.queued().await }
    });
    // If the caller of the step goes away, its queued deliveries are still announced.
    create(&store, "a", NOW).await;
    let step = store.step(payment_of("a"), open("x", "sandbox-test"), None, NOW);
    let asked_and_gone = async {
        let mut step = step;
        let once = std::future::poll_fn(|context| Poll::Ready(step.as_mut().poll(context)));
        drop(once.await);
    };
    asked_and_gone.await;
    assert_eq!(heard.await.unwrap(), Ok(vec![listening.id]));
    assert_eq!(claim(&store, listening.id, NOW).await.0.len(), 1);
}

pub async fn deliveries_survive_and_what_was_claimed_is_due_again(harness: &dyn Harness) {
    let store = harness.open().await;
    let (endpoint, id) = one_event(&store).await;
    let (due, _) = claim(&store, endpoint.id, NOW).await;
    store
        .tried(id, failed(0, later(5)), None, NOW)
        .await
        .unwrap();
    claim(&store, endpoint.id, later(5)).await;
    let whole = store.delivery(id).await;
    store.shut_down().await.unwrap();
    drop(store);

    let store = harness.open().await;
    assert_eq!(store.delivery(id).await, whole);
    assert_eq!(
        store.waiting(None, 9).await,
        Ok(vec![(endpoint.id, later(5))])
    );
    // An attempt may still be in flight: if other nodes are possible, it is due when the lease has ended.
    let (again, _) = claim(&store, endpoint.id, later(5).after(LEASE)).await;
    assert_eq!((again.len(), again[0].attempts), (1, 1));
    assert_eq!(again[0].body, due[0].body);
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.oldest.test), (1, Some(NOW)));
}

pub async fn waiting_endpoints_are_told_in_pages(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let mut expected = Vec::new();
    for at in 0..7 {
        let endpoint = listen(&store, endpoint(&format!("e{at}"), NOW)).await;
        for seconds in [9, at] {
            store
                .queue_test(endpoint.id, audited("endpoint.test"), later(seconds))
                .await
                .unwrap();
        }
        expected.push((endpoint.id, later(at)));
    }
    expected.sort_unstable();
    let mut told = Vec::new();
    let mut after = None;
    loop {
        let page = store.waiting(after, 3).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        told.extend(page);
    }
    told.sort_unstable();
    assert_eq!(told, expected);
}

pub async fn the_oldest_is_told_however_many_wait(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let mut endpoints = Vec::new();
    for at in 0..Endpoint::MAX_PER_OWNER {
        endpoints.push(listen(&store, endpoint(&format!("e{at}"), NOW)).await.id);
    }
    let last = endpoints.into_iter().max().unwrap();
    let early = NOW.before(Duration::from_secs(3600));
    let oldest = store.queue_test(last, audited("endpoint.test"), early);
    let oldest = oldest.await.unwrap().unwrap().id;
    // It comes after all others: at the last endpoint, and due last there.
    let tried = failed(0, later(36_000));
    store.tried(oldest, tried, None, NOW).await.unwrap();
    for at in 0..41 {
        pay(&store, &format!("p{at}")).await;
        let pending = Endpoint::MAX_PER_OWNER as u64 * (at + 1) + 1;
        let oldest = Oldest {
            live: None,
            test: Some(early),
        };
        let expected = Backlog { pending, oldest };
        assert_eq!(store.backlog().await, Ok(expected));
    }
}

pub async fn what_is_over_is_pruned_with_its_event(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let a = listen(&store, endpoint("a", NOW)).await;
    let b = listen(&store, endpoint("b", NOW)).await;
    pay(&store, "x").await;
    let (to_a, to_b) = (to(&store, a.id).await[0].id, to(&store, b.id).await[0].id);
    let mut long = arrived(0);
    long.attempt = attempt(NOW, Some(&"y".repeat(MAX_RESPONSE)));
    store.tried(to_a, long, None, NOW).await.unwrap();
    let prune = |before| store.prune_deliveries(before, None, 100);
    assert_eq!(prune(NOW).await.unwrap().deliveries, 0);
    assert_eq!(prune(later(1)).await.unwrap().deliveries, 1);
    assert_eq!(store.delivery(to_a).await, Ok(None));
    // The event's body remains for the other endpoint.
    let (due, _) = claim(&store, b.id, NOW).await;
    assert_eq!(due.len(), 1);
    exhaust(&store, to_b).await;
    assert_eq!(prune(later(1)).await.unwrap().deliveries, 1);
    assert_eq!(log(&store, DeliveryFilter::default()).await, []);
    assert_eq!(
        with_status(&store, b.id, DeliveryStatus::Exhausted).await,
        0
    );
    let again = store
        .redeliver(to_b, audited("delivery.redeliver"), NOW)
        .await;
    assert_eq!(again, Ok(Redelivered::Unknown));
    for seconds in 2..8 {
        let queued = store
            .queue_test(a.id, audited("endpoint.test"), later(seconds))
            .await;
        let id = queued.unwrap().unwrap().id;
        store.tried(id, arrived(0), None, NOW).await.unwrap();
    }
    let first_page = store.prune_deliveries(later(9), None, 4).await.unwrap();
    assert_eq!(first_page.deliveries, 4);
    let rest = store
        .prune_deliveries(later(9), first_page.next, 4)
        .await
        .unwrap();
    assert_eq!((rest.deliveries, rest.next), (2, None));
}
