//! Ordering refunds through the router. End-to-end tests cover the providers.

use kassette_domain::delegation::DelegationDecision;
use kassette_domain::key::{Environment, KeyOwner, Scope};
use serde_json::json;

use super::world::{World, audited};

#[tokio::test]
async fn scope_goes_before_shape_shape_before_whose_it_is_and_that_before_its_status() {
    let world = World::new().await;
    let usual = world.test_key().await;
    let gives = [Scope::PaymentsRefund];
    let gives = world.key(Environment::Test, &gives).await;
    let body = json!({
        "order_id": "o-1", "idempotency_key": "o-1:attempt", "amount": "49.90", "currency": "EUR"
    });
    let payment = world.post(&usual, "/api/v1/payments", &body).await;
    let payment = payment.expect(201).json();
    let path = |id: &str| format!("/api/v1/payments/{id}/refunds");
    let own = path(payment["payment_id"].as_str().unwrap());
    let unknown = path(&"0".repeat(32));
    let wrong = json!({ "idempotency_key": "o-1:refund", "amount": 1 });
    let right = json!({ "idempotency_key": "o-1:refund" });

    let refused = world.post(&usual, &unknown, &wrong).await.expect(403);
    assert_eq!(refused.json()["code"], "missing_scope");
    let refused = world.post(&gives, &unknown, &wrong).await.expect(422);
    assert_eq!(refused.json()["field"], "amount");
    world.post(&gives, &unknown, &right).await.expect(404);
    let refused = world.post(&gives, &own, &right).await.expect(409);
    assert_eq!(refused.json()["code"], "payment_not_completed");

    world.get(&gives, &own).await.expect(403);
    let listed = world.get(&usual, &own).await.expect(200);
    assert_eq!(listed.json(), json!({ "refunds": [] }));
    world.get(&usual, &unknown).await.expect(404);
    let refund = format!("/api/v1/refunds/{}", "0".repeat(32));
    world.get(&gives, &refund).await.expect(403);
    world.get(&usual, &refund).await.expect(404);
    world
        .get(&usual, &format!("{refund}?x=1"))
        .await
        .expect(422);
}

#[tokio::test]
async fn a_reseller_refunds_only_its_own_payments_with_scope_and_delegation() {
    let world = World::new().await;
    let (reseller, merchant) = (world.reseller().await, world.merchant.id);
    let owner = KeyOwner::Reseller(reseller);
    let test = Environment::Test;
    let usual = world.key_of(owner, test, &Scope::RESELLER).await;
    let refunds = world.key_of(owner, test, &[Scope::ResellerRefund]).await;
    let allow = async |refunds| {
        let decision = DelegationDecision::Authorize { refunds };
        let now = kassette_gateway::clock::Clock::now(&*world.clock);
        let store = &world.store;
        let set = store.set_delegation(reseller, merchant, decision, audited(), now);
        set.await.unwrap().unwrap();
    };
    allow(None).await;
    let body = json!({
        "merchant_id": merchant.0, "client_ref": "r-1", "order_id": "o-1", "amount": "49.90",
        "currency": "EUR"
    });
    let payment = world.post(&usual, "/api/v1/reseller/payments", &body).await;
    let payment = payment.expect(200).json();
    let body = json!({
        "order_id": "o-2", "idempotency_key": "o-2:attempt", "amount": "49.90", "currency": "EUR"
    });
    let key = world.test_key().await;
    let merchants = world.post(&key, "/api/v1/payments", &body).await;
    let merchants = merchants.expect(201).json();
    let path = |payment: &serde_json::Value| {
        let id = payment["payment_id"].as_str().unwrap();
        format!("/api/v1/reseller/payments/{id}/refunds")
    };
    let (own, merchants) = (path(&payment), path(&merchants));
    let wrong = json!({ "idempotency_key": "o-1:refund", "amount": 1 });
    let right = json!({ "idempotency_key": "o-1:refund" });

    let refused = world.post(&usual, &merchants, &wrong).await.expect(403);
    assert_eq!(refused.json()["code"], "missing_scope");
    world.get(&usual, &own).await.expect(403);
    let refused = world.post(&refunds, &merchants, &wrong).await.expect(422);
    assert_eq!(refused.json()["field"], "amount");
    world.post(&refunds, &merchants, &right).await.expect(404);
    world.get(&refunds, &merchants).await.expect(404);
    let refused = world.post(&refunds, &own, &right).await.expect(403);
    assert_eq!(refused.json()["code"], "reseller_refund_not_allowed");
    let refused = world.get(&refunds, &own).await.expect(403);
    assert_eq!(refused.json()["code"], "reseller_refund_not_allowed");

    allow(Some(true)).await;
    let listed = world.get(&refunds, &own).await.expect(200);
    assert_eq!(listed.json(), json!({ "refunds": [] }));
    let refused = world.post(&refunds, &own, &right).await.expect(409);
    let refused = refused.json();
    assert_eq!(
        (&refused["code"], &refused["status"]),
        (&json!("payment_not_completed"), &json!("created"))
    );
    // The signature does not cover the header.
    let bearer = format!("Bearer {refunds}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "o-1:refund"),
    ];
    let refused = world.ask("POST", &own, &headers, "{}").await.expect(422);
    assert_eq!(refused.json()["field"], "idempotency_key");
    let live = Environment::Live;
    let unsigned = world.key_of(owner, live, &[Scope::ResellerRefund]).await;
    world.post(&unsigned, &own, &right).await.expect(401);
    // A merchant's key has no access to this path.
    world.post(&key, &own, &right).await.expect(401);
}
