//! Asking for a refund through the router. What providers do with one is tried end to end.

use kassette_domain::key::{Environment, Scope};
use serde_json::json;

use super::world::World;

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
