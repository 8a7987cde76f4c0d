//! Payments from start to end, for each decision of the simulated payer.

use serde_json::{Value, json};

use crate::harness::{Server, shared};

#[tokio::test]
async fn an_approved_payment_is_completed_and_confirmed() {
    let server = shared().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    let back = server.pay(&url, "approve").await.expect(303);
    assert!(
        back.header("location")
            .unwrap()
            .starts_with(&format!("{}/return/", server.base()))
    );
    let completed = server.until(key, &payment, "completed").await;
    assert_eq!(completed["settlement_status"], "confirmed");
    assert_eq!(completed["test_mode"], true);
    for field in [
        "payment_id",
        "order_id",
        "amount",
        "currency",
        "usd_amount",
        "checkout_url",
    ] {
        assert_eq!(completed[field], payment[field], "{field} never changes");
    }
    assert_eq!(
        server.moves(&payment).await,
        ["created>pending", "pending>completed"]
    );
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.completed"]
    );
    let inside = server.inside(&payment).await;
    assert_eq!(inside["attempts"][0]["state"], "captured");
    assert_eq!(
        inside["payment"]["platform_fee_usd"],
        Value::Null,
        "test payments cost nothing"
    );
    let entries = server.entries(&payment).await;
    assert_eq!(
        (&entries[0]["state"], &entries[0]["captured_times"]),
        (&json!("captured"), &json!(1))
    );
    assert!(server.work(&payment).await.is_empty());
}

#[tokio::test]
async fn a_live_payment_runs_end_to_end_and_records_the_platform_fee() {
    let server = shared().await;
    let key = server.live_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    assert_eq!(payment["test_mode"], false);
    assert!(url.contains("sandbox-live"), "{url}");
    assert_eq!(
        server.inside(&payment).await["payment"]["platform_fee_usd"],
        Value::Null
    );
    server.pay(&url, "approve").await.expect(303);
    let completed = server.until(key, &payment, "completed").await;
    assert_eq!(completed["settlement_status"], "confirmed");
    assert_eq!(
        (completed["test_mode"].clone(), completed["amount"].clone()),
        (json!(false), json!("49.90"))
    );
    let inside = server.inside(&payment).await["payment"].clone();
    assert_eq!(inside["platform_fee_usd"], "0.54", "1 % of 53.89");
    assert_eq!(inside["environment"], "live");
}

#[tokio::test]
async fn environments_never_meet() {
    let server = shared().await;
    let listed = async |key: &str| {
        let body = server
            .get(key, "/api/v1/methods?currency=EUR")
            .await
            .expect(200)
            .json();
        body["methods"][0]["providers"][0]["id"].clone()
    };
    assert_eq!(listed(server.test_key()).await, "sandbox-test");
    assert_eq!(listed(server.live_key()).await, "sandbox-live");
    // A callback to the live account about a test account's attempt matches no attempt.
    let (payment, _) = server.started(server.test_key(), "ideal", json!({})).await;
    let attempt = server.attempts(&payment).await[0].clone();
    let session = crate::steps::session(&attempt, "captured", "49.90");
    server
        .tell_exactly("sandbox-live", &session)
        .await
        .expect(200);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending"
    );
}

#[tokio::test]
async fn a_declined_payment_is_created_again_and_can_be_paid() {
    let server = shared().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    let form = server.payer_form(&url).await;
    server.press(&form, "decline").await.expect(303);
    server.until(key, &payment, "created").await;
    assert_eq!(
        server.press(&form, "approve").await.status,
        409,
        "closed at the vendor first"
    );
    let again = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    let again = again["redirect_url"].as_str().unwrap();
    assert_ne!(again, url);
    server.pay(again, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let states: Vec<Value> = server
        .attempts(&payment)
        .await
        .iter()
        .map(|each| each["state"].clone())
        .collect();
    assert_eq!(states, ["declined", "captured"]);
}

#[tokio::test]
async fn a_payment_left_pending_stays_pending() {
    let server = shared().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    let back = server.pay(&url, "pending").await.expect(303);
    // The payer's return proves no payment.
    server
        .open(back.header("location").unwrap())
        .await
        .expect(200);
    assert_eq!(server.payment(key, &payment).await["status"], "pending");
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
}

#[tokio::test]
async fn what_was_only_authorised_is_captured_once() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "credit_card", json!({})).await;
    server.fault("sandbox-test", "needs-capture", 1).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let entries = server.entries(&payment).await;
    assert_eq!(
        (&entries[0]["state"], &entries[0]["captured_times"]),
        (&json!("captured"), &json!(1))
    );
    let moves = server.moves(&payment).await;
    assert_eq!(
        moves,
        [
            "created>pending",
            "pending>processing",
            "processing>completed"
        ]
    );
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.processing", "payment.completed"]
    );
}

#[tokio::test]
async fn a_capture_that_meets_trouble_takes_the_money_once() {
    let server = Server::fresh().await;
    let key = server.test_key();
    for fault in ["malformed", "truncated", "status-500"] {
        let (payment, url) = server.started(key, "credit_card", json!({})).await;
        server.fault("sandbox-test", "needs-capture", 1).await;
        // Applies to the first two tries; each queries the session before it captures.
        server.fault("sandbox-test", fault, 2).await;
        server.pay(&url, "approve").await.expect(303);
        server.until(key, &payment, "processing").await;
        server
            .wait_for("the capture", async || {
                server.advance(5).await;
                (server.payment(key, &payment).await["status"] == "completed").then_some(())
            })
            .await;
        let entries = server.entries(&payment).await;
        assert_eq!(entries[0]["captured_times"], 1, "{fault}");
    }
}

#[tokio::test]
async fn a_wrong_amount_or_currency_is_never_completed_by_itself() {
    let server = Server::fresh().await;
    let key = server.test_key();
    for fault in ["wrong-amount", "wrong-currency"] {
        let (payment, url) = server.started(key, "ideal", json!({})).await;
        server.fault("sandbox-test", fault, 1).await;
        server.pay(&url, "approve").await.expect(303);
        let reviewed = server.until(key, &payment, "review").await;
        assert_eq!(reviewed["amount"], "49.90");
        assert_eq!(
            reviewed["settlement_status"], "pending",
            "confirmed only with completed"
        );
        server.advance(301).await;
        assert_eq!(server.payment(key, &payment).await["status"], "review");
        assert_eq!(
            server.events(&payment).await,
            ["payment.pending", "payment.review"]
        );
    }
}

#[tokio::test]
async fn a_cryptocurrency_paid_in_part_is_reviewed() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let payment = server
        .create(
            key,
            json!({ "checkout_mode": "direct", "payment_method": "crypto" }),
        )
        .await;
    server.start(key, &payment, "crypto").await.expect(200);
    let attempt = server.attempts(&payment).await[0].clone();
    server.tell(&attempt, "captured", "49.89").await.expect(200);
    assert_eq!(server.payment(key, &payment).await["status"], "review");

    let payment = server
        .create(
            key,
            json!({ "checkout_mode": "direct", "payment_method": "crypto" }),
        )
        .await;
    server.start(key, &payment, "crypto").await.expect(200);
    let attempt = server.attempts(&payment).await[0].clone();
    server.tell(&attempt, "captured", "50.00").await.expect(200);
    assert_eq!(server.payment(key, &payment).await["status"], "completed");
    let work = server.work(&payment).await;
    assert_eq!(
        (&work[0]["kind"], &work[0]["amount"]),
        (&json!("excess"), &json!("0.10"))
    );
}

#[tokio::test]
async fn refunds_and_disputes_after_completion_are_told_and_change_no_status() {
    let server = Server::fresh().await;
    let key = server.test_key();
    for (outcome, event) in [
        ("refund", "payment.refunded"),
        ("dispute", "payment.disputed"),
    ] {
        let (payment, url) = server.started(key, "ideal", json!({})).await;
        server.pay(&url, "approve").await.expect(303);
        server.until(key, &payment, "completed").await;
        server.pay(&url, outcome).await.expect(200);
        let told = async || {
            let events = server.events(&payment).await;
            (events.len() == 3).then_some(events)
        };
        let events = server.wait_for("the news of it", told).await;
        assert_eq!(events, ["payment.pending", "payment.completed", event]);
        let now = server.payment(key, &payment).await;
        assert_eq!(
            (&now["status"], &now["settlement_status"]),
            (&json!("completed"), &json!("confirmed"))
        );
        let work = server.work(&payment).await;
        if outcome == "refund" {
            assert!(work.is_empty(), "nothing is left to do: {work:?}");
            continue;
        }
        assert_eq!(
            (&work[0]["kind"], &work[0]["amount"]),
            (&json!("dispute"), &json!("49.90"))
        );
        let path = format!("/work/{}/done", work[0]["id"].as_str().unwrap());
        server
            .admin("POST", &path, Some(&json!({})))
            .await
            .expect(422);
        let said = json!({ "actor": "ann", "reason": "looked at it" });
        let done = server
            .admin("POST", &path, Some(&said))
            .await
            .expect(200)
            .json();
        assert!(done["done_at"].is_string());
    }
}

#[tokio::test]
async fn an_operator_calls_a_payment_off_and_its_open_attempt_with_it() {
    let server = shared().await;
    let key = server.test_key();
    let created = server.create(key, json!({})).await;
    let path = format!(
        "/payments/{}/cancel",
        created["payment_id"].as_str().unwrap()
    );
    server
        .admin("POST", &path, Some(&json!({ "actor": "ann" })))
        .await
        .expect(422);
    server.cancel(&created).await.expect(200);
    let now = server.payment(key, &created).await;
    assert_eq!(
        (&now["status"], &now["settlement_status"]),
        (&json!("cancelled"), &json!("pending"))
    );
    server.cancel(&created).await.expect(409).error();

    let (open, url) = server.started(key, "ideal", json!({})).await;
    let form = server.payer_form(&url).await;
    server.cancel(&open).await.expect(200);
    assert_eq!(server.payment(key, &open).await["status"], "cancelled");
    assert_eq!(server.entries(&open).await[0]["state"], "closed");
    assert_eq!(server.press(&form, "approve").await.status, 409);
    server.start(key, &open, "ideal").await.expect(409);
    assert_eq!(
        server.events(&open).await,
        ["payment.pending", "payment.cancelled"]
    );

    let (paid, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &paid, "completed").await;
    server.cancel(&paid).await.expect(409).error();
}

#[tokio::test]
async fn a_cancel_without_the_vendors_certain_word_is_refused() {
    let server = Server::fresh().await;
    let (open, _) = server.started(server.test_key(), "ideal", json!({})).await;
    server.fault("sandbox-test", "down", 1).await;
    server.cancel(&open).await.expect(409).error();
    assert_eq!(
        server.payment(server.test_key(), &open).await["status"],
        "pending"
    );
}

#[tokio::test]
async fn a_merchant_cancels_what_is_not_paid_and_closes_its_open_attempt() {
    let server = shared().await;
    let key = server.test_key();
    let cancel = async |payment: &Value, body: Option<&Value>| {
        let id = payment["payment_id"].as_str().unwrap();
        let url = format!("{}/api/v1/payments/{id}/cancel", server.base());
        let mut request = server.http.post(url).bearer_auth(key);
        if let Some(body) = body {
            request = request.json(body);
        }
        server.send(request).await
    };
    let created = server.create(key, json!({})).await;
    cancel(&created, Some(&json!({ "reason": "x" })))
        .await
        .expect(422);
    let cancelled = cancel(&created, None).await.expect(200).json();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["payment_id"], created["payment_id"]);
    // Cancelling again, with an empty object as the body, returns the same payment.
    assert_eq!(
        cancel(&created, Some(&json!({}))).await.expect(200).json(),
        cancelled
    );
    server.start(key, &created, "ideal").await.expect(409);

    let (open, url) = server.started(key, "ideal", json!({})).await;
    let form = server.payer_form(&url).await;
    cancel(&open, None).await.expect(200);
    assert_eq!(server.entries(&open).await[0]["state"], "closed");
    assert_eq!(server.press(&form, "approve").await.status, 409);
    assert_eq!(
        server.events(&open).await,
        ["payment.pending", "payment.cancelled"]
    );
    let history = server.inside(&open).await;
    let last = history["transitions"].as_array().unwrap().last().unwrap();
    assert_eq!(last["cause"], "merchant: cancelled");

    let (paid, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &paid, "completed").await;
    cancel(&paid, None).await.expect(409).error();
    let unknown = json!({ "payment_id": "0".repeat(32) });
    cancel(&unknown, None).await.expect(404).error();
}
