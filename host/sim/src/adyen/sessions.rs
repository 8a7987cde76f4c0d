//! Checkout's sessions with a hosted page: creation and results.
use std::net::IpAddr;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::HeaderMap,
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    account::Account,
    adyen::{
        api::{self, Api, Authorised, Key},
        merchant_account,
        problem::Problem,
        wire::{self, Create, LineItem, Others, PAID, Sum},
    },
    session::{Outcome, Session},
};

/// Prefix of a session's id.
pub(crate) const PREFIX: &str = "CS";

/// Maximum lifetime of a session.
const LONGEST_MS: u64 = 86_400_000;

/// The creation of a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateSession {
    merchant_account: String,
    amount: Sum,
    reference: String,
    merchant_order_reference: Option<String>,
    return_url: String,
    #[serde(default)]
    mode: Mode,
    #[serde(rename = "channel")]
    _channel: Option<Channel>,
    expires_at: Option<String>,
    additional_data: Option<Additional>,
    #[serde(default)]
    allowed_payment_methods: Vec<String>,
    shopper_email: Option<String>,
    #[serde(rename = "shopperIP")]
    _shopper_ip: Option<IpAddr>,
    country_code: Option<String>,
    line_items: Option<Vec<LineItem>>,
    #[serde(flatten)]
    others: Others,
}

/// Owner of the payment page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Hosted,
    /// The merchant's own page, which is not simulated.
    #[default]
    Embedded,
}

#[derive(Debug, Deserialize)]
enum Channel {
    Web,
    #[serde(rename = "iOS")]
    Ios,
    Android,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Additional {
    manual_capture: Option<String>,
}

impl CreateSession {
    /// The equivalent request for a link.
    fn into_link(self) -> Create {
        let manual = self.additional_data.and_then(|data| data.manual_capture);
        Create {
            merchant_account: self.merchant_account,
            amount: self.amount,
            reference: self.reference,
            merchant_order_reference: self.merchant_order_reference,
            description: None,
            return_url: Some(self.return_url),
            expires_at: self.expires_at,
            reusable: None,
            allowed_payment_methods: self.allowed_payment_methods,
            manual_capture: manual.map(|manual| manual == "true"),
            shopper_email: self.shopper_email,
            country_code: self.country_code,
            line_items: self.line_items,
            required_shopper_fields: None,
            others: self.others,
        }
    }
}

pub(crate) async fn create(
    State(Api(account)): State<Api>,
    _: Authorised,
    Key(key): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    if let Some(known) = account.by_key(&key) {
        return Ok(api::answer(created(&account, &known)));
    }
    let asked: CreateSession = api::read_json(&headers, &body)?;
    let mode = asked.mode;
    let session = api::open(&account, asked.into_link(), key, PREFIX, LONGEST_MS).await?;
    let mut told = created(&account, &session);
    if mode == Mode::Embedded {
        told["mode"] = "embedded".into();
        told["url"] = Value::Null;
    }
    Ok(api::answer(told))
}

/// A session, as in the answer to its creation.
fn created(account: &Account, session: &Session) -> Value {
    json!({
        "id": session.reference,
        "url": account.page_url(session),
        "mode": "hosted",
        "merchantAccount": merchant_account(&account.settings),
        "reference": session.attempt_id,
        "merchantOrderReference": session.order,
        "amount": wire::sum(&session.due),
        "returnUrl": session.return_url,
        "expiresAt": wire::time(session.expires_at),
        "sessionData": format!("Ab02b4c0!{}", session.token),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Brought {
    session_result: Option<String>,
}

pub(crate) async fn result(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    Query(brought): Query<Brought>,
) -> Result<Json<Value>, Problem> {
    let brought = brought.session_result.ok_or_else(|| {
        Problem::invalid(
            "14_0421",
            "Required query parameter 'sessionResult' is not provided",
        )
    })?;
    let session = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    let stood = ["active", "canceled", "completed", "expired"]
        .into_iter()
        .find(|status| result_as(&session, status) == brought)
        .ok_or_else(|| Problem::invalid("14_0422", "Invalid sessionResult"))?;
    Ok(Json(told(&session, stood)))
}

/// A session in the state in which its payer left the page, even if it has changed since.
fn told(session: &Session, status: &str) -> Value {
    let mut told = json!({
        "id": session.reference, "reference": session.attempt_id, "status": status,
    });
    if status == "completed" {
        let card = session.method == "credit_card";
        let mut method = json!({ "type": wire::type_of(&session.method) });
        if card {
            method["brand"] = wire::brand(&session.method).into();
        }
        told["payments"] = json!([{
            "pspReference": wire::psp_reference(session),
            "resultCode": "Authorised",
            "amount": wire::sum(&session.due),
            "paymentMethod": method,
        }]);
        if card {
            told["additionalData"] = json!({ "cardSummary": wire::CARD });
        }
        if session.held {
            told["additionalData"]["fraudManualReview"] = "true".into();
        }
    }
    told
}

/// Query added to the address to which a session's payer returns.
pub(crate) fn returns(session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
    let status = match outcome {
        _ if session.extra.contains_key(PAID) => "completed",
        Outcome::Decline => "canceled",
        _ => "active",
    };
    vec![
        ("sessionId", session.reference.clone()),
        ("sessionResult", result_as(session, status)),
    ]
}

/// A result that only Adyen can create, containing all characters that an address escapes.
fn result_as(session: &Session, status: &str) -> String {
    let seal = hex::encode(Sha256::digest(format!("{}{status}", session.token)));
    format!("Ab02b4c0!BQAB+{status}/{seal}==")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_hosted_session_takes_is_read() {
        let refused = |field: &str, value: Value| {
            let mut asked = json!({
                "merchantAccount": "shopECOM", "reference": "attempt-1", "mode": "hosted",
                "amount": { "value": 4990, "currency": "EUR" }, "channel": "Web",
                "returnUrl": "https://pay.example/return/1", "shopperIP": "192.0.2.1",
                "additionalData": { "manualCapture": "true" },
                "allowedPaymentMethods": ["scheme"],
            });
            if !field.is_empty() {
                asked[field] = value;
            }
            serde_json::from_value::<CreateSession>(asked).is_err()
        };
        assert!(!refused("", Value::Null));
        for (field, odd) in [
            ("mode", json!("own")),
            ("channel", json!("Fax")),
            ("shopperIP", json!("home")),
            ("returnUrl", Value::Null),
            ("additionalData", json!({ "manualCapture": true })),
        ] {
            assert!(refused(field, odd.clone()), "{field}: {odd}");
        }
    }
}
