//! Money movements: recorded once, listed for merchants and operators, summed per day.

use serde_json::{Value, json};

use crate::harness::{Server, shared};

/// Movements of a payment in the merchant API, oldest first.
async fn movements(server: &Server, key: &str, payment: &Value) -> Vec<Value> {
    let id = payment["payment_id"].as_str().unwrap();
    let path = format!("/api/v1/movements?payment_id={id}&limit=100");
    let listed = server.get(key, &path).await.expect(200).json();
    listed["movements"].as_array().unwrap().clone()
}

/// Kind, bucket and amount of each movement.
fn short(movements: &[Value]) -> Vec<(String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    movements
        .iter()
        .map(|each| {
            (
                word(&each["kind"]),
                word(&each["bucket"]),
                word(&each["amount"]),
            )
        })
        .collect()
}

fn row(kind: &str, bucket: &str, amount: &str) -> (String, String, String) {
    (kind.to_owned(), bucket.to_owned(), amount.to_owned())
}

#[tokio::test]
async fn each_movement_is_recorded_once_and_adds_up_to_the_providers_books() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let key = server.refund_key(merchant, "test").await;
    let (payment, page) = server.started(&key, "ideal", json!({})).await;
    server.pay(&page, "approve").await.expect(303);
    server.until(&key, &payment, "completed").await;
    let part = json!({ "amount": "10.00" });
    let refund = server.refund(&key, &payment, part).await.expect(201).json();
    server.refund_until(&key, &refund, "succeeded").await;
    let found = movements(server, &key, &payment).await;
    assert_eq!(
        short(&found),
        [
            row("captured", "own", "49.90"),
            row("refunded", "own", "10.00")
        ]
    );
    let entry = server.entries(&payment).await.remove(0);
    assert_eq!(
        (&entry["amount"], &entry["refunded"]),
        (&json!("49.90"), &json!("10.00"))
    );
    // The admin API shows the same balance.
    let inside = server.inside(&payment).await;
    let own = &inside["balance"][0];
    assert_eq!(
        (
            &own["bucket"],
            &own["received"],
            &own["returned"],
            &own["net"]
        ),
        (
            &json!("own"),
            &json!("49.90"),
            &json!("10.00"),
            &json!("39.90")
        )
    );
    assert_eq!(inside["movements"].as_array().unwrap().len(), 3);
    assert_eq!(inside["possible"]["refund"]["amount"], "39.90");
}

#[tokio::test]
async fn a_merchant_reads_no_movements_of_another() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let key = server.refund_key(merchant, "test").await;
    let (payment, page) = server.started(&key, "ideal", json!({})).await;
    server.pay(&page, "approve").await.expect(303);
    server.until(&key, &payment, "completed").await;
    let (_, other, _) = server.merchant(json!({})).await;
    assert!(movements(server, &other, &payment).await.is_empty());
}

#[tokio::test]
async fn a_dispute_is_reported_with_its_amount_when_it_opens_and_when_it_ends() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, page) = server.started(key, "ideal", json!({})).await;
    server.pay(&page, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    server.pay(&page, "dispute").await.expect(200);
    let told = async |kind: &'static str| {
        let events = server.events(&payment).await;
        events.iter().any(|each| each == kind).then_some(())
    };
    let opened = async || told("payment.disputed").await;
    server.wait_for("the dispute", opened).await;
    let id = payment["payment_id"].as_str().unwrap();
    let path = format!("/api/v1/payments/{id}/details");
    let details = server.get(key, &path).await.expect(200).json();
    let dispute = &details["disputes"][0];
    assert_eq!(
        (&dispute["amount"], &dispute["state"], &dispute["currency"]),
        (&json!("49.90"), &json!("open"), &json!("EUR"))
    );
    server.pay(&page, "dispute_won").await.expect(200);
    let closed = async || told("payment.dispute_closed").await;
    server.wait_for("the dispute's end", closed).await;
    let details = server.get(key, &path).await.expect(200).json();
    assert_eq!(details["disputes"][0]["state"], "won");
    let work = server.work(&payment).await;
    let open = work.iter().filter(|item| item["done_at"].is_null());
    assert_eq!(open.count(), 0, "{work:?}");
}

#[tokio::test]
async fn days_are_summed_with_opening_and_closing_balance() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (payment, page) = server.started(key, "ideal", json!({})).await;
    server.pay(&page, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let movement = movements(&server, key, &payment).await.remove(0);
    let day = movement["booked_at"].as_str().unwrap()[..10].to_owned();
    let path = format!("/finance/days?from={day}&to={day}");
    let days = server.admin("GET", &path, None).await.expect(200).json();
    let [summed] = days["days"].as_array().unwrap().as_slice() else {
        panic!("{days}");
    };
    assert_eq!(
        (
            &summed["day"],
            &summed["opening"],
            &summed["closing"],
            &summed["sums"]["captured"]
        ),
        (
            &json!(day),
            &json!("0.00"),
            &json!("48.91"),
            &json!("49.90")
        )
    );
    let correction = json!({
        "provider_id": "sandbox-test", "payment_id": payment["payment_id"], "effect": "out",
        "amount": "1.50", "currency": "EUR", "idempotency_key": "fee-of-a-dispute",
        "actor": "ann", "reason": "statement of May",
    });
    let path = "/corrections";
    let booked = server.admin("POST", path, Some(&correction)).await;
    let booked = booked.expect(201).json();
    let again = server.admin("POST", path, Some(&correction)).await;
    assert_eq!(again.expect(200).json(), booked);
    let found = movements(&server, key, &payment).await;
    assert_eq!(
        short(&found),
        [
            row("captured", "own", "49.90"),
            row("correction", "own", "1.50")
        ]
    );
}
