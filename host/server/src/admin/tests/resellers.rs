//! Resellers: creation, rollout, authorization, and consent codes.

use kassette_domain::id::{MerchantId, ResellerId};
use kassette_domain::key::Scope;

use super::*;

async fn reseller(world: &World) -> u64 {
    let made = world.post("/resellers", json!({ "name": "Agency" })).await;
    let made = made.is(201);
    assert_eq!(
        (&made["name"], &made["live_rollout"]),
        (&json!("Agency"), &json!(false))
    );
    made["reseller_id"].as_u64().unwrap()
}

fn because(body: Value) -> Value {
    let mut body = body;
    body["actor"] = "ann".into();
    body["reason"] = "signed contract 7".into();
    body
}

#[tokio::test]
async fn a_reseller_is_made_listed_and_has_keys_of_its_own() {
    let world = World::new().await;
    let id = reseller(&world).await;
    for wrong in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "a", "x": 1 }),
    ] {
        world.post("/resellers", wrong).await.refused(422);
    }
    let listed = world.get("/resellers").await;
    assert_eq!(listed.is(200)["resellers"][0]["reseller_id"], id);
    let shown = world.get(&format!("/resellers/{id}")).await;
    assert_eq!(shown.is(200)["name"], "Agency");
    world.get("/resellers/99").await.refused(404);

    let keys = format!("/resellers/{id}/keys");
    for (environment, prefix) in [("test", "kr_test_"), ("live", "kr_live_")] {
        let made = world
            .post(&keys, json!({ "environment": environment }))
            .await;
        let key = made.is(201)["key"].as_str().unwrap().to_owned();
        assert!(key.starts_with(prefix), "{key}");
        let caller = world.gateway.reseller_caller(&key).await.unwrap();
        assert_eq!(caller.reseller.id, ResellerId(id));
        assert_eq!(caller.key.scopes, Scope::RESELLER, "no refunds");
    }
    let merchants = json!({ "environment": "test", "scopes": ["payments:read"] });
    world.post(&keys, merchants).await.refused(422);
    world
        .post("/resellers/99/keys", json!({ "environment": "test" }))
        .await
        .refused(404);
    let listed = world.get(&keys).await;
    let listed = listed.is(200)["keys"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|key| key.get("key").is_none()));
}

#[tokio::test]
async fn the_live_rollout_is_an_admins_and_tells_who_and_why() {
    let world = World::new().await;
    let id = reseller(&world).await;
    let path = format!("/resellers/{id}/live-rollout");
    for silent in [
        json!({ "enabled": true }),
        json!({ "enabled": true, "actor": "ann" }),
        json!({ "enabled": true, "reason": "why" }),
        because(json!({ "enabled": "yes" })),
        because(json!({})),
    ] {
        world.put(&path, silent).await.refused(422);
    }
    let body = because(json!({ "enabled": true }));
    let forbidden = world.call(&world.operator, Method::PUT, &path, Some(body.clone()));
    forbidden.await.refused(403);
    let switched = world.put(&path, body).await;
    assert_eq!(switched.is(200)["live_rollout"], true);
    let line = world.last_line().await;
    assert_eq!(line["action"], "reseller.live_rollout");
    assert_eq!(line["object"], format!("reseller/{id}"));
    assert_eq!(
        (&line["actor"], &line["reason"]),
        (&json!("ann"), &json!("signed contract 7"))
    );
    assert_ne!(line["before"], line["after"]);
    let missing = because(json!({ "enabled": true }));
    world
        .put("/resellers/99/live-rollout", missing)
        .await
        .refused(404);
}

#[tokio::test]
async fn a_delegation_is_authorized_and_revoked_with_actor_and_reason() {
    let world = World::new().await;
    let (id, merchant) = (reseller(&world).await, world.merchant(false).await);
    let path = format!("/resellers/{id}/delegations/{merchant}");
    world
        .put(&path, json!({ "status": "authorized" }))
        .await
        .refused(422);
    for wrong in ["invited", "declined", "expired", "Authorized"] {
        world
            .put(&path, because(json!({ "status": wrong })))
            .await
            .refused(422);
    }
    let revoked = because(json!({ "status": "revoked" }));
    world.put(&path, revoked.clone()).await.refused(404);
    let authorized = world
        .put(&path, because(json!({ "status": "authorized" })))
        .await;
    assert_eq!(authorized.is(200)["status"], "authorized");
    assert_eq!(world.last_line().await["action"], "delegation.authorize");
    let list = format!("/resellers/{id}/delegations");
    let listed = world.get(&list).await;
    let listed = &listed.is(200)["delegations"];
    assert_eq!(listed[0]["merchant_id"], merchant);
    assert_eq!(listed[0]["business_name"], "Shop");
    assert_eq!(listed[0]["refunds"], false);
    let refunds = |refunds| because(json!({ "status": "authorized", "refunds": refunds }));
    world.put(&path, refunds(json!("yes"))).await.refused(422);
    let allowed = world.put(&path, refunds(json!(true))).await;
    assert_eq!(allowed.is(200)["refunds"], true);
    let line = world.last_line().await;
    assert_eq!(line["after"]["refunds"], true, "{line}");
    let unchanged = world
        .put(&path, because(json!({ "status": "authorized" })))
        .await;
    assert_eq!(unchanged.is(200)["refunds"], true);
    let listed = world.get(&list).await;
    assert_eq!(listed.is(200)["delegations"][0]["refunds"], true);
    let taken_back = world.put(&path, revoked).await;
    assert_eq!(taken_back.is(200)["status"], "revoked");
    assert_eq!(taken_back.body["refunds"], false);
    let line = world.last_line().await;
    assert_eq!(line["action"], "delegation.revoke");
    assert_eq!(
        line["object"],
        format!("reseller/{id}/delegation/{merchant}")
    );
    let stored = world
        .gateway
        .store()
        .delegation(ResellerId(id), MerchantId(merchant));
    assert!(stored.await.unwrap().unwrap().revoked_at.is_some());
    for nobody in [
        format!("/resellers/99/delegations/{merchant}"),
        format!("/resellers/{id}/delegations/99"),
        format!("/resellers/{id}/delegations/x"),
    ] {
        let body = because(json!({ "status": "authorized" }));
        world.put(&nobody, body).await.refused(404);
    }
}

#[tokio::test]
async fn a_consent_code_is_shown_once_and_leaves_no_trace() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let path = format!("/merchants/{merchant}/consent-codes");
    let issued = world.post(&path, json!({})).await;
    let code = issued.is(201)["code"].as_str().unwrap().to_owned();
    assert!(code.starts_with("km_") && code.len() == 43, "{code}");
    let end = world
        .clock
        .now()
        .after(std::time::Duration::from_secs(24 * 3600));
    let said = issued.body["expires_at"].as_str().unwrap();
    let said = kassette_domain::time::Time::parse_rfc3339(said).unwrap();
    assert!(said <= end && end.since(said).as_secs() < 60);
    let line = world.last_line().await;
    assert_eq!(line["action"], "consent_code.create");
    assert!(!line.to_string().contains(&code[3..15]), "{line}");
    world
        .post("/merchants/99/consent-codes", json!({}))
        .await
        .refused(404);
}
