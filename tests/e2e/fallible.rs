//! Starts while a provider fails: no payment is charged two times, and no outcome is guessed.

use serde_json::{Value, json};

use crate::fallback::TRIES;
use crate::harness::{Answer, Server};

async fn assert_one_session(server: &Server, payment: &Value) {
    assert_eq!(server.attempts(payment).await.len(), 1);
    assert_eq!(server.entries(payment).await.len(), 1);
}

async fn direct(server: &Server) -> Value {
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    server.create(server.test_key(), fields).await
}

async fn start(server: &Server, payment: &Value) -> Answer {
    server.start(server.test_key(), payment, "ideal").await
}

/// Pays a started payment and asserts that it is completed with one capture.
async fn pay(server: &Server, payment: &Value, started: &Answer) {
    let url = started.json()["redirect_url"].as_str().unwrap().to_owned();
    server.pay(&url, "approve").await.expect(303);
    server.until(server.test_key(), payment, "completed").await;
    let taken: u64 = server
        .entries(payment)
        .await
        .iter()
        .map(|entry| entry["captured_times"].as_u64().unwrap())
        .sum();
    assert_eq!(taken, 1);
}

#[tokio::test]
async fn a_provider_that_surely_did_nothing_leaves_the_payment_created() {
    let server = Server::fresh().await;
    for (fault, times) in [("refuse-connection", 1), ("status-429", TRIES), ("down", 1)] {
        let payment = direct(&server).await;
        server.fault("sandbox-test", fault, times).await;
        start(&server, &payment).await.expect(422).error();
        assert_eq!(
            server.payment(server.test_key(), &payment).await["status"],
            "created",
            "{fault}"
        );
        assert_eq!(server.attempts(&payment).await[0]["state"], "unavailable");
        assert!(server.entries(&payment).await.is_empty());

        server.fault("sandbox-test", "none", 1).await;
        let started = start(&server, &payment).await.expect(200);
        assert_eq!(
            server.attempts(&payment).await.len(),
            2,
            "a start makes a new one"
        );
        pay(&server, &payment, &started).await;
        assert_eq!(
            server.events(&payment).await,
            [
                "payment.pending",
                "payment.attempt_failed",
                "payment.pending",
                "payment.completed"
            ]
        );
    }
}

#[tokio::test]
async fn a_start_that_fails_once_is_made_again_under_the_same_key() {
    let server = Server::fresh().await;
    for fault in ["status-429", "status-500", "malformed", "truncated"] {
        let payment = direct(&server).await;
        server.fault("sandbox-test", fault, 1).await;
        let started = start(&server, &payment).await.expect(200);
        assert_one_session(&server, &payment).await;
        pay(&server, &payment, &started).await;
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_told_and_the_next_start_goes_on_with_the_same_attempt() {
    let server = Server::fresh().await;
    for fault in ["status-500", "malformed", "truncated"] {
        let payment = direct(&server).await;
        // The start, its two retries and the query after them.
        server.fault("sandbox-test", fault, 4).await;
        let answer = start(&server, &payment).await.expect(409);
        answer.error();
        assert_eq!(answer.header("retry-after"), Some("2"), "{fault}");
        assert_eq!(
            server.payment(server.test_key(), &payment).await["status"],
            "pending"
        );
        let before = server.attempts(&payment).await;
        assert_eq!(before[0]["state"], "unknown");

        server.fault("sandbox-test", "none", 1).await;
        let started = start(&server, &payment).await.expect(200);
        assert_eq!(
            server.attempts(&payment).await[0]["attempt_id"],
            before[0]["attempt_id"]
        );
        assert_one_session(&server, &payment).await;
        pay(&server, &payment, &started).await;
    }
}

#[tokio::test]
async fn a_start_that_left_nothing_behind_ends_once_that_is_proved() {
    let server = Server::fresh().await;
    let payment = direct(&server).await;
    server.fault("sandbox-test", "status-500", 4).await;
    start(&server, &payment).await.expect(409);
    assert!(server.entries(&payment).await.is_empty());
    // The query that is due fails, and so does the start, which is then retried for the last time.
    server.fault("sandbox-test", "status-500", 9).await;
    server.advance(60).await;
    server.fault("sandbox-test", "none", 1).await;
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending",
        "a slow request could still arrive"
    );
    server.advance(300).await;
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
    assert_eq!(server.attempts(&payment).await[0]["state"], "unavailable");
    let started = start(&server, &payment).await.expect(200);
    pay(&server, &payment, &started).await;
}

#[tokio::test]
async fn a_payer_who_waits_is_led_on_once_the_provider_is_back() {
    let server = Server::fresh().await;
    let payment = server.create(server.test_key(), json!({})).await;
    server.fault("sandbox-test", "status-500", 4).await;
    server.choose(&payment, "ideal").await.expect(409);
    let url = payment["checkout_url"].as_str().unwrap();
    server.open(url).await.expect(200);
    assert_eq!(server.attempts(&payment).await[0]["state"], "unknown");
    server.advance(8).await;
    // The address that the waiting page refreshes to leads to the provider.
    let on = server.open(&format!("{url}/go")).await.expect(200);
    assert!(
        on.text.contains(r#"<meta http-equiv="refresh""#),
        "{}",
        on.text
    );
    assert_one_session(&server, &payment).await;
    assert_eq!(server.attempts(&payment).await.len(), 1);
}

#[tokio::test]
async fn a_page_offers_no_other_way_while_an_outcome_is_unknown() {
    let server = Server::fresh().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let url = payment["checkout_url"].as_str().unwrap();
    let page = server.open(url).await.expect(200);
    server.fault("sandbox-test", "malformed", 4).await;
    server.choose(&payment, "ideal").await.expect(409);
    server.fault("sandbox-test", "status-500", 2).await;
    // The other tab still shows all methods.
    let form = crate::browser::Form::first(&page.text, url);
    server
        .submit(&form, &[("payment_method", "paypal")])
        .await
        .expect(409);
    let attempts = server.attempts(&payment).await;
    assert_eq!(attempts.len(), 1, "nothing falls back from it");
    assert_eq!(attempts[0]["payment_method"], "ideal");
    server.fault("sandbox-test", "none", 1).await;
    server.advance(10).await;
    server.chosen(&payment, "ideal").await;
    assert_one_session(&server, &payment).await;
}

/// A start whose provider does not answer within the maximum duration of a start.
async fn hang(fault: &str) {
    let server = Server::fresh().await;
    let once = direct(&server).await;
    server.fault("sandbox-test", fault, 1).await;
    let started = start(&server, &once).await.expect(200);
    assert_one_session(&server, &once).await;
    pay(&server, &once, &started).await;

    let payment = direct(&server).await;
    server.fault("sandbox-test", fault, 3).await;
    let (first, waiting) = tokio::join!(start(&server, &payment), start(&server, &payment));
    for answer in [first, waiting] {
        assert_eq!(answer.expect(409).header("retry-after"), Some("2"));
    }
    let before = server.attempts(&payment).await;
    server.fault("sandbox-test", "none", 1).await;
    let started = start(&server, &payment).await.expect(200);
    assert_eq!(
        server.attempts(&payment).await[0]["attempt_id"],
        before[0]["attempt_id"]
    );
    assert_one_session(&server, &payment).await;
    pay(&server, &payment, &started).await;
}

#[tokio::test]
async fn a_provider_that_hangs_is_waited_for_up_to_the_deadline_and_found_again() {
    tokio::join!(hang("timeout-before-effect"), hang("timeout-after-effect"));
}

#[tokio::test]
async fn a_start_that_was_lost_is_found_by_the_schedule_too() {
    let server = Server::fresh().await;
    let payment = direct(&server).await;
    server.fault("sandbox-test", "malformed", 4).await;
    start(&server, &payment).await.expect(409);
    server.advance(60).await;
    let attempts = server.attempts(&payment).await;
    assert_eq!(
        (attempts.len(), &attempts[0]["state"]),
        (1, &json!("open")),
        "the vendor knows it"
    );
    let started = start(&server, &payment).await.expect(200);
    assert_one_session(&server, &payment).await;
    pay(&server, &payment, &started).await;
}
