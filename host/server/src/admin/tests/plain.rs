//! Plugins, providers and the empty work list.

use super::*;

#[tokio::test]
async fn lists_are_named_after_what_they_hold() {
    let world = World::new().await;
    for (path, plural) in [
        ("/plugins", "plugins"),
        ("/payments", "payments"),
        ("/merchants", "merchants"),
    ] {
        let empty = json!({ plural: [], "next_cursor": null });
        assert_eq!(world.get(path).await.is(200), &empty);
    }
    for path in ["/work", "/work?done=true"] {
        let empty = json!({ "work": [], "next_cursor": null, "in_review": null });
        assert_eq!(world.get(path).await.is(200), &empty);
    }
}

#[tokio::test]
async fn a_provider_is_switched_off_and_on_again() {
    let world = World::new().await;
    let listed = world.get("/providers").await;
    let first = listed.is(200)["providers"][0].clone();
    let expected = json!({
        "id": "first-test", "module": "sandbox", "name": "Sandbox", "environment": "test",
        "simulated": true, "enabled": true, "enabled_by": "file", "file_enabled": true,
        "switch": null, "methods": [],
        "health": {
            "state": "down", "since": null, "checked_at": null, "success_rate": null,
            "median_ms": null, "samples": 0, "cause": "module",
            "reason": "no module serves in provider.sandbox: put provider.sandbox.wasm into the plugin folder",
        },
    });
    assert_eq!(first, expected);
    let page = world.get("/providers?limit=1").await;
    assert_eq!(page.body["next_cursor"], "first-test");
    let rest = world.get("/providers?cursor=first-test").await;
    assert_eq!(rest.body["providers"][0]["id"], "second-test");

    let path = "/providers/first-test";
    let body = json!({ "enabled": false, "actor": "ann", "reason": "outage" });
    let changed = world.patch(path, body).await;
    assert_eq!(changed.is(200)["enabled"], false);
    let line = world.last_line().await;
    let switch = json!({ "at": line["at"], "operator": "operator", "reason": "outage" });
    assert_eq!(
        (&changed.body["enabled_by"], &changed.body["switch"]),
        (&json!("switch"), &switch)
    );
    let id = AccountId::parse("first-test").unwrap();
    assert!(
        !world.gateway.account_enabled(&id),
        "the gateway follows at once"
    );
    let switches = world.gateway.store().account_switches().await.unwrap();
    assert_eq!(switches, [(id, false)], "it outlives a restart");
    let line = world.last_line().await;
    assert_eq!(
        (&line["action"], &line["object"]),
        (&json!("provider.change"), &json!("provider/first-test"))
    );
    assert_eq!(
        (&line["before"], &line["after"]),
        (&json!({ "enabled": true }), &json!({ "enabled": false }))
    );
    assert_eq!(line["reason"], "outage");

    assert_eq!(
        world.patch(path, json!({ "enabled": true })).await.is(200)["enabled"],
        true
    );
    assert_eq!(world.patch(path, json!({})).await.is(200)["enabled"], true);
    world
        .patch(path, json!({ "enabled": "no" }))
        .await
        .refused(422);
    world.patch(path, json!({ "name": "x" })).await.refused(422);
    world
        .patch("/providers/nobody", json!({ "enabled": true }))
        .await
        .refused(404);
}
