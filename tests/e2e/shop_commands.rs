//! `kassette listen` and `kassette trigger`, the commands for developers of shops.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::harness::{Server, shared};
use crate::receiver::{Receiver, Reply};

/// The events that `trigger` causes.
const EVENTS: [&str; 12] = [
    "payment.pending",
    "payment.processing",
    "payment.verification_pending",
    "payment.review",
    "payment.completed",
    "payment.failed",
    "payment.attempt_failed",
    "payment.cancelled",
    "payment.refunded",
    "payment.refund_failed",
    "payment.disputed",
    "payment.dispute_closed",
];

fn command(server: &Server, key: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    command
        .args(arguments)
        .env("KASSETTE_URL", server.base())
        .env("KASSETTE_API_KEY", key)
        .env_remove("KASSETTE_WEBHOOK_SECRET")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs `trigger` and returns the event that it prints.
async fn trigger(server: &Server, event: &str) -> Value {
    let mut ran = command(server, server.test_key(), &["trigger", event]);
    let ran = ran.output().await.unwrap();
    let why = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{event}: {why}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// A running `listen`, its output, and the secret that it printed.
async fn listen(server: &Server, to: &Receiver) -> (Child, Lines<BufReader<ChildStdout>>, String) {
    let mut started = command(
        server,
        server.test_key(),
        &["listen", "--forward-to", &to.url()],
    );
    let mut child = started.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let signed = lines.next_line().await.unwrap().unwrap();
    let secret = signed.strip_prefix("Events are signed with ").unwrap();
    let ready = lines.next_line().await.unwrap().unwrap();
    assert!(ready.starts_with("Forwarding to "), "{ready}");
    (child, lines, secret.to_owned())
}

#[tokio::test]
async fn each_event_can_be_triggered_with_a_test_key_alone() {
    let server = shared().await;
    for event in EVENTS {
        let told = trigger(server, event).await;
        assert_eq!(told["type"], event);
        assert_eq!(told["data"]["test_mode"], true);
    }
}

#[tokio::test]
async fn new_events_are_forwarded_once_and_signed_with_the_printed_secret() {
    let server = Server::fresh().await;
    let before = trigger(&server, "payment.completed").await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let (_child, mut lines, secret) = listen(&server, &receiver).await;
    let disputed = trigger(&server, "payment.disputed").await;
    let payment = &disputed["data"]["payment_id"];
    // One more payment shows that no event of the first is repeated, though the receiver refused it.
    let last = trigger(&server, "payment.cancelled").await;
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "payment.cancelled") {
        let line = lines.next_line().await.unwrap().unwrap();
        assert!(line.ends_with("500 Internal Server Error"), "{line}");
        kinds.push(line.split(' ').next().unwrap().to_owned());
    }
    assert_eq!(
        kinds,
        [
            "payment.pending",
            "payment.completed",
            "payment.disputed",
            "payment.cancelled"
        ]
    );
    let got = receiver.got();
    let ids: BTreeSet<_> = got.iter().map(|got| got.event_id().to_owned()).collect();
    assert_eq!(ids.len(), 4);
    for (got, kind) in got.iter().zip(&kinds) {
        assert!(got.is_signed_by(&secret));
        assert_eq!(got.header("webhook-id"), got.event_id());
        assert_eq!(&got.kind(), kind);
    }
    assert_eq!(&got[2].event()["data"]["payment_id"], payment);
    assert_eq!(got[2].event(), disputed);
    assert_eq!(got[3].event(), last);
    assert!(!ids.contains(before["id"].as_str().unwrap()));
}

#[tokio::test]
async fn a_live_key_is_refused_before_anything_is_sent() {
    let server = shared().await;
    for arguments in [
        &["trigger", "payment.completed"][..],
        &["listen", "--forward-to", "http://localhost:1/hook"],
    ] {
        let mut refused = command(server, server.live_key(), arguments);
        let refused = refused.output().await.unwrap();
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success());
        assert!(why.contains("only a merchant's test key"), "{why}");
        assert!(!why.contains(server.live_key()), "{why}");
    }
    let scopes = json!({ "environment": "test", "scopes": ["payments:create"] });
    let issued = server.admin("POST", "/merchants/1/keys", Some(&scopes));
    let key = issued.await.expect(201).json();
    let mut refused = command(
        server,
        key["key"].as_str().unwrap(),
        &["listen", "--forward-to", "http://localhost:1/hook"],
    );
    let refused = refused.output().await.unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("payments:read"), "{why}");
}
