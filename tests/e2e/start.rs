//! The SPEC's row "start" when every call to the provider succeeds; see `fallible` for failures.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Server, merge, shared};

const START: &str = "/api/v1/payments/start";

/// Creates a direct iDEAL payment without starting it.
async fn direct(server: &Server, key: &str) -> Value {
    server
        .create(
            key,
            json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
        )
        .await
}

/// Body of a start request with additional fields.
fn start(payment: &Value, more: Value) -> Value {
    let mut body = json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
    merge(&mut body, more);
    body
}

#[tokio::test]
async fn a_start_leads_to_the_provider_and_a_second_one_to_the_same_page() {
    let server = shared().await;
    let key = server.test_key();
    let payment = direct(server, key).await;
    assert_eq!(payment["payment_method"], "ideal");
    let first = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    assert_eq!(first.as_object().unwrap().len(), 2, "{first}");
    assert_eq!(first["payment_id"], payment["payment_id"]);
    assert_eq!(server.payment(key, &payment).await["status"], "pending");
    let again = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    assert_eq!(again, first);
    assert_eq!(server.attempts(&payment).await.len(), 1);
    assert_eq!(server.entries(&payment).await.len(), 1);
}

#[tokio::test]
async fn a_start_is_decided_by_the_methods_module_and_says_why() {
    let server = shared().await;
    let (payment, _) = server.started(server.test_key(), "ideal", json!({})).await;
    let inside = server.inside(&payment).await;
    let decisions = inside["decisions"].as_array().unwrap();
    let decision = decisions
        .iter()
        .find(|each| each["purpose"] == "start")
        .unwrap();
    assert_eq!(decision["slot"], "method.ideal");
    assert_eq!(decision["chosen"], "sandbox-test");
    assert!(
        decision["explanation"]
            .as_str()
            .unwrap()
            .contains("sandbox-test")
    );
    assert_eq!(decision["verdicts"][0]["eligible"], true);
    let attempt = &inside["attempts"][0];
    assert_eq!(attempt["slot"], "provider.sandbox");
    assert_eq!(attempt["digest"].as_str().unwrap().len(), 64);
}

#[tokio::test]
async fn a_hosted_payment_and_another_method_are_conflicts() {
    let server = shared().await;
    let key = server.test_key();
    let hosted = server
        .create(key, json!({ "payment_method": "ideal" }))
        .await;
    let answer = server.start(key, &hosted, "ideal").await.expect(409);
    answer.error();
    assert!(answer.header("retry-after").is_none());
    let payment = direct(server, key).await;
    server
        .start(key, &payment, "paypal")
        .await
        .expect(409)
        .error();
    assert_eq!(server.payment(key, &payment).await["status"], "created");
}

#[tokio::test]
async fn every_field_of_a_start_has_its_rule() {
    let server = shared().await;
    let key = server.test_key();
    let payment = direct(server, key).await;
    for (field, value) in [
        ("payment_id", json!(null)),
        ("payment_id", json!("x")),
        ("payment_id", json!(7)),
        ("payment_method", json!(null)),
        ("payment_method", json!("cash")),
        ("provider_id", json!(7)),
        ("wallet", json!("x")),
    ] {
        let answer = server
            .post(key, START, &start(&payment, json!({ field: value })))
            .await;
        assert_eq!(answer.status, 422, "{field} {value}: {}", answer.text);
        assert!(answer.error().contains(field));
    }
    let unknown = json!({ "payment_id": "0".repeat(32) });
    server
        .post(key, START, &start(&payment, unknown))
        .await
        .expect(404)
        .error();
    server
        .post(key, START, &start(&payment, json!({ "provider_id": null })))
        .await
        .expect(200);
}

#[tokio::test]
async fn naming_a_provider_needs_the_merchants_policy() {
    let server = shared().await;
    let (id, key, _) = server.merchant(json!({})).await;
    let named =
        |payment: &Value, provider: &str| start(payment, json!({ "provider_id": provider }));
    let payment = direct(server, &key).await;
    for provider in ["sandbox-test", "nobody"] {
        server
            .post(&key, START, &named(&payment, provider))
            .await
            .expect(403)
            .error();
    }
    assert_eq!(server.payment(&key, &payment).await["status"], "created");

    server
        .change_merchant(id, json!({ "policy": { "provider_choice": true } }))
        .await;
    for provider in ["nobody", "sandbox-live"] {
        server
            .post(&key, START, &named(&payment, provider))
            .await
            .expect(422)
            .error();
    }
    server
        .post(&key, START, &named(&payment, "sandbox-test"))
        .await
        .expect(200);

    let live_only =
        json!({ "policy": { "methods": { "ideal": { "providers": ["sandbox-live"] } } } });
    let payment = direct(server, &key).await;
    server.change_merchant(id, live_only).await;
    server
        .post(&key, START, &named(&payment, "sandbox-test"))
        .await
        .expect(403);
    server
        .post(&key, START, &start(&payment, json!({})))
        .await
        .expect(422);
}

#[tokio::test]
async fn eligibility_and_policy_are_checked_again_at_the_start() {
    let server = shared().await;
    let (id, key, live) = server
        .merchant(json!({ "methods": { "ideal": { "enabled": true } } }))
        .await;
    let (off, small, forbidden) = (
        direct(server, &key).await,
        direct(server, &key).await,
        direct(server, &live).await,
    );

    server
        .change_merchant(
            id,
            json!({ "policy": { "methods": { "ideal": { "enabled": false } } } }),
        )
        .await;
    server.start(&key, &off, "ideal").await.expect(422).error();
    server
        .change_merchant(
            id,
            json!({ "policy": { "methods": { "ideal": { "enabled": true, "max": "1.00" } } } }),
        )
        .await;
    server.start(&key, &off, "ideal").await.expect(422);
    server
        .change_merchant(
            id,
            json!({ "policy": { "methods": { "ideal": { "max": null } }, "max_usd": "1.00" } }),
        )
        .await;
    server
        .start(&key, &small, "ideal")
        .await
        .expect(422)
        .error();
    server
        .change_merchant(
            id,
            json!({ "policy": { "max_usd": null }, "live_approved": false }),
        )
        .await;
    server
        .start(&live, &forbidden, "ideal")
        .await
        .expect(403)
        .error();
    assert_eq!(server.payment(&live, &forbidden).await["status"], "created");
    server.start(&key, &small, "ideal").await.expect(200);
}

#[tokio::test]
async fn concurrent_starts_share_one_attempt() {
    let server = shared().await;
    let key = server.test_key();
    let payment = direct(server, key).await;
    let answers = join_all((0..16).map(|_| server.start(key, &payment, "ideal"))).await;
    let urls: BTreeSet<String> = answers
        .into_iter()
        .map(|answer| answer.expect(200).json()["redirect_url"].to_string())
        .collect();
    assert_eq!(urls.len(), 1);
    assert_eq!(server.attempts(&payment).await.len(), 1);
    assert_eq!(server.entries(&payment).await.len(), 1);
    assert_eq!(server.moves(&payment).await, ["created>pending"]);
}

#[tokio::test]
async fn a_completed_payment_is_not_started_again() {
    let server = shared().await;
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    server
        .start(key, &payment, "ideal")
        .await
        .expect(409)
        .error();
}

#[tokio::test]
async fn a_decline_leads_back_to_created_and_the_fifth_fails_the_payment() {
    let server = shared().await;
    let key = server.test_key();
    let payment = direct(server, key).await;
    for decline in 1..=5 {
        let started = server
            .start(key, &payment, "ideal")
            .await
            .expect(200)
            .json();
        server
            .pay(started["redirect_url"].as_str().unwrap(), "decline")
            .await
            .expect(303);
        let status = if decline < 5 { "created" } else { "failed" };
        server.until(key, &payment, status).await;
    }
    let failed = server.payment(key, &payment).await;
    assert_eq!(failed["settlement_status"], "failed");
    server.start(key, &payment, "ideal").await.expect(409);
    let attempts = server.attempts(&payment).await;
    assert!(
        attempts.len() == 5
            && attempts
                .iter()
                .all(|attempt| attempt["state"] == "declined")
    );
    assert!(
        server
            .entries(&payment)
            .await
            .iter()
            .all(|entry| entry["captured_times"] == 0)
    );
    let mut expected = ["payment.pending", "payment.attempt_failed"].repeat(4);
    expected.extend(["payment.pending", "payment.failed"]);
    assert_eq!(
        server.events(&payment).await,
        expected,
        "what leads back to created is told as an attempt that failed"
    );
}

#[tokio::test]
async fn a_disabled_account_gets_no_new_attempts_and_finishes_those_under_way() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (under_way, url) = server.started(key, "ideal", json!({})).await;
    let waiting = direct(&server, key).await;
    let hosted = server.create(key, json!({})).await;
    let switch = async |on: bool| {
        let body = json!({ "enabled": on });
        server
            .admin("PATCH", "/providers/sandbox-test", Some(&body))
            .await
            .expect(200)
            .json()
    };
    assert_eq!(switch(false).await["enabled"], false);
    server
        .start(key, &waiting, "ideal")
        .await
        .expect(422)
        .error();
    let methods = server
        .get(key, "/api/v1/methods?currency=EUR")
        .await
        .expect(200)
        .json();
    assert_eq!(methods, json!({ "methods": [] }));
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let mut body = crate::harness::new_payment();
    merge(&mut body, direct);
    server
        .post(key, "/api/v1/payments", &body)
        .await
        .expect(422);
    let page = server
        .open(hosted["checkout_url"].as_str().unwrap())
        .await
        .expect(200);
    assert!(
        !page.text.contains("payment_method"),
        "nothing can be chosen: {}",
        page.text
    );
    assert_eq!(
        server
            .start(key, &under_way, "ideal")
            .await
            .expect(200)
            .json()["redirect_url"],
        url.as_str()
    );
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &under_way, "completed").await;
    switch(true).await;
    server.start(key, &waiting, "ideal").await.expect(200);
}

#[tokio::test]
async fn twenty_attempts_are_the_limit() {
    let server = shared().await;
    let key = server.test_key();
    let payment = server.create(key, json!({})).await;
    let methods = ["ideal", "paypal"];
    for attempt in 0..20 {
        server.chosen(&payment, methods[attempt % 2]).await;
        let url = payment["checkout_url"].as_str().unwrap();
        let form = crate::browser::Form {
            action: format!("{url}/abandon"),
            hidden: Vec::new(),
        };
        server.submit(&form, &[]).await.expect(303);
    }
    assert_eq!(server.attempts(&payment).await.len(), 20);
    server.choose(&payment, "ideal").await.expect(409);
    assert_eq!(server.attempts(&payment).await.len(), 20);
    assert_eq!(server.payment(key, &payment).await["status"], "created");
}
