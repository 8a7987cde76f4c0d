//! The connect exchange, up to the request to the shop.

use axum::body::Body;
use serde_json::json;

use super::world::{NARROW, World};

const PATH: &str = "/api/v1/connect/exchange";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test]
async fn under_serve_a_site_is_public_and_https() {
    let world = World::new().await;
    for (site, status) in [
        ("https://shop.example/store", 401),
        ("http://shop.example", 422),
        ("http://127.0.0.1:8090", 422),
        ("http://localhost:8090", 422),
        ("https://localhost", 422),
        ("https://192.0.2.1", 422),
        ("https://shop.internal", 422),
        ("https://pay.example:8443", 401),
    ] {
        let body = json!({
            "code": format!("kc_{}", "A".repeat(40)),
            "site_url": site,
            "challenge": "a".repeat(32),
            "proof": "0".repeat(64),
        });
        let answer = world.ask("POST", PATH, &JSON, body.to_string()).await;
        assert_eq!(answer.status, status, "{site}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_webhook_path_that_is_none_is_named() {
    let world = World::new().await;
    for (path, status) in [
        (json!("/modules/kassette/webhook"), 401),
        (json!(null), 401),
        (json!("//evil.test/"), 422),
        (json!("/a/../b"), 422),
        (json!("/hook?x"), 422),
        (json!(1), 422),
    ] {
        let body = json!({
            "code": format!("kc_{}", "A".repeat(40)),
            "site_url": "https://shop.example/store",
            "webhook_path": path,
            "challenge": "a".repeat(32),
            "proof": "0".repeat(64),
        });
        let answer = world.ask("POST", PATH, &JSON, body.to_string()).await;
        let answer = answer.expect(status);
        if status == 422 {
            assert_eq!(answer.json()["field"], "webhook_path", "{}", answer.text);
        }
    }
    // With its path, the URL is too long for events.
    let body = json!({
        "code": format!("kc_{}", "A".repeat(40)),
        "site_url": format!("https://shop.example/{}", "a".repeat(1990)),
        "webhook_path": format!("/{}", "b".repeat(60)),
        "challenge": "a".repeat(32),
        "proof": "0".repeat(64),
    });
    let refused = world.ask("POST", PATH, &JSON, body.to_string()).await;
    assert_eq!(refused.expect(422).json()["field"], "site_url");
}

#[tokio::test]
async fn guesses_are_counted_against_their_address_before_they_are_read() {
    let world = World::new().await;
    for _ in 0..NARROW.burst {
        world.ask("POST", PATH, &JSON, "{}").await.expect(422);
    }
    let refused = world
        .ask("POST", PATH, &[], Body::empty())
        .await
        .expect(429);
    assert!(!refused.header("retry-after").is_empty());
    // These requests do not affect a client with a key.
    world
        .get(&world.test_key().await, "/api/v1/methods")
        .await
        .expect(200);
}
