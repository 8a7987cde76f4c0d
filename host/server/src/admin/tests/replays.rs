//! Replays that are refused.

use super::*;

const IDEAL: &str = "/plugins/method.ideal/replay";

#[tokio::test]
async fn one_replay_runs_at_a_time_and_only_where_something_serves() {
    let world = World::new().await;
    let tried = || json!({ "settings": {} });
    let turn = world.gateway.replay_turn().unwrap();
    let second = world.post(IDEAL, tried()).await;
    assert_eq!(second.refused(409), "another replay is under way");
    drop(turn);
    let empty = world.post(IDEAL, tried()).await;
    assert!(empty.refused(409).contains("serves nothing"));
    // The turn was released.
    assert!(world.gateway.replay_turn().is_some());
}
