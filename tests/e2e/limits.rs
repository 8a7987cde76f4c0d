//! Rate limits with a bucket for each key and each address, as in production. `dev` sets limits that no test
//! reaches.

use std::process::{Child, Stdio};
use std::time::Instant;

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::TEST_TIMEOUT;
use crate::reseller_calls::{INVITATIONS, MERCHANTS, PAYMENTS, START};
use crate::serving::{kassette, operator, prepare};

/// Number of concurrent requests, far above the capacity of a bucket.
const AT_ONCE: usize = 40;
const SETTINGS: &str = "rate_limit = { per_second = 1, burst = 3 }\nsandbox = true";

struct Serving {
    child: Child,
    ready: Value,
    token: String,
    http: reqwest::Client,
    _folder: TempDir,
}

impl Serving {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path(), SETTINGS);
        let token = operator(folder.path());
        let file = folder.path().join("ready.json");
        let log = std::fs::File::create(folder.path().join("log.txt")).unwrap();
        let child = kassette(folder.path(), "serve")
            .arg("--ready-file")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let began = Instant::now();
        let ready = loop {
            if let Ok(bytes) = std::fs::read(&file) {
                break serde_json::from_slice(&bytes).unwrap();
            }
            assert!(began.elapsed() < TEST_TIMEOUT, "it does not start");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        Self {
            child,
            ready,
            token,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            _folder: folder,
        }
    }

    async fn admin(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.ready["admin_url"].as_str().unwrap());
        let request = self.http.post(url).bearer_auth(&self.token).json(body);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 201, "{path}");
        answer.json().await.unwrap()
    }

    async fn key(&self, owner: &str) -> String {
        let body = json!({ "environment": "test" });
        let issued = self.admin(&format!("{owner}/keys"), &body).await;
        issued["key"].as_str().unwrap().to_owned()
    }

    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.ready["listen"].as_str().unwrap());
        self.http.request(method, url)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends enough concurrent requests to exhaust the bucket on any machine, and checks the first refused response.
async fn assert_limited(what: &str, request: impl Fn() -> RequestBuilder) {
    let answers = join_all((0..AT_ONCE).map(|_| request().send())).await;
    let limited = answers
        .into_iter()
        .map(Result::unwrap)
        .find(|answer| answer.status() == 429)
        .unwrap_or_else(|| panic!("no limit holds for {what}"));
    for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
        assert!(limited.headers().contains_key(name), "{what}: no {name}");
    }
    let body: Value = limited.json().await.unwrap();
    assert!(
        body["error"].is_string() && body["code"] == "rate_limited",
        "{body}"
    );
}

#[tokio::test]
async fn keys_and_addresses_have_buckets_of_their_own_on_every_endpoint() {
    const NOBODYS: &str = "00000000000000000000000000000000";
    let serving = Serving::start().await;
    let named = json!({ "name": "Somebody" });
    let merchant = serving.admin("/merchants", &named).await;
    let merchant = format!("/merchants/{}", merchant["merchant_id"]);
    let reseller = serving.admin("/resellers", &named).await;
    let reseller = format!("/resellers/{}", reseller["reseller_id"]);
    let (payment, resold) = (
        format!("/api/v1/payments/{NOBODYS}"),
        format!("{PAYMENTS}/{NOBODYS}"),
    );
    let merchants = [
        (Method::GET, "/api/v1/methods"),
        (Method::POST, "/api/v1/payments"),
        (Method::POST, "/api/v1/payments/start"),
        (Method::GET, payment.as_str()),
    ];
    let resellers = [
        (Method::POST, INVITATIONS),
        (Method::GET, MERCHANTS),
        (Method::GET, PAYMENTS),
        (Method::POST, PAYMENTS),
        (Method::POST, START),
        (Method::GET, resold.as_str()),
    ];
    for (owner, endpoints) in [(&merchant, &merchants[..]), (&reseller, &resellers[..])] {
        let (busy, idle) = (serving.key(owner).await, serving.key(owner).await);
        for (method, path) in endpoints {
            let ask = || serving.ask(method.clone(), path);
            assert_limited(path, || ask().bearer_auth(&busy)).await;
        }
        let (method, path) = &endpoints[0];
        let other = serving.ask(method.clone(), path).bearer_auth(&idle).send();
        assert_ne!(other.await.unwrap().status(), 429, "another key waits too");
    }
    let exchange = || serving.ask(Method::POST, "/api/v1/connect/exchange");
    assert_limited("an exchange", || exchange().json(&json!({}))).await;
    let page = || serving.ask(Method::GET, "/sandbox/sandbox-test/pay/unknown");
    assert_limited("the sandbox's page", page).await;
    let form = || serving.ask(Method::POST, "/sandbox/sandbox-test/pay");
    let oversized = form().body(vec![b'x'; 20_000]).send().await.unwrap();
    assert_eq!(oversized.status(), 413);
    assert!(oversized.headers().contains_key("x-request-id"));
}
