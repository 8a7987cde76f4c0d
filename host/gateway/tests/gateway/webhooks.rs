//! Events from the transaction to the receiver and into the log.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::{DeliveryId, EndpointId, EventId, MerchantId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::merchant::Merchant;
use kassette_domain::payment::CheckoutMode;
use kassette_domain::policy::Policy;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::{
    Delivery, DeliveryStatus, Endpoint, EventFilter, MAX_RESPONSE, RetrySchedule, sign,
    sign_standard,
};
use kassette_gateway::Gateway;
use kassette_gateway::clock::Clock as _;
use kassette_gateway::settings::{Settings, Webhooks};
use kassette_gateway::webhooks::{
    CircuitState, EndpointError, NewEndpoint, NotADestination, WaitingSlice,
};
use kassette_http::Client;
use kassette_store::{DeliveryFilter, Listed, NewMerchant, Paging};
use tokio::task::JoinHandle;

use crate::receiver::{FAILURE, OK, Receiver, Reply, TEST_TIMEOUT};
use crate::reseller::ideal;
use crate::world::{World, audited, settings};

pub(crate) struct Running {
    pub(crate) world: World,
    workers: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.workers.abort();
    }
}

fn at_home() -> Settings {
    Settings {
        webhooks: Webhooks {
            allow_loopback: true,
            // Tests wait for this only if they set it.
            circuit_hold: Duration::ZERO,
            own_origins: vec![
                "https://pay.shop.example".into(),
                "http://127.0.0.1:8081".into(),
            ],
            ..Webhooks::default()
        },
        ..settings()
    }
}

impl Running {
    async fn new() -> Self {
        Self::with(at_home()).await
    }

    async fn with(settings: Settings) -> Self {
        Self::over(World::with(settings, Policy::default()).await)
    }

    /// Delivers through the given client.
    pub(crate) async fn through(settings: Settings, client: Client) -> Self {
        Self::over(World::through(settings, Policy::default(), client).await)
    }

    fn over(world: World) -> Self {
        let gateway = world.gateway.clone();
        let workers =
            tokio::spawn(async move { gateway.run_workers(std::future::pending()).await });
        Self { world, workers }
    }

    async fn endpoint(&self, receiver: &Receiver) -> (Endpoint, Secret) {
        self.endpoint_for(receiver, EventFilter::All).await
    }

    async fn endpoint_for(
        &self,
        receiver: &Receiver,
        event_types: EventFilter,
    ) -> (Endpoint, Secret) {
        self.endpoint_at(receiver.url(), event_types).await
    }

    pub(crate) async fn endpoint_at(
        &self,
        url: String,
        event_types: EventFilter,
    ) -> (Endpoint, Secret) {
        let new = NewEndpoint {
            owner: KeyOwner::Merchant(self.world.merchant.id),
            environment: Environment::Test,
            url,
            event_types,
            created_by: kassette_domain::webhook::EndpointCreator::System,
        };
        let issued = self.world.gateway.create_endpoint(new, audited()).await;
        let issued = issued.unwrap();
        (issued.endpoint, issued.secret)
    }

    pub(crate) async fn test(&self, endpoint: EndpointId) -> DeliveryId {
        let queued = self.world.gateway.test_endpoint(endpoint, audited()).await;
        queued.unwrap().id
    }

    async fn delivery(&self, id: DeliveryId) -> Delivery {
        self.world.gateway.delivery(id).await.unwrap()
    }

    /// Waits until a delivery has this many attempts.
    pub(crate) async fn attempts(&self, id: DeliveryId, count: usize) -> Delivery {
        let began = Instant::now();
        loop {
            let delivery = self.delivery(id).await;
            if delivery.attempts.len() >= count {
                return delivery;
            }
            let late = began.elapsed() > TEST_TIMEOUT;
            assert!(!late, "waited in vain for attempt {count}: {delivery:?}");
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn all(&self) -> Vec<Delivery> {
        let paging = Paging {
            limit: 100,
            cursor: None,
        };
        let filter = DeliveryFilter::default();
        match self.world.gateway.deliveries(filter, paging).await.unwrap() {
            Listed::Page(page) => page.items,
            Listed::BadCursor => panic!("there was no cursor"),
        }
    }

    pub(crate) async fn later(&self, seconds: u64) {
        self.world.later(seconds);
        self.world.gateway.do_what_is_due().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_arrives_at_once_signed_over_exactly_its_bytes() {
    let run = Running::new().await;
    let receiver = Receiver::start([OK]).await;
    let only = EventFilter::only(&[EventType::PaymentPending]);
    let (endpoint, secret) = run.endpoint_for(&receiver, only).await;
    let (payment, _) = run.world.waiting().await;
    let heard = receiver.hears(1).await.remove(0);
    assert_eq!(heard.line, "POST /hook?shop=1 HTTP/1.1");
    assert_eq!(heard.header("content-type"), "application/json");
    let timestamp: u64 = heard.header("x-service-timestamp").parse().unwrap();
    assert_eq!(heard.header("x-service-timestamp").len(), 10);
    let event = EventId::parse(heard.header("x-service-event-id")).unwrap();
    let expected = sign(&secret, timestamp, event, &heard.body);
    assert_eq!(heard.header("x-service-signature"), expected);
    let body = String::from_utf8(heard.body).unwrap();
    for part in [
        format!("\"id\":\"{event}\""),
        "\"type\":\"payment.pending\"".into(),
        format!("\"payment_id\":\"{payment}\""),
        "\"order_id\":\"order\"".into(),
        "\"status\":\"pending\"".into(),
        "\"amount\":\"49.90\",\"currency\":\"EUR\",\"usd_amount\":\"53.89\"".into(),
        "\"settlement_status\":\"pending\",\"test_mode\":true".into(),
    ] {
        assert!(body.contains(&part), "{part} is not in {body}");
    }
    let queued = run.all().await;
    assert_eq!((queued.len(), queued[0].endpoint), (1, endpoint.id));
    let delivered = run.attempts(queued[0].id, 1).await;
    assert_eq!(delivered.status, DeliveryStatus::Delivered);
    assert_eq!(delivered.payment, payment);
    let attempt = &delivered.attempts[0];
    assert_eq!(
        (attempt.status, attempt.error.as_deref()),
        (Some(200), None)
    );
    assert_eq!(attempt.response.as_deref(), Some("ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_sends_the_same_bytes_under_a_signature_of_its_own() {
    let run = Running::new().await;
    let receiver = Receiver::start([FAILURE, OK]).await;
    let (endpoint, secret) = run.endpoint(&receiver).await;
    let id = run.test(endpoint.id).await;
    let failed = run.attempts(id, 1).await;
    assert_eq!(failed.status, DeliveryStatus::Pending);
    let again = failed.next_attempt_at.unwrap().since(failed.attempts[0].at);
    assert!((4500..9000).contains(&again.as_millis()), "{again:?}");
    run.later(10).await;
    let heard = receiver.hears(2).await;
    assert_eq!(heard[0].body, heard[1].body);
    let id_of = |at: usize| heard[at].header("x-service-event-id");
    assert_eq!(id_of(0), id_of(1));
    let time = |at: usize| {
        heard[at]
            .header("x-service-timestamp")
            .parse::<u64>()
            .unwrap()
    };
    assert!(time(1) >= time(0) + 5);
    for (at, heard) in heard.iter().enumerate() {
        let event = EventId::parse(heard.header("x-service-event-id")).unwrap();
        let expected = sign(&secret, time(at), event, &heard.body);
        assert_eq!(heard.header("x-service-signature"), expected);
    }
    assert_eq!(run.delivery(id).await.status, DeliveryStatus::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_attempts_exhaust_a_delivery_which_is_sent_again_when_asked_for() {
    let run = Running::new().await;
    let receiver = Receiver::start([FAILURE]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let since = run.world.gateway.clock().now();
    let id = run.test(endpoint.id).await;
    run.attempts(id, 1).await;
    for made in 1..8 {
        let before = run.delivery(id).await;
        assert_eq!(
            (before.attempts.len(), before.status),
            (made, DeliveryStatus::Pending)
        );
        run.later(11 * 3600 + 1).await;
    }
    let exhausted = run.delivery(id).await;
    assert_eq!(exhausted.status, DeliveryStatus::Exhausted);
    assert_eq!(
        (exhausted.attempts.len(), exhausted.next_attempt_at),
        (8, None)
    );
    run.later(72 * 3600).await;
    assert_eq!(receiver.heard().len(), 8);
    receiver.reply(OK);
    let again = run.world.gateway.redeliver(id, audited()).await.unwrap();
    let arrived = run.attempts(again.id, 1).await;
    assert_eq!(
        (arrived.status, arrived.event),
        (DeliveryStatus::Delivered, exhausted.event)
    );
    let heard = receiver.heard();
    assert_eq!(heard[8].body, heard[0].body);
    assert_eq!(run.delivery(id).await, exhausted);
    // It was queued again already, so nothing remains to recover.
    let recover = run
        .world
        .gateway
        .recover_endpoint(endpoint.id, since, audited());
    assert_eq!(recover.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_asks_for_time_gets_it() {
    let run = Running::new().await;
    let busy = Reply::Answer(429, "retry-after: 7200\r\n", "");
    let receiver = Receiver::start([busy, OK]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let id = run.test(endpoint.id).await;
    let waits = run.attempts(id, 1).await;
    let pause = waits.next_attempt_at.unwrap().since(waits.attempts[0].at);
    assert!(
        (7_200_000..7_210_000).contains(&pause.as_millis()),
        "{pause:?}"
    );
    run.later(7100).await;
    assert_eq!(receiver.heard().len(), 1);
    run.later(110).await;
    assert_eq!(run.delivery(id).await.status, DeliveryStatus::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_410_within_an_hour_switches_the_endpoint_off_and_what_waits_is_held_back() {
    let run = Running::new().await;
    let gone = || Reply::Answer(410, "", "");
    let receiver = Receiver::start([gone(), gone(), gone(), OK]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let id = run.test(endpoint.id).await;
    for (attempt, later) in [(1, 70), (2, 400), (3, 0)] {
        run.attempts(id, attempt).await;
        let now = run.world.gateway.endpoint(endpoint.id).await.unwrap();
        assert_eq!(now.enabled, attempt < 3);
        run.later(later).await;
    }
    let off = run.world.gateway.endpoint(endpoint.id).await.unwrap();
    run.later(3600).await;
    assert_eq!(receiver.heard().len(), 3);
    assert_eq!(run.delivery(id).await.status, DeliveryStatus::Pending);
    let on = Endpoint {
        enabled: true,
        ..off.clone()
    };
    let changed = run.world.gateway.change_endpoint(off, on, audited()).await;
    assert!(changed.unwrap().enabled);
    let arrived = run.attempts(id, 4).await;
    assert_eq!(arrived.status, DeliveryStatus::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_for_72_hours_is_exhausted_and_what_is_deleted_cancelled() {
    let run = Running::new().await;
    let receiver = Receiver::start([FAILURE]).await;
    let (held, _) = run.endpoint(&receiver).await;
    let other = format!("{}?other", receiver.url());
    let (deleted, _) = run.endpoint_at(other, EventFilter::All).await;
    let first = run.test(held.id).await;
    let second = run.test(deleted.id).await;
    run.attempts(first, 1).await;
    run.attempts(second, 1).await;
    let off = Endpoint {
        enabled: false,
        ..held.clone()
    };
    let gateway = &run.world.gateway;
    gateway.change_endpoint(held, off, audited()).await.unwrap();
    gateway
        .delete_endpoint(deleted.id, audited())
        .await
        .unwrap();
    run.later(71 * 3600).await;
    assert_eq!(run.delivery(first).await.status, DeliveryStatus::Pending);
    assert_eq!(run.delivery(second).await.status, DeliveryStatus::Cancelled);
    run.later(2 * 3600).await;
    let exhausted = run.delivery(first).await;
    assert_eq!(
        (exhausted.status, exhausted.attempts.len()),
        (DeliveryStatus::Exhausted, 1)
    );
    assert_eq!(receiver.heard().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_after_an_outage_is_delivered_at_once_and_each_uses_an_attempt() {
    let mut settings = at_home();
    settings.webhooks.schedule = RetrySchedule::new([Duration::from_secs(3600); 7]);
    let run = Running::with(settings).await;
    let receiver = Receiver::start([FAILURE]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let ids = [run.test(endpoint.id).await, run.test(endpoint.id).await];
    for id in ids {
        run.attempts(id, 1).await;
    }
    receiver.reply(OK);
    let gateway = &run.world.gateway;
    let deliver = || gateway.deliver_now(endpoint.id, audited());
    assert_eq!(deliver().await.unwrap(), 2);
    for id in ids {
        let delivery = run.attempts(id, 2).await;
        assert_eq!(delivery.status, DeliveryStatus::Delivered);
        assert_eq!(delivery.attempts.len(), 2);
    }
    assert_eq!(deliver().await.unwrap(), 0);
    let off = Endpoint {
        enabled: false,
        ..endpoint.clone()
    };
    let changed = gateway.change_endpoint(endpoint.clone(), off, audited());
    changed.await.unwrap();
    let refused = deliver().await;
    assert!(
        matches!(refused, Err(EndpointError::Disabled)),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_withholds_from_a_reseller_what_waits_and_what_is_delivered_again() {
    let run = Running::new().await;
    let (world, gateway) = (&run.world, &run.world.gateway);
    let caller = world.authorized().await;
    let reseller = caller.reseller.id;
    let receiver = Receiver::start([FAILURE]).await;
    let endpoint = endpoint_of(gateway, KeyOwner::Reseller(reseller), receiver.url()).await;
    let payment = world.resell(&caller, "a", CheckoutMode::Direct).await;
    let started = gateway.reseller_start(&caller, ideal(payment.id)).await;
    started.unwrap();
    let heard = receiver.hears(1).await.remove(0);
    let body = String::from_utf8(heard.body).unwrap();
    assert!(body.contains(&payment.id.to_string()), "{body}");
    let id = run.all().await[0].id;
    run.attempts(id, 1).await;

    receiver.reply(OK);
    world.delegate(reseller, false).await;
    let now_due = || async { gateway.deliver_now(endpoint.id, audited()).await.unwrap() };
    assert_eq!(now_due().await, 1);
    let again = gateway.redeliver(id, audited()).await.unwrap().id;
    for (id, made) in [(id, 2), (again, 1)] {
        let withheld = run.attempts(id, made).await;
        assert_eq!(withheld.status, DeliveryStatus::Pending);
        let why = withheld.attempts[made - 1].error.clone().unwrap();
        assert!(why.starts_with("not sent: the merchant has not"), "{why}");
    }
    assert_eq!(gateway.circuit(endpoint.id), CircuitState::Closed);
    let test = run.test(endpoint.id).await;
    assert_eq!(
        run.attempts(test, 1).await.status,
        DeliveryStatus::Delivered,
        "it is about no payment"
    );

    world.delegate(reseller, true).await;
    assert_eq!(now_due().await, 2);
    for (id, made) in [(id, 3), (again, 2)] {
        let arrived = run.attempts(id, made).await;
        assert_eq!(arrived.status, DeliveryStatus::Delivered);
    }
    assert_eq!(receiver.heard().len(), 4);
}

/// Another merchant in the same store.
async fn another_merchant(world: &World) -> KeyOwner {
    let new = NewMerchant {
        merchant: Merchant {
            id: MerchantId(0),
            ..world.merchant.clone()
        },
    };
    let made = world
        .store
        .create_merchant(new, audited(), world.clock.now());
    KeyOwner::Merchant(made.await.unwrap().id)
}

async fn endpoint_of(gateway: &Gateway, owner: KeyOwner, url: String) -> Endpoint {
    let new = NewEndpoint {
        owner,
        environment: Environment::Test,
        url,
        event_types: EventFilter::All,
        created_by: kassette_domain::webhook::EndpointCreator::System,
    };
    let issued = gateway.create_endpoint(new, audited()).await;
    issued.unwrap().endpoint
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_what_waits_for_a_merchant_or_for_all_is_due_and_others_do_not_wait_behind_it()
 {
    let mut settings = at_home();
    settings.webhooks.schedule = RetrySchedule::new([Duration::from_secs(3600); 7]);
    let run = Running::with(settings).await;
    let gateway = &run.world.gateway;
    let one = KeyOwner::Merchant(run.world.merchant.id);
    let other = another_merchant(&run.world).await;
    let receivers = [
        Receiver::start([FAILURE]).await,
        Receiver::start([FAILURE]).await,
        Receiver::start([FAILURE]).await,
    ];
    let mut endpoints = Vec::new();
    for (owner, receiver) in [one, one, other].into_iter().zip(&receivers) {
        endpoints.push(endpoint_of(gateway, owner, receiver.url()).await);
    }
    let mut waiting = Vec::new();
    for endpoint in &endpoints {
        for _ in 0..2 {
            let id = run.test(endpoint.id).await;
            run.attempts(id, 1).await;
            waiting.push(id);
        }
    }
    let off = Endpoint {
        enabled: false,
        ..endpoints[1].clone()
    };
    let changed = gateway.change_endpoint(endpoints[1].clone(), off, audited());
    changed.await.unwrap();

    // The deliveries made due are attempted and get no answer.
    receivers[0].reply(Reply::Silence);
    let line = audited();
    let made = gateway.deliver_waiting(Some(one), None, &line).await;
    let expected = WaitingSlice {
        deliveries: 2,
        endpoints: 1,
        disabled: 1,
        next: None,
    };
    assert_eq!(made.unwrap(), expected);
    receivers[0].hears(3).await;
    assert_eq!(receivers[2].heard().len(), 2, "another merchant's waits");
    receivers[2].reply(OK);
    let new = run.test(endpoints[2].id).await;
    assert_eq!(run.attempts(new, 1).await.status, DeliveryStatus::Delivered);

    let made = gateway.deliver_waiting(None, None, &line).await.unwrap();
    assert_eq!((made.deliveries, made.disabled, made.next), (2, 1, None));
    for id in &waiting[4..] {
        let delivery = run.attempts(*id, 2).await;
        assert_eq!(delivery.status, DeliveryStatus::Delivered);
    }
    for id in &waiting[2..4] {
        assert_eq!(run.delivery(*id).await.attempts.len(), 1, "it is disabled");
    }
    let again = gateway.deliver_waiting(None, None, &line).await.unwrap();
    assert_eq!(again.deliveries, 0, "it can be done again");
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_of_what_waits_for_all_reach_each_endpoint_once_with_a_line_of_its_own() {
    const MERCHANTS: usize = 500 / Endpoint::MAX_PER_OWNER + 2;
    let world = World::with(at_home(), Policy::default()).await;
    let gateway = &world.gateway;
    let mut merchants = vec![KeyOwner::Merchant(world.merchant.id)];
    for _ in 1..MERCHANTS {
        merchants.push(another_merchant(&world).await);
    }
    let mut expected = BTreeSet::new();
    for merchant in merchants {
        for number in 0..Endpoint::MAX_PER_OWNER {
            let url = format!("https://shop.example/{number}");
            let endpoint = endpoint_of(gateway, merchant, url).await.id;
            gateway.test_endpoint(endpoint, audited()).await.unwrap();
            expected.insert(format!("endpoint/{endpoint}"));
        }
    }
    let line = Audited {
        action: "endpoint.deliver".into(),
        reason: Some("the network was down".into()),
        ..audited()
    };
    let (mut slices, mut endpoints, mut from) = (0, 0, None);
    loop {
        let made = gateway.deliver_waiting(None, from, &line).await.unwrap();
        slices += 1;
        endpoints += made.endpoints;
        from = made.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((slices, endpoints), (2, expected.len() as u64));
    let (mut named, mut cursor) = (Vec::new(), None);
    while named.len() < expected.len() {
        let paging = Paging { limit: 100, cursor };
        let Listed::Page(page) = world.store.audit_log(paging).await.unwrap() else {
            panic!("the cursor is its own");
        };
        let lines = page.items.into_iter().map(|entry| entry.audited);
        named.extend(lines.filter(|made| made.action == line.action));
        cursor = page.next;
    }
    assert!(named.iter().all(|made| made.reason == line.reason));
    let named: BTreeSet<_> = named.into_iter().map(|made| made.object).collect();
    assert_eq!(named, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_slot_is_not_sent_once_the_endpoint_is_disabled() {
    let mut settings = at_home();
    settings.webhooks.timeout = Duration::from_secs(1);
    settings.webhooks.schedule = RetrySchedule::new([Duration::from_secs(3600); 7]);
    let run = Running::with(settings).await;
    let receiver = Receiver::start([OK, Reply::Silence]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    // Many deliveries are claimed for an endpoint that has answered quickly, and eight are attempted.
    let known = run.test(endpoint.id).await;
    run.attempts(known, 1).await;
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(run.test(endpoint.id).await);
    }
    receiver.hears(2).await;
    let off = Endpoint {
        enabled: false,
        ..endpoint.clone()
    };
    let gateway = &run.world.gateway;
    let changed = gateway.change_endpoint(endpoint, off, audited()).await;
    run.later(1).await;
    let sent = receiver.heard().len() - 1;
    assert!((1..=8).contains(&sent), "{sent}");
    let mut untried = Vec::new();
    for id in ids {
        let delivery = run.delivery(id).await;
        assert_eq!(delivery.status, DeliveryStatus::Pending);
        if delivery.attempts.is_empty() {
            untried.push(id);
        }
    }
    assert_eq!(untried.len(), 30 - sent);
    // The released deliveries continue after the endpoint is enabled again.
    receiver.reply(OK);
    let off = changed.unwrap();
    let on = Endpoint {
        enabled: true,
        ..off.clone()
    };
    gateway.change_endpoint(off, on, audited()).await.unwrap();
    let began = Instant::now();
    for id in untried {
        let delivery = run.attempts(id, 1).await;
        assert_eq!(delivery.status, DeliveryStatus::Delivered);
    }
    // Without the regular search, which runs every minute.
    assert!(began.elapsed() < Duration::from_secs(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_together_comes_again_at_different_times() {
    const HOUR: u64 = 3_600_000;
    let mut settings = at_home();
    settings.webhooks.schedule = RetrySchedule::new([Duration::from_millis(10 * HOUR); 7]);
    let run = Running::with(settings).await;
    let receiver = Receiver::start([FAILURE]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let id = run.test(endpoint.id).await;
        let failed = run.attempts(id, 1).await;
        let pause = failed.next_attempt_at.unwrap().since(failed.attempts[0].at);
        pauses.push(u64::try_from(pause.as_millis()).unwrap());
    }
    pauses.sort_unstable();
    let (least, most) = (pauses[0], pauses[11]);
    assert!(least >= 9 * HOUR && most <= 11 * HOUR + 60_000);
    // The pauses are spread over two hours.
    assert!(most - least > HOUR / 12, "{pauses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let run = Running::new().await;
    let receiver = Receiver::start([Reply::Answer(302, "location: /elsewhere\r\n", "")]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let id = run.test(endpoint.id).await;
    let failed = run.attempts(id, 1).await;
    assert_eq!(failed.attempts[0].status, Some(302));
    let said = failed.attempts[0].error.as_deref().unwrap();
    assert!(said.contains("redirects are not followed"), "{said}");
    assert_eq!(receiver.heard().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_endless_answer_four_kibibytes_are_kept() {
    let run = Running::new().await;
    let receiver = Receiver::start([Reply::Endless]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let id = run.test(endpoint.id).await;
    let delivered = run.attempts(id, 1).await;
    assert_eq!(delivered.status, DeliveryStatus::Delivered);
    let kept = delivered.attempts[0].response.as_deref().unwrap();
    assert_eq!(kept, "x".repeat(MAX_RESPONSE));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_in_time_is_a_failed_attempt_and_so_is_a_broken_connection() {
    let mut settings = at_home();
    settings.webhooks.timeout = Duration::from_secs(1);
    let run = Running::with(settings).await;
    let receiver = Receiver::start([Reply::Silence, Reply::Reset]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let id = run.test(endpoint.id).await;
    let silent = run.attempts(id, 1).await.attempts.remove(0);
    assert_eq!((silent.status, silent.response), (None, None));
    assert!(silent.error.unwrap().contains("deadline"));
    assert!(silent.duration_ms >= 1000);
    run.later(6).await;
    let broken = run.delivery(id).await.attempts.remove(1);
    assert_eq!(broken.status, None);
    assert!(broken.error.unwrap().contains("broke"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_silent_endpoints_do_not_delay_another() {
    let mut settings = at_home();
    settings.webhooks.timeout = Duration::from_secs(600);
    let run = Running::with(settings).await;
    let silent = Receiver::start([Reply::Silence]).await;
    let mut waiting = Vec::new();
    for number in 0..10 {
        let address = format!("{}?{number}", silent.url());
        let (endpoint, _) = run.endpoint_at(address, EventFilter::All).await;
        for _ in 0..20 {
            waiting.push(run.test(endpoint.id).await);
        }
    }
    silent.hears(10).await;
    let healthy = Receiver::start([OK]).await;
    let (endpoint, _) = run.endpoint(&healthy).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(run.test(endpoint.id).await);
    }
    // Silent endpoints keep their connections open. No test waits for these to end.
    for id in ids {
        let delivery = run.attempts(id, 1).await;
        assert_eq!(delivery.status, DeliveryStatus::Delivered);
    }
    for id in waiting {
        assert_eq!(run.delivery(id).await.attempts, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_signs_after_the_overlap_and_both_sign_for_the_libraries_until_then() {
    let run = Running::new().await;
    let receiver = Receiver::start([OK]).await;
    let (endpoint, old) = run.endpoint(&receiver).await;
    let gateway = &run.world.gateway;
    let hour = Duration::from_secs(3600);
    let rotated = gateway
        .rotate_endpoint(endpoint.id, hour, audited())
        .await
        .unwrap();
    assert_ne!(rotated.secret, old);
    let id = run.test(endpoint.id).await;
    run.attempts(id, 1).await;
    run.later(3601).await;
    let id = run.test(endpoint.id).await;
    run.attempts(id, 1).await;
    let heard = receiver.heard();
    for (heard, secret) in heard.iter().zip([&old, &rotated.secret]) {
        let time = heard.header("x-service-timestamp").parse().unwrap();
        let event = EventId::parse(heard.header("x-service-event-id")).unwrap();
        let expected = sign(secret, time, event, &heard.body);
        assert_eq!(heard.header("x-service-signature"), expected);
        assert_eq!(heard.header("webhook-id"), event.to_string());
        assert_eq!(heard.header("webhook-timestamp"), time.to_string());
    }
    for (heard, secrets) in heard
        .iter()
        .zip([vec![&old, &rotated.secret], vec![&rotated.secret]])
    {
        let time = heard.header("webhook-timestamp").parse().unwrap();
        let event = EventId::parse(heard.header("webhook-id")).unwrap();
        let expected = sign_standard(secrets.into_iter(), time, event, &heard.body);
        assert_eq!(heard.header("webhook-signature"), expected);
    }
    let over = Duration::from_secs(73 * 3600);
    let refused = gateway.rotate_endpoint(endpoint.id, over, audited()).await;
    assert!(matches!(refused, Err(EndpointError::Overlap)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_recovered_and_arrives() {
    let run = Running::new().await;
    let receiver = Receiver::start([FAILURE]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let since = run.world.gateway.clock().now();
    let mut failed = Vec::new();
    for _ in 0..3 {
        failed.push(run.test(endpoint.id).await);
    }
    for id in &failed {
        run.attempts(*id, 1).await;
    }
    for _ in 1..8 {
        run.later(11 * 3600 + 1).await;
    }
    receiver.reply(OK);
    let recover = || {
        run.world
            .gateway
            .recover_endpoint(endpoint.id, since, audited())
    };
    assert_eq!(recover().await.unwrap(), 3);
    assert_eq!(recover().await.unwrap(), 0);
    receiver.hears(27).await;
    for delivery in run.all().await {
        let delivery = run.attempts(delivery.id, 1).await;
        let expected = if failed.contains(&delivery.id) {
            DeliveryStatus::Exhausted
        } else {
            DeliveryStatus::Delivered
        };
        assert_eq!(delivery.status, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_places_and_providers_are_no_destinations() {
    let run = Running::new().await;
    let refused = async |url: &str| {
        let new = NewEndpoint {
            owner: KeyOwner::Merchant(run.world.merchant.id),
            environment: Environment::Test,
            url: url.into(),
            event_types: EventFilter::All,
            created_by: kassette_domain::webhook::EndpointCreator::System,
        };
        match run.world.gateway.create_endpoint(new, audited()).await {
            Err(EndpointError::Destination(why)) => Some(why),
            Err(other) => panic!("{other:?}"),
            Ok(_) => None,
        }
    };
    let own = Some(NotADestination::OurOwn);
    for url in [
        "https://pay.shop.example/",
        "https://PAY.shop.example:443/callbacks/alpha",
        "http://127.0.0.1:8081/",
        "http://localhost:8081/admin/v1",
        "https://[::1]:8081/",
        "http://127.0.0.2:8081/",
    ] {
        assert_eq!(refused(url).await, own, "{url}");
    }
    let provider = Some(NotADestination::Provider);
    for url in [
        "http://localhost:4010/hook",
        "http://127.0.0.1:4010/",
        "https://pay.example/",
    ] {
        assert_eq!(refused(url).await, provider, "{url}");
    }
    let long = format!("https://shop.example/{}", "a".repeat(2048));
    assert_eq!(refused(&long).await, Some(NotADestination::TooLong));
    for url in [
        "http://shop.example/",
        "https://10.0.0.1/",
        "https://167772161/",
        "https://user@shop.example/",
        "https://shop.example/#x",
        "ftp://shop.example/",
        "https://shop.example/a b",
        "https:\\\\shop.example/",
        "hook",
        "",
    ] {
        let why = refused(url).await;
        assert!(
            matches!(why, Some(NotADestination::Refused(_))),
            "{url}: {why:?}"
        );
    }
    for url in [
        "https://pay.shop.example:8443/",
        "https://www.shop.example/hook?x=1",
        "http://127.0.0.1:8082/",
    ] {
        assert_eq!(refused(url).await, None, "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_became_ours_is_blocked_at_the_attempt() {
    let run = Running::new().await;
    let receiver = Receiver::start([OK]).await;
    let (endpoint, _) = run.endpoint(&receiver).await;
    let mut settings = at_home();
    let own = format!("http://{}", receiver.address);
    settings.webhooks.own_origins.push(own);
    run.world.gateway.configure(settings).await.unwrap();
    let id = run.test(endpoint.id).await;
    let blocked = run.attempts(id, 1).await;
    let said = blocked.attempts[0].error.as_deref().unwrap();
    assert!(said.contains("this service's own"), "{said}");
    assert_eq!(receiver.heard(), []);
}
