//! `kassette sim` with `kassette serve`: a simulated provider for the test environment on the operator's machine.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::redirect::Policy;
use serde_json::{Value, json};

use crate::harness::{TEST_TIMEOUT, shared, unique};
use crate::service::Service;
use crate::serving::{operator, prepare};
use crate::tls_server::TlsServer;

/// Log text about an account whose TLS certificate is not trusted.
const UNTRUSTED: &str = "the certificate is from an unknown authority";
/// Pause between two checks of a condition.
const LOOK: Duration = Duration::from_millis(50);

struct Simulator(Child);

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_simulator_of_its_own_serves_an_account_for_test_where_the_sandbox_is_off() {
    assert_eq!(pay("sandbox = false", None).await, Ok(()));
}

#[tokio::test]
async fn a_provider_behind_tls_is_reached_where_its_authority_is_believed_and_nowhere_else() {
    let tls = TlsServer::new(&["127.0.0.1"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    tls.write_authority(file.path());
    let believed = format!("sandbox = false\nprovider_ca_file = {:?}", file.path());
    assert_eq!(pay(&believed, Some(&tls)).await, Ok(()));
    let refused = pay("sandbox = false", Some(&tls)).await;
    assert_eq!(refused, Err(UNTRUSTED.to_owned()));
}

/// Pays once at a new simulator, behind TLS if `tls` is given. The error is the gateway's reason.
async fn pay(settings: &str, tls: Option<&TlsServer>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), settings);
    let providers = folder.path().join("config/providers");
    std::fs::create_dir(&providers).unwrap();
    let token = operator(folder.path());
    let service = Service::start(folder.path(), Service::command(folder.path())).await;
    let gateway = format!("http://{}", service.address());
    let account = folder.path().join("vendor-test.toml");
    let simulator = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args([
            "sim",
            "--listen",
            "127.0.0.1:0",
            "--provider-id",
            "vendor-test",
        ])
        .args(["--gateway", &gateway, "--account-file"])
        .arg(&account)
        .arg("--data-dir")
        .arg(folder.path().join("simulator"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _simulator = Simulator(simulator);
    let began = Instant::now();
    let written = loop {
        match std::fs::read_to_string(&account) {
            Ok(written) if !written.is_empty() => break written,
            _ => assert!(began.elapsed() < TEST_TIMEOUT, "no account is written"),
        }
        tokio::time::sleep(LOOK).await;
    };
    let written = match tls {
        Some(tls) => secured(&written, tls).await,
        None => written,
    };
    std::fs::write(&account, written).unwrap();
    std::fs::rename(&account, providers.join("vendor-test.toml")).unwrap();

    let http = reqwest::Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .build()
        .unwrap();
    let call = async |url: String, key: &str, body: Option<Value>| -> (u16, Value) {
        let request = match &body {
            Some(body) => http.post(url).json(body),
            None => http.get(url),
        };
        let answer = request.bearer_auth(key).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    };
    let admin = service.admin_url();
    let merchant = json!({ "name": "Shop", "fx_rates": { "EUR": "1.08" } });
    let (status, merchant) = call(format!("{admin}/merchants"), &token, Some(merchant)).await;
    assert_eq!(status, 201, "{merchant}");
    let keys = format!("{admin}/merchants/{}/keys", merchant["merchant_id"]);
    let (_, key) = call(keys, &token, Some(json!({ "environment": "test" }))).await;
    let key = key["key"].as_str().unwrap().to_owned();

    // The gateway loads the account's file automatically.
    let began = Instant::now();
    let payments = format!("{gateway}/api/v1/payments");
    let payment = loop {
        let payment = json!({
            "order_id": unique(), "idempotency_key": format!("key-{}", unique()), "amount": "49.90",
            "currency": "EUR", "checkout_mode": "direct", "payment_method": "ideal",
        });
        let (status, payment) = call(payments.clone(), &key, Some(payment)).await;
        if status == 201 {
            break payment["payment_id"].as_str().unwrap().to_owned();
        }
        let log = service.log();
        if log.contains(UNTRUSTED) {
            service.stop().await;
            return Err(UNTRUSTED.to_owned());
        }
        assert!(began.elapsed() < TEST_TIMEOUT, "{payment}\n{log}");
        tokio::time::sleep(LOOK).await;
    };
    let start = json!({ "payment_id": payment, "payment_method": "ideal" });
    let (status, started) = call(format!("{payments}/start"), &key, Some(start)).await;
    assert_eq!(status, 200, "{started}\n{}", service.log());
    let page = started["redirect_url"].as_str().unwrap();
    assert!(page.starts_with("http://127.0.0.1:"), "{page}");
    let (form, session) = page.rsplit_once('/').unwrap();
    let pressed = http
        .post(form)
        .form(&[("session", session), ("outcome", "approve")])
        .send();
    assert_eq!(pressed.await.unwrap().status(), 303);
    let began = Instant::now();
    loop {
        let (_, paid) = call(format!("{payments}/{payment}"), &key, None).await;
        if paid["status"] == "completed" && paid["settlement_status"] == "confirmed" {
            break;
        }
        let log = service.log();
        assert!(began.elapsed() < TEST_TIMEOUT, "{paid}\n{log}");
        tokio::time::sleep(LOOK).await;
    }
    service.stop().await;
    Ok(())
}

/// The account's file with the provider behind TLS.
async fn secured(written: &str, tls: &TlsServer) -> String {
    let file: toml::Table = written.parse().unwrap();
    let plain = file["hosts"][0].as_str().unwrap();
    let address = tls.serve("127.0.0.1:0", plain.parse().unwrap()).await;
    let written = written.replace(&format!("http://{plain}"), &format!("https://{address}"));
    written.replace(plain, &address.to_string())
}

#[tokio::test]
async fn an_accounts_books_come_in_pages_that_agree_with_the_whole() {
    let server = shared().await;
    let (_, key, _) = server.merchant(json!({})).await;
    for _ in 0..3 {
        server.started(&key, "ideal", json!({})).await;
    }
    let read = async |query: &str| {
        let path = format!("/dev/books?{query}");
        server.admin("GET", &path, None).await
    };
    let mut paged = Vec::new();
    let mut query = "provider_id=sandbox-test&limit=1".to_owned();
    for _ in 0..3 {
        let page = read(&query).await.expect(200).json();
        let entries = page["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 1);
        paged.push(entries[0]["reference"].clone());
        let next = page["next_cursor"].as_str().unwrap_or("0");
        query = format!("provider_id=sandbox-test&limit=1&cursor={next}");
    }
    let whole = read("provider_id=sandbox-test").await.expect(200).json();
    let entries = whole["entries"].as_array().unwrap().iter();
    let first: Vec<_> = entries
        .take(3)
        .map(|entry| entry["reference"].clone())
        .collect();
    assert_eq!(paged, first);
    assert_eq!(whole["next_cursor"], Value::Null);
    // Pages need one account: entries change position when another account gets more.
    let of_all = read("limit=1").await.expect(422).json();
    assert_eq!(of_all["error"], "limit: needs a provider_id");
    read("provider_id=sandbox-test&limit=0").await.expect(422);
    read("provider_id=sandbox-test&cursor=1").await.expect(422);
}
