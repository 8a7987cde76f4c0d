//! Payments for operators, and decisions about them.

use kassette_domain::id::MerchantId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{CheckoutMode, Origin, Request as PaymentRequest};
use kassette_gateway::create::CreateOutcome;

use super::*;

/// Creates a hosted payment of ten dollars; returns its id.
pub(super) async fn create(world: &World, merchant: u64, order: &str) -> String {
    // An order id is free text, a key is not.
    let key = format!("{}-key-of-it", hex::encode(order));
    let asked = PaymentRequest {
        merchant: MerchantId(merchant),
        origin: Origin::Merchant {
            idempotency_key: IdempotencyKey::parse(&key).unwrap(),
        },
        environment: Environment::Test,
        order_id: OrderId::parse(order).unwrap(),
        due: Money {
            amount: Minor(1000),
            currency: Currency::USD,
        },
        mode: CheckoutMode::Hosted,
        method: None,
        email: Some(Email::parse("payer@example.com").unwrap()),
        return_url: None,
        extras: kassette_domain::extras::Extras::default(),
    };
    match world.gateway.create(asked, None).await.unwrap() {
        CreateOutcome::Created(payment) => payment.id.to_string(),
        CreateOutcome::Replayed(_) => panic!("the order is new"),
    }
}

const WHY: fn() -> Value = || json!({ "actor": "ann", "reason": "asked by phone" });

#[tokio::test]
async fn payments_are_listed_by_what_is_asked_for() {
    let world = World::new().await;
    let (one, two) = (world.merchant(false).await, world.merchant(false).await);
    let first = create(&world, one, "order-1").await;
    let second = create(&world, one, "order-2").await;
    create(&world, two, "order-1").await;
    let ids = async |query: &str| -> Vec<String> {
        let answer = world.get(&format!("/payments?{query}")).await;
        let payments = answer.is(200)["payments"].as_array().unwrap().clone();
        let id = |payment: &Value| payment["payment_id"].as_str().unwrap().to_owned();
        payments.iter().map(id).collect()
    };
    assert_eq!(
        ids(&format!("merchant_id={one}")).await,
        [second, first.clone()]
    );
    assert_eq!(
        ids(&format!("merchant_id={one}&order_id=order-1")).await,
        [first]
    );
    assert_eq!(ids("status=created").await.len(), 3);
    assert!(ids("status=completed").await.is_empty());
    world.get("/payments?status=paid").await.refused(422);
    world.get("/payments?merchant_id=x").await.refused(422);
}

#[tokio::test]
async fn payments_are_listed_by_when_they_were_created() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let mut made = Vec::new();
    for order in ["order-1", "order-2", "order-3"] {
        world.clock.advance(std::time::Duration::from_secs(60));
        let id = create(&world, merchant, order).await;
        let shown = world.get(&format!("/payments/{id}")).await;
        let created_at = shown.is(200)["payment"]["created_at"].clone();
        made.push((id, created_at.as_str().unwrap().to_owned()));
    }
    let ids = async |query: String| -> Vec<String> {
        let answer = world.get(&format!("/payments?{query}")).await;
        let payments = answer.is(200)["payments"].as_array().unwrap().clone();
        let id = |payment: &Value| payment["payment_id"].as_str().unwrap().to_owned();
        payments.iter().map(id).collect()
    };
    let [first, second, third] = [0, 1, 2].map(|at: usize| made[at].0.clone());
    let [middle, last] = [1, 2].map(|at: usize| &made[at].1);
    let between = format!("since={middle}&until={last}&merchant_id={merchant}");
    assert_eq!(ids(between).await, std::slice::from_ref(&second));
    assert_eq!(ids(format!("since={middle}")).await, [third, second]);
    assert_eq!(ids(format!("until={middle}")).await, [first]);
    for (wrong, field) in [
        ("since=yesterday", "since"),
        ("until=2030-01-31", "until"),
        ("until=", "until"),
        ("provider_id=Not%20One", "provider_id"),
        ("attempt_id=x", "attempt_id"),
        ("reference=", "reference"),
        ("references=x", "references"),
        ("reference=x&reference=x", "reference"),
    ] {
        let answer = world.get(&format!("/payments?{wrong}")).await;
        let why = answer.refused(422);
        assert!(why.contains(field), "{wrong}: {why}");
    }
    let nothing = "provider_id=first-test&reference=pi_1".to_owned();
    assert!(ids(nothing).await.is_empty());
    assert!(
        ids(format!("attempt_id={}", "0".repeat(32)))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_payment_is_shown_with_everything_that_happened() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let id = create(&world, merchant, "order-1").await;
    let shown = world.get(&format!("/payments/{id}")).await;
    let shown = shown.is(200);
    let payment = &shown["payment"];
    assert_eq!(payment["payment_id"], id.as_str());
    assert_eq!(
        (&payment["amount"], &payment["currency"]),
        (&json!("10.00"), &json!("USD"))
    );
    assert_eq!(
        (&payment["status"], &payment["test_mode"]),
        (&json!("created"), &json!(true))
    );
    assert_eq!(payment["merchant_id"], merchant);
    assert_eq!(
        (&payment["reseller_id"], &payment["environment"]),
        (&Value::Null, &json!("test"))
    );
    assert_eq!(payment["platform_fee_usd"], Value::Null);
    assert!(payment["created_at"].is_string() && payment["expires_at"].is_string());
    for list in ["attempts", "decisions", "transitions", "events"] {
        assert!(shown[list].is_array(), "{list}");
    }
    assert!(
        !shown.to_string().contains("payer@example.com"),
        "operators need no address"
    );
    world
        .get(&format!("/payments/{}", "0".repeat(32)))
        .await
        .refused(404);
    world.get("/payments/x").await.refused(404);
}

#[tokio::test]
async fn decisions_need_an_actor_and_a_reason() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let id = create(&world, merchant, "order-1").await;
    for path in ["cancel", "redact"] {
        let path = format!("/payments/{id}/{path}");
        world.post(&path, json!({})).await.refused(422);
        world
            .post(&path, json!({ "actor": "ann" }))
            .await
            .refused(422);
        world
            .post(&path, json!({ "actor": "ann", "reason": " " }))
            .await
            .refused(422);
    }
    let path = format!("/payments/{id}/review");
    world
        .post(&path, json!({ "decision": "approve" }))
        .await
        .refused(422);
    let done = format!("/work/{}/done", "0".repeat(32));
    world.post(&done, json!({})).await.refused(422);
    world.post(&done, WHY()).await.refused(404);
}

#[tokio::test]
async fn a_cancel_ends_the_payment_and_is_audited() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let id = create(&world, merchant, "order-1").await;
    let path = format!("/payments/{id}/cancel");
    let cancelled = world.post(&path, WHY()).await;
    assert_eq!(cancelled.is(200)["payment"]["status"], "cancelled");
    assert_eq!(cancelled.body["transitions"][0]["to"], "cancelled");
    assert_eq!(cancelled.body["events"][0]["type"], "payment.cancelled");
    let line = world.last_line().await;
    assert_eq!(line["action"], "payment.cancel");
    assert_eq!(line["object"], format!("payment/{id}"));
    assert_eq!(
        (&line["actor"], &line["reason"]),
        (&json!("ann"), &json!("asked by phone"))
    );
    world.post(&path, WHY()).await.refused(409);
}

#[tokio::test]
async fn a_review_is_decided_only_while_it_is_one() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let id = create(&world, merchant, "order-1").await;
    let path = format!("/payments/{id}/review");
    let mut body = WHY();
    body["decision"] = "approve".into();
    world.post(&path, body.clone()).await.refused(409);
    body["decision"] = "decline".into();
    body["settlement"] = "confirmed".into();
    world.post(&path, body.clone()).await.refused(422);
    body["decision"] = "perhaps".into();
    world.post(&path, body).await.refused(422);
    let nobody = format!("/payments/{}/review", "0".repeat(32));
    let mut body = WHY();
    body["decision"] = "decline".into();
    world.post(&nobody, body).await.refused(404);
}

#[tokio::test]
async fn redacting_erases_the_payer_and_keeps_the_payment() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let id = create(&world, merchant, "order-1").await;
    let redacted = world.post(&format!("/payments/{id}/redact"), WHY()).await;
    assert_eq!(redacted.is(200)["payment"]["amount"], "10.00");
    let stored = kassette_domain::id::PaymentId::parse(&id).unwrap();
    let payment = world
        .gateway
        .store()
        .payment(stored)
        .await
        .unwrap()
        .unwrap();
    assert!(payment.email.is_none(), "the address is gone");
    assert_eq!(world.last_line().await["action"], "payment.redact");
}

/// Creates a payment of an amount for a payer's address; its id.
async fn create_for(world: &World, merchant: u64, order: &str, of: (&str, u64)) -> String {
    let (address, amount) = of;
    let asked = PaymentRequest {
        merchant: MerchantId(merchant),
        origin: Origin::Merchant {
            idempotency_key: IdempotencyKey::parse(&format!("key-of-{order}")).unwrap(),
        },
        environment: Environment::Test,
        order_id: OrderId::parse(order).unwrap(),
        due: Money {
            amount: Minor(amount),
            currency: Currency::USD,
        },
        mode: CheckoutMode::Hosted,
        method: None,
        email: Some(Email::parse(address).unwrap()),
        return_url: None,
        extras: kassette_domain::extras::Extras::default(),
    };
    match world.gateway.create(asked, None).await.unwrap() {
        CreateOutcome::Created(payment) => payment.id.to_string(),
        CreateOutcome::Replayed(_) => panic!("the order is new"),
    }
}

#[tokio::test]
async fn anything_is_found_by_what_is_known_of_it() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let one = create_for(&world, merchant, "order-1", ("Ann@post.example", 8000)).await;
    let two = create_for(&world, merchant, "order-2", ("ann+x@post.example", 8001)).await;
    let find = async |query: &str| -> Vec<Value> {
        let answer = world.get(&format!("/find?{query}")).await;
        answer.is(200)["found"].as_array().unwrap().clone()
    };
    let [found] = &find("q=order-1").await[..] else {
        panic!("one payment has the order")
    };
    let expected = json!({
        "kind": "payment", "id": one, "payment_id": one, "label": "order-1",
        "found_by": "order_id", "environment": "test", "merchant_id": merchant,
        "status": "created", "amount": "80.00", "currency": "USD",
    });
    assert_eq!(found, &expected);
    let ids = async |query: &str| -> Vec<String> {
        let found = find(query).await.into_iter();
        let id = |each: Value| each["id"].as_str().unwrap().to_owned();
        found.map(id).collect()
    };
    assert_eq!(ids("q=80.00+USD").await, [&one[..]]);
    assert_eq!(ids("q=80.00+EUR").await, [""; 0]);
    assert_eq!(ids("q=ANN@post.example").await, [two.clone(), one.clone()]);
    assert_eq!(ids(&format!("q={one}")).await, [&one[..]]);
    let begun = ids(&format!("q={}", &one[..8])).await;
    assert!(begun.contains(&one), "{begun:?}");
    assert_eq!(find(&format!("q={one}")).await[0]["found_by"], "id");
    assert_eq!(ids(&format!("q={}", &one[..5])).await, [""; 0]);
    assert_eq!(ids("q=order-1&environment=live").await, [""; 0]);
    assert_eq!(ids("q=order-1&until=2020-01-01T00:00:00Z").await, [""; 0]);
    for wrong in ["", "q=", "q=+", "q=a&environment=x", "q=a&limit=2"] {
        world.get(&format!("/find?{wrong}")).await.refused(422);
    }
    let of_viewer = world.call(&world.viewer, Method::GET, "/find?q=order-1", None);
    assert_eq!(of_viewer.await.is(200)["found"][0], expected);
}

#[tokio::test]
async fn an_address_is_erased_everywhere_after_it_was_shown() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let one = create_for(&world, merchant, "order-1", ("Ann@post.example", 1000)).await;
    let two = create_for(&world, merchant, "order-2", ("ann+x@post.example", 1000)).await;
    let path = "/payments/redact";
    let expected = json!({
        "payments": [one],
        "variants": [{ "email": "ann+x@post.example", "payments": [two] }],
        "more": false,
    });
    let mut body = json!({ "email": "ann@POST.example", "preview": true });
    assert_eq!(world.post(path, body.clone()).await.is(200), &expected);
    body["preview"] = false.into();
    world.post(path, body.clone()).await.refused(422);
    let has_address = async |id: &str| {
        let id = kassette_domain::id::PaymentId::parse(id).unwrap();
        let payment = world.gateway.store().payment(id).await.unwrap();
        payment.unwrap().email.is_some()
    };
    assert!(has_address(&one).await, "nothing was changed so far");
    body["actor"] = "ann".into();
    body["reason"] = "asked by mail".into();
    assert_eq!(world.post(path, body.clone()).await.is(200), &expected);
    assert!(!has_address(&one).await && has_address(&two).await);
    let line = world.last_line().await;
    assert_eq!(line["action"], "payment.redact");
    assert_eq!(line["object"], format!("payment/{one}"));
    let found = world.get("/find?q=ann@post.example").await;
    let found = found.is(200)["found"].as_array().unwrap();
    assert_eq!(
        found.len(),
        1,
        "the mark of the erased address is gone: {found:?}"
    );
    assert_eq!(world.post(path, body).await.is(200)["payments"], json!([]));
}

#[tokio::test]
async fn a_payment_is_shown_with_its_deliveries() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let endpoint = json!({ "url": "https://shop.example/hook", "environment": "test" });
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    world.post(&path, endpoint).await.is(201);
    let id = create(&world, merchant, "order-1").await;
    world
        .post(&format!("/payments/{id}/cancel"), WHY())
        .await
        .is(200);
    let shown = world.get(&format!("/payments/{id}")).await;
    let shown = shown.is(200)["deliveries"].as_array().unwrap().clone();
    let listed = world.get(&format!("/deliveries?payment_id={id}")).await;
    assert_eq!(&shown, listed.is(200)["deliveries"].as_array().unwrap());
    assert_eq!(shown[0]["event_type"], "payment.cancelled");
    let event = shown[0]["event_id"].as_str().unwrap();
    let found = world.get(&format!("/find?q={event}")).await;
    let found = &found.is(200)["found"][0];
    assert_eq!(
        (&found["kind"], &found["payment_id"]),
        (&json!("event"), &json!(id))
    );
}
