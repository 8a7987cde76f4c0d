//! Payments in review and operators' decisions about them.

use serde_json::{Value, json};

use crate::books::kassette;
use crate::harness::{Server, shared};

/// A payment that the provider has captured and then put under review.
async fn held(server: &Server) -> (Value, String) {
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.pay(&url, "review").await.expect(303);
    server.until(server.test_key(), &payment, "review").await;
    (payment, url)
}

async fn stands(server: &Server, payment: &Value) -> String {
    let now = server.payment(server.test_key(), payment).await;
    format!(
        "{} {}",
        now["status"].as_str().unwrap(),
        now["settlement_status"].as_str().unwrap()
    )
}

#[tokio::test]
async fn an_approval_completes_with_what_the_attempt_proves() {
    let server = shared().await;
    let (payment, _) = held(server).await;
    assert_eq!(stands(server, &payment).await, "review pending");
    let decided = server
        .decide(&payment, "approve", json!({}))
        .await
        .expect(200)
        .json();
    assert_eq!(decided["payment"]["status"], "completed");
    assert_eq!(stands(server, &payment).await, "completed confirmed");
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.review", "payment.completed"]
    );
    let again = server.decide(&payment, "approve", json!({})).await;
    assert_eq!(
        again.expect(200).json()["payment"]["decision"],
        decided["payment"]["decision"],
        "the same decision again answers the same"
    );
    server
        .decide(&payment, "decline", json!({}))
        .await
        .expect(409);
    let audit = server
        .admin("GET", "/audit?limit=100", None)
        .await
        .expect(200)
        .json();
    let object = format!("payment/{}", payment["payment_id"].as_str().unwrap());
    let entries = audit["entries"].as_array().unwrap();
    let mut about = entries
        .iter()
        .filter(|entry| entry["object"] == object.as_str());
    let entry = about.next().unwrap();
    assert_eq!(about.next(), None, "one decision, one line");
    assert_eq!(
        (&entry["action"], &entry["actor"], &entry["reason"]),
        (
            &json!("payment.review"),
            &json!("ann"),
            &json!("looked at it")
        )
    );
}

#[tokio::test]
async fn an_approval_may_leave_the_settlement_pending() {
    let server = shared().await;
    let (payment, _) = held(server).await;
    server
        .decide(&payment, "approve", json!({ "settlement": "pending" }))
        .await
        .expect(200);
    assert_eq!(stands(server, &payment).await, "completed pending");
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.review"],
        "completed is told once it is confirmed"
    );
    let (vouched, _) = held(server).await;
    server
        .decide(&vouched, "approve", json!({ "settlement": "confirmed" }))
        .await
        .expect(200);
    assert_eq!(stands(server, &vouched).await, "completed confirmed");
}

#[tokio::test]
async fn a_declined_review_fails_the_payment_and_lists_the_money_that_was_taken() {
    let server = shared().await;
    let (payment, _) = held(server).await;
    let with_settlement = json!({ "settlement": "confirmed" });
    server
        .decide(&payment, "decline", with_settlement)
        .await
        .expect(422)
        .error();
    server
        .decide(&payment, "decline", json!({}))
        .await
        .expect(200);
    assert_eq!(stands(server, &payment).await, "failed failed");
    let work = server.work(&payment).await;
    assert_eq!(
        (&work[0]["kind"], &work[0]["amount"]),
        (&json!("surplus"), &json!("49.90"))
    );
    assert_eq!(server.attempts(&payment).await[0]["state"], "surplus");
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.review", "payment.failed"]
    );
}

#[tokio::test]
async fn a_decision_is_complete_and_only_about_a_payment_in_review() {
    let server = shared().await;
    let created = server.create(server.test_key(), json!({})).await;
    server
        .decide(&created, "approve", json!({}))
        .await
        .expect(409)
        .error();
    let (payment, _) = held(server).await;
    for more in [
        json!({ "decision": "maybe" }),
        json!({ "decision": null }),
        json!({ "actor": null }),
        json!({ "reason": null }),
        json!({ "reason": "" }),
        json!({ "settlement": "failed" }),
        json!({ "vouch": "yes" }),
        json!({ "wallet": "x" }),
    ] {
        let answer = server.decide(&payment, "approve", more.clone()).await;
        assert_eq!(answer.status, 422, "{more}: {}", answer.text);
    }
    let unknown = json!({ "payment_id": "0".repeat(32) });
    server
        .decide(&unknown, "approve", json!({}))
        .await
        .expect(404);
    assert_eq!(stands(server, &payment).await, "review pending");
}

#[tokio::test]
async fn the_provider_ends_a_review_of_its_own() {
    let server = shared().await;
    let (payment, url) = held(server).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
    assert_eq!(stands(server, &payment).await, "completed confirmed");
    assert_eq!(server.entries(&payment).await[0]["captured_times"], 1);
}

#[tokio::test]
async fn the_provider_does_not_end_a_review_for_a_wrong_amount() {
    let server = Server::fresh().await;
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.fault("sandbox-test", "wrong-amount", 1).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "review").await;
    let attempt = server.attempts(&payment).await[0].clone();
    assert_eq!(attempt["amount"], "49.89");
    server.tell(&attempt, "captured", "49.90").await.expect(200);
    assert_eq!(stands(&server, &payment).await, "review pending");
    server
        .decide(&payment, "approve", json!({}))
        .await
        .expect(200);
    assert_eq!(stands(&server, &payment).await, "completed confirmed");
}

#[tokio::test]
async fn a_payment_over_the_merchants_limit_is_held_instead_of_completed() {
    let server = shared().await;
    let (_, key, _) = server
        .merchant(json!({ "review_over_usd": "50.00", "max_usd": "100.00" }))
        .await;
    let mut over = crate::harness::new_payment();
    crate::harness::merge(&mut over, json!({ "amount": "92.60" }));
    server
        .post(&key, "/api/v1/payments", &over)
        .await
        .expect(422)
        .error();

    let (payment, url) = server
        .started(&key, "ideal", json!({ "amount": "49.90" }))
        .await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &payment, "review").await;
    server
        .decide(&payment, "approve", json!({}))
        .await
        .expect(200);
    assert_eq!(
        server.payment(&key, &payment).await["settlement_status"],
        "confirmed"
    );

    let (small, url) = server
        .started(&key, "ideal", json!({ "amount": "20.00" }))
        .await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &small, "completed").await;
}

/// A payment over the limit, in review before its authorization is captured.
async fn authorised(server: &Server, key: &str) -> Value {
    let (payment, url) = server.started(key, "credit_card", json!({})).await;
    server.fault("sandbox-test", "needs-capture", 1).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "review").await;
    assert_eq!(
        server.entries(&payment).await[0]["state"],
        "authorised",
        "review comes before capture"
    );
    payment
}

#[tokio::test]
async fn an_authorisation_waits_for_the_review_and_is_captured_or_closed_by_it() {
    let server = Server::fresh().await;
    let (_, key, _) = server.merchant(json!({ "review_over_usd": "50.00" })).await;
    let approved = authorised(&server, &key).await;
    server.advance(301).await;
    assert_eq!(server.entries(&approved).await[0]["state"], "authorised");
    server
        .decide(&approved, "approve", json!({}))
        .await
        .expect(200);
    let now = server.payment(&key, &approved).await;
    assert_eq!(
        (&now["status"], &now["settlement_status"]),
        (&json!("completed"), &json!("confirmed"))
    );
    let entry = server.entries(&approved).await[0].clone();
    assert_eq!(
        (&entry["state"], &entry["captured_times"]),
        (&json!("captured"), &json!(1))
    );

    let declined = authorised(&server, &key).await;
    server
        .decide(&declined, "decline", json!({}))
        .await
        .expect(200);
    assert_eq!(server.payment(&key, &declined).await["status"], "failed");
    assert_eq!(server.entries(&declined).await[0]["state"], "closed");
    assert!(server.work(&declined).await.is_empty(), "nothing was taken");
}

/// A decision that must wait for the provider: 202, and the payment remains in review and shows the decision.
async fn waits(server: &Server, payment: &Value, decision: &str) -> Value {
    let answer = server.decide(payment, decision, json!({})).await;
    let waiting = answer.expect(202).json()["payment"].clone();
    assert_eq!(
        (&waiting["status"], &waiting["decision"]["state"]),
        (&json!("review"), &json!("waiting"))
    );
    waiting
}

/// Status, settlement status, and state of the decision.
async fn decided(server: &Server, payment: &Value) -> [String; 3] {
    let inside = server.inside(payment).await["payment"].clone();
    [
        &inside["status"],
        &inside["settlement_status"],
        &inside["decision"]["state"],
    ]
    .map(|word| word.as_str().unwrap_or("none").to_owned())
}

async fn risky() -> (Server, String) {
    let server = Server::fresh().await;
    let (_, key, _) = server.merchant(json!({ "review_over_usd": "50.00" })).await;
    (server, key)
}

#[tokio::test]
async fn a_decision_that_needs_a_silent_vendor_waits_and_is_finished_by_its_word() {
    let (server, key) = risky().await;
    let payment = authorised(&server, &key).await;
    server.fault("sandbox-test", "down", 1).await;
    waits(&server, &payment, "approve").await;
    waits(&server, &payment, "approve").await;
    let declined = server.decide(&payment, "decline", json!({})).await;
    declined.expect(409).error();
    server.fault("sandbox-test", "none", 1).await;
    server.advance(600).await;
    assert_eq!(
        decided(&server, &payment).await,
        ["completed", "confirmed", "done"]
    );
    assert_eq!(server.entries(&payment).await[0]["captured_times"], 1);
}

#[tokio::test]
async fn a_decision_lapses_where_the_vendor_stays_silent_and_can_be_taken_again() {
    let (server, key) = risky().await;
    let payment = authorised(&server, &key).await;
    server.fault("sandbox-test", "down", 1).await;
    waits(&server, &payment, "approve").await;
    for _ in 0..6 {
        server.advance(120).await;
    }
    assert_eq!(
        decided(&server, &payment).await,
        ["review", "pending", "lapsed"]
    );
    server.fault("sandbox-test", "none", 1).await;
    server.advance(600).await;
    server
        .decide(&payment, "decline", json!({}))
        .await
        .expect(200);
    assert_eq!(server.entries(&payment).await[0]["state"], "closed");
}

#[tokio::test]
async fn an_approval_whose_capture_is_refused_never_completes_without_money() {
    let (server, key) = risky().await;
    let payment = authorised(&server, &key).await;
    server.fault("sandbox-test", "voids-approval", 1).await;
    let voided = authorised(&server, &key).await;
    server.advance(60).await;
    // When the authorization has ended, the payment leaves review and fails.
    let ended = ["payment.pending", "payment.review", "payment.failed"];
    for (payment, fault, stands, events) in [
        (&voided, "none", ["failed", "failed"], &ended[..]),
        (
            &payment,
            "capture-refused",
            ["review", "pending"],
            &ended[..2],
        ),
    ] {
        server.fault("sandbox-test", fault, 100).await;
        let answer = server.decide(payment, "approve", json!({})).await;
        assert!(matches!(answer.status, 202 | 409), "{}", answer.text);
        for _ in 0..6 {
            server.advance(120).await;
        }
        let [status, settlement, state] = decided(&server, payment).await;
        assert_eq!([&*status, &*settlement], stands);
        assert_ne!(state, "done");
        assert_eq!(server.events(payment).await, events);
        assert_eq!(server.entries(payment).await[0]["captured_times"], 0);
        server.fault("sandbox-test", "none", 1).await;
        server.advance(600).await;
    }
    server
        .decide(&payment, "decline", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn another_amount_than_was_seen_does_not_finish_an_approval() {
    let (server, key) = risky().await;
    let payment = authorised(&server, &key).await;
    server.fault("sandbox-test", "capture-short", 1).await;
    server
        .decide(&payment, "approve", json!({}))
        .await
        .expect(409)
        .error();
    assert_eq!(
        decided(&server, &payment).await,
        ["review", "pending", "lapsed"]
    );
    let inside = server.inside(&payment).await;
    assert_eq!(inside["payment"]["review_cause"], "mismatch");
    assert_eq!(inside["attempts"][0]["received"], "48.90");
    // The operator must state the amount that was received.
    let refused = server.decide(&payment, "approve", json!({})).await;
    assert!(refused.expect(409).error().contains("48.90"));
    let other = json!({ "accept": { "amount": "48.91", "currency": "EUR" } });
    server.decide(&payment, "approve", other).await.expect(409);
    let whole = json!({ "accept": { "amount": "49.90", "currency": "EUR" } });
    server.decide(&payment, "approve", whole).await.expect(422);
    let exactly = json!({ "accept": { "amount": "48.90", "currency": "EUR" } });
    let accepted = server.decide(&payment, "approve", exactly.clone()).await;
    let accepted = accepted.expect(200).json()["payment"].clone();
    assert_eq!(accepted["decision"]["received"], "48.90");
    assert_eq!(accepted["status"], "completed");
    assert_eq!(accepted["short"], exactly["accept"]);
}

#[tokio::test]
async fn a_capture_that_is_confirmed_later_finishes_the_approval() {
    let (server, key) = risky().await;
    let payment = authorised(&server, &key).await;
    server.fault("sandbox-test", "capture-late", 1).await;
    waits(&server, &payment, "approve").await;
    server.advance(60).await;
    server.until(&key, &payment, "completed").await;
    assert_eq!(
        decided(&server, &payment).await,
        ["completed", "confirmed", "done"]
    );
    assert_eq!(server.entries(&payment).await[0]["captured_times"], 1);
}

#[tokio::test]
async fn money_that_was_given_back_during_a_review_needs_an_admins_word() {
    let server = Server::fresh().await;
    let (payment, url) = held(&server).await;
    server.pay(&url, "refund").await;
    server
        .wait_for("the refund is known", async || {
            let attempts = server.attempts(&payment).await;
            (attempts[0]["returned"] == "49.90").then_some(())
        })
        .await;
    let refused = server.decide(&payment, "approve", json!({})).await;
    assert!(refused.expect(409).error().contains("vouch"));
    assert_eq!(stands(&server, &payment).await, "review pending");
    let vouched = server
        .decide(&payment, "approve", json!({ "vouch": true }))
        .await
        .expect(200)
        .json();
    assert_eq!(vouched["payment"]["vouched"], true);
    assert_eq!(stands(&server, &payment).await, "completed pending");
    let kinds: Vec<_> = server.work(&payment).await;
    assert!(kinds.iter().any(|line| line["kind"] == "unsettled"));
}

#[tokio::test]
async fn only_an_admin_vouches() {
    let server = shared().await;
    let (payment, _) = held(server).await;
    let operator = server
        .admin(
            "POST",
            "/operators",
            Some(&json!({ "name": "no admin", "role": "operator" })),
        )
        .await
        .expect(201)
        .json();
    let body =
        json!({ "decision": "approve", "vouch": true, "actor": "ann", "reason": "I say so" });
    let path = format!(
        "/payments/{}/review",
        payment["payment_id"].as_str().unwrap()
    );
    let token = operator["token"].as_str().unwrap();
    let answer = server.admin_as(token, "POST", &path, Some(&body)).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
}

#[tokio::test]
async fn an_operator_asks_the_provider_and_sends_what_hangs_to_review() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.fault("sandbox-test", "callback-never", 1).await;
    server.pay(&url, "approve").await.expect(303);
    let asked = server.act(&payment, "query").await.expect(200).json();
    assert_eq!(asked["payment"]["status"], "completed");

    let created = server.create(key, json!({})).await;
    server.act(&created, "query").await.expect(409).error();
    server.act(&created, "to-review").await.expect(409).error();

    let (hanging, url) = server.started(key, "credit_card", json!({})).await;
    server.fault("sandbox-test", "needs-capture", 1).await;
    server.fault("sandbox-test", "capture-late", 1).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &hanging, "processing").await;
    let sent = server.act(&hanging, "to-review").await.expect(200).json();
    assert_eq!(
        (&sent["payment"]["status"], &sent["payment"]["review_cause"]),
        (&json!("review"), &json!("operator"))
    );
}

#[tokio::test]
async fn the_work_list_shows_payments_in_review_too() {
    let server = shared().await;
    let (payment, _) = held(server).await;
    let id = payment["payment_id"].as_str().unwrap();
    let found = server.wait_for("the payment on the list", async || {
        let listed = server.admin("GET", "/work?limit=100", None).await;
        let listed = listed.expect(200).json();
        assert!(listed["work"].is_array() && listed.get("next_cursor").is_some());
        let payments = listed["in_review"]["payments"].as_array()?.clone();
        payments.into_iter().find(|each| each["payment_id"] == id)
    });
    assert_eq!(found.await["status"], "review");
    let (code, table) = kassette(server, &["work", "list", "--limit", "100"]);
    assert_eq!(code, Some(0));
    assert!(table.contains("review") && table.contains(id), "{table}");
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(120), "{table}");
}
