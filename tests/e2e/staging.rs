//! Staging receivers: hosts in the operator's network that may receive events of test payments. The tests run in a
//! network namespace with a private address and host names, so that the real binary resolves and connects as in
//! production.

use std::process::Command;

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::service::Service;
use crate::serving::{operator, prepare};
use crate::tls_server::TlsServer;

/// Environment variable that is set inside the namespace.
const INSIDE: &str = "KASSETTE_TEST_NAMESPACE";
/// Private address of the namespace.
const PRIVATE: &str = "10.77.0.1";
/// Host names and their addresses in the namespace.
const HOSTS: [(&str, &str); 4] = [
    ("staging.internal", PRIVATE),
    ("shop.example", PRIVATE),
    ("loop.internal", "127.0.0.1"),
    ("link.internal", "169.254.77.1"),
];

/// Runs a test of this file again in a separate process inside a namespace.
fn in_a_namespace(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    let lines = HOSTS.map(|(name, address)| format!("{address} {name}\n"));
    std::fs::write(&hosts, lines.concat()).unwrap();
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "--mount", "sh", "-ec"])
        .arg(format!(
            "ip link set lo up; ip address add {PRIVATE}/32 dev lo
             mount --bind \"$0\" /etc/hosts; exec \"$@\""
        ))
        .arg(hosts)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{}", said.concat());
    assert!(said[0].contains("1 passed"), "{}", said.concat());
}

#[tokio::test]
#[ignore = "needs a network namespace (`unshare -rnm`); .ci/run runs it where it has that"]
async fn test_events_reach_a_named_host_of_the_own_network_and_live_ones_never() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "staging::test_events_reach_a_named_host_of_the_own_network_and_live_ones_never";
        return in_a_namespace(name);
    }
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::new().await;
    let tls = TlsServer::new(&HOSTS.map(|(name, _)| name));
    tls.write_authority(&folder.path().join("staging-ca.pem"));
    // Listens at the private address and, with the same port, at the loopback addresses.
    let port = tls.serve("0.0.0.0:0", receiver.address).await.port();
    let named = ["staging.internal", "loop.internal", "link.internal"];
    let named = named.map(|name| format!("{{ host = \"{name}:{port}\", merchants = [1] }}"));
    let settings = format!(
        "webhooks.test_hosts = [{}]\nwebhooks.test_ca_file = \"../staging-ca.pem\"\nsandbox = false",
        named.join(", ")
    );
    prepare(folder.path(), &settings);
    let token = operator(folder.path());
    let service = Service::start(folder.path(), Service::command(folder.path())).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let admin = service.admin_url();
    let post = async |path: &str, body: Value| {
        let ask = http.post(format!("{admin}{path}")).bearer_auth(&token);
        let answer = ask.json(&body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap())
    };
    let approved = json!({
        "name": "Shop", "live_approved": true, "actor": "ann", "reason": "contract signed",
    });
    assert_eq!(post("/merchants", approved).await.0, 201);
    let endpoint = async |environment: &str, name: &str| {
        let url = format!("https://{name}:{port}/hook");
        let body = json!({ "environment": environment, "url": url });
        post("/merchants/1/webhook-endpoints", body).await
    };
    let (refused, why) = endpoint("live", "staging.internal").await;
    assert_eq!(
        (refused, &why["error"]),
        (422, &json!("url: the host is not a public name"))
    );

    // Result of the first attempt to deliver a test event.
    let sent = async |environment: &str, name: &str| {
        let (status, made) = endpoint(environment, name).await;
        assert_eq!(status, 201, "{name}: {made}");
        let path = format!("/webhook-endpoints/{}/test", made["id"].as_str().unwrap());
        let (_, queued) = post(&path, json!({})).await;
        let url = format!(
            "{admin}/deliveries/{}",
            queued["delivery_id"].as_str().unwrap()
        );
        let mut delivery = Value::Null;
        service
            .until("the first attempt", async || {
                let ask = http.get(&url).bearer_auth(&token).send().await;
                delivery = ask.unwrap().json().await.unwrap();
                delivery["attempts"]
                    .as_array()
                    .is_some_and(|made| !made.is_empty())
            })
            .await;
        (made, delivery)
    };
    let (made, delivery) = sent("test", "staging.internal").await;
    assert_eq!(delivery["status"], "delivered", "{delivery}");
    let got = receiver.wait(1).await;
    assert!(got[0].is_signed_by(made["secret"].as_str().unwrap()));

    for (environment, name) in [
        // A name that is not in `test_hosts` and resolves to a private address.
        ("live", "shop.example"),
        // Names in `test_hosts` that resolve to the machine itself and to a link-local address.
        ("test", "loop.internal"),
        ("test", "link.internal"),
    ] {
        let (_, delivery) = sent(environment, name).await;
        assert_eq!(delivery["status"], "pending", "{name}: {delivery}");
        let attempt = &delivery["attempts"][0];
        assert!(attempt["status"].is_null(), "{name}: {attempt}");
        let why = attempt["error"].as_str().unwrap();
        assert!(why.contains("no public address"), "{name}: {why}");
    }
    assert_eq!(receiver.got().len(), 1, "nothing else arrived");
    service.stop().await;
}
