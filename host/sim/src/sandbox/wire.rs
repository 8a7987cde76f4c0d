//! The sandbox's JSON: requests and answers.
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::{Account, FAILED, REASON, VERIFYING},
    afterwards::DisputeState,
    amounts::UNAVAILABLE,
    money::{Amount, Money},
    refund::Refund,
    sandbox::problem::Problem,
    session::{Phase, Session, State},
    vendor::Event,
};

/// The supported methods.
pub(crate) const METHODS: [&str; 10] = [
    "credit_card",
    "paypal",
    "ideal",
    "cash_app",
    "crypto",
    "venmo",
    "revolut",
    "klarna",
    "upi_imps",
    "interac",
];

/// Time in which an authorization can be captured, in milliseconds.
const HOLDS_MS: u64 = 7 * 86_400_000;

/// Body of `POST /v1/sessions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    pub(crate) merchant_reference: String,
    pub(crate) amount: Money,
    pub(crate) method: String,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) return_url: String,
    pub(crate) cancel_url: String,
    /// Milliseconds since 1970.
    pub(crate) expires_at: u64,
    #[serde(default)]
    pub(crate) payer: Payer,
}

/// Known details about the payer.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Payer {
    email: Option<String>,
    given_name: Option<String>,
    family_name: Option<String>,
}

impl Payer {
    /// The missing details.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        let details = [
            ("email", &self.email),
            ("given_name", &self.given_name),
            ("family_name", &self.family_name),
        ];
        let missing =
            |value: &Option<String>| value.as_deref().is_none_or(|text| text.trim().is_empty());
        details
            .into_iter()
            .filter(|(_, value)| missing(value))
            .map(|(name, _)| name)
            .collect()
    }
}

/// Body of a refund.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GiveBack {
    pub(crate) amount: Money,
    pub(crate) merchant_reference: Option<String>,
    pub(crate) reason: Option<String>,
}

/// Body of a capture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfAmount {
    pub(crate) amount: Money,
}

/// Body of a close: an empty object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Validates a creation like a real provider.
pub(crate) fn check(create: &Create, now: u64) -> Result<(), Problem> {
    check_reference(&create.merchant_reference)?;
    let is_word = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_');
    if !(2..=32).contains(&create.method.len()) || !create.method.bytes().all(is_word) {
        return Err(Problem::invalid("method: 2-32 of a-z 0-9 _"));
    }
    check_amount(&create.amount)?;
    for (name, text, most) in [
        ("order", &create.order, 150),
        ("merchant", &create.merchant, 200),
    ] {
        let length = text.chars().count();
        if length == 0 || length > most || text.chars().any(char::is_control) {
            return Err(Problem::invalid(format!(
                "{name}: 1-{most} characters, no control characters"
            )));
        }
    }
    for (name, text) in [
        ("return_url", &create.return_url),
        ("cancel_url", &create.cancel_url),
    ] {
        let good = Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if text.len() > 2_048 || !good {
            return Err(Problem::invalid(format!(
                "{name}: an http or https address of at most 2048 bytes"
            )));
        }
    }
    if create.amount.value == UNAVAILABLE {
        return Err(Problem::not_accepted());
    }
    if create.expires_at <= now {
        return Err(Problem::refused("expires_at is over"));
    }
    Ok(())
}

/// Validates the format of a refund.
pub(crate) fn check_refund(asked: &GiveBack) -> Result<(), Problem> {
    check_amount(&asked.amount)?;
    asked
        .merchant_reference
        .as_deref()
        .map_or(Ok(()), check_reference)?;
    let reason = asked.reason.as_deref().unwrap_or_default();
    if reason.chars().count() > 200 || reason.chars().any(char::is_control) {
        let why = "reason: at most 200 characters, no control characters";
        return Err(Problem::invalid(why));
    }
    Ok(())
}

fn check_reference(reference: &str) -> Result<(), Problem> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    if reference.is_empty() || reference.len() > 64 || !reference.bytes().all(plain) {
        let why = "merchant_reference: 1-64 of A-Z a-z 0-9 - _ . :";
        return Err(Problem::invalid(why));
    }
    Ok(())
}

/// Validates the format of an amount, which must be positive.
pub(crate) fn check_amount(money: &Money) -> Result<(), Problem> {
    if !money.has_currency_code() {
        return Err(Problem::invalid("amount.currency: three capital letters"));
    }
    if money.value.0 == 0 {
        return Err(Problem::refused("amount.value must be greater than zero"));
    }
    Ok(())
}

/// A payment as the API returns it.
pub(crate) fn session(account: &Account, session: &Session, now: u64) -> Value {
    let nothing = Money {
        value: Amount(0),
        currency: session.due.currency.clone(),
    };
    let received = session.received.as_ref().unwrap_or(&nothing);
    let of_received = |value: Amount| Money {
        value,
        currency: received.currency.clone(),
    };
    let waits = session.state == State::Authorised && session.capturing().is_none();
    let until = session.authorised_at.filter(|_| waits);
    let fee = session
        .captured_at
        .map(|_| of_received(fee(received.value)));
    json!({
        "id": session.reference,
        "merchant_reference": session.attempt_id,
        "status": status(session, now),
        "payable": session.is_payable(now),
        "amount": session.due,
        "received": received,
        "returned": of_received(session.given_back()),
        "refunds": session.refunds.iter().map(|made| refund(session, made)).collect::<Vec<_>>(),
        "disputes": session.disputes.iter().map(|dispute| json!({
            "id": dispute.id,
            "kind": if dispute.inquiry { "inquiry" } else { "dispute" },
            "amount": of_received(dispute.amount),
            "withdrawn": of_received(match dispute.state {
                DisputeState::Lost => dispute.amount,
                DisputeState::Open | DisputeState::Won => Amount(0),
            }),
            "status": dispute.state,
            "reason": dispute.reason,
            "respond_by": dispute.respond_by,
            "created_at": dispute.opened_at,
        })).collect::<Vec<_>>(),
        "charge": session.captured_at.map(|_| session.reference.replacen("sbx_", "sbc_", 1)),
        "fee": fee,
        "capture_failed_at": session.capture_failed_at,
        "authorised_at": session.authorised_at,
        "captured_at": session.captured_at,
        "capture_before": until.map(|at| at.saturating_add(HOLDS_MS)),
        "instrument": session.authorised_at.and_then(|_| instrument(&session.method)),
        "reason": reason(session, now),
        "method": session.method,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "expires_at": session.expires_at,
        "next_action": next_action(account, session),
    })
}

/// A refund as the API returns it.
pub(crate) fn refund(session: &Session, refund: &Refund) -> Value {
    let received = session.received.as_ref().unwrap_or(&session.due);
    json!({
        "id": refund.id,
        "merchant_reference": refund.order(),
        "amount": { "value": refund.amount, "currency": received.currency },
        "status": refund.state,
        "created_at": refund.created_at,
        "updated_at": refund.updated_at,
    })
}

/// The status in the sandbox's terms.
fn status(session: &Session, now: u64) -> Value {
    match session.phase(now) {
        _ if session.capture_failed_at.is_some() => "capture_failed".into(),
        Phase::Authorised if session.extra.contains_key(VERIFYING) => "verifying".into(),
        Phase::Closed if session.given_up => "cancelled".into(),
        Phase::Declined if session.extra.contains_key(FAILED) => "failed".into(),
        Phase::Authorised if session.capturing().is_some() => "capturing".into(),
        // Lost disputes are listed; the payment itself is captured.
        Phase::Disputed if session.open_dispute().is_none() => json!(Phase::Captured),
        phase => json!(phase),
    }
}

/// The sandbox's fee for a received amount: 1.5 % and 0.25.
pub(crate) fn fee(received: Amount) -> Amount {
    Amount(received.0.saturating_mul(15) / 1_000 + 25)
}

/// The payer's means of payment. `None` for most methods.
fn instrument(method: &str) -> Option<&'static str> {
    match method {
        "credit_card" => Some("visa 4242"),
        "ideal" => Some("INGBNL2A 4242"),
        _ => None,
    }
}

/// Reason of a refusal, a reversal or a review.
fn reason(session: &Session, now: u64) -> Option<&str> {
    match session.phase(now) {
        _ if session.capture_failed_at.is_some() => Some("capture_failed"),
        Phase::Declined if session.extra.contains_key(FAILED) => None,
        Phase::Declined => Some(
            session
                .extra
                .get(REASON)
                .map_or("insufficient_funds", String::as_str),
        ),
        Phase::InReview => Some("risk"),
        Phase::Closed if session.voided => Some("authorisation_voided"),
        _ => None,
    }
}

/// The payer's next action. It differs by method like at real providers: most redirect to a page, some need a
/// posted form, some are paid from an app with an address or a QR code.
fn next_action(account: &Account, session: &Session) -> Value {
    let page = account.page_url(session);
    let amount = &session.due;
    match session.method.as_str() {
        "klarna" => json!({
            "type": "form",
            "url": account.pay_url(),
            "fields": [["session", session.token]],
        }),
        "crypto" => {
            let address = format!("sbx1q{}", session.token);
            json!({
                "type": "instructions",
                "text": "Send the amount to this address. In the sandbox the link opens the simulator's page instead of a wallet.",
                "details": [["Address", address], ["Amount", format!("{} {}", amount.value, amount.currency)]],
                "qr": format!("sandbox:{address}?amount={}&currency={}", amount.value, amount.currency),
                "link": page,
            })
        }
        "upi_imps" => json!({
            "type": "instructions",
            "text": "Confirm the payment in your UPI app. In the sandbox the link opens the simulator's page instead of an app.",
            "details": [["UPI ID", "sandbox@kassette"], ["Reference", session.reference]],
            "qr": format!("upi://pay?pa=sandbox@kassette&tr={}&am={}&cu={}", session.reference, amount.value, amount.currency),
            "link": page,
        }),
        _ => json!({ "type": "redirect", "url": page }),
    }
}

/// The body of a callback.
pub(crate) fn event(account: &Account, event: &Event<'_>) -> Value {
    json!({
        "id": event.id,
        "type": event.happened,
        "created_at": event.at,
        // The session in the state of the event, even if the callback is late.
        "session": session(account, event.session, event.at),
    })
}
