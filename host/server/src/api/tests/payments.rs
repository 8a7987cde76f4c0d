//! Creating and reading payments through the router.

use kassette_domain::key::{Environment, Scope};
use serde_json::{Value, json};

use super::world::World;

const PAYMENTS: &str = "/api/v1/payments";

fn body(more: &Value) -> Value {
    let mut body = json!({
        "order_id": "o-1", "idempotency_key": "o-1:attempt", "amount": "49.90", "currency": "EUR"
    });
    let object = body.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_payment_is_created_once_and_replayed() {
    let world = World::new().await;
    let key = world.test_key().await;
    let first = world
        .post(&key, PAYMENTS, &body(&json!({})))
        .await
        .expect(201);
    let payment = first.json();
    let id = payment["payment_id"].as_str().unwrap();
    let location = format!("https://pay.example/api/v1/payments/{id}");
    assert_eq!(first.header("location"), location);
    assert_eq!(first.header("idempotent-replayed"), "");
    let url = payment["checkout_url"].as_str().unwrap();
    assert!(url.starts_with("https://pay.example/checkout/"), "{url}");
    let expected = json!({
        "payment_id": id, "order_id": "o-1", "status": "created", "settlement_status": "pending",
        "amount": "49.90", "currency": "EUR", "usd_amount": "53.89", "payment_method": null,
        "test_mode": true, "checkout_url": url
    });
    assert_eq!(payment, expected);

    let again = world
        .post(&key, PAYMENTS, &body(&json!({})))
        .await
        .expect(200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.json(), expected);
    let other = body(&json!({ "amount": "49.91" }));
    let refused = world.post(&key, PAYMENTS, &other).await.expect(409);
    assert!(refused.error().contains("amount"));
    let read = world
        .get(&key, &format!("{PAYMENTS}/{id}"))
        .await
        .expect(200);
    assert_eq!(read.json(), expected);
}

#[tokio::test]
async fn a_merchant_finds_its_payments_of_the_keys_environment_newest_first() {
    let world = World::new().await;
    let key = world.test_key().await;
    let often = |merchant: &mut kassette_domain::merchant::Merchant| {
        merchant.policy.rate_limit = Some(kassette_domain::policy::RateLimit {
            per_second: 1000,
            burst: 1000,
        });
    };
    world.change(often).await;
    let mut made = Vec::new();
    for number in 0..5 {
        let order = format!("o-{}", number / 2);
        let unique = format!("{order}:attempt-{number}");
        let fields = json!({ "order_id": order, "idempotency_key": unique });
        let payment = world.post(&key, PAYMENTS, &body(&fields)).await.expect(201);
        made.insert(0, payment.json());
        world.clock.advance(std::time::Duration::from_secs(60));
    }
    let list = async |query: &str| {
        let page = world.get(&key, &format!("{PAYMENTS}{query}")).await;
        let mut page = page.expect(200).json();
        for payment in page["payments"].as_array_mut().unwrap() {
            // Fields that only a list has.
            let payment = payment.as_object_mut().unwrap();
            assert_eq!(payment.remove("completed_at"), Some(json!(null)));
            assert_eq!(payment.remove("refunded_amount"), Some(json!("0.00")));
            assert_eq!(payment.remove("customer_email"), Some(json!(null)));
            assert_eq!(payment.remove("metadata"), Some(json!({})));
            assert!(payment.remove("created_at").unwrap().is_string());
        }
        page
    };
    let all = json!({ "payments": made, "next_cursor": null });
    assert_eq!(list("").await, all);
    assert_eq!(
        list("?status=created&since=2020-01-01T00:00:00Z").await,
        all
    );
    let none = json!({ "payments": [], "next_cursor": null });
    assert_eq!(list("?status=completed").await, none);
    assert_eq!(list("?until=2020-01-01T00:00:00Z").await, none);
    let of_order = list("?order_id=o-1").await;
    assert_eq!(of_order["payments"], json!(made[1..3]));
    let first = list("?limit=2").await;
    assert_eq!(first["payments"], json!(made[..2]));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = list(&format!("?limit=2&cursor={cursor}")).await;
    assert_eq!(second["payments"], json!(made[2..4]));

    let live = world.key(Environment::Live, &Scope::MERCHANT).await;
    let other = world.get(&live, PAYMENTS).await.expect(200).json();
    assert_eq!(other, none);
    let creating = world.key(Environment::Test, &[Scope::PaymentsCreate]).await;
    world.get(&creating, PAYMENTS).await.expect(403).error();
    for wrong in [
        "order_id=",
        "status=paid",
        "since=yesterday",
        "until=2020-01-01T00:00:00",
        "limit=0",
        "limit=101",
        "cursor=x",
        "merchant_id=1",
        "limit=1&limit=1",
    ] {
        let refused = world.get(&key, &format!("{PAYMENTS}?{wrong}")).await;
        let refused = refused.expect(422).json();
        let field = wrong.split('=').next().unwrap();
        assert_eq!(refused["field"], field, "{wrong}");
    }
}

#[tokio::test]
async fn a_page_of_payments_counts_as_ten_requests() {
    let world = World::new().await;
    let key = world.test_key().await;
    let policy = |merchant: &mut kassette_domain::merchant::Merchant| {
        merchant.policy.rate_limit = Some(kassette_domain::policy::RateLimit {
            per_second: 1,
            burst: 25,
        });
    };
    world.change(policy).await;
    for _ in 0..2 {
        world.get(&key, PAYMENTS).await.expect(200);
    }
    let refused = world.get(&key, PAYMENTS).await.expect(429);
    assert!(refused.header("retry-after").parse::<u32>().unwrap() >= 4);
}

#[tokio::test]
async fn what_cannot_be_created_is_422() {
    let world = World::new().await;
    let key = world.test_key().await;
    for more in [
        json!({ "currency": "GBP" }),
        json!({ "return_url": "https://elsewhere.example/" }),
        json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
    ] {
        let answer = world.post(&key, PAYMENTS, &body(&more)).await.expect(422);
        answer.error();
    }
}

#[tokio::test]
async fn a_payment_of_another_environment_or_of_nobody_is_404() {
    let world = World::new().await;
    let key = world.test_key().await;
    let live = world.key(Environment::Live, &Scope::MERCHANT).await;
    let made = world
        .post(&key, PAYMENTS, &body(&json!({})))
        .await
        .expect(201)
        .json();
    let id = made["payment_id"].as_str().unwrap();
    let paths = [
        (&live, id.to_owned()),
        (&key, "0".repeat(32)),
        (&key, id.to_uppercase()),
        (&key, "abc".to_owned()),
        (&key, "%ff".to_owned()),
    ];
    for (key, id) in paths {
        let answer = world.get(key, &format!("{PAYMENTS}/{id}")).await;
        assert_eq!(answer.expect(404).error(), "payment not found");
        if id.len() == 32 && id.bytes().all(|b| !b.is_ascii_uppercase()) {
            let start = json!({ "payment_id": id, "payment_method": "ideal" });
            world
                .post(key, "/api/v1/payments/start", &start)
                .await
                .expect(404)
                .error();
        }
    }
    world
        .ask(
            "GET",
            &format!("{PAYMENTS}/abc"),
            &[],
            axum::body::Body::empty(),
        )
        .await
        .expect(401);
}

#[tokio::test]
async fn a_hosted_payment_is_not_started_by_the_api() {
    let world = World::new().await;
    let key = world.test_key().await;
    let made = world
        .post(&key, PAYMENTS, &body(&json!({})))
        .await
        .expect(201)
        .json();
    let start = json!({ "payment_id": made["payment_id"], "payment_method": "ideal" });
    world
        .post(&key, "/api/v1/payments/start", &start)
        .await
        .expect(409)
        .error();
}

#[tokio::test]
async fn a_listing_needs_a_usable_rate_and_omits_what_nobody_serves() {
    let world = World::new().await;
    let key = world.test_key().await;
    for query in [
        "",
        "?amount=1.00",
        "?amount=1.00&currency=EUR",
        "?currency=EUR",
    ] {
        let answer = world
            .get(&key, &format!("/api/v1/methods{query}"))
            .await
            .expect(200);
        assert_eq!(answer.json(), json!({ "methods": [] }), "{query}");
    }
    let answer = world
        .get(&key, "/api/v1/methods?currency=GBP")
        .await
        .expect(422);
    assert!(answer.error().starts_with("currency"));
}
