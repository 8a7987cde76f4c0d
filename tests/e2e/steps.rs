//! Steps of merchants, operators and providers that tests combine.

use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::harness::{Answer, Server, TEST_TIMEOUT, merge, new_payment, unique};

impl Server {
    /// Creates a payment; `more` overrides or adds fields.
    pub(crate) async fn create(&self, key: &str, more: Value) -> Value {
        let mut body = new_payment();
        merge(&mut body, more);
        let answer = self.post(key, "/api/v1/payments", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()
    }

    /// Creates and starts a direct payment. Returns it and the address that the payer is sent to.
    pub(crate) async fn started(&self, key: &str, method: &str, more: Value) -> (Value, String) {
        let mut fields = json!({ "checkout_mode": "direct", "payment_method": method });
        merge(&mut fields, more);
        let payment = self.create(key, fields).await;
        let url = self.start(key, &payment, method).await.expect(200).json()["redirect_url"]
            .as_str()
            .unwrap()
            .to_owned();
        (payment, url)
    }

    pub(crate) async fn start(&self, key: &str, payment: &Value, method: &str) -> Answer {
        let body = json!({ "payment_id": payment["payment_id"], "payment_method": method });
        self.post(key, "/api/v1/payments/start", &body).await
    }

    pub(crate) async fn payment(&self, key: &str, payment: &Value) -> Value {
        let id = payment["payment_id"].as_str().unwrap();
        self.get(key, &format!("/api/v1/payments/{id}"))
            .await
            .expect(200)
            .json()
    }

    /// The payment in the admin API, with its attempts, events and transitions.
    pub(crate) async fn inside(&self, payment: &Value) -> Value {
        let id = payment["payment_id"].as_str().unwrap();
        self.admin("GET", &format!("/payments/{id}"), None)
            .await
            .expect(200)
            .json()
    }

    pub(crate) async fn until(&self, key: &str, payment: &Value, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let now = self.payment(key, payment).await;
            if now["status"] == status {
                return now;
            }
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "waited for {status}, but is {now}\n{}",
                self.inside(payment).await
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Attempts in the admin API, oldest first.
    pub(crate) async fn attempts(&self, payment: &Value) -> Vec<Value> {
        self.inside(payment).await["attempts"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Names of the payment's events, in order.
    pub(crate) async fn events(&self, payment: &Value) -> Vec<String> {
        let inside = self.inside(payment).await;
        let events = inside["events"].as_array().unwrap().iter();
        events
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Status changes of the payment, such as `created>pending`, in order.
    pub(crate) async fn moves(&self, payment: &Value) -> Vec<String> {
        let inside = self.inside(payment).await;
        let lines = inside["transitions"].as_array().unwrap().iter();
        lines
            .filter(|line| line["applied"] == true && line["from"] != line["to"])
            .map(|line| {
                format!(
                    "{}>{}",
                    line["from"].as_str().unwrap(),
                    line["to"].as_str().unwrap()
                )
            })
            .collect()
    }

    /// Work items of the payment, including completed ones.
    pub(crate) async fn work(&self, payment: &Value) -> Vec<Value> {
        let (mut lines, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self
                .admin("GET", &format!("/work?limit=100&done=true{cursor}"), None)
                .await
                .expect(200)
                .json();
            lines.extend(page["work"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        lines.retain(|line| line["payment_id"] == payment["payment_id"]);
        lines
    }

    /// Entries of the payment's attempts in the simulators' books.
    pub(crate) async fn entries(&self, payment: &Value) -> Vec<Value> {
        let attempts = self.attempts(payment).await;
        let account = if payment["test_mode"] == true {
            "sandbox-test"
        } else {
            "sandbox-live"
        };
        let ours = |entry: &Value| {
            attempts
                .iter()
                .any(|each| each["attempt_id"] == entry["attempt_id"])
        };
        self.books(account).await.into_iter().filter(ours).collect()
    }

    /// Issues a key of a merchant with the scopes to create, read and refund payments.
    pub(crate) async fn refund_key(&self, merchant: u64, environment: &str) -> String {
        let scopes = ["payments:create", "payments:read", "payments:refund"];
        let body = json!({ "environment": environment, "scopes": scopes });
        let path = format!("/merchants/{merchant}/keys");
        let issued = self.admin("POST", &path, Some(&body)).await.expect(201);
        issued.json()["key"].as_str().unwrap().to_owned()
    }

    /// Requests a refund; `more` overrides or adds fields. Without an amount, refunds the remainder.
    pub(crate) async fn refund(&self, key: &str, payment: &Value, more: Value) -> Answer {
        let mut body = json!({ "idempotency_key": format!("refund-{}", unique()) });
        merge(&mut body, more);
        let id = payment["payment_id"].as_str().unwrap();
        let path = format!("/api/v1/payments/{id}/refunds");
        self.post(key, &path, &body).await
    }

    pub(crate) async fn refunds(&self, key: &str, payment: &Value) -> Vec<Value> {
        let id = payment["payment_id"].as_str().unwrap();
        let path = format!("/api/v1/payments/{id}/refunds");
        let listed = self.get(key, &path).await.expect(200).json();
        listed["refunds"].as_array().unwrap().clone()
    }

    pub(crate) async fn refund_until(&self, key: &str, refund: &Value, status: &str) -> Value {
        let path = format!("/api/v1/refunds/{}", refund["refund_id"].as_str().unwrap());
        let ask = async || {
            let now = self.get(key, &path).await.expect(200).json();
            (now["status"] == status).then_some(now)
        };
        self.wait_for(&format!("a refund that is {status}"), ask)
            .await
    }

    /// Decides a review as an operator; `more` overrides or adds fields.
    pub(crate) async fn decide(&self, payment: &Value, decision: &str, more: Value) -> Answer {
        let mut body = json!({ "decision": decision, "actor": "ann", "reason": "looked at it" });
        merge(&mut body, more);
        let path = format!(
            "/payments/{}/review",
            payment["payment_id"].as_str().unwrap()
        );
        self.admin("POST", &path, Some(&body)).await
    }

    pub(crate) async fn cancel(&self, payment: &Value) -> Answer {
        self.act(payment, "cancel").await
    }

    /// Performs another operator action on a payment: `query` or `to-review`.
    pub(crate) async fn act(&self, payment: &Value, act: &str) -> Answer {
        let path = format!(
            "/payments/{}/{act}",
            payment["payment_id"].as_str().unwrap()
        );
        self.admin(
            "POST",
            &path,
            Some(&json!({ "actor": "ann", "reason": "asked for" })),
        )
        .await
    }

    /// Creates a merchant and returns its ID, test key and live key.
    pub(crate) async fn merchant(&self, policy: Value) -> (u64, String, String) {
        let body = json!({
            "name": format!("Shop {}", unique()), "live_approved": true,
            "fx_rates": { "EUR": "1.08", "GBP": "1.27" }, "policy": policy,
        });
        let merchant = self
            .admin("POST", "/merchants", Some(&body))
            .await
            .expect(201)
            .json();
        let id = merchant["merchant_id"].as_u64().unwrap();
        let mut keys = Vec::new();
        for environment in ["test", "live"] {
            let body = json!({ "environment": environment });
            let issued = self
                .admin("POST", &format!("/merchants/{id}/keys"), Some(&body))
                .await
                .expect(201)
                .json();
            keys.push(issued["key"].as_str().unwrap().to_owned());
        }
        let live = keys.pop().unwrap();
        (id, keys.pop().unwrap(), live)
    }

    pub(crate) async fn change_merchant(&self, id: u64, patch: Value) {
        self.admin("PATCH", &format!("/merchants/{id}"), Some(&patch))
            .await
            .expect(200);
    }

    /// Sends a signed callback about an attempt as the sandbox would; `received` is the captured amount.
    pub(crate) async fn tell(&self, attempt: &Value, status: &str, received: &str) -> Answer {
        let session = session(attempt, status, received);
        self.tell_exactly(attempt["provider_id"].as_str().unwrap(), &session)
            .await
    }

    /// Sends a signed callback about any session.
    pub(crate) async fn tell_exactly(&self, account: &str, session: &Value) -> Answer {
        let body =
            json!({ "id": "evt_1", "type": "captured", "created_at": 1, "session": session })
                .to_string();
        let now = self.now().await;
        let signature = self.signature(account, now, &body);
        self.callback(account, &signature, body).await
    }

    /// Signature header of a callback body.
    pub(crate) fn signature(&self, account: &str, at: i64, body: &str) -> String {
        let secret = &self.credentials()["simulators"][account]["callback_secret"];
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_str().unwrap().as_bytes()).unwrap();
        mac.update(format!("{at}.{body}").as_bytes());
        format!("t={at},v1={}", hex::encode(mac.finalize().into_bytes()))
    }

    pub(crate) async fn callback(&self, account: &str, signature: &str, body: String) -> Answer {
        let url = format!("{}/callbacks/{account}", self.base());
        let request = self
            .http
            .post(url)
            .header("content-type", "application/json");
        self.send(request.header("sandbox-signature", signature).body(body))
            .await
    }
}

/// A session in the sandbox's format for an attempt of the admin API.
pub(crate) fn session(attempt: &Value, status: &str, received: &str) -> Value {
    let currency = &attempt["currency"];
    let reference = attempt["reference"].as_str().unwrap_or("sbx_not_told_yet");
    json!({
        "id": reference, "merchant_reference": attempt["attempt_id"], "status": status,
        "payable": status == "open",
        "amount": { "value": attempt["amount"], "currency": currency },
        "received": { "value": received, "currency": currency },
        "returned": { "value": "0.00", "currency": currency },
        "method": attempt["payment_method"], "created_at": 1, "updated_at": 2, "expires_at": 4_000_000_000_000_u64,
        "next_action": { "type": "redirect", "url": "http://127.0.0.1:1/pay" },
    })
}
