//! Idempotency: replays, changed requests and races.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, Server, merge, new_payment, shared, unique};

const PAYMENTS: &str = "/api/v1/payments";

/// A copy of the request with other values in some fields.
fn with(body: &Value, more: Value) -> Value {
    let mut changed = body.clone();
    merge(&mut changed, more);
    changed
}

/// Asserts that the response replays the payment's creation.
#[track_caller]
fn assert_replay(answer: &Answer, payment: &Value) {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    assert_eq!(&answer.json(), payment);
}

#[tokio::test]
async fn the_same_request_finds_the_same_payment() {
    let server = shared().await;
    let key = server.test_key();
    let mut body = new_payment();
    merge(
        &mut body,
        json!({ "customer_email": "ann@example.com", "return_url": "https://shop.example/done" }),
    );
    let first = server.post(key, PAYMENTS, &body).await.expect(201);
    assert!(first.header("idempotent-replayed").is_none());
    let payment = first.json();
    assert_replay(&server.post(key, PAYMENTS, &body).await, &payment);
    let spelled_out = with(
        &body,
        json!({ "checkout_mode": "hosted", "payment_method": null, "metadata": {}, "expires_in": 24 * 3600 }),
    );
    assert_replay(&server.post(key, PAYMENTS, &spelled_out).await, &payment);
}

#[tokio::test]
async fn data_is_compared_after_defaults_are_applied() {
    let server = shared().await;
    let mut body = new_payment();
    body.as_object_mut().unwrap().remove("currency");
    let payment = server
        .post(server.test_key(), PAYMENTS, &body)
        .await
        .expect(201)
        .json();
    let dollars = with(&body, json!({ "currency": "USD" }));
    assert_replay(
        &server.post(server.test_key(), PAYMENTS, &dollars).await,
        &payment,
    );
}

#[tokio::test]
async fn a_replay_shows_the_payment_as_it_stands_now() {
    let server = shared().await;
    let key = server.test_key();
    let body = with(
        &new_payment(),
        json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
    );
    let payment = server.post(key, PAYMENTS, &body).await.expect(201).json();
    let url = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    assert_eq!(
        server.post(key, PAYMENTS, &body).await.expect(200).json()["status"],
        "pending"
    );
    server
        .pay(url["redirect_url"].as_str().unwrap(), "approve")
        .await
        .expect(303);
    let completed = server.until(key, &payment, "completed").await;
    assert_replay(&server.post(key, PAYMENTS, &body).await, &completed);
}

#[tokio::test]
async fn the_same_key_with_any_other_data_is_a_conflict() {
    let server = shared().await;
    let key = server.test_key();
    let mut body = new_payment();
    merge(
        &mut body,
        json!({ "customer_email": "ann@example.com", "return_url": "https://shop.example/done" }),
    );
    let payment = server.post(key, PAYMENTS, &body).await.expect(201).json();
    let changes = [
        json!({ "order_id": "another" }),
        json!({ "amount": "49.91" }),
        json!({ "currency": "GBP" }),
        json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
        json!({ "payment_method": "ideal" }),
        json!({ "customer_email": "bob@example.com" }),
        json!({ "customer_email": null }),
        json!({ "return_url": "https://shop.example/done?x" }),
        json!({ "return_url": null }),
        json!({ "metadata": { "cart": "1" } }),
        json!({ "description": "Two tickets" }),
        json!({ "locale": "de" }),
        json!({ "expires_in": 300 }),
    ];
    for change in changes {
        let answer = server
            .post(key, PAYMENTS, &with(&body, change.clone()))
            .await;
        assert_eq!(answer.status, 409, "{change}: {}", answer.text);
        answer.error();
        assert!(
            answer.header("retry-after").is_none(),
            "trying again does not help"
        );
    }
    assert_replay(&server.post(key, PAYMENTS, &body).await, &payment);
}

#[tokio::test]
async fn a_key_is_the_merchants_across_environments_and_nobody_elses() {
    let server = shared().await;
    let body = new_payment();
    let payment = server
        .post(server.test_key(), PAYMENTS, &body)
        .await
        .expect(201)
        .json();
    server
        .post(server.live_key(), PAYMENTS, &body)
        .await
        .expect(409)
        .error();
    let (_, other, _) = server.merchant(json!({})).await;
    let theirs = server
        .post(&other, PAYMENTS, &body)
        .await
        .expect(201)
        .json();
    assert_ne!(theirs["payment_id"], payment["payment_id"]);
}

#[tokio::test]
async fn a_replay_does_not_re_check_what_changes_with_time() {
    let server = shared().await;
    let (id, key, _) = server.merchant(json!({})).await;
    let path = format!("/merchants/{id}/domains");
    let domain = format!("shop{}.example", unique());
    server
        .admin("POST", &path, Some(&json!({ "domain": domain })))
        .await
        .expect(201);
    let body = with(
        &new_payment(),
        json!({ "checkout_mode": "direct", "payment_method": "ideal", "return_url": format!("https://{domain}/x") }),
    );
    let payment = server.post(&key, PAYMENTS, &body).await.expect(201).json();
    let fresh = || {
        with(
            &body,
            json!({ "idempotency_key": format!("key-{}", unique()) }),
        )
    };

    server
        .admin("DELETE", &format!("{path}/{domain}"), None)
        .await
        .expect(204);
    assert!(
        server
            .post(&key, PAYMENTS, &fresh())
            .await
            .expect(422)
            .error()
            .contains("return_url")
    );
    assert_replay(&server.post(&key, PAYMENTS, &body).await, &payment);

    let elsewhere = || with(&fresh(), json!({ "return_url": null }));
    server
        .change_merchant(
            id,
            json!({ "policy": { "methods": { "ideal": { "enabled": false } } } }),
        )
        .await;
    assert!(
        server
            .post(&key, PAYMENTS, &elsewhere())
            .await
            .expect(422)
            .error()
            .contains("payment_method")
    );
    assert_replay(&server.post(&key, PAYMENTS, &body).await, &payment);

    server
        .change_merchant(
            id,
            json!({ "policy": { "methods": { "ideal": null }, "max_usd": "1.00" } }),
        )
        .await;
    assert!(
        server
            .post(&key, PAYMENTS, &elsewhere())
            .await
            .expect(422)
            .error()
            .contains("amount")
    );
    assert_replay(&server.post(&key, PAYMENTS, &body).await, &payment);

    server
        .change_merchant(id, json!({ "fx_rates": { "EUR": null } }))
        .await;
    assert!(
        server
            .post(&key, PAYMENTS, &elsewhere())
            .await
            .expect(422)
            .error()
            .contains("currency")
    );
    assert_replay(&server.post(&key, PAYMENTS, &body).await, &payment);
}

#[tokio::test]
async fn a_revoked_key_replays_nothing() {
    let server = shared().await;
    let (id, _, _) = server.merchant(json!({})).await;
    let issued = json!({ "environment": "test" });
    let issued = server
        .admin("POST", &format!("/merchants/{id}/keys"), Some(&issued))
        .await
        .expect(201)
        .json();
    let key = issued["key"].as_str().unwrap();
    let body = new_payment();
    server.post(key, PAYMENTS, &body).await.expect(201);
    server
        .admin(
            "DELETE",
            &format!("/keys/{}", issued["key_id"].as_str().unwrap()),
            None,
        )
        .await
        .expect(204);
    server.post(key, PAYMENTS, &body).await.expect(401).error();
}

#[tokio::test]
async fn rates_have_an_age_where_the_merchant_says_so_and_make_no_payment_of_nothing() {
    let server = Server::fresh().await;
    let (id, key, _) = server.merchant(json!({ "fx_max_age_seconds": 3600 })).await;
    let currency = |code: &str| with(&new_payment(), json!({ "currency": code }));
    let payment = server
        .post(&key, PAYMENTS, &currency("EUR"))
        .await
        .expect(201)
        .json();
    assert_eq!(payment["usd_amount"], "53.89");
    server.advance(3601).await;
    server
        .post(&key, PAYMENTS, &currency("EUR"))
        .await
        .expect(422)
        .error();
    server
        .post(&key, PAYMENTS, &currency("USD"))
        .await
        .expect(201);
    server
        .change_merchant(id, json!({ "fx_rates": { "EUR": "1.10" } }))
        .await;
    let dearer = server
        .post(&key, PAYMENTS, &currency("EUR"))
        .await
        .expect(201)
        .json();
    assert_eq!(dearer["usd_amount"], "54.89");
    assert_eq!(
        server.payment(&key, &payment).await["usd_amount"],
        "53.89",
        "fixed at creation"
    );
    server
        .post(&key, PAYMENTS, &currency("PHP"))
        .await
        .expect(422);
    server
        .change_merchant(id, json!({ "fx_rates": { "HUF": "0.0027" } }))
        .await;
    let nothing = with(&currency("HUF"), json!({ "amount": "1.00" }));
    server
        .post(&key, PAYMENTS, &nothing)
        .await
        .expect(422)
        .error();
}

#[tokio::test]
async fn sixty_four_concurrent_creates_make_one_payment_and_63_replays() {
    let server = shared().await;
    let body = new_payment();
    let answers = join_all((0..64).map(|_| server.post(server.test_key(), PAYMENTS, &body))).await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    let replayed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((created, replayed), (1, 63));
    let ids: BTreeSet<String> = answers
        .iter()
        .map(|answer| answer.json()["payment_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 1);
    let path = format!("/payments?order_id={}", body["order_id"].as_str().unwrap());
    let listed = server.admin("GET", &path, None).await.expect(200).json();
    assert_eq!(listed["payments"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn concurrent_creates_with_differing_data_are_conflicts_but_for_the_first() {
    let server = shared().await;
    let body = new_payment();
    let bodies: Vec<Value> = (0..64)
        .map(|n| with(&body, json!({ "amount": format!("{}.00", n % 8 + 1) })))
        .collect();
    let answers = join_all(
        bodies
            .iter()
            .map(|body| server.post(server.test_key(), PAYMENTS, body)),
    )
    .await;
    let won: Vec<&Answer> = answers
        .iter()
        .filter(|answer| answer.status == 201)
        .collect();
    assert_eq!(won.len(), 1);
    let amount = won[0].json()["amount"].clone();
    for (body, answer) in bodies.iter().zip(&answers) {
        let expected: &[u16] = if body["amount"] == amount {
            &[200, 201]
        } else {
            &[409]
        };
        assert!(
            expected.contains(&answer.status),
            "{body}: {} {}",
            answer.status,
            answer.text
        );
    }
}
