//! Events as merchants receive them: which events, at which endpoints, and their exact bytes.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Server, shared};
use crate::receiver::{Got, Receiver, Reply};
use crate::reseller_calls::{PAYMENTS, START, delegated};

/// Event types of the received requests, sorted, because events may overtake one another.
fn kinds(got: &[Got]) -> Vec<String> {
    let mut kinds: Vec<_> = got.iter().map(Got::kind).collect();
    kinds.sort();
    kinds
}

#[tokio::test]
async fn an_event_arrives_exactly_as_the_spec_says() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let order = "Bestellung “7” / кофе";
    let (payment, _) = server
        .started(&key, "ideal", json!({ "order_id": order }))
        .await;
    let now = server.now().await;
    let got = receiver.wait(1).await.remove(0);

    assert!(
        got.head.starts_with("POST /hook?shop=1 HTTP/1.1\r\n"),
        "{}",
        got.head
    );
    assert_eq!(got.header("content-type"), "application/json");
    assert_eq!(got.header("host"), receiver.address.to_string());
    assert_eq!(got.header("content-length"), got.body.len().to_string());
    assert!(got.headers("transfer-encoding").is_empty());
    assert!(got.headers("authorization").is_empty() && got.headers("cookie").is_empty());
    assert!((got.timestamp() - now).abs() < 30);
    let arrived = got.at_unix_ms() / 1000.0;
    assert!((arrived - got.timestamp() as f64).abs() < 30.0);
    assert!(got.is_signed_by(&hook.secret));
    assert!(!got.is_signed_by(hook.secret.strip_prefix("whsec_").unwrap()));

    let event = got.event();
    let names = |value: &Value| -> Vec<String> {
        let mut names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(&event), ["created_at", "data", "id", "type"]);
    assert_eq!(event["id"], got.event_id());
    assert_eq!(event["type"], "payment.pending");
    let created: jiff::Timestamp = event["created_at"].as_str().unwrap().parse().unwrap();
    assert!((created.as_second() - now).abs() < 30);
    let read = server.payment(&key, &payment).await;
    let expected = json!({
        "payment_id": payment["payment_id"], "order_id": order, "status": "pending",
        "amount": "49.90", "currency": "EUR", "usd_amount": "53.89",
        "settlement_status": "pending", "test_mode": true,
    });
    assert_eq!(event["data"], expected);
    for name in expected.as_object().unwrap().keys() {
        assert_eq!(event["data"][name], read[name], "{name}");
    }
    let inside = server.inside(&payment).await;
    assert_eq!(inside["events"][0]["id"], got.event_id());
    assert_eq!(inside["events"][0]["created_at"], event["created_at"]);

    let logged = server.settled(&hook).await.remove(0);
    assert_eq!(logged["status"], "delivered");
    assert_eq!(
        (&logged["event_id"], &logged["event_type"]),
        (&event["id"], &event["type"])
    );
    assert_eq!(logged["payment_id"], payment["payment_id"]);
    let attempt = &logged["attempts"][0];
    assert_eq!(
        (&attempt["status"], &attempt["response"], &attempt["error"]),
        (&json!(200), &json!("said"), &Value::Null)
    );
    assert!(attempt["duration_ms"].as_u64().unwrap() < 10_000);
}

#[tokio::test]
async fn one_event_has_one_id_and_one_body_for_everybody_and_at_every_attempt() {
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let (first, second) = (Receiver::new().await, Receiver::new().await);
    let fails = [Reply::Status(500), Reply::Status(302)];
    second.answer_next(fails);
    let hooks = [
        server.hook(merchant, &first, json!({})).await,
        server.hook(merchant, &second, json!({})).await,
    ];
    server.started(&key, "ideal", json!({})).await;
    let mut delivery = server.deliveries(&hooks[1]).await.remove(0);
    delivery = server.attempted(&delivery["id"], 1).await;
    for _ in 0..2 {
        delivery = server.attempt_again(&delivery).await;
    }
    assert_eq!(delivery["status"], "delivered");
    let once = first.wait(1).await.remove(0);
    let thrice = second.got();
    assert_eq!(thrice.len(), 3);
    for got in &thrice {
        assert_eq!(got.body, once.body);
        assert_eq!(got.event_id(), once.event_id());
        assert!(got.is_signed_by(&hooks[1].secret) && !got.is_signed_by(&hooks[0].secret));
    }
    // Each attempt has its own time and signature: five seconds, then five minutes later.
    let times: Vec<_> = thrice.iter().map(Got::timestamp).collect();
    assert!(
        times[1] >= times[0] + 4 && times[2] >= times[1] + 270,
        "{times:?}"
    );
}

#[tokio::test]
async fn every_life_of_a_payment_is_told_as_it_happened() {
    let server = Server::fresh().await;
    let (merchant, key, live) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let told = Cell::new(0);
    let mut seen = BTreeSet::new();
    // Waits until a payment's events have arrived and asserts their types.
    let mut check = async |payment: Value, expected: &[&str]| {
        let mut events = server.events(&payment).await;
        events.retain(|kind| kind != "payment.attempt_failed");
        assert_eq!(events, expected);
        told.set(told.get() + expected.len());
        let got = receiver.wait(told.get()).await;
        let of_it: Vec<Got> = got
            .into_iter()
            .filter(|got| got.event()["data"]["payment_id"] == payment["payment_id"])
            .collect();
        let mut sorted = expected.to_vec();
        sorted.sort_unstable();
        assert_eq!(kinds(&of_it), sorted);
        for got in of_it {
            assert!(got.is_signed_by(&hook.secret));
            let event = got.event();
            let kind = event["type"].as_str().unwrap().to_owned();
            let status = event["data"]["status"].as_str().unwrap();
            if !["payment.refunded", "payment.disputed"].contains(&kind.as_str()) {
                assert_eq!(format!("payment.{status}"), kind);
            }
            if kind == "payment.completed" {
                assert_eq!(event["data"]["settlement_status"], "confirmed");
            }
            seen.insert(kind);
        }
    };

    for (outcome, event) in [
        ("refund", "payment.refunded"),
        ("dispute", "payment.disputed"),
    ] {
        let (paid, url) = server.started(&key, "ideal", json!({})).await;
        server.pay(&url, "approve").await.expect(303);
        server.until(&key, &paid, "completed").await;
        server.pay(&url, outcome).await.expect(200);
        server
            .wait_for("the event", async || {
                (server.events(&paid).await.len() == 3).then_some(())
            })
            .await;
        check(paid, &["payment.pending", "payment.completed", event]).await;
    }

    for decision in ["approve", "decline"] {
        let (held, url) = server.started(&key, "ideal", json!({})).await;
        server.pay(&url, "review").await.expect(303);
        server.until(&key, &held, "review").await;
        let end = if decision == "approve" {
            server
                .decide(&held, decision, json!({ "settlement": "confirmed" }))
                .await
                .expect(200);
            "payment.completed"
        } else {
            server.decide(&held, decision, json!({})).await.expect(200);
            "payment.failed"
        };
        check(held, &["payment.pending", "payment.review", end]).await;
    }

    let (cancelled, _) = server.started(&key, "ideal", json!({})).await;
    server.cancel(&cancelled).await.expect(200);
    check(cancelled, &["payment.pending", "payment.cancelled"]).await;

    // The end of an attempt that leads back to `created` is sent only to endpoints that subscribe to it.
    let (declined, url) = server.started(&key, "ideal", json!({})).await;
    server.pay(&url, "decline").await.expect(303);
    server.until(&key, &declined, "created").await;
    check(declined.clone(), &["payment.pending"]).await;
    server.advance(24 * 3600 + 60).await;
    server.until(&key, &declined, "expired").await;
    told.set(told.get() - 1);
    check(declined, &["payment.pending", "payment.expired"]).await;

    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        [
            "payment.cancelled",
            "payment.completed",
            "payment.disputed",
            "payment.expired",
            "payment.failed",
            "payment.pending",
            "payment.refunded",
            "payment.review",
        ]
    );
    // The endpoint is for test payments and receives no live events.
    server.started(&live, "ideal", json!({})).await;
    assert_eq!(server.settled(&hook).await.len(), told.get());
}

#[tokio::test]
async fn an_endpoint_gets_what_it_wants_of_its_own_merchant_and_environment() {
    let server = Server::fresh().await;
    let (merchant, key, live) = server.merchant(json!({})).await;
    let (other, other_key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    // The endpoints need different URLs, because each URL has at most one endpoint.
    let at = |query: &str| format!("{}?{query}", receiver.url());
    let filter = |types: &[&str]| json!({ "url": at(&types.concat()), "event_types": types });
    let all = server.hook(merchant, &receiver, json!({})).await;
    let few = filter(&["payment.completed", "payment.failed"]);
    let few = server.hook(merchant, &receiver, few).await;
    let none = server
        .hook(merchant, &receiver, filter(&["webhook.test"]))
        .await;
    let real = json!({ "environment": "live" });
    let real = server.hook(merchant, &receiver, real).await;
    let off = json!({ "url": at("off") });
    let off = server.hook(merchant, &receiver, off).await;
    server.change_hook(&off, json!({ "enabled": false })).await;
    let foreign = server.hook(other, &receiver, json!({})).await;

    for key in [&key, &live] {
        let (paid, url) = server.started(key, "ideal", json!({})).await;
        server.pay(&url, "approve").await.expect(303);
        server.until(key, &paid, "completed").await;
    }
    // An endpoint receives no events from before its creation.
    let late = json!({ "url": at("late") });
    let late = server.hook(merchant, &receiver, late).await;
    server.started(&other_key, "ideal", json!({})).await;

    let both = vec!["payment.completed", "payment.pending"];
    for (hook, expected, test) in [
        (&all, both.clone(), true),
        (&few, vec!["payment.completed"], true),
        (&none, vec![], true),
        (&off, vec![], true),
        (&late, vec![], true),
        (&real, both, false),
        (&foreign, vec!["payment.pending"], true),
    ] {
        let deliveries = server.settled(hook).await;
        let mut kinds: Vec<_> = deliveries
            .iter()
            .map(|each| each["event_type"].as_str().unwrap())
            .collect();
        kinds.sort_unstable();
        assert_eq!(kinds, expected, "{}", hook.id);
        let ids: Vec<_> = deliveries
            .iter()
            .map(|each| each["event_id"].clone())
            .collect();
        for got in receiver.got() {
            let event = got.event();
            if got.is_signed_by(&hook.secret) {
                assert!(ids.contains(&event["id"]));
                assert_eq!(event["data"]["test_mode"], test);
            }
        }
    }
}

#[tokio::test]
async fn a_resellers_payment_is_told_to_its_merchant_even_where_live_approval_ends() {
    let server = shared().await;
    let (reseller, merchant, key) = server.reselling().await;
    let receiver = Receiver::new().await;
    let live = json!({ "environment": "live" });
    let live = server.hook(merchant, &receiver, live).await;
    let test = server.hook(merchant, &receiver, json!({})).await;
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let asked = delegated(merchant, direct);
    let made = server.reseller_post(&reseller.live, PAYMENTS, &asked).await;
    let payment = made.expect(200).json();
    let start = json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
    let started = server.reseller_post(&reseller.live, START, &start).await;
    let started = started.expect(200).json();
    server
        .change_merchant(merchant, json!({ "live_approved": false }))
        .await;
    server
        .pay(started["redirect_url"].as_str().unwrap(), "approve")
        .await
        .expect(303);
    server.until(&key, &payment, "completed").await;
    let got = receiver.wait(2).await;
    assert_eq!(kinds(&got), ["payment.completed", "payment.pending"]);
    for got in got {
        assert!(got.is_signed_by(&live.secret));
        let event = got.event();
        assert_eq!(event["data"]["payment_id"], payment["payment_id"]);
        assert_eq!(event["data"]["order_id"], asked["order_id"]);
        assert_eq!(event["data"]["test_mode"], false);
    }
    assert_eq!(server.settled(&live).await.len(), 2);
    assert_eq!(server.deliveries(&test).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_test_event_tells_of_no_payment_whatever_the_filter() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let only = json!({ "event_types": ["payment.completed"] });
    let hook = server.hook(merchant, &receiver, only).await;
    let queued = server.hook_act(&hook, "test", json!({})).await;
    let got = receiver.wait(1).await.remove(0);
    assert!(got.is_signed_by(&hook.secret));
    let event = got.event();
    assert_eq!(event["type"], "webhook.test");
    assert_eq!(
        event["data"],
        json!({
            "payment_id": "0".repeat(32), "order_id": "webhook-test", "status": "created",
            "amount": "1.00", "currency": "USD", "usd_amount": "1.00",
            "settlement_status": "pending", "test_mode": true,
        })
    );
    let delivery = server.settled(&hook).await.remove(0);
    assert_eq!(delivery["id"], queued["delivery_id"]);
    assert_eq!(delivery["event_id"], got.event_id());
}

#[tokio::test]
async fn the_demo_shop_believes_its_events_and_keeps_its_endpoint_over_a_restart() {
    let server = Server::fresh().await;
    let demo = |server: &Server| server.ready()["merchants"][0].clone();
    let before = demo(&server);
    let endpoint = before["webhook_endpoint_id"].as_str().unwrap().to_owned();
    let secret = before["webhook_secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 50);
    let listed = server
        .admin("GET", "/merchants/1/webhook-endpoints", None)
        .await
        .expect(200)
        .json();
    assert_eq!(listed["webhook_endpoints"][0]["id"], endpoint.as_str());
    server.started(server.test_key(), "ideal", json!({})).await;
    let path = format!("/deliveries?endpoint_id={endpoint}&status=delivered");
    let delivered = async |server: &Server, number: usize| {
        server
            .wait_for("the demo shop", async || {
                let listed = server.admin("GET", &path, None).await.expect(200).json();
                (listed["deliveries"].as_array().unwrap().len() >= number).then_some(())
            })
            .await;
    };
    delivered(&server, 1).await;
    assert!(server.log().contains("payment.pending"), "{}", server.log());
    assert!(!server.log().contains("refused"), "{}", server.log());

    let server = Server::in_folder(server.stop().await).await;
    let after = demo(&server);
    for name in ["webhook_endpoint_id", "webhook_secret"] {
        assert_eq!(after[name], before[name]);
    }
    server.started(server.test_key(), "ideal", json!({})).await;
    delivered(&server, 2).await;
}
