//! Return, callback and query race: one transition and one event, in every order.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Server, TEST_TIMEOUT};

/// A path on which the gateway learns that a payment was made.
#[derive(Clone, Copy, Debug)]
enum Way {
    Callback,
    Return,
    Query,
}

/// Seconds after which the first scheduled query is due.
const ASKED_AFTER: u64 = 301;
/// Seconds that pass before a race, so that a callback signed just before the clock moves is less than five
/// minutes old when it arrives.
const WAITED: u64 = 240;

impl Way {
    /// Reports the payment. For a query, advances the clock by `seconds`, after which the query is due.
    async fn go(self, server: &Server, attempt: &Value, back: &str, seconds: u64) {
        match self {
            Self::Callback => drop(server.tell(attempt, "captured", "49.90").await.expect(200)),
            Self::Return => drop(server.open(back).await.expect(200)),
            Self::Query => server.advance(seconds).await,
        }
    }
}

/// A payment that was paid while the gateway received no report.
async fn silently_paid(server: &Server) -> (Value, Value, String) {
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.fault("sandbox-test", "callback-never", 1).await;
    let back = server.pay(&url, "approve").await.expect(303);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending"
    );
    let attempt = server.attempts(&payment).await[0].clone();
    (
        payment,
        attempt,
        back.header("location").unwrap().to_owned(),
    )
}

async fn assert_once(server: &Server, payment: &Value, what: &str) {
    let now = server.payment(server.test_key(), payment).await;
    assert_eq!(
        (&now["status"], &now["settlement_status"]),
        (&json!("completed"), &json!("confirmed")),
        "{what}"
    );
    assert_eq!(
        server.moves(payment).await,
        ["created>pending", "pending>completed"],
        "{what}"
    );
    assert_eq!(
        server.events(payment).await,
        ["payment.pending", "payment.completed"],
        "{what}"
    );
    assert_eq!(
        server.entries(payment).await[0]["captured_times"],
        1,
        "{what}"
    );
    assert!(server.work(payment).await.is_empty(), "{what}");
}

#[tokio::test]
async fn callback_return_and_query_in_every_order_complete_once() {
    use Way::{Callback, Query, Return};
    let server = Server::fresh().await;
    for order in [
        [Callback, Return, Query],
        [Callback, Query, Return],
        [Return, Callback, Query],
        [Return, Query, Callback],
        [Query, Callback, Return],
        [Query, Return, Callback],
    ] {
        let (payment, attempt, back) = silently_paid(&server).await;
        for (nth, way) in order.into_iter().enumerate() {
            way.go(&server, &attempt, &back, ASKED_AFTER).await;
            if nth == 0 {
                let status = server.payment(server.test_key(), &payment).await["status"].clone();
                assert_eq!(status, "completed", "{way:?} alone is enough");
            }
        }
        assert_once(&server, &payment, &format!("{order:?}")).await;
    }
}

#[tokio::test]
async fn callback_return_and_query_at_once_complete_once() {
    let server = Server::fresh().await;
    for _ in 0..8 {
        let (payment, attempt, back) = silently_paid(&server).await;
        server.advance(WAITED).await;
        let ways = [
            Way::Query,
            Way::Callback,
            Way::Return,
            Way::Callback,
            Way::Return,
            Way::Callback,
        ];
        let left = ASKED_AFTER - WAITED;
        join_all(ways.map(|way| way.go(&server, &attempt, &back, left))).await;
        assert_once(&server, &payment, "at once").await;
    }
}

#[tokio::test]
async fn a_callback_before_the_start_was_recorded_completes_once() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server.create(key, fields).await;
    server
        .fault("sandbox-test", "timeout-after-effect", 1)
        .await;
    let news = async {
        let entry = wait_for_entry(&server).await;
        let mut attempt = server.attempts(&payment).await[0].clone();
        assert_eq!(attempt["reference"], Value::Null, "nothing is recorded yet");
        attempt["reference"] = entry["reference"].clone();
        server.tell(&attempt, "captured", "49.90").await.expect(200);
        assert_eq!(server.payment(key, &payment).await["status"], "completed");
    };
    let (started, ()) = tokio::join!(server.start(key, &payment, "ideal"), news);
    assert!([200, 409].contains(&started.status), "{}", started.text);
    assert_eq!(
        server.moves(&payment).await,
        ["created>pending", "pending>completed"]
    );
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.completed"]
    );
    assert_eq!(server.attempts(&payment).await.len(), 1);
    assert!(server.work(&payment).await.is_empty());
}

async fn wait_for_entry(server: &Server) -> Value {
    let began = Instant::now();
    loop {
        if let Some(entry) = server.books("sandbox-test").await.pop() {
            return entry;
        }
        assert!(began.elapsed() < TEST_TIMEOUT, "the start never arrived");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_payer_who_is_faster_than_the_answer_to_the_start_pays_once() {
    let server = Server::fresh().await;
    let key = server.test_key();
    for fault in ["malformed", "truncated"] {
        let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
        let payment = server.create(key, fields).await;
        server.fault("sandbox-test", fault, 4).await;
        server.start(key, &payment, "ideal").await.expect(409);
        let entry = server.entries(&payment).await[0].clone();
        let mut attempt = server.attempts(&payment).await[0].clone();
        attempt["reference"] = entry["reference"].clone();
        server.tell(&attempt, "captured", "49.90").await.expect(200);
        assert_eq!(server.payment(key, &payment).await["status"], "completed");
        server.start(key, &payment, "ideal").await.expect(409);
        assert_eq!(
            server.moves(&payment).await,
            ["created>pending", "pending>completed"]
        );
        assert_eq!(
            server.events(&payment).await,
            ["payment.pending", "payment.completed"]
        );
    }
}

#[tokio::test]
async fn news_that_comes_twice_or_out_of_order_completes_once() {
    let server = Server::fresh().await;
    for fault in ["callback-twice", "callback-reordered"] {
        let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
        server.fault("sandbox-test", fault, 1).await;
        server.pay(&url, "approve").await.expect(303);
        server.until(server.test_key(), &payment, "completed").await;
        server.advance(301).await;
        assert_once(&server, &payment, fault).await;
    }
}

#[tokio::test]
async fn news_that_comes_late_or_never_is_learnt_all_the_same() {
    let server = Server::fresh().await;
    let (late, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.fault("sandbox-test", "callback-late", 1).await;
    server.pay(&url, "approve").await.expect(303);
    assert_eq!(
        server.payment(server.test_key(), &late).await["status"],
        "pending"
    );
    server.advance(11).await;
    server.until(server.test_key(), &late, "completed").await;
    assert_once(&server, &late, "late").await;

    let (payment, _, _) = silently_paid(&server).await;
    server.advance(30).await;
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending"
    );
    server.advance(37).await;
    assert_once(&server, &payment, "never").await;
}

#[tokio::test]
async fn a_forged_callback_changes_nothing_and_hides_nothing() {
    let server = Server::fresh().await;
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.fault("sandbox-test", "callback-forged", 1).await;
    server.pay(&url, "pending").await.expect(303);
    server.pay(&url, "decline").await.expect(303);
    server
        .wait_for("the forgery's refusal", async || {
            let forged = server.counted("kassette_callbacks_total", "outcome=\"forged\"");
            (forged.await > 0).then_some(())
        })
        .await;
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending"
    );
    server.advance(301).await;
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
    assert_eq!(server.entries(&payment).await[0]["captured_times"], 0);
}
