//! Mollie's JSON: requests and answers.
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::Account,
    mollie::{belongings, problem::Problem},
    money::{Amount, Money},
    refund::RefundState,
    rfc3339,
    session::{Phase, Session},
};

/// The website profile of every account.
pub(crate) const PROFILE: &str = "pfl_simulated";

/// Key in a session's `extra`: time of the capture.
pub(crate) const CAPTURE_MODE: &str = "captureMode";
/// Key in a session's `extra`: address of its webhook.
pub(crate) const WEBHOOK_URL: &str = "webhookUrl";

/// Key in a session's `extra`: metadata that is not text.
pub(crate) const METADATA_KEPT: &str = "metadata";

/// The settlement of all payments.
const SETTLEMENT: &str = "stl_simulated";

/// Time in which an authorization can be captured, in milliseconds.
const HOLDS_MS: u64 = 7 * 86_400_000;

/// Maximum length of a description.
const DESCRIPTION: usize = 255;

/// Maximum length of metadata, in bytes.
const METADATA: usize = 1_024;

const MINUTE: u64 = 60_000;

/// A method: Mollie's id, the gateway's id, time that a payment waits for its payer, whether it can be captured
/// later, and its currencies.
struct Method {
    id: &'static str,
    wire_id: &'static str,
    life_ms: u64,
    captures: bool,
    currencies: &'static [&'static str],
}

const METHODS: [Method; 4] = [
    Method {
        id: "creditcard",
        wire_id: "credit_card",
        life_ms: 30 * MINUTE,
        captures: true,
        currencies: &[
            "AED", "AUD", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "NOK", "NZD", "PHP",
            "PLN", "RON", "SEK", "SGD", "USD", "ZAR",
        ],
    },
    Method {
        id: "ideal",
        wire_id: "ideal",
        life_ms: 15 * MINUTE,
        captures: false,
        currencies: &["EUR"],
    },
    Method {
        id: "klarna",
        wire_id: "klarna",
        life_ms: 48 * 60 * MINUTE,
        captures: true,
        currencies: &[
            "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "NOK", "PLN", "RON", "SEK",
        ],
    },
    Method {
        id: "paypal",
        wire_id: "paypal",
        life_ms: 3 * 60 * MINUTE,
        captures: false,
        currencies: &[
            "AUD", "BRL", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "MXN", "NOK", "NZD",
            "PHP", "PLN", "SEK", "SGD", "USD",
        ],
    },
];

/// Further fields in the document "Create payment", which do not affect the payment's status.
const OTHERS: [&str; 15] = [
    "captureDelay",
    "company",
    "consumerDateOfBirth",
    "customerId",
    "customerReference",
    "digitalGoods",
    "dueDate",
    "issuer",
    "profileId",
    "restrictPaymentMethodsToCountry",
    "sequenceType",
    "sessionId",
    "shippingAddress",
    "storeCredentials",
    "testmode",
];

/// Body of `POST /v2/payments`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Create {
    pub(crate) amount: Money,
    pub(crate) description: String,
    pub(crate) redirect_url: String,
    pub(crate) cancel_url: Option<String>,
    pub(crate) webhook_url: Option<String>,
    /// If missing, the payer chooses; the books record one.
    method: Option<Methods>,
    /// Any JSON; the gateway sends its attempt's id.
    #[serde(default)]
    pub(crate) metadata: Value,
    locale: Option<String>,
    pub(crate) capture_mode: Option<String>,
    billing_address: Option<Address>,
    lines: Option<Vec<Line>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// One method or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Methods {
    One(String),
    Some(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    email: Option<String>,
    given_name: Option<String>,
    family_name: Option<String>,
    street_and_number: Option<String>,
    postal_code: Option<String>,
    city: Option<String>,
    country: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    description: String,
    quantity: u64,
    unit_price: Money,
    total_amount: Money,
}

/// Body of `POST /v2/payments/{id}/captures`.
#[derive(Deserialize)]
pub(crate) struct Capture {
    /// If missing, the full authorized amount is captured.
    pub(crate) amount: Option<Money>,
}

/// Body of `POST /v2/payments/{id}/release-authorization`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Maximum amount of every method.
const MOST: Amount = Amount(5_000_000);

/// Validates a creation like the provider. Returns the method's wire id.
pub(crate) fn check(create: &Create) -> Result<&'static str, Problem> {
    let known = |name: &&String| !OTHERS.contains(&name.as_str());
    if let Some(name) = create.others.keys().find(known) {
        return Err(Problem::field(name.as_str(), "Non-existent body parameter"));
    }
    let id = match &create.method {
        None => METHODS.first().map_or("", |method| method.id),
        Some(Methods::One(id)) => id,
        Some(Methods::Some(ids)) => ids.first().map_or("", String::as_str),
    };
    let method = METHODS
        .iter()
        .find(|method| method.id == id)
        .ok_or_else(|| Problem::field("method", "The payment method is unknown"))?;
    if !method.currencies.contains(&create.amount.currency.as_str()) {
        let detail = "The payment method does not support this currency";
        return Err(Problem::field("amount", detail));
    }
    if create.amount.value.0 == 0 {
        return Err(Problem::field("amount", "The amount is too low"));
    }
    if create.amount.value > MOST {
        return Err(Problem::field(
            "amount",
            "The amount is higher than the maximum",
        ));
    }
    let length = create.description.chars().count();
    if length == 0 || length > DESCRIPTION {
        return Err(Problem::field("description", "1-255 characters"));
    }
    if create.metadata.to_string().len() > METADATA {
        return Err(Problem::field("metadata", "about 1 kB at most"));
    }
    for (field, text) in [
        ("redirectUrl", Some(&create.redirect_url)),
        ("cancelUrl", create.cancel_url.as_ref()),
        ("webhookUrl", create.webhook_url.as_ref()),
    ] {
        let good = |text: &String| {
            Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        };
        if !text.is_none_or(good) {
            return Err(Problem::field(field, "The URL is invalid"));
        }
    }
    if create
        .locale
        .as_ref()
        .is_some_and(|locale| !is_locale(locale))
    {
        return Err(Problem::field("locale", "The locale is invalid"));
    }
    match create.capture_mode.as_deref() {
        None | Some("automatic") => {}
        Some("manual") if method.captures => {}
        Some(_) => {
            let detail = "The payment method does not support this capture mode";
            return Err(Problem::field(CAPTURE_MODE, detail));
        }
    }
    if method.id == "klarna" {
        check_klarna(create)?;
    }
    Ok(method.wire_id)
}

fn is_locale(locale: &str) -> bool {
    matches!(locale.as_bytes(), [a, b, b'_', c, d]
        if a.is_ascii_lowercase() && b.is_ascii_lowercase() && c.is_ascii_uppercase() && d.is_ascii_uppercase())
}

/// Klarna requires the payer's address, and lines that add up to the amount.
fn check_klarna(create: &Create) -> Result<(), Problem> {
    let missing = |field: &str| {
        let detail = "The field is required for this payment method";
        Err(Problem::field(field, detail))
    };
    let Some(address) = &create.billing_address else {
        return missing("billingAddress");
    };
    for (field, value) in [
        ("billingAddress.givenName", &address.given_name),
        ("billingAddress.familyName", &address.family_name),
        ("billingAddress.email", &address.email),
        ("billingAddress.streetAndNumber", &address.street_and_number),
        ("billingAddress.postalCode", &address.postal_code),
        ("billingAddress.city", &address.city),
        ("billingAddress.country", &address.country),
    ] {
        if value.as_deref().is_none_or(|text| text.trim().is_empty()) {
            return missing(field);
        }
    }
    if address.postal_code.as_deref() == Some("0000") {
        let detail = "The postal code is invalid for the country";
        return Err(Problem::field("billingAddress.postalCode", detail));
    }
    let email = address.email.as_deref().unwrap_or_default();
    if !email.contains('@') {
        return Err(Problem::field(
            "billingAddress.email",
            "not an e-mail address",
        ));
    }
    let country = address.country.as_deref().unwrap_or_default();
    if country.len() != 2 || !country.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err(Problem::field(
            "billingAddress.country",
            "not a country code",
        ));
    }
    let Some(lines) = create.lines.as_deref().filter(|lines| !lines.is_empty()) else {
        return missing("lines");
    };
    let mut sum: u64 = 0;
    for line in lines {
        let total = line.unit_price.value.0.checked_mul(line.quantity);
        let fits = line.total_amount.currency == create.amount.currency
            && line.unit_price.currency == create.amount.currency
            && total == Some(line.total_amount.value.0);
        if !fits || line.description.is_empty() {
            return Err(Problem::field("lines", "a line does not add up"));
        }
        sum = sum.saturating_add(line.total_amount.value.0);
    }
    if sum != create.amount.value.0 {
        return Err(Problem::field(
            "lines",
            "the lines do not add up to the amount",
        ));
    }
    Ok(())
}

/// Time that a payment by this method waits for its payer: the provider's own time, which clients cannot shorten.
pub(crate) fn life_ms(wire_id: &str) -> u64 {
    method(wire_id).map_or(15 * MINUTE, |method| method.life_ms)
}

fn method(wire_id: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.wire_id == wire_id)
}

/// Whether the merchant requests the capture.
pub(crate) fn is_manual(session: &Session) -> bool {
    session.extra.get(CAPTURE_MODE).map(String::as_str) == Some("manual")
}

/// Whether the payment can be cancelled in its current state. The provider only documents that this depends on the
/// method; here it is possible for Klarna while it waits for the payer, and for a card while it is authorized.
pub(crate) fn is_cancelable(session: &Session, now: u64) -> bool {
    match session.phase(now) {
        Phase::Open => session.method == "klarna",
        Phase::Authorised => session.method == "credit_card" && session.capturing().is_none(),
        _ => false,
    }
}

/// The payment in the state of its creation.
pub(crate) fn at_creation(session: &Session) -> Session {
    Session {
        updated_at: session.created_at,
        ..session.unpaid()
    }
}

/// A payment as the API returns it.
pub(crate) fn payment(account: &Account, session: &Session, now: u64) -> Value {
    let method = method(&session.method);
    let captures = method.is_some_and(|method| method.captures);
    let phase = session.phase(now);
    let status = match phase {
        Phase::Open => "open",
        Phase::Declined => "failed",
        // Captured by Mollie automatically, and not confirmed yet.
        Phase::Authorised if session.capturing().is_some() && session.capture_key.is_none() => {
            "pending"
        }
        Phase::Authorised => "authorized",
        Phase::InReview | Phase::Captured | Phase::Disputed | Phase::Refunded => "paid",
        // The document "Place a hold for a payment": an authorization that is not captured in time expires.
        Phase::Closed if session.voided => "expired",
        Phase::Closed => "canceled",
        Phase::Expired => "expired",
    };
    let own = belongings::own(session);
    let link = |href: &str, media: &str| json!({ "href": href, "type": media });
    let mut told = json!({
        "resource": "payment",
        "id": session.reference,
        "mode": account.settings.environment.as_str(),
        "createdAt": time(session.created_at),
        "amount": session.due,
        "description": session.order,
        "method": method.map(|method| method.id),
        "metadata": metadata(session),
        "status": status,
        "profileId": PROFILE,
        "sequenceType": "oneoff",
        "redirectUrl": session.return_url,
        "cancelUrl": session.cancel_url,
        "webhookUrl": session.extra.get(WEBHOOK_URL),
        "_links": {
            "self": link(&own, "application/hal+json"),
            "dashboard": link("https://my.mollie.com/dashboard", "text/html"),
        },
    });
    let mut put = |name: &str, value: Value| {
        told[name] = value;
    };
    if captures {
        let mode = if is_manual(session) {
            "manual"
        } else {
            "automatic"
        };
        put(CAPTURE_MODE, mode.into());
    }
    if let Some(received) = &session.received {
        let of_received = |value| {
            json!(Money {
                value,
                currency: received.currency.clone()
            })
        };
        // For a method without captures, the amount itself is the amount paid.
        put(
            if captures { "amountCaptured" } else { "amount" },
            json!(received),
        );
        let pending = session.refunded(RefundState::Pending);
        let refunded = Amount(session.returned.0.saturating_add(pending.0));
        put("amountRefunded", of_received(refunded));
        put("amountRemaining", of_received(session.left()));
        let paid = session.captured_at.unwrap_or(session.updated_at);
        put("paidAt", time(paid).into());
        put("settlementId", SETTLEMENT.into());
        let charged_back = belongings::charged_back(session);
        if charged_back.0 > 0 {
            put("amountChargedBack", of_received(charged_back));
        }
    }
    if let Some(at) = session.authorised_at.filter(|_| phase == Phase::Authorised) {
        put("authorizedAt", time(at).into());
        put("captureBefore", time(at.saturating_add(HOLDS_MS)).into());
    }
    if let Some(details) = belongings::details(session) {
        put("details", details);
    }
    let changed = match phase {
        Phase::Closed if session.voided => Some("expiredAt"),
        Phase::Closed => Some("canceledAt"),
        Phase::Declined => Some("failedAt"),
        _ => None,
    };
    if let Some(name) = changed {
        put(name, time(session.updated_at).into());
    }
    match phase {
        Phase::Open | Phase::Authorised => {
            put("isCancelable", is_cancelable(session, now).into());
        }
        Phase::Expired => put("expiredAt", time(session.expires_at).into()),
        Phase::Declined if session.method == "credit_card" => {
            put("details", json!({ "failureReason": "insufficient_funds" }));
        }
        _ => {}
    }
    if phase == Phase::Open {
        put("expiresAt", time(session.expires_at).into());
        told["_links"]["checkout"] = link(&account.page_url(session), "text/html");
    }
    told
}

/// The merchant's metadata: the gateway's attempt id, or any JSON.
fn metadata(session: &Session) -> Value {
    let kept = session.extra.get(METADATA_KEPT);
    let other = kept.and_then(|kept| serde_json::from_str(kept).ok());
    other.unwrap_or_else(|| session.attempt_id.as_str().into())
}

/// A time in the provider's notation.
pub(crate) fn time(ms: u64) -> String {
    rfc3339::utc(ms).replace('Z', "+00:00")
}
