//! What operators see of accounts.

use super::*;

#[tokio::test]
async fn an_account_says_why_it_is_not_used() {
    let world = World::new().await;
    let health = async || {
        let listed = world.get("/providers").await;
        listed.is(200)["providers"][0]["health"].clone()
    };
    let missing = health().await;
    assert_eq!(missing["reason"], "module");
    let detail = missing["detail"].as_str().unwrap();
    assert!(
        detail.contains("put provider.sandbox.wasm into"),
        "{detail}"
    );
    // One that was refused says why.
    let path = "/plugins/provider.sandbox";
    let body = Some(json!("no module"));
    let upload = world.call(&world.operator, Method::POST, path, body).await;
    let why = upload.refused(422).to_owned();
    let refused = health().await["detail"].as_str().unwrap().to_owned();
    assert!(refused.ends_with(&why), "{refused}: {why}");
    let off = world.post(&format!("{path}/disable"), json!({})).await;
    off.is(200);
    let detail = health().await["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("the slot provider.sandbox is disabled; no module"));
}
