//! Operators' actions on endpoints: rotation, redelivery, recovery; and their refusals.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Server, shared};
use crate::receiver::{Got, Receiver, Reply};

#[tokio::test]
async fn a_new_secret_signs_once_the_overlap_is_over() {
    let server = Server::fresh().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let mut arrived = 0;
    let mut next = async || -> Got {
        server.hook_act(&hook, "test", json!({})).await;
        arrived += 1;
        receiver.wait(arrived).await.remove(arrived - 1)
    };
    let overlap = json!({ "overlap_hours": 2 });
    let rotated = server.hook_act(&hook, "rotate", overlap).await;
    let second = rotated["secret"].as_str().unwrap().to_owned();
    let got = next().await;
    assert!(got.is_signed_by(&hook.secret) && !got.is_signed_by(&second));
    server.advance(2 * 3600 - 60).await;
    assert!(
        next().await.is_signed_by(&hook.secret),
        "until the overlap ends"
    );
    server.advance(120).await;
    let got = next().await;
    assert!(got.is_signed_by(&second) && !got.is_signed_by(&hook.secret));

    // Without an overlap, the rotation applies immediately. Each attempt is signed with the secret valid at its
    // time.
    receiver.answer(Reply::Status(500));
    next().await;
    let waiting = server.deliveries(&hook).await.remove(0);
    let waiting = server.attempted(&waiting["id"], 1).await;
    let rotated = server.hook_act(&hook, "rotate", json!({})).await;
    let third = rotated["secret"].as_str().unwrap().to_owned();
    receiver.answer(Reply::Status(200));
    server.attempt_again(&waiting).await;
    let got = receiver.got();
    let [before, after] = &got[got.len() - 2..] else {
        panic!("two attempts")
    };
    assert!(before.is_signed_by(&second) && after.is_signed_by(&third));
    assert_eq!(before.body, after.body);
}

#[tokio::test]
async fn an_event_is_delivered_again_as_the_same_event() {
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    server.started(&key, "ideal", json!({})).await;
    let first = server.settled(&hook).await.remove(0);
    server.advance(3600).await;
    let path = format!("/deliveries/{}/redeliver", first["id"].as_str().unwrap());
    let queued = server.admin("POST", &path, Some(&json!({}))).await;
    let queued = queued.expect(201).json();
    assert_ne!(queued["id"], first["id"]);
    let got = receiver.wait(2).await;
    assert_eq!(got[0].body, got[1].body);
    assert_eq!(got[0].event_id(), got[1].event_id());
    assert!(got[1].timestamp() >= got[0].timestamp() + 3600 && got[1].is_signed_by(&hook.secret));
    let all = server.settled(&hook).await;
    assert_eq!(all.len(), 2);
    assert_eq!(all[1], first, "the old log is as it was");
}

async fn exhaust(server: &Server, id: &Value) {
    let mut delivery = server.attempted(id, 1).await;
    while delivery["status"] == "pending" {
        delivery = server.attempt_again(&delivery).await;
    }
    assert_eq!(delivery["status"], "exhausted");
}

#[tokio::test]
async fn everything_given_up_since_a_time_is_recovered_once() {
    let server = Server::fresh().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let mut ids = Vec::new();
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(server.now().await);
        let queued = server.hook_act(&hook, "test", json!({})).await;
        exhaust(&server, &queued["delivery_id"]).await;
        ids.push(server.delivery(&queued["delivery_id"]).await["event_id"].clone());
        server.advance(3600).await;
    }
    receiver.answer(Reply::Status(200));
    let before = receiver.got().len();
    assert_eq!(before, 24, "eight attempts each");
    let since = jiff::Timestamp::from_second(times[1]).unwrap().to_string();
    let body = json!({ "since": since });
    let recovered = server.hook_act(&hook, "recover", body.clone()).await;
    assert_eq!(recovered, json!({ "deliveries": 2 }));
    let got = receiver.wait(before + 2).await.split_off(before);
    let mut again: Vec<_> = got.iter().map(|got| json!(got.event_id())).collect();
    again.sort_by_key(Value::to_string);
    ids.remove(0);
    ids.sort_by_key(Value::to_string);
    assert_eq!(again, ids);
    let recovered = server.hook_act(&hook, "recover", body).await;
    assert_eq!(recovered, json!({ "deliveries": 0 }), "each once");
    let delivered = server.settled(&hook).await;
    assert_eq!(
        delivered
            .iter()
            .filter(|each| each["status"] == "delivered")
            .count(),
        2
    );
}

#[tokio::test]
async fn our_own_addresses_and_the_providers_are_no_destination() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let (_, provider) = server.started(&key, "ideal", json!({})).await;
    let port = |url: &str| url.parse::<url::Url>().unwrap().port().unwrap();
    let own = port(server.base());
    let admin = port(server.admin_root());
    let sandbox = port(&provider);
    for url in [
        format!("{}/callbacks/sandbox-test", server.base()),
        format!("{}/api/v1/payments", server.base()),
        format!("http://localhost:{own}/"),
        format!("http://[::1]:{own}/"),
        format!("http://127.1:{own}/"),
        format!("https://127.0.0.1:{own}/"),
        format!("http://127.0.0.1:{admin}/admin/v1/merchants"),
        format!("http://localhost:{admin}/"),
        provider.clone(),
        format!("http://127.0.0.1:{sandbox}/"),
        format!("http://localhost:{sandbox}/"),
        "http://192.168.0.1/".to_owned(),
        "http://10.0.0.1:8080/".to_owned(),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "http://shop.example/".to_owned(),
        "https://metadata.google.internal/".to_owned(),
    ] {
        let body = json!({ "url": url, "environment": "test" });
        let refused = server.admin("POST", &path, Some(&body)).await.expect(422);
        assert!(refused.error().starts_with("url: "), "{url}");
        let patch = format!("/webhook-endpoints/{}", hook.id);
        server
            .admin("PATCH", &patch, Some(&json!({ "url": url })))
            .await
            .expect(422)
            .error();
    }
    let listed = server.admin("GET", &path, None).await.expect(200).json();
    assert_eq!(listed["webhook_endpoints"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_secret_stands_in_no_list_no_log_no_audit_line_and_not_readable_on_disk() {
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let rotated = server
        .hook_act(&hook, "rotate", json!({ "overlap_hours": 1 }))
        .await;
    let secrets = [
        hook.secret.strip_prefix("whsec_").unwrap(),
        rotated["secret"]
            .as_str()
            .unwrap()
            .strip_prefix("whsec_")
            .unwrap(),
    ];
    server.started(&key, "ideal", json!({})).await;
    let delivery = server.deliveries(&hook).await.remove(0);
    server.attempted(&delivery["id"], 1).await;
    server.change_hook(&hook, json!({ "enabled": false })).await;
    let mut shown = Vec::new();
    for path in [
        format!("/merchants/{merchant}/webhook-endpoints"),
        format!("/webhook-endpoints/{}", hook.id),
        "/deliveries?limit=100".to_owned(),
        format!("/deliveries/{}", delivery["id"].as_str().unwrap()),
        "/audit?limit=100".to_owned(),
    ] {
        shown.push(server.admin("GET", &path, None).await.expect(200).text);
    }
    shown.push(server.metrics().await);
    let log = server.log();
    let folder = server.stop().await;
    shown.push(log);
    let mut files = 0;
    let mut folders = vec![folder.path().join("data/store")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
                let bytes = std::fs::read(path).unwrap();
                shown.push(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
    assert!(files > 0);
    for text in shown {
        for secret in secrets {
            assert!(!text.contains(secret), "{}", &text[..text.len().min(500)]);
        }
    }
}

/// JSON output of `kassette …`. `None` if the command was refused.
fn kassette(server: &Server, words: &[&str]) -> Option<Value> {
    let ran = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(words)
        .args(["--json", "--admin-url", server.admin_base()])
        .env("KASSETTE_OPERATOR_TOKEN", server.operator_token())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    match ran.status.code() {
        Some(0) => Some(serde_json::from_slice(&ran.stdout).unwrap_or_default()),
        Some(1) => None,
        other => panic!("{words:?}: {other:?} {told}"),
    }
}

#[tokio::test]
async fn everything_about_endpoints_can_be_done_by_command() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let (merchant, receiver) = (merchant.to_string(), Receiver::new().await);
    let done = |words: &[&str]| kassette(server, words).unwrap_or_else(|| panic!("{words:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of_merchant = ["--merchant-id", merchant.as_str()];
    let url = receiver.url();
    let create = ["--environment", "test", "--url", url.as_str()];
    let made = done(&[&["endpoint", "create"], &of_merchant[..], &create].concat());
    let (id, secret) = (text(&made["id"]), text(&made["secret"]));

    let queued = text(&done(&["endpoint", "test", &id])["delivery_id"]);
    assert!(receiver.wait(1).await[0].is_signed_by(&secret));
    server.attempted(&json!(queued), 1).await;
    let shown = done(&["delivery", "show", &queued]);
    assert_eq!(shown["attempts"][0]["status"], 200);
    let again = done(&["delivery", "redeliver", &queued]);
    assert_eq!(again["event_id"], shown["event_id"]);
    receiver.wait(2).await;
    server.attempted(&again["id"], 1).await;
    let filter = ["--endpoint-id", id.as_str(), "--status", "delivered"];
    let listed = done(&[&["delivery", "list"], &filter[..]].concat());
    assert_eq!(listed["deliveries"].as_array().unwrap().len(), 2);
    let since = ["--since", "2026-01-01T00:00:00Z"];
    let recovered = done(&[&["endpoint", "recover", &id], &since[..]].concat());
    assert_eq!(recovered, json!({ "deliveries": 0 }));
    let waiting = done(&["endpoint", "deliver", &id]);
    assert_eq!(waiting, json!({ "deliveries": 0 }));

    let why = ["--actor", "ann", "--reason", "yearly rotation"];
    let rotate = ["endpoint", "rotate", &id, "--overlap-hours", "1"];
    let rotated = done(&[&rotate[..], &why].concat());
    assert!(rotated["active_from"].is_string());
    assert_ne!(rotated["secret"], made["secret"]);
    let off = done(&["endpoint", "update", &id, "--enabled", "false"]);
    assert_eq!(off["enabled"], false);
    let listed = done(&[&["endpoint", "list"], &of_merchant[..]].concat());
    let listed = listed["webhook_endpoints"].as_array().unwrap().clone();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &made["id"]));
    for shown in [&off, &listed[0], &done(&["endpoint", "show", &id])] {
        assert!(!shown.to_string().contains("whsec_"), "{shown}");
    }
    done(&["endpoint", "delete", &id]);
    assert_eq!(kassette(server, &["endpoint", "show", &id]), None);
    assert_eq!(kassette(server, &["delivery", "redeliver", &queued]), None);
}
