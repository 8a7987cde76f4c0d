//! What a request for a payment may name besides the specification, and what support reads of it.

use serde_json::{Value, json};

use crate::harness::{Server, merge, new_payment, shared};

const PAYMENTS: &str = "/api/v1/payments";

fn id(payment: &Value) -> &str {
    payment["payment_id"].as_str().unwrap()
}

fn noted() -> Value {
    json!({
        "customer_email": "ann@example.com", "return_url": "https://shop.example/done",
        "metadata": { "cart": "c-1042", "note": "\u{20AC} \"}}" }, "description": "Two tickets",
    })
}

#[tokio::test]
async fn lists_details_and_events_show_what_support_needs() {
    let server = shared().await;
    let (key, fields) = (server.test_key(), noted());
    let payment = server.create(key, fields.clone()).await;
    assert_eq!(payment.as_object().unwrap().len(), 10, "SPEC's Payment");
    let page = payment["checkout_url"].as_str().unwrap();
    let described = async || {
        let page = server.open(page).await.expect(200);
        page.text.contains("<bdi>Two tickets</bdi>")
    };
    assert!(described().await);
    let cancel = format!("{PAYMENTS}/{}/cancel", id(&payment));
    server.post(key, &cancel, &json!({})).await.expect(200);

    let order = payment["order_id"].as_str().unwrap();
    let list = format!("{PAYMENTS}?order_id={order}");
    let list = server.get(key, &list).await.expect(200).json();
    let listed = &list["payments"][0];
    let details = format!("{PAYMENTS}/{}/details", id(&payment));
    let details = server.get(key, &details).await.expect(200).json();
    for shown in [listed, &details] {
        assert_eq!(shown["metadata"], fields["metadata"]);
        assert_eq!(shown["customer_email"], "ann@example.com");
        assert_eq!(shown["refunded_amount"], "0.00");
        assert_eq!(shown["completed_at"], Value::Null);
        assert_eq!(shown["created_at"], details["created_at"]);
    }
    assert_eq!(details["return_url"], "https://shop.example/done");
    assert_eq!(details["checkout_mode"], "hosted");
    assert_eq!(details["review"], Value::Null);
    let events = format!("/api/v1/events?payment_id={}", id(&payment));
    let events = server.get(key, &events).await.expect(200).json();
    assert_eq!(events["events"][0]["data"]["metadata"], fields["metadata"]);

    let redact = format!("/payments/{}/redact", id(&payment));
    server
        .admin(
            "POST",
            &redact,
            Some(&json!({ "actor": "ann", "reason": "asked to" })),
        )
        .await
        .expect(200);
    let list = format!("{PAYMENTS}?order_id={order}");
    let list = server.get(key, &list).await.expect(200).json();
    assert!(!described().await, "it is erased");
    assert_eq!(list["payments"][0]["metadata"], json!({}));
    assert_eq!(list["payments"][0]["customer_email"], Value::Null);
    let events = format!("/api/v1/events?payment_id={}", id(&payment));
    let events = server.get(key, &events).await.expect(200).json();
    assert_eq!(events["events"][0]["data"].get("metadata"), None);
}

#[tokio::test]
async fn a_payment_lives_as_long_as_it_was_asked_to() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let mut short = direct.clone();
    merge(&mut short, json!({ "expires_in": 300 }));
    let (short, usual) = (
        server.create(key, short).await,
        server.create(key, direct).await,
    );
    let mut body = new_payment();
    merge(&mut body, json!({ "expires_in": 24 * 3600 + 1 }));
    let refused = server.post(key, PAYMENTS, &body).await.expect(422);
    assert_eq!(refused.json()["field"], "expires_in");

    server.advance(301).await;
    let now = server.payment(key, &short).await;
    assert_eq!(now["status"], "expired");
    let late = server.start(key, &short, "ideal").await.expect(409).json();
    assert_eq!(
        (&late["code"], &late["status"]),
        (&json!("payment_expired"), &json!("expired"))
    );
    let cancel = format!("{PAYMENTS}/{}/cancel", id(&short));
    let late = server
        .post(key, &cancel, &json!({}))
        .await
        .expect(409)
        .json();
    assert_eq!(late["code"], "payment_not_cancellable");
    assert_eq!(late["status"], "expired");
    server.start(key, &usual, "ideal").await.expect(200);
}

#[tokio::test]
async fn the_page_speaks_the_language_of_the_payment() {
    let server = shared().await;
    let payment = server
        .create(server.test_key(), json!({ "locale": "de-AT" }))
        .await;
    let url = payment["checkout_url"].as_str().unwrap();
    let language = async |header: &str, value: &str| {
        let request = server.http.get(url).header(header, value);
        let page = server.send(request).await.expect(200);
        page.header("content-language").unwrap().to_owned()
    };
    assert_eq!(language("accept-language", "fr").await, "de");
    assert_eq!(language("cookie", "kassette-language=pl").await, "pl");
}

#[tokio::test]
async fn the_header_makes_a_request_idempotent_whose_body_has_no_key() {
    let server = shared().await;
    let mut body = new_payment();
    let key = body
        .as_object_mut()
        .unwrap()
        .remove("idempotency_key")
        .unwrap();
    let post = async || {
        let url = format!("{}{PAYMENTS}", server.base());
        let request = server
            .http
            .post(url)
            .bearer_auth(server.test_key())
            .json(&body);
        let header = format!("\"{}\"", key.as_str().unwrap());
        server.send(request.header("idempotency-key", header)).await
    };
    let made = post().await.expect(201).json();
    assert_eq!(post().await.expect(200).json(), made);
    let without = server.post(server.test_key(), PAYMENTS, &body).await;
    assert_eq!(without.expect(422).json()["field"], "idempotency_key");
}

#[tokio::test]
async fn an_error_says_which_key_belongs_there_and_where_the_payment_stands() {
    let server = shared().await;
    let merchants = server.test_key();
    let resellers = server.ready()["resellers"][0]["test_key"].as_str().unwrap();
    let wrong = server.get(resellers, PAYMENTS).await.expect(401);
    assert!(wrong.error().contains("kp_test_"), "{}", wrong.text);
    let wrong = server
        .get(merchants, "/api/v1/reseller/merchants")
        .await
        .expect(401);
    assert!(wrong.error().contains("kr_test_"), "{}", wrong.text);

    let refunding = json!({ "environment": "test", "scopes": ["payments:create", "payments:read", "payments:refund"] });
    let issued = server
        .admin("POST", "/merchants/1/keys", Some(&refunding))
        .await;
    let issued = issued.expect(201).json();
    let key = issued["key"].as_str().unwrap();
    let payment = server.create(key, json!({})).await;
    let refunds = format!("{PAYMENTS}/{}/refunds", id(&payment));
    let refund = json!({ "idempotency_key": "refund-of-nothing" });
    let refused = server.post(key, &refunds, &refund).await.expect(409).json();
    assert_eq!(refused["code"], "payment_not_completed");
    assert_eq!(refused["status"], "created");

    let (paid, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &paid, "completed").await;
    let refunds = format!("{PAYMENTS}/{}/refunds", id(&paid));
    let refund = |key: &str, amount: Value| json!({ "idempotency_key": key, "amount": amount });
    let whole = refund("refund-of-all", Value::Null);
    server.post(key, &refunds, &whole).await.expect(201);
    let nothing_left = server
        .post(key, &refunds, &refund("refund-again", Value::Null))
        .await;
    let nothing_left = nothing_left.expect(422).json();
    assert_eq!(nothing_left["code"], "more_than_left");
    assert_eq!(nothing_left.get("field"), None);
    let too_much = server
        .post(key, &refunds, &refund("refund-more", json!("1.00")))
        .await;
    assert_eq!(too_much.expect(422).json()["field"], "amount");
}
