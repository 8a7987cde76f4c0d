//! Replay of recorded calls of every module with the same module.

use serde_json::json;

use crate::world::{Desk, World};

#[tokio::test]
async fn every_module_makes_its_recorded_calls_again_without_a_difference() {
    let world = World::with("[plugins]\nrecord_conversations = true\n").await;
    let each = async |desk: Desk| {
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            let back = visit.press("approve").await.expect(303);
            visit.is_paid().await;
            visit.come_back(&back).await;
            desk.visit(method).await.decline().await;
        }
    };
    world.each(each).await;
    for module in &world.modules {
        let slot = format!("provider.{}", module.name);
        let bytes = std::fs::read(world.server.plugin_dir().join(format!("{slot}.wasm"))).unwrap();
        let url = format!("{}/plugins/{slot}/replay", world.server.admin_base());
        // Two starts per method and a report about its money. Other nodes write their records within a second.
        let least = 3 * module.methods.len() as u64;
        let replayed = async || {
            let request = world
                .server
                .http
                .post(url.as_str())
                .bearer_auth(world.server.operator_token());
            let request = request
                .header("content-type", "application/wasm")
                .body(bytes.clone());
            let diff = world.server.send(request).await.expect(200).json();
            (diff["decisions"].as_u64().unwrap() >= least).then_some(diff)
        };
        let what = format!("{least} calls of {slot}");
        let diff = world.server.wait_for(&what, replayed).await;
        for none in [
            "differing",
            "faults",
            "active_faults",
            "newly_possible",
            "newly_impossible",
        ] {
            assert_eq!(diff[none], 0, "{slot}: {diff}");
        }
        assert_eq!(diff["reasons"], json!([]), "{slot}");
    }
}
