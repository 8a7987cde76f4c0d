//! A payment method of which the host has no line: its module and an account that takes it are enough.

use serde_json::{Value, json};

use crate::fallback::Simulator;
use crate::harness::{Server, new_payment};
use crate::pages::url;
use crate::swap::guest;
use crate::uploads::upload;
use crate::versions::other;

const SLOT: &str = "method.blik";
const ACCOUNT: &str = "bank-pl";

/// Ids of the listing for Polish money.
async fn listed(server: &Server) -> Vec<Value> {
    let path = "/api/v1/methods?currency=PLN&amount=49.90";
    let listing = server.get(server.test_key(), path).await.expect(200);
    let methods = listing.json()["methods"].as_array().unwrap().clone();
    methods.iter().map(|method| method["id"].clone()).collect()
}

/// An account of a simulator of its own that takes the method.
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
    // Unknown as long as there is no module.
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

    // Hosted: on the page under its own name, and paid.
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
    // In another currency the module is not asked.
    let mut euros = direct();
    euros["currency"] = "EUR".into();
    server
        .post(&key, "/api/v1/payments", &euros)
        .await
        .expect(422);
    let nonsense = server.start(&key, &created, "barter").await;
    assert!(nonsense.expect(422).error().starts_with("payment_method:"));

    // Switched off: nothing new is made by it, and it is not taken away while a payment is under way.
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

    // Its module is gone: what was paid can be read, and nothing new is made.
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

/// The state of the slot; none where there is no such slot.
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
    // Another version of it changes nothing about that.
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
    // One of the release's own stays.
    let refused = server.admin("DELETE", "/plugins/method.ideal", None).await;
    let said = refused.expect(409).error();
    assert!(said.contains("disable it instead"), "{said}");
}
