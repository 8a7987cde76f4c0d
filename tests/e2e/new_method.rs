//! A payment method unknown to the host: its module and an account that accepts it are sufficient.

use std::os::unix::fs::PermissionsExt as _;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fallback::Simulator;
use crate::harness::{Server, new_payment};
use crate::pages::url;
use crate::service::Service;
use crate::serving::{operator, prepare};
use crate::swap::{guest, put, slot};
use crate::uploads::upload;
use crate::versions::other;

const SLOT: &str = "method.blik";
const ACCOUNT: &str = "bank-pl";
const LIVE_ACCOUNT: &str = r#"
module = "sandbox"
name = "Bank"
environment = "live"
merchants = [1]
hosts = ["bank.example"]
redirect_hosts = ["bank.example"]

[settings]
base-url = "https://bank.example"

[secrets]
client-id = { value = "a-client-of-the-bank" }
client-secret = { value = "its-secret-at-the-bank" }
callback-secret = { value = "whsec-of-the-bank-in-full" }

[methods.blik]
"#;

/// IDs of the methods listed for a payment in PLN.
async fn listed(server: &Server) -> Vec<Value> {
    let path = "/api/v1/methods?currency=PLN&amount=49.90";
    let listing = server.get(server.test_key(), path).await.expect(200);
    let methods = listing.json()["methods"].as_array().unwrap().clone();
    methods.iter().map(|method| method["id"].clone()).collect()
}

/// Starts a simulator and adds its account, which accepts the method.
async fn account(server: &Server) -> Simulator {
    let aside = server.folder().join("account.toml");
    let simulator = Simulator::beside(server, ACCOUNT, &aside);
    let written = server
        .wait_for("the account's file", async || {
            let file = std::fs::read_to_string(&aside).ok()?;
            file.contains("[methods").then_some(file)
        })
        .await;
    let with_blik = format!("{written}\n[methods.blik]\n");
    let file = format!("config/providers/{ACCOUNT}.toml");
    std::fs::write(server.folder().join(file), with_blik).unwrap();
    simulator
}

fn direct() -> Value {
    let mut body = new_payment();
    body["currency"] = "PLN".into();
    body["checkout_mode"] = "direct".into();
    body["payment_method"] = "blik".into();
    body
}

#[tokio::test]
async fn a_method_that_the_host_does_not_know_is_offered_paid_and_kept() {
    let server = Server::fresh().await;
    let key = server.test_key().to_owned();
    // Unknown while there is no module.
    let refused = server.post(&key, "/api/v1/payments", &direct()).await;
    let said = refused.expect(422).error();
    assert!(said.starts_with("payment_method:"), "{said}");
    let policy = json!({ "policy": { "methods": { "blik": { "enabled": true } } } });
    let merchant = format!(
        "/merchants/{}",
        server.ready()["merchants"][0]["merchant_id"]
    );
    server
        .admin("PATCH", &merchant, Some(&policy))
        .await
        .expect(422);
    server
        .admin("GET", &format!("/plugins/{SLOT}/history"), None)
        .await
        .expect(404);

    upload(&server, "provider.sandbox", "", other().await)
        .await
        .expect(200);
    let _simulator = account(&server).await;
    let status = upload(
        &server,
        SLOT,
        "",
        std::fs::read(guest("kassette-method-blik").await).unwrap(),
    )
    .await
    .expect(200)
    .json();
    assert_eq!(status["slot"], SLOT);
    server
        .admin("PATCH", &merchant, Some(&policy))
        .await
        .expect(200);
    server
        .wait_for("the method", async || {
            let listed = listed(&server).await;
            (listed.last()? == "blik").then_some(())
        })
        .await;

    // Hosted: shown on the page under the module's label, and paid.
    let hosted = server.create(&key, json!({ "currency": "PLN" })).await;
    let page = server.open(url(&hosted)).await.expect(200);
    assert!(page.text.contains("BLIK"), "{}", page.text);
    assert!(
        page.text.contains(r#"<path d="M4 12h16"/>"#),
        "{}",
        page.text
    );
    let away = server.chosen(&hosted, "blik").await;
    let open = server.open(url(&hosted)).await.expect(200);
    assert!(open.text.contains("BLIK"), "{}", open.text);
    server.pay(&away, "approve").await.expect(303);
    let paid = server.until(&key, &hosted, "completed").await;
    assert_eq!(paid["payment_method"], "blik");
    // Direct: started by the merchant's server.
    let created = server.post(&key, "/api/v1/payments", &direct()).await;
    let created = created.expect(201).json();
    server.start(&key, &created, "blik").await.expect(200);
    let attempt = server.attempts(&created).await[0].clone();
    assert_eq!(
        (&attempt["payment_method"], &attempt["provider_id"]),
        (&json!("blik"), &json!(ACCOUNT))
    );
    // In a currency that the module does not list, the module is not called.
    let mut euros = direct();
    euros["currency"] = "EUR".into();
    server
        .post(&key, "/api/v1/payments", &euros)
        .await
        .expect(422);
    let nonsense = server.start(&key, &created, "barter").await;
    assert!(nonsense.expect(422).error().starts_with("payment_method:"));

    // While disabled, the method starts no new payments, and cannot be removed while a payment is in flight.
    let path = format!("/plugins/{SLOT}");
    let off = server.admin("POST", &format!("{path}/disable"), None).await;
    assert_eq!(off.expect(200).json()["state"], "disabled");
    assert!(!listed(&server).await.contains(&json!("blik")));
    server
        .post(&key, "/api/v1/payments", &direct())
        .await
        .expect(422);
    let refused = server.admin("DELETE", &path, None).await;
    let said = refused.expect(409).error();
    assert!(said.contains("is under way by blik"), "{said}");

    // Without the module, paid payments can be read, but no new payment can be made.
    let before = server.base().to_owned();
    let folder = server.stop().await;
    let data = folder.path().join("data");
    std::fs::remove_file(data.join(format!("plugins/{SLOT}.wasm"))).unwrap();
    std::fs::remove_dir_all(data.join(format!("modules/{SLOT}"))).unwrap();
    let server = Server::in_folder(folder).await;
    assert_eq!(server.payment(&key, &paid).await["payment_method"], "blik");
    assert!(!listed(&server).await.contains(&json!("blik")));
    server
        .post(&key, "/api/v1/payments", &direct())
        .await
        .expect(422);
    let path = url(&created).strip_prefix(&before).unwrap();
    let page = server.open(&format!("{}{path}", server.base())).await;
    let page = page.expect(200);
    assert!(page.text.contains("blik"), "{}", page.text);
}

#[tokio::test]
async fn a_method_that_is_dropped_into_the_plugin_folder_is_paid_listed_and_measured() {
    let server = Server::fresh().await;
    let key = server.test_key().to_owned();
    let sandbox = slot(&server, "provider.sandbox").await["active"]["digest"].clone();
    put(&server, "provider.sandbox", &other().await);
    let blik = std::fs::read(guest("kassette-method-blik").await).unwrap();
    put(&server, SLOT, &blik);
    server
        .wait_for("both modules", async || {
            let replaced = slot(&server, "provider.sandbox").await["active"]["digest"] != sandbox;
            (replaced && state(&server).await? == "serving").then_some(())
        })
        .await;
    let _simulator = account(&server).await;
    server
        .wait_for("the method", async || {
            listed(&server).await.contains(&json!("blik")).then_some(())
        })
        .await;

    let created = server.post(&key, "/api/v1/payments", &direct()).await;
    let created = created.expect(201).json();
    let started = server.start(&key, &created, "blik").await.expect(200);
    let page = started.json()["redirect_url"].as_str().unwrap().to_owned();
    server.pay(&page, "approve").await.expect(303);
    server.until(&key, &created, "completed").await;

    let path = format!("/payments?provider_id={ACCOUNT}");
    let payments = server.admin("GET", &path, None).await.expect(200).json();
    let payments = payments["payments"].as_array().unwrap().clone();
    assert_eq!(payments.len(), 1);
    assert_eq!(
        (&payments[0]["payment_method"], &payments[0]["status"]),
        (&json!("blik"), &json!("completed"))
    );
    let metrics = server.metrics().await;
    for shown in [
        r#"kassette_plugin_swaps_total{slot="method.blik"} 1"#,
        r#"kassette_plugin_call_seconds_count{slot="method.blik",function="rank"}"#,
        r#"kassette_starts_total{provider="bank-pl",outcome="open",environment="test"} 1"#,
    ] {
        assert!(metrics.contains(shown), "{shown}:\n{metrics}");
    }
    let audit = server.admin("GET", "/audit?limit=100", None).await;
    let entries = audit.expect(200).json()["entries"].clone();
    let dropped = |line: &Value| {
        line["action"] == "plugin.drop" && line["object"] == format!("plugin/{SLOT}")
    };
    assert!(entries.as_array().unwrap().iter().any(dropped), "{entries}");
}

/// With `serve`, as in production: no method is enabled in live unless a policy allows it.
#[tokio::test]
async fn a_method_that_the_host_does_not_know_is_off_in_live_until_a_policy_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder, "");
    let plugins = folder.join("plugins");
    let blik = std::fs::read(guest("kassette-method-blik").await).unwrap();
    std::fs::write(plugins.join(format!("{SLOT}.wasm")), blik).unwrap();
    std::fs::write(plugins.join("provider.sandbox.wasm"), other().await).unwrap();
    std::fs::create_dir(folder.join("config/providers")).unwrap();
    let file = folder.join(format!("config/providers/{ACCOUNT}.toml"));
    std::fs::write(&file, LIVE_ACCOUNT).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = operator(folder);
    let service = Service::start(folder, Service::command(folder)).await;

    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let admin = async |method: Method, path: &str, body: Value| {
        let url = format!("{}{path}", service.admin_url());
        let request = http.request(method, url).bearer_auth(&token).json(&body);
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let shop = json!({ "name": "Shop", "live_approved": true, "fx_rates": { "PLN": "0.25" }, "actor": "ann", "reason": "a test" });
    let merchant = admin(Method::POST, "/merchants", shop).await;
    let merchant = format!("/merchants/{}", merchant["merchant_id"]);
    let key = json!({ "environment": "live" });
    let key = admin(Method::POST, &format!("{merchant}/keys"), key).await;
    // The provider cannot be reached, so every payment is refused. The reason shows whether the policy allows the
    // method.
    let refused = async || {
        let url = format!("http://{}/api/v1/payments", service.address());
        let request = http.post(url).bearer_auth(key["key"].as_str().unwrap());
        let answer = request.json(&direct()).send().await.unwrap();
        assert_eq!(answer.status(), 422);
        answer.json::<Value>().await.unwrap()["error"].clone()
    };
    let off = "payment_method: is not enabled for this merchant and amount";
    assert_eq!(refused().await, off);
    let policy = json!({
        "policy": { "methods": { "blik": { "enabled": true } } }, "actor": "ann", "reason": "a test",
    });
    admin(Method::PATCH, &merchant, policy).await;
    assert_eq!(refused().await, "payment_method: is not available now");
    service.stop().await;
}

/// State of the slot. `None` if the slot does not exist.
async fn state(server: &Server) -> Option<Value> {
    let plugins = server.admin("GET", "/plugins?limit=100", None).await;
    let plugins = plugins.expect(200).json()["plugins"].clone();
    let mut plugins = plugins.as_array().unwrap().iter();
    let found = plugins.find(|plugin| plugin["slot"] == SLOT);
    found.map(|plugin| plugin["state"].clone())
}

#[tokio::test]
async fn a_slot_that_is_switched_off_stays_so_until_it_is_switched_on_or_taken_away() {
    let server = Server::fresh().await;
    let module = std::fs::read(guest("kassette-method-blik").await).unwrap();
    upload(&server, SLOT, "", module.clone()).await.expect(200);
    let path = format!("/plugins/{SLOT}");
    let off = server.admin("POST", &format!("{path}/disable"), None).await;
    assert_eq!(off.expect(200).json()["state"], "disabled");
    let server = Server::in_folder(server.stop().await).await;
    assert_eq!(state(&server).await, Some(json!("disabled")));
    // Uploading another version does not enable the module.
    let other = [&module[..], &[0, 3, 1, b'm', 1]].concat();
    let put = upload(&server, SLOT, "", other).await.expect(200).json();
    assert_eq!(put["state"], "disabled", "{put}");
    let on = server.admin("POST", &format!("{path}/enable"), None).await;
    assert_eq!(on.expect(200).json()["state"], "serving");

    let refused = server.admin("DELETE", &path, None).await.expect(409);
    let said = refused.error();
    assert!(
        said.contains("method.blik.wasm stands in the plugin folder"),
        "{said}"
    );
    assert_eq!(state(&server).await, Some(json!("serving")));
    let data = server.folder().join("data");
    std::fs::remove_file(data.join(format!("plugins/{SLOT}.wasm"))).unwrap();
    server.admin("DELETE", &path, None).await.expect(204);
    assert_eq!(state(&server).await, None);
    assert!(!data.join(format!("modules/{SLOT}")).exists());
    let server = Server::in_folder(server.stop().await).await;
    assert_eq!(state(&server).await, None);
    // A method of the release cannot be removed.
    let refused = server.admin("DELETE", "/plugins/method.ideal", None).await;
    let said = refused.expect(409).error();
    assert!(said.contains("disable it instead"), "{said}");
}
