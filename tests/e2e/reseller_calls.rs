//! Signed requests of resellers, sent byte for byte.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Answer, Server, merge, unique};

pub(crate) const PAYMENTS: &str = "/api/v1/reseller/payments";
pub(crate) const START: &str = "/api/v1/reseller/payments/start";
pub(crate) const INVITATIONS: &str = "/api/v1/reseller/invitations";
pub(crate) const MERCHANTS: &str = "/api/v1/reseller/merchants";

pub(crate) type Headers = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub(crate) struct Reseller {
    pub(crate) id: u64,
    pub(crate) test: String,
    pub(crate) live: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) timestamp: String,
    pub(crate) nonce: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn nonce() -> String {
    format!("nonce-of-a-test:{}", unique())
}

/// System time in seconds since 1970. Equals the server's time unless a test has moved the server's clock.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

impl Signed {
    pub(crate) fn new(key: &str, method: &str, target: &str, body: Option<&Value>) -> Self {
        Self {
            key: key.to_owned(),
            method: method.to_owned(),
            target: target.to_owned(),
            timestamp: now().to_string(),
            nonce: nonce(),
            body: body
                .map(|body| body.to_string().into_bytes())
                .unwrap_or_default(),
        }
    }

    pub(crate) fn get(key: &str, target: &str) -> Self {
        Self::new(key, "GET", target, None)
    }

    pub(crate) fn post(key: &str, target: &str, body: &Value) -> Self {
        Self::new(key, "POST", target, Some(body))
    }

    /// Replaces the timestamp.
    pub(crate) fn at(mut self, now: i64) -> Self {
        self.timestamp = now.to_string();
        self
    }

    pub(crate) fn with_nonce(mut self, nonce: &str) -> Self {
        self.nonce = nonce.to_owned();
        self
    }

    /// The correct signature of the request.
    pub(crate) fn signature(&self) -> String {
        let digest = hex::encode(Sha256::digest(&self.body));
        let lines = [
            &self.method,
            &self.target,
            &self.timestamp,
            &self.nonce,
            &digest,
        ];
        let lines = lines.map(String::as_str).join("\n");
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).unwrap();
        mac.update(lines.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// Headers with the correct signature.
    pub(crate) fn headers(&self) -> Headers {
        self.signed_by(self.signature())
    }

    pub(crate) fn signed_by(&self, signature: String) -> Headers {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.key)),
            ("x-service-timestamp", self.timestamp.clone()),
            ("x-service-nonce", self.nonce.clone()),
            ("x-service-signature", signature),
        ];
        if !self.body.is_empty() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        headers
    }
}

impl Server {
    pub(crate) async fn ask(&self, signed: &Signed) -> Answer {
        self.ask_with(signed, &signed.headers()).await
    }

    pub(crate) async fn ask_with(&self, signed: &Signed, headers: &Headers) -> Answer {
        self.raw(&signed.method, &signed.target, headers, &signed.body)
            .await
    }

    /// Sends a request over HTTP/1.1 exactly as given.
    pub(crate) async fn raw(
        &self,
        method: &str,
        target: &str,
        headers: &Headers,
        body: &[u8],
    ) -> Answer {
        let sent = self.try_raw(method, target, headers, body).await;
        sent.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    /// Like `raw`, but returns an error if the server closes the connection.
    pub(crate) async fn try_raw(
        &self,
        method: &str,
        target: &str,
        headers: &Headers,
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let address = self.base().strip_prefix("http://").unwrap();
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(address).await?;
        let request = [head.as_bytes(), b"\r\n", body].concat();
        stream.write_all(&request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        read(&answer).ok_or_else(|| std::io::Error::other("no whole answer"))
    }

    /// GETs with a fresh nonce.
    pub(crate) async fn reseller_get(&self, key: &str, target: &str) -> Answer {
        self.ask(&Signed::get(key, target)).await
    }

    /// POSTs with a fresh nonce.
    pub(crate) async fn reseller_post(&self, key: &str, target: &str, body: &Value) -> Answer {
        self.ask(&Signed::post(key, target, body)).await
    }

    /// Creates a reseller with live rollout that no merchant has authorized.
    pub(crate) async fn reseller(&self) -> Reseller {
        let reseller = self.waiting_reseller().await;
        self.roll_out(&reseller, true).await;
        reseller
    }

    pub(crate) async fn waiting_reseller(&self) -> Reseller {
        let body = json!({ "name": format!("Agency {}", unique()) });
        let made = self.admin("POST", "/resellers", Some(&body)).await;
        let made = made.expect(201).json();
        assert_eq!(made["live_rollout"], false, "{made}");
        let id = made["reseller_id"].as_u64().unwrap();
        let (_, test) = self
            .reseller_key(id, json!({ "environment": "test" }))
            .await;
        let (_, live) = self
            .reseller_key(id, json!({ "environment": "live" }))
            .await;
        Reseller { id, test, live }
    }

    /// Issues another key of a reseller. Returns the key's ID and the key.
    pub(crate) async fn reseller_key(&self, id: u64, body: Value) -> (String, String) {
        let path = format!("/resellers/{id}/keys");
        let made = self.admin("POST", &path, Some(&body)).await;
        let made = made.expect(201).json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("key_id"), text("key"))
    }

    pub(crate) async fn roll_out(&self, reseller: &Reseller, enabled: bool) {
        let path = format!("/resellers/{}/live-rollout", reseller.id);
        let body = json!({ "enabled": enabled, "actor": "ann", "reason": "a test" });
        self.admin("PUT", &path, Some(&body)).await.expect(200);
    }

    /// Sets the status of a reseller's delegation for a merchant: `authorized` or `revoked`.
    pub(crate) async fn set_standing(&self, reseller: &Reseller, merchant: u64, status: &str) {
        let path = format!("/resellers/{}/delegations/{merchant}", reseller.id);
        let body = json!({ "status": status, "actor": "ann", "reason": "a test" });
        self.admin("PUT", &path, Some(&body)).await.expect(200);
    }

    /// Creates a reseller and a merchant that has authorized it. Returns the merchant's ID and live key too.
    pub(crate) async fn reselling(&self) -> (Reseller, u64, String) {
        let reseller = self.reseller().await;
        let (merchant, _, live) = self.merchant(json!({})).await;
        self.set_standing(&reseller, merchant, "authorized").await;
        (reseller, merchant, live)
    }

    /// Creates a delegated payment; `more` overrides or adds fields.
    pub(crate) async fn make_delegated(&self, key: &str, merchant: u64, more: Value) -> Value {
        let body = delegated(merchant, more);
        let answer = self.reseller_post(key, PAYMENTS, &body).await;
        answer.expect(200).json()
    }
}

/// A reseller's request with only valid fields and unique references.
pub(crate) fn delegated(merchant: u64, more: Value) -> Value {
    let mut body = json!({
        "merchant_id": merchant, "client_ref": format!("ref-{}", unique()),
        "order_id": format!("order-{}", unique()), "amount": "49.90", "currency": "EUR",
    });
    merge(&mut body, more);
    body
}

/// Parses a complete HTTP/1.1 response. `None` if it is incomplete or malformed.
fn read(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let mut headers = reqwest::header::HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let name: reqwest::header::HeaderName = name.parse().ok()?;
        headers.append(name, value.trim().parse().ok()?);
    }
    let body = &answer[end + 4..];
    let length = headers
        .get("content-length")
        .and_then(|value| value.to_str().ok());
    if length.is_some_and(|length| length != body.len().to_string()) {
        return None;
    }
    Some(Answer {
        status,
        headers,
        text: String::from_utf8(body.to_vec()).ok()?,
    })
}
