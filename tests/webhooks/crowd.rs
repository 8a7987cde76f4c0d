//! Merchants with one receiver each, and payments that create one event each.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Server, unique};
use crate::receiver::{Hook, Receiver, Reply};

/// Behavior of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Healthy,
    Fails,
    Hangs,
    Resets,
    Redirects,
    Drips,
    Endless,
    HangsUp,
}

impl Kind {
    pub(crate) const BAD: [Self; 7] = [
        Self::Fails,
        Self::Hangs,
        Self::Resets,
        Self::Redirects,
        Self::Drips,
        Self::Endless,
        Self::HangsUp,
    ];

    /// Whether deliveries succeed. With an endless body the gateway stops reading, and the status counts.
    pub(crate) const fn succeeds(self) -> bool {
        matches!(self, Self::Healthy | Self::Endless)
    }

    /// Whether an attempt lasts until its time-out.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Hangs | Self::Drips)
    }

    fn reply(self, trap: &Receiver) -> Reply {
        match self {
            Self::Healthy => Reply::Status(200),
            Self::Fails => Reply::Status(500),
            Self::Hangs => Reply::Silence,
            Self::Resets => Reply::Reset,
            Self::Redirects => {
                let location = format!("location: {}\r\n", trap.url());
                Reply::Full(302, location, Vec::new())
            }
            Self::Drips => Reply::SlowBody,
            Self::Endless => Reply::EndlessBody,
            Self::HangsUp => Reply::HangUp,
        }
    }
}

/// A merchant whose events go to one receiver.
pub(crate) struct Member {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) hook: Hook,
    pub(crate) receiver: Receiver,
}

impl Member {
    pub(crate) async fn new(server: &Server, kind: Kind, trap: &Receiver) -> Self {
        let receiver = Receiver::answering(kind.reply(trap)).await;
        let body = json!({ "name": format!("Shop {}", unique()), "live_approved": false });
        let merchant = server.admin("POST", "/merchants", Some(&body)).await;
        let merchant = merchant.expect(201).json()["merchant_id"].as_u64().unwrap();
        let path = format!("/merchants/{merchant}/keys");
        let body = json!({ "environment": "test" });
        let issued = server.admin("POST", &path, Some(&body)).await.expect(201);
        Self {
            kind,
            key: issued.json()["key"].as_str().unwrap().to_owned(),
            hook: server.hook(merchant, &receiver, json!({})).await,
            receiver,
        }
    }
}

/// An HTTP client of the current server, which may be killed at any time.
pub(crate) struct Client {
    http: reqwest::Client,
}

/// Addresses and token of the current server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) base: String,
    pub(crate) admin: String,
    pub(crate) token: String,
}

impl Place {
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            base: server.base().to_owned(),
            admin: server.admin_base().to_owned(),
            token: server.operator_token().to_owned(),
        }
    }
}

impl Client {
    pub(crate) fn new() -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        Self { http }
    }

    /// The complete response. `None` if the server went away.
    async fn post(&self, url: String, bearer: &str, body: &Value) -> Option<Answer> {
        let request = self.http.post(url).bearer_auth(bearer).json(body);
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Answer {
            status,
            headers,
            text: response.text().await.ok()?,
        })
    }

    /// Creates and cancels a payment, which creates one event. The call can be repeated. Returns the payment's id,
    /// or `None` if it is not certain that both succeeded.
    pub(crate) async fn event(&self, at: &Place, key: &str, reference: &str) -> Option<String> {
        let body = json!({
            "order_id": reference, "idempotency_key": reference, "amount": "1.00",
            "currency": "USD",
        });
        let url = format!("{}/api/v1/payments", at.base);
        let made = self.post(url, key, &body).await?;
        if ![200, 201].contains(&made.status) {
            return None;
        }
        let id = made.json()["payment_id"].as_str().unwrap().to_owned();
        let said = json!({ "actor": "load", "reason": "an event" });
        let url = format!("{}/payments/{id}/cancel", at.admin);
        let cancelled = self.post(url, &at.token, &said).await?;
        // 409: an earlier call canceled the payment, and its response was lost.
        [200, 409].contains(&cancelled.status).then_some(id)
    }
}

/// Delay between the creation and the first arrival of each event, in milliseconds.
pub(crate) fn delays(receiver: &Receiver) -> Vec<f64> {
    let mut first = HashMap::new();
    for got in receiver.got() {
        let event = got.event();
        let made: jiff::Timestamp = event["created_at"].as_str().unwrap().parse().unwrap();
        let made = made.as_millisecond() as f64;
        let id = event["id"].as_str().unwrap().to_owned();
        first.entry(id).or_insert(got.at_unix_ms() - made);
    }
    first.into_values().collect()
}

/// The smallest value that is at least as large as a share of all values.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values[place.clamp(1, values.len()) - 1]
}
