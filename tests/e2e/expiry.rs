//! Effects of time on payments and attempts, and providers that do not answer.

use serde_json::{Value, json};

use crate::harness::Server;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

async fn status(server: &Server, payment: &Value) -> Value {
    server.payment(server.test_key(), payment).await["status"].clone()
}

#[tokio::test]
async fn a_payment_expires_after_a_day_and_is_never_started_again() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let direct = server.create(key, fields).await;
    let hosted = server.create(key, json!({})).await;
    server.advance(DAY - 60).await;
    assert_eq!(status(&server, &direct).await, "created");
    server.advance(60).await;
    for payment in [&direct, &hosted] {
        let now = server.payment(key, payment).await;
        assert_eq!(
            (&now["status"], &now["settlement_status"]),
            (&json!("expired"), &json!("pending"))
        );
        assert_eq!(server.moves(payment).await, ["created>expired"]);
        assert_eq!(server.events(payment).await, ["payment.expired"]);
    }
    server
        .start(key, &direct, "ideal")
        .await
        .expect(409)
        .error();
    let page = server
        .open(hosted["checkout_url"].as_str().unwrap())
        .await
        .expect(200);
    assert!(page.text.contains("expired") && !page.text.contains("payment_method"));
}

#[tokio::test]
async fn an_attempt_ends_after_an_hour_at_the_vendor_too() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    let form = server.payer_form(&url).await;
    server.advance(HOUR + 1).await;
    assert_eq!(status(&server, &payment).await, "created");
    assert_eq!(server.attempts(&payment).await[0]["state"], "expired");
    assert_eq!(server.press(&form, "approve").await.status, 409);
    let again = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    server
        .pay(again["redirect_url"].as_str().unwrap(), "approve")
        .await
        .expect(303);
    server.until(key, &payment, "completed").await;
}

#[tokio::test]
async fn an_attempt_never_outlives_its_payment() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server.create(key, fields).await;
    server.advance(DAY - 600).await;
    let started = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    let form = server
        .payer_form(started["redirect_url"].as_str().unwrap())
        .await;
    server.advance(601).await;
    assert_eq!(status(&server, &payment).await, "expired");
    assert_eq!(server.press(&form, "approve").await.status, 409);
    assert_eq!(server.entries(&payment).await[0]["captured_times"], 0);
}

#[tokio::test]
async fn a_payment_paid_in_its_last_moment_is_completed_though_nobody_told() {
    let server = Server::fresh().await;
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.fault("sandbox-test", "callback-never", 1).await;
    server.advance(HOUR - 30).await;
    server.pay(&url, "approve").await.expect(303);
    server.advance(DAY).await;
    assert_eq!(
        status(&server, &payment).await,
        "completed",
        "an open attempt is awaited"
    );
}

/// Advances the clock past all scheduled queries of an attempt.
async fn pass_the_schedule(server: &Server) {
    for seconds in [301, HOUR, DAY, DAY, DAY, DAY, DAY, DAY] {
        server.advance(seconds).await;
    }
}

#[tokio::test]
async fn a_vendor_silent_to_the_last_question_leaves_the_payment_to_a_person() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.fault("sandbox-test", "callback-never", 1).await;
    server.pay(&url, "approve").await.expect(303);
    server.fault("sandbox-test", "down", 1).await;
    server.advance(2 * DAY).await;
    assert_eq!(
        status(&server, &payment).await,
        "pending",
        "never expired while money may move"
    );
    pass_the_schedule(&server).await;
    assert_eq!(status(&server, &payment).await, "review");
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.review"]
    );
    let unbacked = server.decide(&payment, "approve", json!({})).await;
    unbacked.expect(409).error();
    server.fault("sandbox-test", "none", 1).await;
    server.act(&payment, "query").await.expect(200);
    assert_eq!(status(&server, &payment).await, "completed");
    assert_eq!(server.entries(&payment).await[0]["captured_times"], 1);
}

#[tokio::test]
async fn a_completed_payment_that_is_never_confirmed_is_put_on_the_work_list() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "review").await.expect(303);
    server.until(key, &payment, "review").await;
    server.fault("sandbox-test", "down", 1).await;
    server
        .decide(&payment, "approve", json!({ "settlement": "pending" }))
        .await
        .expect(200);
    pass_the_schedule(&server).await;
    let now = server.payment(key, &payment).await;
    assert_eq!(
        (&now["status"], &now["settlement_status"]),
        (&json!("completed"), &json!("pending"))
    );
    let work = server.work(&payment).await;
    assert_eq!((work.len(), &work[0]["kind"]), (1, &json!("unsettled")));
}

#[tokio::test]
async fn a_completed_payment_that_is_not_confirmed_is_asked_about() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "review").await.expect(303);
    server.until(key, &payment, "review").await;
    server
        .decide(&payment, "approve", json!({ "settlement": "pending" }))
        .await
        .expect(200);
    server.advance(301).await;
    if server.payment(key, &payment).await["settlement_status"] != "confirmed" {
        // On a busy machine, the first query may have missed its deadline; a second one follows.
        server.advance(3_600).await;
    }
    let inside = server.inside(&payment).await;
    let settlement = &inside["payment"]["settlement_status"];
    assert_eq!(settlement, "confirmed", "{inside:#}");
    let events = server.events(&payment).await;
    assert_eq!(
        events,
        ["payment.pending", "payment.review", "payment.completed"],
        "{inside:#}"
    );
    server.advance(DAY).await;
    assert_eq!(server.events(&payment).await.len(), 3, "told once");
}

#[tokio::test]
async fn an_account_that_nobody_could_ask_lately_is_not_offered() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let methods = async || {
        let body = server
            .get(key, "/api/v1/methods?currency=EUR")
            .await
            .expect(200)
            .json();
        body["methods"].as_array().unwrap().len()
    };
    assert!(methods().await > 0);
    server.fault("sandbox-test", "down", 1).await;
    server.advance(61).await;
    assert_eq!(methods().await, 0, "the probe found it down");
    let providers = server
        .admin("GET", "/providers", None)
        .await
        .expect(200)
        .json();
    let ours = |each: &&Value| each["id"] == "sandbox-test";
    let health = providers["providers"]
        .as_array()
        .unwrap()
        .iter()
        .find(ours)
        .unwrap()["health"]
        .clone();
    assert_eq!(health["state"], "down");
    server.fault("sandbox-test", "none", 1).await;
    server.advance(6).await;
    assert!(methods().await > 0);
}
