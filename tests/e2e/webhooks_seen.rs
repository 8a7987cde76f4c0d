//! Monitoring of deliveries: metrics, circuits, and retention of the delivery log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::Server;
use crate::receiver::{Hook, Receiver, Reply};

/// Values by series name, including labels.
type Metrics = BTreeMap<String, f64>;

async fn metrics(server: &Server) -> Metrics {
    let text = server.metrics().await;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

fn metric_value(metrics: &Metrics, name: &str) -> f64 {
    metrics.get(name).copied().unwrap_or_default()
}

fn outcome(name: &str) -> String {
    format!("kassette_webhook_attempts_total{{outcome=\"{name}\",environment=\"test\"}}")
}

fn ended(status: &str, environment: &str) -> String {
    format!(
        "kassette_webhook_deliveries_total{{status=\"{status}\",environment=\"{environment}\"}}"
    )
}

/// Age of the oldest pending delivery to an endpoint for test payments.
const OLDEST: &str = "kassette_webhook_oldest_seconds{environment=\"test\"}";

async fn until(server: &Server, name: &str, value: f64) {
    let what = format!("{name} to be {value}");
    let is_there = async || {
        let metrics = metrics(server).await;
        (metric_value(&metrics, name) == value).then_some(())
    };
    server.wait_for(&what, is_there).await;
}

async fn hook(server: &Server, to: &Receiver) -> Hook {
    let (merchant, ..) = server.merchant(json!({})).await;
    server.hook(merchant, to, json!({})).await
}

async fn queue(server: &Server, hook: &Hook, count: usize) -> Vec<Value> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let queued = server.hook_act(hook, "test", json!({})).await;
        ids.push(queued["delivery_id"].clone());
    }
    ids
}

async fn circuit(server: &Server, hook: &Hook) -> Value {
    let path = format!("/webhook-endpoints/{}", hook.id);
    let shown = server.admin("GET", &path, None).await.expect(200).json();
    shown["circuit"].clone()
}

#[tokio::test]
async fn attempts_are_counted_by_what_became_of_them() {
    let server = Server::configured("[webhooks]\ntimeout_ms = 1000\n").await;
    let location = "location: http://127.0.0.1:1/\r\n".to_owned();
    let moved = Reply::Full(307, location, Vec::new());
    for (reply, name, times) in [
        (Reply::Status(204), "delivered", 3),
        (Reply::Status(503), "failed", 2),
        (Reply::Status(404), "refused", 1),
        (moved, "redirected", 1),
        (Reply::Status(410), "gone", 1),
        (Reply::Reset, "broken", 1),
        (Reply::Silence, "timeout", 1),
    ] {
        let receiver = Receiver::answering(reply).await;
        let hook = hook(&server, &receiver).await;
        for id in queue(&server, &hook, times).await {
            server.attempted(&id, 1).await;
        }
        // Deleting the endpoint prevents further attempts, which would also be counted.
        let path = format!("/webhook-endpoints/{}", hook.id);
        server.admin("DELETE", &path, None).await.expect(204);
        let shown = metrics(&server).await;
        let counted = metric_value(&shown, &outcome(name));
        let made = receiver.got().len() as f64;
        assert!(
            counted >= times as f64 && counted <= made,
            "{name}: {counted} of {made}"
        );
    }
    let nobody = Receiver::new().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let url = json!({ "url": "http://127.0.0.1:1/" });
    let hook = server.hook(merchant, &nobody, url).await;
    let id = queue(&server, &hook, 1).await.remove(0);
    server.attempted(&id, 1).await;
    let shown = metrics(&server).await;
    assert!(
        metric_value(&shown, &outcome("unreachable")) >= 1.0,
        "{shown:?}"
    );
    let delivered = ended("delivered", "test");
    assert_eq!(metric_value(&shown, &delivered), 3.0);
    let first = "kassette_webhook_first_attempt_seconds_count{environment=\"test\"}";
    assert_eq!(metric_value(&shown, first), 11.0);

    // The set of series does not depend on the number of endpoints: no label identifies one.
    let mut labels = BTreeSet::new();
    for name in shown
        .keys()
        .filter(|name| name.starts_with("kassette_webhook"))
    {
        let inside = name.split_once('{').map_or("", |(_, inside)| inside);
        let inside = inside.trim_end_matches('}').split(',');
        labels.extend(
            inside
                .filter_map(|pair| pair.split_once('='))
                .map(|(label, _)| label),
        );
    }
    let known = ["environment", "le", "outcome", "pool", "state", "status"];
    assert_eq!(labels, BTreeSet::from(known));
}

#[tokio::test]
async fn deliveries_that_end_are_counted_once() {
    let server = Server::fresh().await;
    // Counts all environments: `environment` is `unknown` for deliveries that are cancelled after their endpoint's
    // deletion.
    let cancelled = async |count: u64| {
        let all = async || {
            let name = "kassette_webhook_deliveries_total";
            let now = server.counted(name, "status=\"cancelled\"").await;
            (now == count).then_some(())
        };
        server.wait_for("what is cancelled", all).await;
    };
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let failing = hook(&server, &receiver).await;
    let path = format!("/webhook-endpoints/{}", failing.id);
    // More deliveries than are cancelled in one step with the endpoint; some have already failed.
    for id in &queue(&server, &failing, 250).await[..3] {
        server.attempted(id, 1).await;
    }
    server.admin("DELETE", &path, None).await.expect(204);
    cancelled(250).await;

    // A delivery in flight at the deletion of its endpoint is cancelled before its attempt ends.
    let told = std::sync::Arc::new(tokio::sync::Notify::new());
    let receiver = Receiver::answering(Reply::Held(told.clone())).await;
    let held = hook(&server, &receiver).await;
    let id = queue(&server, &held, 1).await.remove(0);
    server
        .wait_for("the attempt", async || receiver.got().pop())
        .await;
    let path = format!("/webhook-endpoints/{}", held.id);
    server.admin("DELETE", &path, None).await.expect(204);
    told.notify_one();
    server.attempted(&id, 1).await;
    let shown = metrics(&server).await;
    assert_eq!(metric_value(&shown, &ended("delivered", "test")), 0.0);
    assert!(metric_value(&shown, &ended("cancelled", "test")) >= 2.0);
    assert_eq!(metric_value(&shown, &ended("cancelled", "live")), 0.0);
    cancelled(251).await;
}

#[tokio::test]
async fn the_circuit_of_an_endpoint_that_is_gone_is_not_told() {
    let server = Server::fresh().await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let failing = hook(&server, &receiver).await;
    queue(&server, &failing, 8).await;
    let open = "kassette_webhook_circuits{state=\"open\"}";
    until(&server, open, 1.0).await;
    let path = format!("/webhook-endpoints/{}", failing.id);
    server.admin("DELETE", &path, None).await.expect(204);
    // At the next attempt, the scheduler finds that the endpoint was deleted and resets the circuit.
    server.advance(61).await;
    until(&server, open, 0.0).await;
    until(
        &server,
        "kassette_webhook_circuits{state=\"half_open\"}",
        0.0,
    )
    .await;
}

#[tokio::test]
async fn what_waits_is_counted_with_its_age_and_an_open_circuit_is_told() {
    let server = Server::fresh().await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let failing = hook(&server, &receiver).await;
    assert_eq!(circuit(&server, &failing).await, "closed");
    until(&server, "kassette_webhook_pending", 0.0).await;
    until(&server, OLDEST, 0.0).await;

    let ids = queue(&server, &failing, 8).await;
    until(&server, "kassette_webhook_pending", 8.0).await;
    // Five consecutive failures open the circuit; the remaining deliveries wait.
    server
        .wait_for("the circuit to open", async || {
            (circuit(&server, &failing).await == "open").then_some(())
        })
        .await;
    let path = "/merchants/1/webhook-endpoints";
    let listed = server.admin("GET", path, None).await.expect(200).json();
    assert_eq!(listed["webhook_endpoints"][0]["circuit"], "closed");
    let state = |name: &str| format!("kassette_webhook_circuits{{state=\"{name}\"}}");
    until(&server, &state("open"), 1.0).await;

    // A minute later, each delivery has been tried, and the oldest one is a minute old.
    server.advance(61).await;
    for id in &ids {
        server.attempted(id, 1).await;
    }
    server
        .wait_for("the age", async || {
            let shown = metrics(&server).await;
            let age = metric_value(&shown, OLDEST);
            (61.0..600.0).contains(&age).then_some(())
        })
        .await;
    receiver.answer(Reply::Status(200));
    for id in ids {
        let mut delivery = server.delivery(&id).await;
        // Several times, if an attempt was in flight when the receiver's behavior changed.
        while delivery["status"] == "pending" {
            delivery = server.attempt_again(&delivery).await;
        }
    }
    server.settled(&failing).await;
    assert_eq!(circuit(&server, &failing).await, "closed");
    until(&server, &state("open"), 0.0).await;
    until(&server, &state("half_open"), 0.0).await;
    until(&server, "kassette_webhook_pending", 0.0).await;
    until(&server, OLDEST, 0.0).await;
    let delivered = ended("delivered", "test");
    until(&server, &delivered, 8.0).await;
}

#[tokio::test]
async fn the_log_forgets_what_is_over_after_its_days_and_never_what_is_pending() {
    const DAY: u64 = 24 * 3600;
    // With one attempt a day, a delivery is pending for longer than the log's retention.
    let config = "\
[retention]
delivery_days = 7
[webhooks]
retry_seconds = [86400, 86400, 86400, 86400, 86400, 86400, 86400]
";
    let server = Server::configured(config).await;
    let (good, bad) = (
        Receiver::new().await,
        Receiver::answering(Reply::Status(500)).await,
    );
    let (fast, slow) = (hook(&server, &good).await, hook(&server, &bad).await);
    let over = queue(&server, &fast, 70).await;
    let pending = queue(&server, &slow, 1).await.remove(0);
    server.attempted(&pending, 1).await;
    assert_eq!(server.settled(&fast).await.len(), over.len());
    server.advance(7 * DAY - 3600).await;
    assert_eq!(server.deliveries(&fast).await.len(), over.len());

    server.advance(2 * 3600).await;
    assert_eq!(server.deliveries(&fast).await, Vec::<Value>::new());
    let path = format!("/deliveries/{}", over[0].as_str().unwrap());
    server.admin("GET", &path, None).await.expect(404).error();
    assert_eq!(server.delivery(&pending).await["status"], "pending");
    // Each round that deleted deliveries has an audit log entry.
    server
        .wait_for("the lines of the audit log", async || {
            let audit = server.admin("GET", "/audit?limit=100", None).await;
            let audit = audit.expect(200).json();
            let lines = audit["entries"].as_array().unwrap().iter();
            let lines = lines.filter(|line| line["action"] == "store.forget");
            let forgotten = lines.map(|line| {
                assert_eq!(line["operator"], "system");
                line["after"]["deliveries"].as_u64().unwrap()
            });
            (forgotten.sum::<u64>() == 70).then_some(())
        })
        .await;

    // The pending delivery still arrives, and is deleted afterwards.
    bad.answer(Reply::Status(200));
    let before = bad.got().len();
    server.advance(2 * DAY).await;
    bad.wait(before + 1).await;
    server
        .wait_for("the log to forget it", async || {
            server.advance(3600).await;
            server.deliveries(&slow).await.is_empty().then_some(())
        })
        .await;
}
