//! Keys: shown once, live ones only for approved merchants, rotated with an overlap.

use std::time::Duration;

use kassette_domain::key::Scope;

use super::*;

/// Issues a key; returns its id and the key.
async fn issue(world: &World, merchant: u64, body: Value) -> (String, String) {
    let path = format!("/merchants/{merchant}/keys");
    let made = world
        .call(&world.operator, Method::POST, &path, Some(body))
        .await;
    let made = made.is(201).as_object().unwrap().clone();
    assert_eq!(made.len(), 2, "key_id and key");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("key_id"), text("key"))
}

async fn opens(world: &World, key: &str) -> bool {
    world.gateway.merchant_caller(key).await.is_ok()
}

#[tokio::test]
async fn a_key_is_shown_once_and_opens_until_it_is_revoked() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, key) = issue(&world, merchant, json!({ "environment": "test" })).await;
    assert!(key.starts_with("kp_test_") && opens(&world, &key).await);
    let listed = world.get(&format!("/merchants/{merchant}/keys")).await;
    assert_eq!(listed.is(200)["keys"][0]["key_id"], id.as_str());
    assert_eq!(
        listed.body["keys"][0]["scopes"],
        json!(["payments:create", "payments:read"])
    );
    let log = world.get("/audit").await;
    assert_eq!(log.body["entries"][0]["action"], "key.create");
    for shown in [&listed.body, &log.body] {
        assert!(!shown.to_string().contains(&key), "the key is shown once");
    }
    world.delete(&format!("/keys/{id}")).await.is(204);
    assert!(!opens(&world, &key).await);
    assert_eq!(world.last_line().await["action"], "key.revoke");
    let listed = world.get(&format!("/merchants/{merchant}/keys")).await;
    assert!(listed.body["keys"][0]["revoked_at"].is_string());
}

#[tokio::test]
async fn a_live_key_needs_an_approved_merchant() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let path = format!("/merchants/{merchant}/keys");
    world
        .post(&path, json!({ "environment": "live" }))
        .await
        .refused(409);
    let approved = world.merchant(true).await;
    let (id, key) = issue(&world, approved, json!({ "environment": "live" })).await;
    assert!(key.starts_with("kp_live_"));
    let withdrawn = json!({ "live_approved": false });
    let path = format!("/merchants/{approved}");
    world
        .call(&world.admin, Method::PATCH, &path, Some(withdrawn))
        .await
        .is(200);
    world
        .post(&format!("/keys/{id}/rotate"), json!({}))
        .await
        .refused(409);
}

#[tokio::test]
async fn a_key_manages_the_account_only_where_that_was_asked_for() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let manages = async |key: &str| {
        let caller = world.gateway.merchant_caller(key).await.unwrap();
        caller.key.allows(Scope::AccountManage)
    };
    let (_, usual) = issue(&world, merchant, json!({ "environment": "test" })).await;
    assert!(!manages(&usual).await);
    let asked = json!({ "environment": "test", "scopes": ["account:manage"] });
    let (_, key) = issue(&world, merchant, asked).await;
    assert!(manages(&key).await);
}

#[tokio::test]
async fn a_key_gives_money_back_only_where_that_was_asked_for() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let gives = async |key: &str| {
        let caller = world.gateway.merchant_caller(key).await.unwrap();
        caller.key.allows(Scope::PaymentsRefund)
    };
    let (_, usual) = issue(&world, merchant, json!({ "environment": "test" })).await;
    assert!(!gives(&usual).await);
    let asked = json!({ "environment": "test", "scopes": ["payments:refund"] });
    let (id, key) = issue(&world, merchant, asked.clone()).await;
    assert!(gives(&key).await);
    let rotated = world.post(&format!("/keys/{id}/rotate"), json!({})).await;
    let rotated = rotated.is(201)["key"].as_str().unwrap().to_owned();
    assert!(gives(&rotated).await);
    let made = world
        .call(
            &world.admin,
            Method::POST,
            "/resellers",
            Some(json!({ "name": "Agency" })),
        )
        .await;
    let reseller = made.is(201)["reseller_id"].as_u64().unwrap();
    world
        .post(&format!("/resellers/{reseller}/keys"), asked)
        .await
        .refused(422);
}

#[tokio::test]
async fn scopes_and_expiry_are_as_they_were_asked_for() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let end = world.clock.now().after(Duration::from_secs(60)).rfc3339();
    let body = json!({ "environment": "test", "scopes": ["payments:read"], "expires_at": end });
    let (_, key) = issue(&world, merchant, body).await;
    let caller = world.gateway.merchant_caller(&key).await.unwrap();
    assert_eq!(caller.key.scopes.len(), 1);
    world.clock.advance(Duration::from_secs(61));
    assert!(!opens(&world, &key).await);
    let path = format!("/merchants/{merchant}/keys");
    for wrong in [
        json!({}),
        json!({ "environment": "prod" }),
        json!({ "environment": "test", "scopes": [] }),
        json!({ "environment": "test", "scopes": ["reseller:invite"] }),
        json!({ "environment": "test", "scopes": ["payments:read", "payments:read"] }),
        json!({ "environment": "test", "expires_at": end }),
        json!({ "environment": "test", "expires_at": "tomorrow" }),
    ] {
        world.post(&path, wrong).await.refused(422);
    }
    world
        .post("/merchants/99/keys", json!({ "environment": "test" }))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_rotated_key_goes_on_for_the_overlap_and_no_longer() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, old) = issue(&world, merchant, json!({ "environment": "test" })).await;
    let rotated = world
        .post(&format!("/keys/{id}/rotate"), json!({ "overlap_hours": 2 }))
        .await;
    let new = rotated.is(201)["key"].as_str().unwrap().to_owned();
    let new_id = rotated.body["key_id"].as_str().unwrap().to_owned();
    assert_ne!(new_id, id);
    assert!(opens(&world, &old).await && opens(&world, &new).await);
    assert_eq!(world.last_line().await["action"], "key.rotate");
    world.clock.advance(Duration::from_secs(2 * 3600 + 1));
    assert!(!opens(&world, &old).await && opens(&world, &new).await);
    world
        .post(&format!("/keys/{id}/rotate"), json!({}))
        .await
        .refused(409);

    let at_once = world
        .post(&format!("/keys/{new_id}/rotate"), json!({}))
        .await;
    let latest = at_once.is(201)["key"].as_str().unwrap();
    assert!(!opens(&world, &new).await && opens(&world, latest).await);
    let over = json!({ "overlap_hours": 73 });
    world
        .post(&format!("/keys/{new_id}/rotate"), over)
        .await
        .refused(422);
}
