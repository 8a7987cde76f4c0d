//! Calls that exist only under `dev`.

use super::*;

#[tokio::test]
async fn without_its_handles_there_is_nothing_at_the_paths_of_dev() {
    let world = World::new().await;
    world
        .post("/dev/clock", json!({ "advance_seconds": 1 }))
        .await
        .refused(404);
    world
        .post("/dev/clock", json!("nonsense"))
        .await
        .refused(404);
    world.get("/dev/clock").await.refused(404);
    let fault = json!({ "provider_id": "first-test", "fault": "none", "times": 1 });
    world.post("/dev/faults", fault).await.refused(404);
    let elsewhere = json!({ "provider_id": "first-test", "url": "http://127.0.0.1:9/" });
    world.post("/dev/callbacks", elsewhere).await.refused(404);
    let account = json!({ "provider_id": "first-test" });
    world.post("/dev/release", account).await.refused(404);
    world
        .get("/dev/books?provider_id=first-test")
        .await
        .refused(404);
}
