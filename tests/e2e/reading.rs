//! Read access of merchants: payment details, the lists of payments and events, and the API page.

use serde_json::{Value, json};

use crate::harness::{Server, shared};
use crate::receiver::Receiver;
use crate::reseller_calls::{PAYMENTS, START, delegated};
use crate::reseller_endpoints::names;

fn details(payment: &Value) -> String {
    let id = payment["payment_id"].as_str().unwrap();
    format!("/api/v1/payments/{id}/details")
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let list = list.as_array().unwrap().iter();
    list.map(|each| each[field].as_str().unwrap()).collect()
}

/// A payment that was declined once and paid with the next attempt, and its page.
async fn declined_then_paid(server: &Server, key: &str) -> (Value, String) {
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "decline").await.expect(303);
    server.until(key, &payment, "created").await;
    let started = server
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    let page = started["redirect_url"].as_str().unwrap().to_owned();
    server.pay(&page, "approve").await.expect(303);
    (server.until(key, &payment, "completed").await, page)
}

#[tokio::test]
async fn the_details_of_a_payment_tell_what_happened_to_it() {
    let server = shared().await;
    let (merchant, key, live) = server.merchant(json!({})).await;
    let giving = server.refund_key(merchant, "test").await;
    let (payment, page) = declined_then_paid(server, &key).await;
    let asked = json!({ "amount": "10.00" });
    let refund = server
        .refund(&giving, &payment, asked)
        .await
        .expect(201)
        .json();
    server.refund_until(&giving, &refund, "succeeded").await;
    server.pay(&page, "dispute").await.expect(200);
    let read = async || {
        server
            .get(&key, &details(&payment))
            .await
            .expect(200)
            .json()
    };
    let told = server
        .wait_for("the dispute", async || {
            let told = read().await;
            (!told["disputes"].as_array().unwrap().is_empty()).then_some(told)
        })
        .await;
    let mut fields = names(&told);
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "attempts",
            "checkout_mode",
            "completed_at",
            "created_at",
            "customer_email",
            "disputes",
            "events",
            "expires_at",
            "metadata",
            "movements",
            "paid_at",
            "payment",
            "refunded_amount",
            "refunds",
            "return_url",
            "review",
            "short",
        ]
    );
    assert_eq!(told["payment"], server.payment(&key, &payment).await);
    let attempts = &told["attempts"];
    assert_eq!(texts(attempts, "state"), ["declined", "captured"]);
    assert_eq!(attempts[0]["decline"]["code"], "insufficient_funds");
    let message = attempts[0]["decline"]["message"].as_str().unwrap();
    assert!(message.contains("insufficient_funds"), "{message}");
    assert_eq!(attempts[1]["decline"], Value::Null);
    for attempt in attempts.as_array().unwrap() {
        assert_eq!(attempt["payment_method"], "ideal");
        assert_eq!(attempt["provider_id"], "sandbox-test");
        assert!(!attempt["references"].as_array().unwrap().is_empty());
        assert!(attempt["opened_at"].as_str() <= attempt["ended_at"].as_str());
    }
    assert_eq!(told["refunded_amount"], "10.00");
    assert_eq!(told["refunds"][0]["refund_id"], refund["refund_id"]);
    assert_eq!(told["disputes"][0]["state"], "open");
    let inside = server.inside(&payment).await;
    assert_eq!(told["events"], inside["events"]);
    let events = told["events"].as_array().unwrap();
    let paid = events
        .iter()
        .find(|event| event["type"] == "payment.completed");
    assert_eq!(told["paid_at"], paid.unwrap()["created_at"]);
    for kind in [
        "payment.attempt_failed",
        "payment.completed",
        "payment.disputed",
    ] {
        assert!(texts(&told["events"], "type").contains(&kind), "{told}");
    }
    // Keys of another environment or another merchant do not find it.
    let (_, other, _) = server.merchant(json!({})).await;
    for key in [&live, &other] {
        server
            .get(key, &details(&payment))
            .await
            .expect(404)
            .error();
    }
    server
        .get(&key, &format!("{}?x=1", details(&payment)))
        .await
        .expect(422)
        .error();
}

#[tokio::test]
async fn a_payment_without_an_attempt_has_details_too() {
    let server = shared().await;
    let key = server.test_key();
    let payment = server.create(key, json!({})).await;
    let told = server.get(key, &details(&payment)).await.expect(200).json();
    for time in ["completed_at", "paid_at"] {
        assert_eq!(told[time], Value::Null, "{time}");
    }
    assert_eq!(told["refunded_amount"], "0.00");
    for list in ["attempts", "refunds", "disputes", "events"] {
        assert_eq!(told[list], json!([]), "{list}");
    }
}

#[tokio::test]
async fn a_reseller_reads_the_details_of_its_own_payments_alone() {
    let server = shared().await;
    let (reseller, merchant, key) = server.reselling().await;
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let asked = delegated(merchant, direct);
    let made = server.reseller_post(&reseller.live, PAYMENTS, &asked).await;
    let payment = made.expect(200).json();
    let start = json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
    server
        .reseller_post(&reseller.live, START, &start)
        .await
        .expect(200);
    let path = format!(
        "{PAYMENTS}/{}/details",
        payment["payment_id"].as_str().unwrap()
    );
    let told = server
        .reseller_get(&reseller.live, &path)
        .await
        .expect(200)
        .json();
    assert_eq!(told["payment"]["client_ref"], asked["client_ref"]);
    assert_eq!(told["payment"]["merchant_id"], merchant);
    assert_eq!(texts(&told["attempts"], "state"), ["open"]);
    // The merchant reads it at the merchant path; another reseller cannot read it.
    server.get(&key, &details(&payment)).await.expect(200);
    server
        .get(&reseller.live, &details(&payment))
        .await
        .expect(401);
    let (other, ..) = server.reselling().await;
    server
        .reseller_get(&other.live, &path)
        .await
        .expect(404)
        .error();
    server.set_standing(&reseller, merchant, "revoked").await;
    server
        .reseller_get(&reseller.live, &path)
        .await
        .expect(403)
        .error();
}

/// Items of all pages of a list, with one item per page.
async fn all(server: &Server, key: &str, path: &str, list: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(key, &format!("{path}&limit=1{cursor}")).await;
        let page = page.expect(200).json();
        found.extend(page[list].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn events_are_listed_as_they_were_delivered_and_for_those_without_an_endpoint() {
    let server = shared().await;
    let (merchant, key, live) = server.merchant(json!({})).await;
    let (early, _) = server.started(&key, "ideal", json!({})).await;
    let receiver = Receiver::new().await;
    let every = json!({ "event_types": [
        "payment.pending", "payment.attempt_failed", "payment.completed",
    ] });
    let hook = server.hook(merchant, &receiver, every).await;
    let (payment, _) = declined_then_paid(server, &key).await;
    let listed = all(server, &key, "/api/v1/events?", "events").await;
    let kinds: Vec<_> = listed
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "payment.completed",
            "payment.pending",
            "payment.attempt_failed",
            "payment.pending",
            "payment.pending",
        ]
    );
    let oldest = listed.last().unwrap();
    assert_eq!(oldest["data"]["payment_id"], early["payment_id"]);
    let failed = &listed[2];
    assert_eq!(failed["data"]["decline_code"], "insufficient_funds");
    assert_eq!(failed["data"]["status"], "created");
    for got in receiver.wait(4).await {
        assert!(got.is_signed_by(&hook.secret));
        assert!(listed.contains(&got.event()), "{}", got.event());
        assert_eq!(got.event()["data"]["payment_id"], payment["payment_id"]);
    }
    let path = "/api/v1/events?type=payment.attempt_failed";
    assert_eq!(all(server, &key, path, "events").await, listed[2..3]);
    let since = failed["created_at"].as_str().unwrap();
    let recent = all(
        server,
        &key,
        &format!("/api/v1/events?since={since}"),
        "events",
    )
    .await;
    assert_eq!(recent, listed[..3]);
    let text = |of: &Value, field: &str| of[field].as_str().unwrap().to_owned();
    let (id, early_id) = (text(&payment, "payment_id"), text(&early, "payment_id"));
    let order = text(&early, "order_id");
    for (query, expected) in [
        (format!("until={since}"), &listed[3..]),
        (format!("payment_id={id}"), &listed[..4]),
        (format!("order_id={order}"), &listed[4..]),
        (
            format!("order_id={order}&payment_id={early_id}"),
            &listed[4..],
        ),
        (format!("order_id={order}&payment_id={id}"), &[][..]),
        (
            format!("payment_id={id}&type=payment.completed"),
            &listed[..1],
        ),
        ("order_id=unknown".into(), &[]),
    ] {
        let path = format!("/api/v1/events?{query}");
        assert_eq!(
            all(server, &key, &path, "events").await,
            expected,
            "{query}"
        );
    }
    let others = format!("/api/v1/events?payment_id={id}");
    for path in ["/api/v1/events?", &others] {
        assert_eq!(
            all(server, &live, path, "events").await,
            Vec::<Value>::new()
        );
    }
}

#[tokio::test]
async fn lists_refuse_what_is_no_cursor_time_status_type_or_limit() {
    let server = shared().await;
    let (_, key, live) = server.merchant(json!({})).await;
    for list in ["payments", "events"] {
        for (query, field) in [
            ("cursor=x", "cursor"),
            ("since=yesterday", "since"),
            ("since=2026-03-01", "since"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=1&limit=1", "limit"),
            ("page=2", "page"),
        ] {
            let refused = server.get(&key, &format!("/api/v1/{list}?{query}")).await;
            assert_eq!(refused.expect(422).json()["field"], field, "{list} {query}");
        }
    }
    for (path, field) in [
        ("payments?status=paid", "status"),
        ("payments?until=x", "until"),
        ("payments?order_id=", "order_id"),
        ("events?type=payment.paid", "type"),
    ] {
        let refused = server.get(&key, &format!("/api/v1/{path}")).await;
        assert_eq!(refused.expect(422).json()["field"], field, "{path}");
    }
    // A cursor of another environment's list is refused.
    for _ in 0..2 {
        server.started(&key, "ideal", json!({})).await;
    }
    let page = server
        .get(&key, "/api/v1/events?limit=1")
        .await
        .expect(200)
        .json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let foreign = format!("/api/v1/events?cursor={cursor}");
    server.get(&live, &foreign).await.expect(422).error();
}

#[tokio::test]
async fn payments_are_listed_by_order_and_status_of_the_key_s_environment_alone() {
    let server = shared().await;
    let (_, key, live) = server.merchant(json!({})).await;
    let (_, other, _) = server.merchant(json!({})).await;
    let order = "the same order";
    let mut own = Vec::new();
    for key in [&key, &key, &live, &other] {
        own.push(server.create(key, json!({ "order_id": order })).await);
    }
    server.create(&key, json!({})).await;
    let ids = |list: &[Value]| -> Vec<String> {
        let ids = list
            .iter()
            .map(|each| each["payment_id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    let path = "/api/v1/payments?order_id=the%20same%20order";
    let found = all(server, &key, path, "payments").await;
    assert_eq!(ids(&found), ids(&[own[1].clone(), own[0].clone()]));
    server.cancel(&own[0]).await.expect(200);
    let path = "/api/v1/payments?status=cancelled";
    let found = all(server, &key, path, "payments").await;
    assert_eq!(ids(&found), ids(&own[..1]));
}

#[tokio::test]
async fn the_page_about_the_api_is_made_of_the_document_and_may_be_cached() {
    let server = shared().await;
    let url = format!("{}/docs", server.base());
    let page = server.open(&url).await.expect(200);
    let document = server
        .open(&format!("{}/openapi.json", server.base()))
        .await;
    for path in document.expect(200).json()["paths"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            page.text.contains(&format!("<code>{path}</code>")),
            "{path}"
        );
    }
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    assert_eq!(page.header("cache-control").unwrap(), "public, max-age=300");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(!page.text.contains("<script"));
}
