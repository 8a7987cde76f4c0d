//! Accounts for operators.

use super::*;
use kassette_gateway::settings::Settings;

#[tokio::test]
async fn an_account_says_why_it_is_not_used() {
    let world = World::new().await;
    let health = async || {
        let listed = world.get("/providers").await;
        listed.is(200)["providers"][0]["health"].clone()
    };
    let missing = health().await;
    assert_eq!(missing["cause"], "module");
    let detail = missing["reason"].as_str().unwrap();
    assert!(
        detail.contains("put provider.sandbox.wasm into"),
        "{detail}"
    );
    // A refused upload is reported with its reason.
    let path = "/plugins/provider.sandbox";
    let body = Some(json!("no module"));
    let upload = world.call(&world.operator, Method::POST, path, body).await;
    let why = upload.refused(422).to_owned();
    let refused = health().await["reason"].as_str().unwrap().to_owned();
    assert!(refused.ends_with(&why), "{refused}: {why}");
    let off = world.post(&format!("{path}/disable"), json!({})).await;
    off.is(200);
    let detail = health().await["reason"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("the slot provider.sandbox is disabled; no module"));
}

/// The gateway with other accounts: a live one, and one that is disabled in its file.
async fn with_other_accounts(world: &World) {
    let mut settings = Settings::clone(&world.gateway.settings());
    let first = &settings.accounts[&AccountId::parse("first-test").unwrap()];
    let live = AccountId::parse("third-live").unwrap();
    let live = Account {
        id: live.clone(),
        environment: Environment::Live,
        ..first.clone()
    };
    let off = AccountId::parse("second-test").unwrap();
    settings.accounts.get_mut(&off).unwrap().enabled = false;
    settings.accounts.insert(live.id.clone(), live);
    world.gateway.configure(settings).await.unwrap();
}

#[tokio::test]
async fn a_switch_does_not_turn_on_what_the_file_has_off() {
    let world = World::new().await;
    let path = "/providers/second-test";
    for enabled in [json!(false), json!(true)] {
        world
            .patch(path, json!({ "enabled": enabled }))
            .await
            .is(200);
    }
    with_other_accounts(&world).await;
    let id = AccountId::parse("second-test").unwrap();
    assert!(!world.gateway.account_enabled(&id), "its file has it off");
    for position in [json!(true), json!("file")] {
        world.patch(path, json!({ "enabled": false })).await.is(200);
        let changed = world.patch(path, json!({ "enabled": position })).await;
        let shown = changed.is(200);
        assert_eq!(
            (&shown["enabled"], &shown["file_enabled"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(
            (&shown["enabled_by"], &shown["switch"]),
            (&json!("file"), &Value::Null)
        );
    }
    let other = json!({ "enabled": "on" });
    world.patch(path, other).await.refused(422);
}

#[tokio::test]
async fn switching_a_live_account_needs_actor_and_reason() {
    let world = World::new().await;
    with_other_accounts(&world).await;
    let path = "/providers/third-live";
    for (missing, body) in [
        ("actor", json!({ "enabled": false, "reason": "outage" })),
        ("reason", json!({ "enabled": false, "actor": "ann" })),
    ] {
        let refused = world.patch(path, body).await;
        assert_eq!(refused.refused(422), format!("{missing}: is required"));
        assert_eq!(
            world.get("/providers?cursor=second-test").await.body["providers"][0]["enabled"],
            true
        );
    }
    let body = json!({ "enabled": false, "actor": "ann", "reason": "outage" });
    assert_eq!(world.patch(path, body).await.is(200)["enabled"], false);
}
