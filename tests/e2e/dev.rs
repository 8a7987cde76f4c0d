//! `kassette dev` at a terminal.

use std::process::Command;

use serde_json::json;

use crate::harness::{Server, fresh_folder};

#[tokio::test]
async fn the_first_steps_stay_on_the_screen_and_payments_and_events_follow() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    // Empty: the filter of `dev` applies.
    command.env("RUST_LOG", "");
    let server = Server::through(command, fresh_folder()).await;
    let drops = || async {
        let path = "/audit?action=plugin.drop";
        let audit = server.admin("GET", path, None).await.expect(200).json();
        let is_empty = audit["entries"].as_array().unwrap().is_empty();
        (!is_empty).then_some(())
    };
    server.wait_for("the start's audit entries", drops).await;
    let follows = || {
        let log = server.log();
        let (_, after) = log.split_once("Ctrl-C stops.\n").unwrap();
        after.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(follows(), [""; 0]);

    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
    let id = payment["payment_id"].as_str().unwrap();
    let told = || async {
        let lines = follows();
        let has = |what: &str| {
            let mut lines = lines.iter();
            lines.any(|line| line.contains(what) && line.contains(id))
        };
        (has("event    payment.completed") && has("a payment has ended")).then(|| lines.clone())
    };
    let lines = server.wait_for("its lines", told).await;
    for line in lines {
        assert!(line.starts_with("  event ") || line.contains(id), "{line}");
    }
}
