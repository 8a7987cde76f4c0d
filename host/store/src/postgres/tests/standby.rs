//! Commits that wait for a standby.

use crate::postgres::database::{Database, Failure};
use crate::postgres::node::NodeState;
use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;

#[tokio::test]
async fn a_commit_whose_wait_for_the_standby_an_operator_cancels_is_not_taken_for_done() {
    if !Scratch::available().unwrap() {
        return;
    }
    let scratch = Scratch::new().await.unwrap();
    let target = Target::parse(&scratch.options().url).unwrap();
    let database = Database {
        name: "requests",
        turn: tokio::sync::Mutex::default(),
        pool: target.pool(1).unwrap(),
        node_state: NodeState::of_a_guest(),
    };
    let waits = database.write("SET synchronous_commit = on", &[]).await;
    assert!(waits.is_ok());
    let operator = target.connect().await.unwrap();
    let cancel = async {
        let sql = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' AND datname = current_database()";
        while operator.query(sql, &[]).await.unwrap().is_empty() {}
    };
    let update = "UPDATE meta SET schema_version = schema_version";
    let (written, ()) = tokio::join!(database.write(update, &[]), cancel);
    assert!(matches!(written, Err(Failure::Lost)), "{written:?}");
    assert!(
        database.write(update, &[]).await.is_ok(),
        "by another session"
    );
}
