//! Refunds at the sandbox: permissions, amounts, idempotency and outcomes. `tests/providers` tests the refunds of
//! each provider.

use std::collections::BTreeSet;
use std::process::Command;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::browser::primary_link;
use crate::harness::{Answer, Server, fresh_folder, shared, unique};
use crate::receiver::Receiver;

const DAY: u64 = 86_400;
/// Short, because tests wait until it expires.
const DEADLINE: &str = "[payments]\nprovider_deadline_ms = 1500\n";

/// A shop whose key may refund.
struct Shop<'s> {
    server: &'s Server,
    merchant: u64,
    key: String,
}

impl<'s> Shop<'s> {
    async fn new(server: &'s Server) -> Self {
        let (merchant, ..) = server.merchant(json!({})).await;
        let key = server.refund_key(merchant, "test").await;
        Self {
            server,
            merchant,
            key,
        }
    }

    /// A completed payment and the address of its payer's page.
    async fn paid(&self) -> (Value, String) {
        let (payment, page) = self.server.started(&self.key, "ideal", json!({})).await;
        self.server.pay(&page, "approve").await.expect(303);
        let paid = self.server.until(&self.key, &payment, "completed").await;
        (paid, page)
    }

    async fn refund(&self, payment: &Value, more: Value) -> Answer {
        self.server.refund(&self.key, payment, more).await
    }

    /// Creates a refund and asserts that it was accepted.
    async fn refunded(&self, payment: &Value, more: Value) -> Value {
        self.refund(payment, more).await.expect(201).json()
    }

    async fn refunds(&self, payment: &Value) -> Vec<Value> {
        self.server.refunds(&self.key, payment).await
    }

    async fn until(&self, refund: &Value, status: &str) -> Value {
        self.server.refund_until(&self.key, refund, status).await
    }

    /// Amount that the provider has refunded for the payment's only attempt.
    async fn gone(&self, payment: &Value) -> String {
        let entries = self.server.entries(payment).await;
        let [entry] = entries.as_slice() else {
            panic!("one attempt: {entries:?}")
        };
        entry["refunded"].as_str().unwrap().to_owned()
    }

    /// Open work items of a kind for the payment.
    async fn lines(&self, payment: &Value, kind: &str) -> Vec<Value> {
        let mut lines = self.server.work(payment).await;
        lines.retain(|line| line["kind"] == kind && line["done_at"].is_null());
        lines
    }
}

fn path(payment: &Value) -> String {
    let id = payment["payment_id"].as_str().unwrap();
    format!("/api/v1/payments/{id}/refunds")
}

#[tokio::test]
async fn a_refund_is_made_read_and_told_and_the_payment_stays_as_it_is() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(shop.merchant, &receiver, json!({})).await;
    let (payment, _) = shop.paid().await;
    assert!(shop.refunds(&payment).await.is_empty());
    let body = json!({
        "idempotency_key": format!("refund-{}", unique()), "amount": "10.00",
        "reason": "The parcel came back",
    });
    let made = server.post(&shop.key, &path(&payment), &body).await;
    let made = made.expect(201);
    let refund = made.json();
    let id = refund["refund_id"].as_str().unwrap().to_owned();
    let expected = json!({
        "refund_id": id, "payment_id": payment["payment_id"], "amount": "10.00",
        "currency": "EUR", "status": "succeeded", "reason": "The parcel came back",
        "origin": "merchant", "bucket": "own", "failure": null, "reversed_amount": "0.00",
        "claim_url": null, "created_at": refund["created_at"],
    });
    assert_eq!(refund, expected);
    assert!(
        id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()),
        "{id}"
    );
    let own = format!("/api/v1/refunds/{id}");
    assert_eq!(
        made.header("location"),
        Some(format!("{}{own}", server.base()).as_str())
    );
    assert_eq!(server.get(&shop.key, &own).await.expect(200).json(), refund);
    let rest = shop.refunded(&payment, json!({})).await;
    assert_eq!(
        (&rest["amount"], &rest["reason"]),
        (&json!("39.90"), &json!(null))
    );
    assert_eq!(shop.refunds(&payment).await, [rest.clone(), refund.clone()]);
    assert_eq!(shop.gone(&payment).await, "49.90");

    assert_eq!(server.payment(&shop.key, &payment).await, payment);
    let told = || {
        let mut got = receiver.got();
        got.retain(|got| got.kind() == "payment.refunded");
        got
    };
    let both = async || (told().len() == 2).then_some(());
    server.wait_for("both events", both).await;
    let mut data: Vec<Value> = told()
        .iter()
        .map(|got| {
            assert!(got.is_signed_by(&hook.secret));
            let data = got.event()["data"].clone();
            assert_eq!(data["payment_id"], payment["payment_id"]);
            assert_eq!(
                (&data["status"], &data["amount"]),
                (&json!("completed"), &json!("49.90"))
            );
            json!([data["refund_id"], data["refund_amount"]])
        })
        .collect();
    data.sort_by_key(Value::to_string);
    let mut made = vec![json!([id, "10.00"]), json!([rest["refund_id"], "39.90"])];
    made.sort_by_key(Value::to_string);
    assert_eq!(data, made);
    let inside = server.inside(&payment).await;
    assert_eq!(
        inside["payment"]["platform_fee_usd"],
        Value::Null,
        "test payments have none"
    );
    let ids: Vec<&Value> = inside["refunds"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[1]["refund_id"], id.as_str());
    let shown = server.open(payment["checkout_url"].as_str().unwrap()).await;
    assert!(shown.text.contains("given back"), "{}", shown.text);
}

#[tokio::test]
async fn only_a_key_that_was_given_the_scope_gives_back_and_any_that_reads_sees_it() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let issued = |body: Value| async move {
        let path = format!("/merchants/{}/keys", shop.merchant);
        server.admin("POST", &path, Some(&body)).await
    };
    let key = |issued: Answer| {
        issued.expect(201).json()["key"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let usual = key(issued(json!({ "environment": "test" })).await);
    let refused = server.refund(&usual, &payment, json!({})).await.expect(403);
    assert_eq!(refused.json()["code"], "missing_scope");
    let only = json!({ "environment": "test", "scopes": ["payments:refund"] });
    let only = key(issued(only).await);
    server.get(&only, &path(&payment)).await.expect(403);
    let refund = server
        .refund(&only, &payment, json!({ "amount": "1.00" }))
        .await;
    let refund = refund.expect(201).json();
    let one = std::slice::from_ref(&refund);
    assert_eq!(server.refunds(&usual, &payment).await, one);
    let own = format!("/api/v1/refunds/{}", refund["refund_id"].as_str().unwrap());
    server.get(&usual, &own).await.expect(200);
    server.get(&only, &own).await.expect(403);
    let listed = server
        .admin("GET", &format!("/merchants/{}/keys", shop.merchant), None)
        .await;
    let listed = listed.expect(200).json();
    let scopes = &listed["keys"][1]["scopes"];
    assert_eq!(
        *scopes,
        json!(["payments:create", "payments:read"]),
        "of the usual key"
    );
    for demo in [server.test_key(), server.live_key()] {
        server.refund(demo, &payment, json!({})).await.expect(403);
    }
    let reseller = server.ready()["resellers"][0]["test_key"].as_str().unwrap();
    server
        .refund(reseller, &payment, json!({}))
        .await
        .expect(401);
}

#[tokio::test]
async fn another_merchants_payment_and_one_of_the_other_environment_are_not_there() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let refund = shop.refunded(&payment, json!({ "amount": "1.00" })).await;
    let own = format!("/api/v1/refunds/{}", refund["refund_id"].as_str().unwrap());
    let other = Shop::new(server).await;
    let live = server.refund_key(shop.merchant, "live").await;
    for key in [&other.key, &live] {
        server.refund(key, &payment, json!({})).await.expect(404);
        server.get(key, &path(&payment)).await.expect(404);
        server.get(key, &own).await.expect(404);
    }
    for id in ["0".repeat(32), "x".into(), "a%2Fb".into()] {
        let unknown = json!({ "payment_id": id });
        shop.refund(&unknown, json!({})).await.expect(404);
        server.get(&shop.key, &path(&unknown)).await.expect(404);
        let refund = format!("/api/v1/refunds/{id}");
        server.get(&shop.key, &refund).await.expect(404);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_in_the_order_of_all_endpoints() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let unknown = json!({ "payment_id": "0".repeat(32) });
    for (more, field) in [
        (json!({ "idempotency_key": null }), "idempotency_key"),
        (json!({ "idempotency_key": "short" }), "idempotency_key"),
        (json!({ "amount": 10 }), "amount"),
        (json!({ "amount": "0.00" }), "amount"),
        (json!({ "amount": "1.0" }), "amount"),
        (json!({ "reason": "x".repeat(201) }), "reason"),
        (json!({ "reason": "two\nlines" }), "reason"),
        (json!({ "currency": "EUR" }), "currency"),
    ] {
        // The request's fields are checked before the payment is read.
        for of in [&payment, &unknown] {
            let refused = shop.refund(of, more.clone()).await.expect(422);
            assert_eq!(refused.json()["field"], field, "{more}");
        }
    }
    let url = format!("{}{}", server.base(), path(&payment));
    let send = |body: &'static str| {
        let request = server.http.post(&url).bearer_auth(&shop.key);
        server.send(
            request
                .header("content-type", "application/json")
                .body(body),
        )
    };
    let twice = r#"{"idempotency_key":"refund-1","amount":"1.00","amount":"2.00"}"#;
    for (body, status) in [(twice, 400), ("{", 400), ("[]", 422)] {
        send(body).await.expect(status);
    }
    let queried = format!("{}?amount=1.00", path(&payment));
    let body = json!({ "idempotency_key": "refund-queried" });
    server.post(&shop.key, &queried, &body).await.expect(422);
    server.get(&shop.key, &queried).await.expect(422);
    assert_eq!(shop.refunds(&payment).await.len(), 0);
}

#[tokio::test]
async fn the_same_key_is_the_same_refund_and_other_data_is_a_conflict() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    // The idempotency key of a payment is independent of those of refunds.
    let key = format!("order-{}", unique());
    let other = server
        .create(&shop.key, json!({ "idempotency_key": key }))
        .await;
    let asked = json!({ "idempotency_key": key, "amount": "10.00", "reason": "broken" });
    let refund = shop.refunded(&payment, asked.clone()).await;
    let again = shop.refund(&payment, asked.clone()).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), refund);
    for (field, value) in [
        ("amount", json!("10.01")),
        ("amount", json!(null)),
        ("reason", json!(null)),
        ("reason", json!("late")),
    ] {
        let mut changed = asked.clone();
        changed[field] = value;
        let refused = shop.refund(&payment, changed).await.expect(409).json();
        assert_eq!(refused["code"], "idempotency_conflict");
        assert_eq!(refused["field"], field);
    }
    let (elsewhere, _) = shop.paid().await;
    let refused = shop.refund(&elsewhere, asked.clone()).await.expect(409);
    assert_eq!(refused.json()["code"], "idempotency_conflict");
    shop.refund(&other, asked.clone()).await.expect(409);
    assert_eq!(shop.gone(&payment).await, "10.00");
    // Keys of another merchant or environment are independent.
    let second = Shop::new(server).await;
    let (its, _) = second.paid().await;
    second.refund(&its, asked.clone()).await.expect(201);
    // A request for the whole remainder is also replayed after the remainder was refunded.
    let rest = json!({ "idempotency_key": format!("rest-{}", unique()) });
    let all = shop.refunded(&payment, rest.clone()).await;
    assert_eq!(shop.refund(&payment, rest).await.expect(200).json(), all);
}

#[tokio::test]
async fn only_completed_payments_are_given_back_and_no_more_than_is_left() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let created = server.create(&shop.key, json!({})).await;
    let refused = shop.refund(&created, json!({})).await.expect(409).json();
    assert_eq!(refused["code"], "payment_not_completed");
    let (payment, _) = shop.paid().await;
    for amount in ["49.91", "9999999999.99"] {
        let refused = shop.refund(&payment, json!({ "amount": amount })).await;
        let refused = refused.expect(422).json();
        assert_eq!(
            (&refused["code"], &refused["field"]),
            (&json!("more_than_left"), &json!("amount"))
        );
    }
    shop.refunded(&payment, json!({ "amount": "40.00" })).await;
    shop.refund(&payment, json!({ "amount": "9.91" }))
        .await
        .expect(422);
    shop.refunded(&payment, json!({ "amount": "9.90" })).await;
    for more in [json!({}), json!({ "amount": "0.01" })] {
        let refused = shop.refund(&payment, more).await.expect(422).json();
        assert_eq!(refused["code"], "more_than_left");
    }
    assert_eq!(shop.gone(&payment).await, "49.90");
}

#[tokio::test]
async fn of_many_requests_for_all_the_money_at_once_one_is_made() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let asked = (0..32).map(|_| shop.refund(&payment, json!({ "amount": "49.90" })));
    let answers = join_all(asked).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let refused = answers.iter().filter(|answer| answer.status == 422).count();
    assert_eq!((made, refused), (1, 31));
    assert_eq!(shop.refunds(&payment).await.len(), 1);
    assert_eq!(shop.gone(&payment).await, "49.90");
}

#[tokio::test]
async fn of_many_requests_with_one_key_one_is_made_and_all_show_it() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let body = json!({ "idempotency_key": format!("refund-{}", unique()), "amount": "1.00" });
    let asked = (0..32).map(|_| shop.refund(&payment, body.clone()));
    let answers = join_all(asked).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let replayed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((made, replayed), (1, 31));
    let ids: BTreeSet<String> = answers
        .iter()
        .map(|answer| answer.json()["refund_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(shop.gone(&payment).await, "1.00");
}

#[tokio::test]
async fn parts_at_once_never_exceed_what_was_received() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let asked = (0..24).map(|_| shop.refund(&payment, json!({ "amount": "5.00" })));
    let answers = join_all(asked).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 9, "nine times 5.00 of 49.90");
    assert!(
        answers
            .iter()
            .all(|answer| [201, 422].contains(&answer.status))
    );
    assert_eq!(shop.gone(&payment).await, "45.00");
}

#[tokio::test]
async fn a_merchant_gives_back_after_live_approval_was_withdrawn() {
    let server = shared().await;
    let (merchant, _, live) = server.merchant(json!({})).await;
    let key = server.refund_key(merchant, "live").await;
    let policy = json!({ "policy": { "methods": { "ideal": { "enabled": true } } } });
    server.change_merchant(merchant, policy).await;
    let (payment, page) = server.started(&live, "ideal", json!({})).await;
    server.pay(&page, "approve").await.expect(303);
    let paid = server.until(&live, &payment, "completed").await;
    assert_eq!(paid["test_mode"], false);
    let fee = server.inside(&payment).await["payment"]["platform_fee_usd"].clone();
    assert!(fee.is_string(), "{fee}");
    server
        .change_merchant(merchant, json!({ "live_approved": false }))
        .await;
    let refund = server.refund(&key, &payment, json!({})).await.expect(201);
    assert_eq!(refund.json()["status"], "succeeded");
    let inside = server.inside(&payment).await;
    assert_eq!(inside["payment"]["platform_fee_usd"], fee);
}

#[tokio::test]
async fn a_refund_whose_answer_is_lost_is_pending_until_it_is_found_and_is_made_once() {
    let server = Server::configured(DEADLINE).await;
    let shop = Shop::new(&server).await;
    for (fault, effect) in [
        ("timeout-after-effect", "49.90"),
        ("malformed", "49.90"),
        ("truncated", "49.90"),
        ("timeout-before-effect", "0.00"),
        ("status-500", "0.00"),
    ] {
        let (payment, _) = shop.paid().await;
        server.fault("sandbox-test", fault, 1).await;
        // A callback would also reveal the outcome.
        server.fault("sandbox-test", "callback-never", 1).await;
        let body = json!({ "idempotency_key": format!("lost-{}", unique()) });
        let refund = shop.refunded(&payment, body.clone()).await;
        assert_eq!(refund["status"], "pending", "{fault}");
        assert_eq!(shop.gone(&payment).await, effect, "{fault}");
        // The refund already reserves its amount.
        shop.refund(&payment, json!({ "amount": "0.01" }))
            .await
            .expect(422);
        assert_eq!(
            shop.refund(&payment, body.clone()).await.expect(200).json()["refund_id"],
            refund["refund_id"],
            "{fault}"
        );
        // The query comes when no request can be in flight any longer.
        for _ in 0..5 {
            server.advance(60).await;
        }
        shop.until(&refund, "succeeded").await;
        assert_eq!(shop.gone(&payment).await, "49.90", "{fault}");
        let events = server.events(&payment).await;
        let told = events.iter().filter(|kind| *kind == "payment.refunded");
        assert_eq!(told.count(), 1, "{fault}");
        assert!(shop.lines(&payment, "refund").await.is_empty(), "{fault}");
    }
}

#[tokio::test]
async fn a_refund_is_sent_again_until_the_vendor_can_be_reached() {
    let server = Server::configured(DEADLINE).await;
    let shop = Shop::new(&server).await;
    let (payment, _) = shop.paid().await;
    server.fault("sandbox-test", "down", 1).await;
    let refund = shop.refunded(&payment, json!({ "amount": "10.00" })).await;
    assert_eq!(refund["status"], "pending");
    server.advance(180).await;
    assert_eq!(shop.gone(&payment).await, "0.00");
    server.fault("sandbox-test", "none", 1).await;
    server.advance(30 * 60).await;
    shop.until(&refund, "succeeded").await;
    assert_eq!(shop.gone(&payment).await, "10.00");
}

#[tokio::test]
async fn a_refund_that_nothing_is_heard_of_is_for_a_person_after_35_days() {
    let server = Server::configured(DEADLINE).await;
    let shop = Shop::new(&server).await;
    let (payment, _) = shop.paid().await;
    server
        .fault("sandbox-test", "timeout-after-effect", 1)
        .await;
    server.fault("sandbox-test", "callback-never", 1).await;
    let refund = shop.refunded(&payment, json!({})).await;
    server.fault("sandbox-test", "down", 1).await;
    for _ in 0..34 {
        server.advance(DAY).await;
        assert!(shop.lines(&payment, "refund").await.is_empty());
    }
    // Each query is delayed by up to a tenth of its interval.
    for _ in 0..6 {
        server.advance(DAY).await;
    }
    let line = async || shop.lines(&payment, "refund").await.pop();
    let line = server.wait_for("a line", line).await;
    assert_eq!(
        (&line["amount"], &line["currency"]),
        (&json!("49.90"), &json!("EUR"))
    );
    assert_eq!(shop.until(&refund, "pending").await["status"], "pending");
    // The reserved amount cannot be refunded again.
    shop.refund(&payment, json!({ "amount": "0.01" }))
        .await
        .expect(422);
}

#[tokio::test]
async fn a_refund_that_is_refused_or_fails_frees_its_amount_and_is_listed() {
    let server = Server::fresh().await;
    let shop = Shop::new(&server).await;
    for (fault, advance) in [("refund-refused", 0), ("refund-fails", 60)] {
        let (payment, _) = shop.paid().await;
        server.fault("sandbox-test", fault, 1).await;
        let refund = shop.refunded(&payment, json!({})).await;
        server.advance(advance).await;
        shop.until(&refund, "failed").await;
        let lines = shop.lines(&payment, "refund").await;
        assert_eq!(lines.len(), 1, "{fault}: {lines:?}");
        assert_eq!(lines[0]["amount"], "49.90", "{fault}");
        let events = server.events(&payment).await;
        assert!(!events.contains(&"payment.refunded".into()), "{fault}");
        assert_eq!(shop.gone(&payment).await, "0.00", "{fault}");
        let again = shop.refunded(&payment, json!({})).await;
        shop.until(&again, "succeeded").await;
        assert_eq!(shop.gone(&payment).await, "49.90", "{fault}");
    }
}

#[tokio::test]
async fn a_refund_that_fails_after_it_succeeded_opens_its_amount_again() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, page) = shop.paid().await;
    let refund = shop.refunded(&payment, json!({})).await;
    assert_eq!(refund["status"], "succeeded");
    server.pay(&page, "refund_fails").await.expect(200);
    shop.until(&refund, "failed").await;
    assert_eq!(shop.lines(&payment, "refund").await.len(), 1);
    let again = shop.refunded(&payment, json!({})).await;
    assert_ne!(again["refund_id"], refund["refund_id"]);
    shop.until(&again, "succeeded").await;
    assert_eq!(shop.gone(&payment).await, "49.90");
    let events = server.events(&payment).await;
    let told = events.iter().filter(|kind| *kind == "payment.refunded");
    assert_eq!(told.count(), 2, "one for each that succeeded");
    let failed = events
        .iter()
        .filter(|kind| *kind == "payment.refund_failed");
    assert_eq!(failed.count(), 1, "it had been reported as succeeded");
    let own = format!("/api/v1/refunds/{}", refund["refund_id"].as_str().unwrap());
    let failed = server.get(&shop.key, &own).await.expect(200).json();
    assert_eq!(
        (&failed["failure"]["code"], &failed["reversed_amount"]),
        (&json!("came_back"), &json!("49.90"))
    );
}

#[tokio::test]
async fn what_is_given_back_in_the_vendors_dashboard_is_told_apart_and_counts() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, page) = shop.paid().await;
    let ours = shop.refunded(&payment, json!({ "amount": "10.00" })).await;
    let form = server.payer_form(&page).await;
    let elsewhere = [("outcome", "refund"), ("amount", "5.00")];
    server.submit(&form, &elsewhere).await.expect(200);
    let two = async || {
        let refunds = shop.refunds(&payment).await;
        (refunds.len() == 2).then_some(refunds)
    };
    let refunds = server.wait_for("the other refund", two).await;
    assert_eq!(refunds[1], ours);
    let other = &refunds[0];
    assert_eq!(
        (
            &other["amount"],
            &other["origin"],
            &other["status"],
            &other["reason"]
        ),
        (
            &json!("5.00"),
            &json!("provider"),
            &json!("succeeded"),
            &Value::Null
        )
    );
    let own = format!("/api/v1/refunds/{}", other["refund_id"].as_str().unwrap());
    assert_eq!(server.get(&shop.key, &own).await.expect(200).json(), *other);
    shop.refund(&payment, json!({ "amount": "34.91" }))
        .await
        .expect(422);
    shop.refunded(&payment, json!({ "amount": "34.90" })).await;
    assert_eq!(shop.gone(&payment).await, "49.90");
}

#[tokio::test]
async fn a_dispute_that_a_refund_ends_does_not_keep_the_money_from_being_refunded() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, page) = shop.paid().await;
    shop.refunded(&payment, json!({ "amount": "10.00" })).await;
    server.pay(&page, "dispute").await.expect(200);
    let told = async || (!shop.lines(&payment, "dispute").await.is_empty()).then_some(());
    server.wait_for("the dispute", told).await;
    shop.refunded(&payment, json!({ "amount": "39.90" })).await;
    assert_eq!(shop.gone(&payment).await, "49.90");
    let ended = async || {
        shop.lines(&payment, "dispute")
            .await
            .is_empty()
            .then_some(())
    };
    server.wait_for("the dispute's end", ended).await;
    let events = server.events(&payment).await;
    assert!(
        events.contains(&"payment.dispute_closed".into()),
        "{events:?}"
    );
}

/// A completed payment with a surplus, because its payer paid in two tabs, and the surplus work item.
async fn paid_twice(server: &Server, key: &str) -> (Value, Value) {
    let payment = server.create(key, json!({})).await;
    let card = server.chosen(&payment, "credit_card").await;
    let card = server.payer_form(&card).await;
    server.press(&card, "decline").await.expect(303);
    server.until(key, &payment, "created").await;
    let ideal = server.chosen(&payment, "ideal").await;
    server.pay(&ideal, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    server.fault("sandbox-test", "late-money", 1).await;
    server.press(&card, "approve").await.expect(303);
    let surplus = async || {
        let lines = server.work(&payment).await;
        lines.into_iter().find(|line| line["kind"] == "surplus")
    };
    let line = server.wait_for("the surplus", surplus).await;
    (payment, line)
}

#[tokio::test]
async fn an_operator_gives_a_surplus_back_from_its_line_which_is_done_then() {
    let server = Server::fresh().await;
    let shop = Shop::new(&server).await;
    let (payment, line) = paid_twice(&server, &shop.key).await;
    let (id, own) = (line["id"].as_str().unwrap(), shop.refunds(&payment).await);
    assert!(own.is_empty());
    let path = format!("/work/{id}/refund");
    for missing in ["actor", "reason"] {
        let mut body = json!({ "actor": "ann", "reason": "paid twice" });
        body.as_object_mut().unwrap().remove(missing);
        let refused = server.admin("POST", &path, Some(&body)).await.expect(422);
        assert_eq!(refused.json()["field"], missing);
    }
    // The merchant can refund the money that completed the payment, but not the surplus.
    shop.refund(&payment, json!({ "amount": "49.91" }))
        .await
        .expect(422);
    let body = json!({
        "actor": "ann", "reason": "paid twice", "idempotency_key": format!("work-{}", unique()),
        "amount": "10.00",
    });
    let part = server
        .admin("POST", &path, Some(&body))
        .await
        .expect(201)
        .json();
    assert_eq!(
        (&part["origin"], &part["status"], &part["amount"]),
        (&json!("operator"), &json!("succeeded"), &json!("10.00"))
    );
    let again = server.admin("POST", &path, Some(&body)).await.expect(200);
    assert_eq!(again.json(), part);
    let open = shop.lines(&payment, "surplus").await;
    assert_eq!(open[0]["amount"], "39.90", "{open:?}");
    let (code, rest) = kassette(
        &server,
        &["work", "refund", open[0]["id"].as_str().unwrap()],
    );
    assert_eq!((code, &rest["amount"]), (0, &json!("39.90")), "{rest}");
    assert!(shop.lines(&payment, "surplus").await.is_empty());
    let (code, _) = kassette(&server, &["work", "refund", id]);
    assert_eq!(code, 1, "the line is done");
    // The operator's and the merchant's refund each used the money of another attempt. The payment remains
    // completed.
    let now = server.payment(&shop.key, &payment).await;
    assert_eq!(now["status"], "completed");
    let mine = shop.refunded(&payment, json!({})).await;
    assert_eq!(mine["amount"], "49.90");
    let entries = server.entries(&payment).await;
    assert!(
        entries.iter().all(|entry| entry["refunded"] == "49.90"),
        "{entries:?}"
    );
    let audit = server.admin("GET", "/audit?action=work.refund", None).await;
    let entries = audit.expect(200).json()["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
    assert_eq!(
        (&entries[1]["actor"], &entries[1]["reason"]),
        (&json!("ann"), &json!("paid twice"))
    );
}

#[tokio::test]
async fn an_operator_gives_an_excess_back_from_its_line_and_the_merchant_the_rest() {
    let server = Server::fresh().await;
    let shop = Shop::new(&server).await;
    let order = json!({ "checkout_mode": "direct", "payment_method": "crypto" });
    let payment = server.create(&shop.key, order).await;
    let started = server
        .start(&shop.key, &payment, "crypto")
        .await
        .expect(200);
    let instructions = started.json()["redirect_url"].as_str().unwrap().to_owned();
    let instructions = server.open(&instructions).await.expect(200);
    let wallet = primary_link(&instructions.text).unwrap();
    server.fault("sandbox-test", "capture-over", 1).await;
    server.pay(&wallet, "approve").await.expect(303);
    server.until(&shop.key, &payment, "completed").await;
    let line = server
        .wait_for("the excess", async || {
            shop.lines(&payment, "excess").await.pop()
        })
        .await;
    assert_eq!(line["amount"], "1.00", "{line}");
    // The merchant can refund the amount due, but not the excess.
    let more = shop.refund(&payment, json!({ "amount": "49.91" })).await;
    more.expect(422);
    let (code, given) = kassette(&server, &["work", "refund", line["id"].as_str().unwrap()]);
    assert_eq!(
        (code, &given["amount"], &given["origin"]),
        (0, &json!("1.00"), &json!("operator")),
        "{given}"
    );
    assert!(shop.lines(&payment, "excess").await.is_empty());
    assert_eq!(shop.gone(&payment).await, "1.00");
    let rest = shop.refunded(&payment, json!({})).await;
    assert_eq!(rest["amount"], "49.90");
    assert_eq!(shop.gone(&payment).await, "50.90");
}

/// Runs `kassette …` as an operator. Returns its exit code, and its JSON output or error text.
fn kassette(server: &Server, words: &[&str]) -> (i32, Value) {
    let ran = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(words)
        .args(["--actor", "ann", "--reason", "asked for by mail", "--json"])
        .args(["--admin-url", server.admin_base()])
        .env("KASSETTE_OPERATOR_TOKEN", server.operator_token())
        .output()
        .unwrap();
    let told = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|_| json!(String::from_utf8_lossy(&ran.stderr)));
    (ran.status.code().unwrap(), told)
}

#[tokio::test]
async fn an_operator_gives_back_by_command_and_a_viewer_does_not() {
    let server = shared().await;
    let shop = Shop::new(server).await;
    let (payment, _) = shop.paid().await;
    let id = payment["payment_id"].as_str().unwrap();
    let key = format!("by-hand-{}", unique());
    let asked = [
        "payment",
        "refund",
        id,
        "--amount",
        "10.00",
        "--idempotency-key",
        &key,
    ];
    let (code, refund) = kassette(server, &asked);
    assert_eq!(
        (code, &refund["status"]),
        (0, &json!("succeeded")),
        "{refund}"
    );
    assert_eq!(
        (&refund["origin"], &refund["reason"]),
        (&json!("operator"), &Value::Null)
    );
    let (code, again) = kassette(server, &asked);
    assert_eq!((code, again), (0, refund.clone()));
    let (code, other) = kassette(server, &["payment", "refund", id, "--amount", "10.00"]);
    assert_eq!(code, 0, "{other}");
    assert_ne!(
        other["refund_id"], refund["refund_id"],
        "a key of its own each time"
    );
    let (code, refused) = kassette(server, &["payment", "refund", id, "--amount", "29.91"]);
    assert_eq!(code, 1);
    assert!(
        refused.as_str().unwrap().contains("--idempotency-key cli-"),
        "{refused}"
    );
    let path = format!("/payments/{id}/refunds");
    let listed = server.admin("GET", &path, None).await.expect(200).json();
    assert_eq!(listed["refunds"].as_array().unwrap().len(), 2);
    let first = server.admin("GET", &format!("{path}?limit=1"), None).await;
    let first = first.expect(200).json();
    assert_eq!(first["refunds"][0], listed["refunds"][0]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let next = server
        .admin("GET", &format!("{path}?cursor={cursor}"), None)
        .await;
    assert_eq!(next.expect(200).json()["refunds"][0], listed["refunds"][1]);

    let body = json!({ "name": format!("viewer {}", unique()), "role": "viewer" });
    let viewer = server.admin("POST", "/operators", Some(&body)).await;
    let viewer = viewer.expect(201).json()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let said = json!({ "actor": "ann", "reason": "x" });
    server
        .admin_as(&viewer, "POST", &path, Some(&said))
        .await
        .expect(403);
    server
        .admin_as(&viewer, "GET", &path, None)
        .await
        .expect(200);
    let audit = format!("/audit?action=payment.refund&object=payment/{id}");
    let audit = server.admin("GET", &audit, None).await.expect(200).json();
    assert_eq!(audit["entries"].as_array().unwrap().len(), 2, "{audit}");
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_refund_leaves_one() {
    let server = Server::with_modules(fresh_folder()).await;
    let shop = Shop::new(&server).await;
    let (payment, _) = shop.paid().await;
    server
        .fault("sandbox-test", "timeout-after-effect", 1)
        .await;
    let (key, body) = (
        shop.key.clone(),
        json!({ "idempotency_key": "refund-killed" }),
    );
    let url = format!("{}{}", server.base(), path(&payment));
    let asked = server.http.post(url).bearer_auth(&key).json(&body).send();
    let asked = tokio::spawn(asked);
    let taken = async || (shop.gone(&payment).await == "49.90").then_some(());
    server.wait_for("the vendor's refund", taken).await;
    let folder = server.kill();
    asked.abort();
    drop(server);
    let server = Server::in_folder(folder).await;
    let again = server.refund(&key, &payment, body).await.expect(200).json();
    server.advance(300).await;
    let refund = server.refund_until(&key, &again, "succeeded").await;
    assert_eq!(refund["amount"], "49.90");
    assert_eq!(server.refunds(&key, &payment).await.len(), 1);
    let entries = server.entries(&payment).await;
    assert_eq!(entries[0]["refunded"], "49.90", "{entries:?}");
}
