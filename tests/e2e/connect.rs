//! The connect exchange: a shop's plugin turns an operator's code into a key, a webhook endpoint and a
//! verified domain.

use std::collections::BTreeSet;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::Notify;

use crate::harness::{Answer, Server, merge, new_payment, shared, unique};
use crate::receiver::{Receiver, Reply};

const PATH: &str = "/api/v1/connect/exchange";

/// Proof of a connect exchange: lower-case hex HMAC-SHA256 over challenge, newline and origin, keyed with the
/// code.
pub(crate) fn proof(code: &str, challenge: &str, origin: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(code.as_bytes()).unwrap();
    mac.update(format!("{challenge}\n{origin}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

/// A challenge that no other test uses.
pub(crate) fn challenge() -> String {
    format!("{:A<40}", format!("test_{}_", unique()))
}

/// Origin of a shop's site on loopback, under this host name.
pub(crate) fn origin(shop: &Receiver, host: &str) -> String {
    format!("http://{host}:{}", shop.address.port())
}

/// Body of a plugin's exchange request. From now on, the site answers with the proof.
pub(crate) fn claim(code: &str, shop: &Receiver, site_url: &str, origin: &str) -> Value {
    let challenge = challenge();
    let proof = proof(code, &challenge, origin);
    shop.answer(Reply::Full(200, String::new(), proof.clone().into_bytes()));
    json!({ "code": code, "site_url": site_url, "challenge": challenge, "proof": proof })
}

impl Server {
    pub(crate) async fn connect_code(&self, merchant: u64, site_url: &str, more: Value) -> String {
        let mut body = json!({ "environment": "test", "site_url": site_url });
        merge(&mut body, more);
        let path = format!("/merchants/{merchant}/connect-codes");
        let issued = self.admin("POST", &path, Some(&body)).await.expect(201);
        issued.json()["code"].as_str().unwrap().to_owned()
    }

    /// Sends an exchange request as a plugin does.
    pub(crate) async fn exchange(&self, body: &Value) -> Answer {
        let url = format!("{}{PATH}", self.base());
        self.send(self.http.post(url).json(body)).await
    }

    /// Items of a list of a merchant (the first 100).
    pub(crate) async fn of_merchant(&self, merchant: u64, list: &str, name: &str) -> Vec<Value> {
        let path = format!("/merchants/{merchant}/{list}?limit=100");
        let page = self.admin("GET", &path, None).await.expect(200).json();
        page[name].as_array().unwrap().clone()
    }

    async fn domains(&self, merchant: u64) -> Value {
        let path = format!("/merchants/{merchant}");
        let merchant = self.admin("GET", &path, None).await.expect(200).json();
        merchant["domains"].clone()
    }
}

#[tokio::test]
async fn a_connected_shop_is_paid_and_hears_of_it() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    let origin = origin(&shop, "localhost");
    let site = format!("{}/store/", origin.replace("localhost", "LocalHost"));
    let code = server.connect_code(merchant, &site, json!({})).await;
    assert!(
        code.starts_with("kc_") && code.len() == 43,
        "{}",
        code.len()
    );
    let claim = claim(&code, &shop, &site, &origin);
    let connected = server.exchange(&claim).await.expect(200);
    assert_eq!(connected.header("cache-control"), Some("no-store"));
    let connected = connected.json();

    let asked = shop.got().remove(0);
    let challenge = claim["challenge"].as_str().unwrap();
    let line = format!("GET /.well-known/kassette-connect/{challenge} HTTP/1.1\r\n");
    assert!(asked.head.starts_with(&line), "{}", asked.head);
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let fields = |text: &str| text.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let expected = "merchant_id environment api_key scopes webhook_endpoint verified_domain";
    assert_eq!(names(&connected), fields(expected));
    assert_eq!(
        names(&connected["webhook_endpoint"]),
        fields("id url secret")
    );
    assert_eq!(connected["merchant_id"], merchant);
    assert_eq!(connected["environment"], "test");
    assert_eq!(
        connected["scopes"],
        json!(["payments:create", "payments:read"])
    );
    assert_eq!(connected["verified_domain"], "localhost");
    let hook_path = "/store/wp-json/kassette/v1/webhook";
    assert_eq!(
        connected["webhook_endpoint"]["url"],
        format!("{origin}{hook_path}")
    );
    let verified = json!([{ "domain": "localhost", "include_subdomains": false }]);
    assert_eq!(server.domains(merchant).await, verified);

    // The key can start payments under the verified domain only, and its events arrive with a signature.
    shop.answer(Reply::Status(200));
    let key = connected["api_key"].as_str().unwrap();
    assert!(key.starts_with("kp_test_"));
    let under = json!({ "return_url": "https://localhost/store/thanks" });
    server.started(key, "ideal", under).await;
    let mut elsewhere = new_payment();
    elsewhere["return_url"] = json!("https://shop.example/thanks");
    let refused = server
        .post(key, "/api/v1/payments", &elsewhere)
        .await
        .expect(422);
    assert!(refused.error().contains("return_url"));
    let event = shop.wait(2).await.remove(1);
    assert!(
        event
            .head
            .starts_with(&format!("POST {hook_path} HTTP/1.1\r\n")),
        "{}",
        event.head
    );
    assert_eq!(event.kind(), "payment.pending");
    let secret = connected["webhook_endpoint"]["secret"].as_str().unwrap();
    assert!(event.is_signed_by(secret));
}

#[tokio::test]
async fn a_code_s_environment_and_scopes_are_its_key_s() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    let site = origin(&shop, "127.0.0.1");
    let more = json!({ "environment": "live", "scopes": ["payments:read"] });
    let code = server.connect_code(merchant, &site, more).await;
    let connected = server
        .exchange(&claim(&code, &shop, &site, &site))
        .await
        .expect(200)
        .json();
    assert_eq!(connected["environment"], "live");
    assert_eq!(connected["scopes"], json!(["payments:read"]));
    let key = connected["api_key"].as_str().unwrap();
    assert!(key.starts_with("kp_live_"));
    server.get(key, "/api/v1/methods").await.expect(200);
    server
        .post(key, "/api/v1/payments", &new_payment())
        .await
        .expect(403);
    let hooks = server
        .of_merchant(merchant, "webhook-endpoints", "webhook_endpoints")
        .await;
    assert_eq!(hooks[0]["environment"], "live");
}

#[tokio::test]
async fn a_race_of_64_exchanges_has_one_winner() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let before = server.of_merchant(merchant, "keys", "keys").await.len();
    let shop = Receiver::new().await;
    let site = origin(&shop, "127.0.0.1");
    let code = server.connect_code(merchant, &site, json!({})).await;
    let claim = claim(&code, &shop, &site, &site);
    let racing = (0..64).map(|_| {
        let claim = claim.clone();
        tokio::spawn(async move { shared().await.exchange(&claim).await })
    });
    let mut statuses = Vec::new();
    for racer in racing.collect::<Vec<_>>() {
        statuses.push(racer.await.unwrap().status);
    }
    statuses.sort_unstable();
    let mut expected = [401; 64];
    expected[0] = 200;
    // An exchange that arrives while another is under way is refused like one whose code has been used.
    assert_eq!(statuses, expected);
    // Each node asks the site; the store decides which node redeems the code.
    let nodes = std::env::var("KASSETTE_TEST_NODES").map_or(1, |nodes| nodes.parse().unwrap());
    let asked = shop.got().len();
    assert!((1..=nodes).contains(&asked), "asked {asked} times");
    assert_eq!(
        server.of_merchant(merchant, "keys", "keys").await.len(),
        before + 1
    );
    let hooks = server
        .of_merchant(merchant, "webhook-endpoints", "webhook_endpoints")
        .await;
    assert_eq!(hooks.len(), 1);
    assert_eq!(server.domains(merchant).await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_code_under_way_takes_one_place_however_often_it_is_sent() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    let site = origin(&shop, "127.0.0.1");
    let code = server.connect_code(merchant, &site, json!({})).await;
    let first = claim(&code, &shop, &site, &site);
    let shop_goes_on = Arc::new(Notify::new());
    shop.answer(Reply::Held(Arc::clone(&shop_goes_on)));
    let held = tokio::spawn({
        let first = first.clone();
        async move { shared().await.exchange(&first).await }
    });
    shop.wait(1).await;
    // More exchanges than can run at the same time. Each is refused immediately, while the shop does not answer.
    for _ in 0..3 {
        let more = (0..100).map(|_| {
            let first = first.clone();
            tokio::spawn(async move { shared().await.exchange(&first).await })
        });
        for refused in more.collect::<Vec<_>>() {
            let refused = refused.await.unwrap().expect(401);
            assert!(refused.error().contains("under way"), "{}", refused.text);
            assert_eq!(refused.header("retry-after"), Some("10"));
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        }
    }
    let (other, other_shop) = (server.merchant(json!({})).await.0, Receiver::new().await);
    let other_site = origin(&other_shop, "127.0.0.1");
    let code = server.connect_code(other, &other_site, json!({})).await;
    let claimed = claim(&code, &other_shop, &other_site, &other_site);
    server.exchange(&claimed).await.expect(200);
    // The first exchange fails, because its shop does not answer with the proof. The code remains valid.
    assert!(!held.is_finished());
    shop_goes_on.notify_one();
    held.await.unwrap().expect(403);
    let again = claim(first["code"].as_str().unwrap(), &shop, &site, &site);
    server.exchange(&again).await.expect(200);
}

#[tokio::test]
async fn a_plugin_names_where_it_takes_events() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    let site = origin(&shop, "127.0.0.1");
    let site_url = format!("{site}/store");
    let code = server.connect_code(merchant, &site_url, json!({})).await;
    let mut asked = claim(&code, &shop, &site_url, &site);
    for wrong in ["//evil.test/hook", "/a/../b", "/a?b", "hook"] {
        asked["webhook_path"] = json!(wrong);
        let refused = server.exchange(&asked).await.expect(422);
        assert!(refused.error().starts_with("webhook_path"), "{wrong}");
    }
    let url = format!("{site_url}/modules/kassette/webhook");
    asked["webhook_path"] = json!("/modules/kassette/webhook");
    // If another endpoint has the address, the code remains valid.
    let by_hand = server.hook(merchant, &shop, json!({ "url": url })).await;
    let taken = server.exchange(&asked).await.expect(409);
    assert_eq!(taken.json()["code"], "webhook_endpoint_exists");
    assert!(taken.error().contains(&by_hand.id), "{}", taken.text);
    let path = format!("/webhook-endpoints/{}", by_hand.id);
    server.admin("DELETE", &path, None).await.expect(204);
    let connected = server.exchange(&asked).await.expect(200).json();
    assert_eq!(connected["webhook_endpoint"]["url"], url);

    shop.answer(Reply::Status(200));
    let key = connected["api_key"].as_str().unwrap();
    server.started(key, "ideal", json!({})).await;
    let event = shop.wait(3).await.remove(2);
    let line = "POST /store/modules/kassette/webhook HTTP/1.1\r\n";
    assert!(event.head.starts_with(line), "{}", event.head);
}

#[tokio::test]
async fn connecting_again_takes_the_place_of_what_was() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    let site = origin(&shop, "127.0.0.1");
    let connect = async |site_url: &str, more: Value| -> Value {
        let code = server.connect_code(merchant, site_url, more).await;
        let claim = claim(&code, &shop, site_url, &site);
        server.exchange(&claim).await.expect(200).json()
    };
    let by_hand = server.hook(merchant, &shop, json!({})).await;
    let first = connect(&site, json!({})).await;
    let live = connect(&site, json!({ "environment": "live" })).await;
    // Another path has the same origin.
    let second = connect(&format!("{site}/moved"), json!({})).await;
    let key = |connected: &Value| connected["api_key"].as_str().unwrap().to_owned();
    server
        .get(&key(&first), "/api/v1/methods")
        .await
        .expect(401);
    for connected in [&live, &second] {
        server
            .get(&key(connected), "/api/v1/methods")
            .await
            .expect(200);
    }
    let hooks = server
        .of_merchant(merchant, "webhook-endpoints", "webhook_endpoints")
        .await;
    let ids: BTreeSet<_> = hooks
        .iter()
        .map(|hook| hook["id"].as_str().unwrap())
        .collect();
    let expected = [&live, &second].map(|each| each["webhook_endpoint"]["id"].as_str().unwrap());
    let mut expected = BTreeSet::from(expected);
    expected.insert(&by_hand.id);
    assert_eq!(ids, expected);
    assert_eq!(server.domains(merchant).await.as_array().unwrap().len(), 1);

    let log = server
        .admin("GET", "/audit?limit=100", None)
        .await
        .expect(200)
        .json();
    let entries = log["entries"].as_array().unwrap().iter();
    let ours = format!("merchant/{merchant}");
    let entry = entries
        .filter(|entry| entry["action"] == "connect.exchange" && entry["object"] == ours)
        .max_by_key(|entry| entry["id"].as_u64())
        .unwrap();
    assert_eq!(entry["actor"], site);
    let told = entry.to_string();
    for named in [&first, &second] {
        let hook = named["webhook_endpoint"]["id"].as_str().unwrap();
        assert!(told.contains(hook), "{hook} {told}");
    }
}

#[tokio::test]
async fn codes_are_issued_for_sites_and_listed_without_themselves() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let path = format!("/merchants/{merchant}/connect-codes");
    let body = json!({ "environment": "test", "site_url": "https://Shop.Example:443/store" });
    let issued = server
        .admin("POST", &path, Some(&body))
        .await
        .expect(201)
        .json();
    let code = issued["code"].as_str().unwrap();
    assert_eq!(issued["site_origin"], "https://shop.example");
    let expires: jiff::Timestamp = issued["expires_at"].as_str().unwrap().parse().unwrap();
    let lives = expires.as_second() - server.now().await;
    assert!((290..=300).contains(&lives), "{lives}");
    let listed = server.admin("GET", &path, None).await.expect(200);
    assert!(!listed.text.contains(code));
    let listed = listed.json()["connect_codes"][0].clone();
    assert_eq!(listed["connect_code_id"], issued["connect_code_id"]);
    assert_eq!(listed["state"], "live");
    for (field, value) in [
        ("site_url", json!("http://shop.example")),
        ("site_url", json!("https://shop.example/?x=1")),
        ("site_url", json!("https://me@shop.example/")),
        ("site_url", json!("https://10.0.0.1/")),
        ("site_url", json!("https://shop.example./")),
        ("site_url", json!("https://shop.local/")),
        ("site_url", json!("https://co.uk/")),
        ("site_url", json!(server.base())),
        ("site_url", json!(null)),
        ("environment", json!("prod")),
        ("scopes", json!([])),
        ("scopes", json!(["reseller:invite"])),
        ("wallet", json!("x")),
    ] {
        let mut wrong = body.clone();
        wrong[field] = value.clone();
        let refused = server.admin("POST", &path, Some(&wrong)).await.expect(422);
        assert!(refused.error().contains(field), "{value}: {}", refused.text);
    }
    server
        .admin("POST", "/merchants/999999/connect-codes", Some(&body))
        .await
        .expect(404);
    server
        .change_merchant(merchant, json!({ "live_approved": false }))
        .await;
    let live = json!({ "environment": "live", "site_url": "https://shop.example" });
    server.admin("POST", &path, Some(&live)).await.expect(409);
    let viewer = json!({ "name": format!("viewer {}", unique()), "role": "viewer" });
    let viewer = server
        .admin("POST", "/operators", Some(&viewer))
        .await
        .expect(201)
        .json();
    let viewer = viewer["token"].as_str().unwrap();
    server
        .admin_as(viewer, "POST", &path, Some(&body))
        .await
        .expect(403);
    server
        .admin_as(viewer, "GET", &path, None)
        .await
        .expect(200);
}
