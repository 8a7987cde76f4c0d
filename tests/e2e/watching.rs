//! Monitoring: the metrics that config/README.md documents and the log lines that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use crate::harness::{Server, TEST_TIMEOUT};
use crate::receiver::{Receiver, Reply};

const DOCUMENT: &str = include_str!("../../config/README.md");
/// Header row of the table of all metrics.
const TABLE: &str = "| Metric | Type | Labels | Tells |";
/// Metric that exists only if a listener has a certificate. A separate test covers it.
const CERTIFICATE: &str = "kassette_tls_certificate_not_after_timestamp_seconds";

/// A metric's type and label names.
type Family = (String, BTreeSet<String>);

/// The metrics in the document's table.
fn documented() -> BTreeMap<String, Family> {
    let (_, table) = DOCUMENT.split_once(TABLE).expect("the table of metrics");
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let mut families = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, tells] = cells[..] else {
            panic!("four cells: {row}");
        };
        assert!(!tells.is_empty(), "{row}");
        let quoted = |cell: &str| -> BTreeSet<String> {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let name = quoted(name).pop_first().expect(row);
        let before = families.insert(name, (kind.to_owned(), quoted(labels)));
        assert_eq!(before, None, "twice: {row}");
    }
    families
}

/// Label names and values of a series.
fn labels(line: &str) -> Vec<(&str, &str)> {
    let inside = line
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    let Some((inside, _)) = inside else {
        return Vec::new();
    };
    let pairs = inside.strip_suffix('"').unwrap_or(inside).split("\",");
    pairs
        .map(|pair| pair.split_once("=\"").expect(line))
        .collect()
}

/// The metrics in a scrape. Asserts that each has a help text.
fn shown(scrape: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut helped, mut series) = (BTreeSet::new(), BTreeSet::new());
    for line in scrape.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped.insert(help.split(' ').next().unwrap().to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect(line);
            let kind = (kind.to_owned(), BTreeSet::new());
            assert_eq!(families.insert(name.to_owned(), kind), None, "{line}");
        } else if !line.is_empty() {
            let name = line.split(['{', ' ']).next().unwrap();
            let of_it: BTreeSet<_> = labels(line).into_iter().collect();
            assert!(series.insert((name, of_it)), "twice: {line}");
            let histogram = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .filter(|name| families.contains_key(*name));
            let family = families.get_mut(histogram.unwrap_or(name)).expect(line);
            let names = labels(line).into_iter().map(|(name, _)| name.to_owned());
            family.1.extend(names.filter(|name| name != "le"));
        }
    }
    for name in families.keys() {
        assert!(helped.contains(name), "{name} does not say what it is");
    }
    families
}

/// Value of the series with exactly these labels. `None` if it does not exist.
fn value(scrape: &str, name: &str, wanted: &[(&str, &str)]) -> Option<f64> {
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name);
        let wanted: BTreeSet<_> = wanted.iter().copied().collect();
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels(line).into_iter().collect::<BTreeSet<_>>() == wanted
    };
    let line = scrape.lines().find(is_it)?;
    Some(line.rsplit(' ').next().unwrap().parse().expect(line))
}

async fn until(server: &Server, name: &str, labels: &[(&str, &str)], wanted: f64) {
    let is_so = async || {
        let scrape = server.metrics().await;
        (value(&scrape, name, labels) == Some(wanted)).then_some(())
    };
    let what = format!("{name} {labels:?} to be {wanted}");
    server.wait_for(&what, is_so).await;
}

/// Waits for a log line that contains all of these texts.
async fn line(server: &Server, parts: &[&str]) -> String {
    let found = async || {
        let log = server.log();
        let mut lines = log.lines();
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        lines.find(has_all).map(str::to_owned)
    };
    server
        .wait_for(&format!("a line with {parts:?}"), found)
        .await
}

/// A payment that the provider has captured and then put under review.
async fn held(server: &Server) -> Value {
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.pay(&url, "review").await.expect(303);
    server.until(server.test_key(), &payment, "review").await;
    payment
}

#[tokio::test]
async fn the_document_names_every_metric_that_a_gateway_shows_and_no_other() {
    let server = Server::fresh().await;
    for key in [server.test_key(), server.live_key()] {
        let (payment, url) = server.started(key, "ideal", json!({})).await;
        server.pay(&url, "approve").await.expect(303);
        server.until(key, &payment, "completed").await;
    }
    let mut documented = documented();
    assert!(documented.remove(CERTIFICATE).is_some());
    // Available after the gateway has read all payments from before its start.
    let reviews = async || {
        let scrape = server.metrics().await;
        scrape
            .contains("kassette_payments_in_review{")
            .then_some(())
    };
    server.wait_for("payments in review", reviews).await;
    let scrape = server.metrics().await;
    assert_eq!(shown(&scrape), documented);
    for environment in ["test", "live"] {
        let of_it = [("environment", environment)];
        let created = value(&scrape, "kassette_payments_created_total", &of_it);
        assert_eq!(created, Some(1.0), "{environment}");
        let account = format!("sandbox-{environment}");
        let start = [
            ("provider", account.as_str()),
            ("outcome", "open"),
            ("environment", environment),
        ];
        let started = value(&scrape, "kassette_starts_total", &start);
        assert_eq!(started, Some(1.0), "{environment}");
        let completed = [("to", "completed"), ("environment", environment)];
        let completed = value(&scrape, "kassette_transitions_total", &completed);
        assert!(completed >= Some(1.0), "{environment}: {completed:?}");
    }
    assert_eq!(value(&scrape, "kassette_ready", &[]), Some(1.0));
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_threads",
        "kassette_store_size_bytes",
        "kassette_store_disk_free_bytes",
    ] {
        assert!(value(&scrape, name, &[]) > Some(1.0), "{name}");
    }
    let clock = value(&scrape, "kassette_clock_time_seconds", &[]).unwrap();
    let now = server.now().await as f64;
    assert!((clock - now).abs() < 60.0, "{clock} {now}");
}

#[tokio::test]
async fn payments_in_review_and_open_work_are_counted_over_a_restart() {
    let server = Server::fresh().await;
    let (first, second) = (held(&server).await, held(&server).await);
    let review = "kassette_payments_in_review";
    let test = [("environment", "test")];
    until(&server, review, &test, 2.0).await;
    until(&server, review, &[("environment", "live")], 0.0).await;
    let surplus = [("kind", "surplus"), ("environment", "test")];
    until(&server, "kassette_work_open", &surplus, 0.0).await;

    let server = Server::in_folder(server.stop().await).await;
    until(&server, review, &test, 2.0).await;
    server
        .decide(&first, "approve", json!({}))
        .await
        .expect(200);
    until(&server, review, &test, 1.0).await;
    // The money was captured, so the merchant must refund it.
    server
        .decide(&second, "decline", json!({}))
        .await
        .expect(200);
    until(&server, review, &test, 0.0).await;
    until(&server, "kassette_work_open", &surplus, 1.0).await;
    let work = server.work(&second).await;
    let path = format!("/work/{}/done", work[0]["id"].as_str().unwrap());
    let body = json!({ "actor": "ann", "reason": "given back" });
    server.admin("POST", &path, Some(&body)).await.expect(200);
    until(&server, "kassette_work_open", &surplus, 0.0).await;
}

#[tokio::test]
async fn an_account_that_is_down_says_why_once_and_so_when_it_is_well_again() {
    let server = Server::fresh().await;
    let of = |label: &'static str, value: &'static str| {
        [
            ("provider", "sandbox-test"),
            ("environment", "test"),
            (label, value),
        ]
    };
    let health = "kassette_provider_health";
    until(&server, health, &of("state", "operational"), 1.0).await;
    server.fault("sandbox-test", "down", 1).await;
    for _ in 0..4 {
        server.advance(61).await;
    }
    until(&server, health, &of("state", "down"), 1.0).await;
    until(&server, health, &of("state", "operational"), 0.0).await;
    let why = "kassette_provider_unwell";
    until(&server, why, &of("reason", "vendor"), 1.0).await;
    until(&server, why, &of("reason", "unchecked"), 0.0).await;
    let parts = [
        "the provider account is not well",
        "WARN",
        "provider.id=sandbox-test",
        "provider.state=\"down\"",
        "provider.reason=\"vendor\"",
    ];
    line(&server, &parts).await;
    server.fault("sandbox-test", "none", 1).await;
    server.advance(61).await;
    until(&server, health, &of("state", "operational"), 1.0).await;
    until(&server, why, &of("reason", "vendor"), 0.0).await;
    line(
        &server,
        &["the provider account is well again", "sandbox-test"],
    )
    .await;
    let log = server.log();
    let lines = log.matches("the provider account is not well").count();
    assert_eq!(lines, 1, "{log}");
    // Other accounts are not affected. Whether an account is enabled is a separate gauge.
    assert!(!log.contains("provider.id=sandbox-live provider.state"));
    let enabled = "kassette_provider_enabled";
    let account = [("provider", "sandbox-test"), ("environment", "test")];
    until(&server, enabled, &account, 1.0).await;
    let body = json!({ "enabled": false });
    let path = "/providers/sandbox-test";
    server.admin("PATCH", path, Some(&body)).await.expect(200);
    until(&server, enabled, &account, 0.0).await;
    let parts = [
        "a change is in the audit log",
        "INFO",
        "audit.action=\"provider.change\"",
        "audit.object=\"provider/sandbox-test\"",
    ];
    let line = line(&server, &parts).await;
    let audit = server.admin("GET", "/audit?limit=1", None).await;
    let entry = audit.expect(200).json()["entries"][0].clone();
    let operator = format!("operator.id=\"{}\"", entry["operator_id"].as_str().unwrap());
    assert!(line.contains(&operator), "{line}\n{entry}");
    assert!(
        line.contains(&format!("audit.id={}", entry["id"])),
        "{line}"
    );
}

#[tokio::test]
async fn a_payments_end_is_one_line_without_its_payer() {
    let server = Server::fresh().await;
    let first = server.log();
    let first = first.lines().find(|line| line.contains("INFO")).unwrap();
    assert!(first.contains("starts"), "{first}");
    assert!(
        first.contains("version=") && first.contains("build="),
        "{first}"
    );
    let key = server.live_key();
    let email = json!({ "customer_email": "payer@example.com" });
    let (payment, url) = server.started(key, "ideal", email).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let id = payment["payment_id"].as_str().unwrap();
    let payment_id = format!("payment.id={id}");
    let parts = ["a payment has ended", "INFO", payment_id.as_str()];
    let ended = line(&server, &parts).await;
    for told in [
        "merchant.id=1",
        "environment=\"live\"",
        "payment.status=\"completed\"",
        "payment.settlement=\"confirmed\"",
        "payment.method=ideal",
        "provider.id=\"sandbox-live\"",
    ] {
        assert!(ended.contains(told), "{told} in {ended}");
    }
    let log = server.log();
    let of_it = |line: &&str| line.contains("a payment has ended") && line.contains(id);
    assert_eq!(log.lines().filter(of_it).count(), 1, "{log}");
    assert!(!log.contains("payer@example.com"), "{log}");

    let key = server.test_key();
    let payment = server.create(key, json!({})).await;
    server.cancel(&payment).await.expect(200);
    let id = payment["payment_id"].as_str().unwrap();
    let payment_id = format!("payment.id={id}");
    let ended = line(&server, &["a payment has ended", payment_id.as_str()]).await;
    assert!(ended.contains("environment=\"test\""), "{ended}");
    assert!(ended.contains("payment.status=\"cancelled\""), "{ended}");
    assert!(
        !ended.contains("provider.id"),
        "no provider was asked: {ended}"
    );
}

#[tokio::test]
async fn deliveries_that_fail_and_an_endpoint_that_is_left_alone_have_lines() {
    let server = Server::fresh().await;
    let receiver = Receiver::answering(Reply::Status(503)).await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        let queued = server.hook_act(&hook, "test", json!({})).await;
        ids.push(queued["delivery_id"].clone());
    }
    let endpoint = format!("endpoint.id={}", hook.id);
    let failed = line(
        &server,
        &["an attempt to deliver an event failed", endpoint.as_str()],
    )
    .await;
    for told in [
        "INFO",
        "environment=\"test\"",
        "delivery.attempt=1",
        "delivery.outcome=\"failed\"",
        "http.status=503",
        "left_out=",
    ] {
        assert!(failed.contains(told), "{told} in {failed}");
    }
    line(&server, &["keeps failing", "WARN", endpoint.as_str()]).await;
    receiver.answer(Reply::Status(200));
    for id in &ids {
        let mut delivery = server.delivery(id).await;
        while delivery["status"] == "pending" {
            delivery = server.attempt_again(&delivery).await;
        }
    }
    line(&server, &["is well again", "INFO", endpoint.as_str()]).await;
    let log = server.log();
    let opened = log.matches("a webhook endpoint keeps failing").count();
    let closed = log.matches("the webhook endpoint is well again").count();
    assert_eq!(opened, closed, "{log}");
    assert!(
        !log.contains(&receiver.url()),
        "an address may hold a secret"
    );
}

#[tokio::test]
async fn a_delivery_that_is_given_up_is_a_warning() {
    let pauses = "retry_seconds = [1, 1, 1, 1, 1, 1, 1]\ncircuit_hold_seconds = 1";
    let server = Server::configured(&format!("[webhooks]\n{pauses}\n")).await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let queued = server.hook_act(&hook, "test", json!({})).await;
    let mut delivery = server.attempted(&queued["delivery_id"], 1).await;
    while delivery["status"] == "pending" {
        delivery = server.attempt_again(&delivery).await;
    }
    let id = format!("delivery.id={}", delivery["id"].as_str().unwrap());
    let parts = ["a delivery is given up", "WARN", id.as_str()];
    let given_up = line(&server, &parts).await;
    assert!(given_up.contains("environment=\"test\""), "{given_up}");
    let exhausted = [("status", "exhausted"), ("environment", "test")];
    until(
        &server,
        "kassette_webhook_deliveries_total",
        &exhausted,
        1.0,
    )
    .await;
}

/// Mollie's callbacks are not signed. Those about unknown references wait as pending callbacks for a start.
#[tokio::test]
async fn unproved_notices_that_are_too_many_for_an_address_are_dropped_and_counted() {
    /// Maximum number of pending callbacks from one address.
    const WAIT_MOST: u64 = 64;
    /// Burst of callbacks that are read from an unverified address. Each second allows two more.
    const AT_ONCE: u64 = 20;
    let server = Server::simulating(&["sandbox", "mollie"], "").await;
    let name = "kassette_callback_notices_dropped_total";
    let (test, live) = ([("environment", "test")], [("environment", "live")]);
    let url = format!("{}/callbacks/mollie-test", server.base());
    for sent in 0..WAIT_MOST + 3 {
        if sent % AT_ONCE == 0 {
            server.advance(AT_ONCE).await;
        }
        if sent == WAIT_MOST {
            until(&server, name, &test, 0.0).await;
        }
        let notice = server
            .http
            .post(&url)
            .form(&[("id", format!("tr_flood{sent:04}"))]);
        server.send(notice).await.expect(200);
    }
    until(&server, name, &test, 3.0).await;
    until(&server, name, &live, 0.0).await;
}

#[tokio::test]
async fn the_last_backup_that_was_taken_whole_is_shown() {
    let server = Server::fresh().await;
    let name = "kassette_backup_last_success_timestamp_seconds";
    until(&server, name, &[], 0.0).await;
    let before = server.now().await as f64;
    let made = server.admin("POST", "/backup", Some(&json!({}))).await;
    made.expect(200);
    let is_shown = async || {
        let shown = value(&server.metrics().await, name, &[]);
        shown.filter(|at| *at > 0.0)
    };
    let at = server.wait_for("the backup's time", is_shown).await;
    assert!((before..before + 600.0).contains(&at), "{at} {before}");
}

/// `kassette serve`, killed when the test ends.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_end_of_a_listeners_certificate_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let files = "tls_cert = \"cert.pem\"\ntls_key = \"key.pem\"";
    crate::serving::prepare(folder.path(), files);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["pay.example".into()]).unwrap();
    params.not_after = date_time_ymd(2049, 1, 2);
    let certificate = params.self_signed(&key).unwrap();
    let pem = |kind: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
    };
    for (name, text) in [
        ("cert.pem", pem("CERTIFICATE", certificate.der())),
        ("key.pem", pem("PRIVATE KEY", &key.serialize_der())),
    ] {
        let file = folder.path().join("config").join(name);
        std::fs::write(&file, text).unwrap();
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, private).unwrap();
    }
    let ready = folder.path().join("ready.json");
    let log = std::fs::File::create(folder.path().join("log.txt")).unwrap();
    let serving = crate::serving::kassette(folder.path(), "serve")
        .arg("--ready-file")
        .arg(&ready)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut serving = Serving(serving);
    let began = Instant::now();
    let ready: Value = loop {
        if let Ok(bytes) = std::fs::read(&ready) {
            break serde_json::from_slice(&bytes).unwrap();
        }
        let ended = serving.0.try_wait().unwrap();
        let log = std::fs::read_to_string(folder.path().join("log.txt")).unwrap();
        assert!(ended.is_none() && began.elapsed() < TEST_TIMEOUT, "{log}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let admin = ready["admin_url"].as_str().unwrap();
    let admin = admin.strip_suffix("/admin/v1").unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let scrape = http.get(format!("{admin}/metrics")).send().await.unwrap();
    let scrape = scrape.text().await.unwrap();
    let public = [("listener", "public")];
    // January 2, 2049.
    assert_eq!(value(&scrape, CERTIFICATE, &public), Some(2_493_158_400.0));
    assert_eq!(value(&scrape, CERTIFICATE, &[("listener", "admin")]), None);
    assert_eq!(
        shown(&scrape).get(CERTIFICATE),
        documented().get(CERTIFICATE)
    );
}

#[tokio::test]
async fn status_is_told_over_the_api_and_by_the_file_with_the_same_exit_code() {
    let server = Server::fresh().await;
    server.advance(3600).await;
    let clock = server.admin("GET", "/dev/clock", None).await.expect(200);
    assert_eq!(clock.json()["offset_seconds"], 3600);
    let code = |report: &Value| match report["state"].as_str().unwrap() {
        "ok" => 0,
        "attention" => 1,
        "failing" => 2,
        other => panic!("{other}"),
    };
    let data = server.folder().join("data");
    let is_written = async || data.join("status.json").exists().then_some(());
    server.wait_for("status.json", is_written).await;
    let data = data.to_str().unwrap();
    for (words, token) in [
        (vec!["status", "--json"], server.operator_token()),
        (vec!["status", "--json", "--data-dir", data], ""),
    ] {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args(&words)
            .env("KASSETTE_ADMIN_URL", server.admin_base())
            .env("KASSETTE_OPERATOR_TOKEN", token)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        let report: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{told}"));
        assert_eq!(ran.status.code(), Some(code(&report)), "{report} {told}");
        let parts = report["parts"].as_array().unwrap();
        let accounts = parts
            .iter()
            .find(|part| part["name"] == "accounts")
            .unwrap();
        assert!(
            accounts["detail"].as_str().unwrap().contains("operational"),
            "{report}"
        );
    }
    // The report needs a running server.
    let empty = tempfile::tempdir().unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(["status", "--data-dir", empty.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    // An option that has no effect is refused.
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(["status", "--reason", "why"])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--reason has no effect"));
}
