//! Disabling, enabling and removing slots.

use super::*;

#[tokio::test]
async fn a_slot_is_switched_off_and_on_and_each_change_is_a_line_of_the_audit_log() {
    let world = World::new().await;
    let act = async |path: &str, token: &Secret| {
        let body = json!({ "reason": "it declines too much" });
        let path = format!("/plugins/{path}");
        world.call(token, Method::POST, &path, Some(body)).await
    };
    act("method.ideal/disable", &world.viewer)
        .await
        .refused(403);
    for unknown in ["method.x-y", "provider.nowhere", "nothing"] {
        let path = format!("{unknown}/disable");
        act(&path, &world.operator).await.refused(404);
    }
    // The slot remains disabled for any later module.
    let off = act("method.ideal/disable", &world.operator).await;
    assert_eq!(off.is(200)["state"], "disabled");
    let line = world.last_line().await;
    assert_eq!(
        (&line["action"], &line["object"], &line["reason"]),
        (
            &json!("plugin.disable"),
            &json!("plugin/method.ideal"),
            &json!("it declines too much")
        )
    );
    assert_eq!(line["before"], json!({ "disabled": false }));
    assert_eq!(line["after"], json!({ "disabled": true }));
    act("method.ideal/disable", &world.operator).await.is(200);
    assert_eq!(world.last_line().await, line, "nothing was changed");
    let listed = world.get("/plugins").await;
    assert_eq!(listed.is(200)["plugins"][0]["state"], "disabled");
    let on = act("method.ideal/enable", &world.operator).await;
    assert_eq!(on.is(200)["state"], "failed", "it has no module");
    assert_eq!(world.last_line().await["action"], "plugin.enable");
}

#[tokio::test]
async fn a_slot_is_taken_away_once_its_file_is_gone_and_the_releases_own_never_are() {
    let world = World::new().await;
    for ours in ["method.ideal", "provider.sandbox"] {
        let refused = world.delete(&format!("/plugins/{ours}")).await;
        assert!(refused.refused(409).contains("disable it instead"));
    }
    let path = "/plugins/method.blik";
    world.delete(path).await.refused(404);
    // The refusal is remembered for operators.
    let body = Some(json!("no module"));
    let upload = world.call(&world.operator, Method::POST, path, body).await;
    upload.refused(422);
    let file = world._folder.path().join("method.blik.wasm");
    std::fs::write(&file, "no module").unwrap();
    let refused = world.delete(path).await;
    assert!(refused.refused(409).contains("method.blik.wasm stands"));
    assert_eq!(world.last_line().await["action"], "operator.create");
    std::fs::remove_file(&file).unwrap();
    let viewer = world.call(&world.viewer, Method::DELETE, path, None).await;
    viewer.refused(403);
    world.delete(path).await.is(204);
    let line = world.last_line().await;
    assert_eq!(line["action"], "plugin.remove");
    assert_eq!(line["before"]["slot"], "method.blik");
    world.delete(path).await.refused(404);
    assert_eq!(world.get("/plugins").await.is(200)["plugins"], json!([]));
}
