//! Stripe's objects, as far as anybody here looks at them.
use serde_json::{Value, json};

use crate::{
    account::Account,
    config::Environment,
    money::Amount,
    session::{Phase, Session, State},
};

/// What can be shown whole in a session.
pub(crate) const EXPANDABLE: [&str; 3] = [
    "payment_intent",
    "payment_intent.latest_charge",
    "payment_intent.review",
];
/// The same in a payment.
pub(crate) const EXPANDABLE_IN_PAYMENT: [&str; 2] = ["latest_charge", "review"];

/// Kept with a payment: an authorisation was given back.
pub(crate) const VOIDED: &str = "voided";
/// Kept with a payment: Radar wanted somebody to look.
pub(crate) const REVIEWED: &str = "reviewed";
/// Kept with a payment: the merchant captures.
pub(crate) const MANUAL: &str = "manual";
/// Kept with a payment: the payer's e-mail address.
pub(crate) const EMAIL: &str = "email";

/// All ids of one payment have the same end.
pub(crate) fn payment_id(session: &Session) -> String {
    format!("pi_{}", end(session))
}

fn end(session: &Session) -> &str {
    session.reference.rsplit('_').next().unwrap_or_default()
}

/// The session that a payment's id belongs to.
pub(crate) fn session_id(account: &Account, payment_id: &str) -> Option<String> {
    let end = payment_id.strip_prefix("pi_")?;
    Some(format!("{}{end}", prefix(account)))
}

/// What session ids begin with.
pub(crate) fn prefix(account: &Account) -> &'static str {
    match account.settings.environment {
        Environment::Test => "cs_test_",
        Environment::Live => "cs_live_",
    }
}

pub(crate) fn is_live(account: &Account) -> bool {
    account.settings.environment == Environment::Live
}

/// `status` of a session.
fn status(session: &Session, now: u64) -> &'static str {
    match session.phase(now) {
        Phase::Open => "open",
        Phase::Declined if session.payable => "open",
        Phase::Closed if session.extra.contains_key(VOIDED) => "complete",
        Phase::Declined | Phase::Closed | Phase::Expired => "expired",
        Phase::Authorised
        | Phase::InReview
        | Phase::Captured
        | Phase::Disputed
        | Phase::Refunded => "complete",
    }
}

/// `status` of its payment; none while nobody has tried to pay.
fn payment_status(session: &Session, now: u64) -> Option<&'static str> {
    Some(match session.phase(now) {
        Phase::Open => return None,
        Phase::Declined if session.payable => "requires_payment_method",
        Phase::Declined => "canceled",
        Phase::Authorised => "requires_capture",
        Phase::InReview | Phase::Captured | Phase::Disputed | Phase::Refunded => "succeeded",
        Phase::Closed if session.extra.contains_key(VOIDED) => "canceled",
        Phase::Expired if session.state == State::Declined => "canceled",
        Phase::Closed | Phase::Expired => return None,
    })
}

/// A Checkout Session.
pub(crate) fn session(account: &Account, of: &Session, now: u64, expand: &[String]) -> Value {
    let status = status(of, now);
    let payment = payment_status(of, now).map(|_| {
        let inside: Vec<String> = expand
            .iter()
            .filter_map(|path| path.strip_prefix("payment_intent."))
            .map(str::to_owned)
            .collect();
        if expand.is_empty() {
            json!(payment_id(of))
        } else {
            payment(account, of, now, &inside)
        }
    });
    let kind = match of.method.as_str() {
        "credit_card" => "card",
        "cash_app" => "cashapp",
        "revolut" => "revolut_pay",
        other => other,
    };
    json!({
        "id": of.reference,
        "object": "checkout.session",
        "adaptive_pricing": { "enabled": false },
        "amount_subtotal": of.due.value.0,
        "amount_total": of.due.value.0,
        "cancel_url": of.cancel_url,
        "client_reference_id": of.attempt_id,
        "created": of.created_at / 1_000,
        "currency": of.due.currency.to_ascii_lowercase(),
        "customer": null,
        "customer_details": null,
        "customer_email": of.extra.get(EMAIL),
        "expires_at": of.expires_at / 1_000,
        "livemode": is_live(account),
        "locale": null,
        "metadata": { "attempt": of.attempt_id },
        "mode": "payment",
        "payment_intent": payment,
        "payment_method_types": [kind],
        "payment_status": if of.received.is_some() { "paid" } else { "unpaid" },
        "status": status,
        "success_url": of.return_url,
        "ui_mode": "hosted",
        "url": (status == "open").then(|| account.page_url(of)),
    })
}

/// A `PaymentIntent`.
pub(crate) fn payment(account: &Account, of: &Session, now: u64, expand: &[String]) -> Value {
    let phase = of.phase(now);
    let status = payment_status(of, now).unwrap_or("requires_payment_method");
    // What was taken, or else what is due: a wrong currency is wrong in the whole payment.
    let money = of.received.as_ref().unwrap_or(&of.due);
    let tried = of.received.is_some() || phase == Phase::Authorised;
    let error = (of.state == State::Declined).then(|| {
        json!({
            "type": "card_error", "code": "card_declined", "decline_code": "generic_decline",
            "message": "Your card was declined.",
        })
    });
    let charge = (tried || of.extra.contains_key(VOIDED)).then(|| {
        if expand.iter().any(|path| path == "latest_charge") {
            charge(account, of)
        } else {
            json!(format!("ch_{}", end(of)))
        }
    });
    let review = of.extra.contains_key(REVIEWED).then(|| {
        if expand.iter().any(|path| path == "review") {
            review(account, of)
        } else {
            json!(format!("prv_{}", end(of)))
        }
    });
    let capturable = if phase == Phase::Authorised {
        of.due.value
    } else {
        Amount(0)
    };
    json!({
        "id": payment_id(of),
        "object": "payment_intent",
        "amount": money.value.0,
        "amount_capturable": capturable.0,
        "amount_received": of.received.as_ref().map_or(0, |money| money.value.0),
        "canceled_at": (status == "canceled").then_some(of.updated_at / 1_000),
        "cancellation_reason": (status == "canceled").then_some("abandoned"),
        "capture_method": if of.extra.contains_key(MANUAL) { "manual" } else { "automatic_async" },
        "created": of.created_at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "description": of.order,
        "last_payment_error": error,
        "latest_charge": charge,
        "livemode": is_live(account),
        "metadata": { "attempt": of.attempt_id },
        "review": review,
        "status": status,
    })
}

/// A charge.
pub(crate) fn charge(account: &Account, of: &Session) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    json!({
        "id": format!("ch_{}", end(of)),
        "object": "charge",
        "amount": money.value.0,
        "amount_captured": of.received.as_ref().map_or(0, |money| money.value.0),
        "amount_refunded": of.returned.0,
        "captured": of.received.is_some(),
        "created": of.updated_at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "disputed": of.disputed,
        "livemode": is_live(account),
        "metadata": { "attempt": of.attempt_id },
        "paid": true,
        "payment_intent": payment_id(of),
        "refunded": of.state == State::Refunded,
        "status": "succeeded",
    })
}

/// What Radar wants looked at.
pub(crate) fn review(account: &Account, of: &Session) -> Value {
    json!({
        "id": format!("prv_{}", end(of)),
        "object": "review",
        "charge": format!("ch_{}", end(of)),
        "closed_reason": (!of.held).then_some("approved"),
        "created": of.updated_at / 1_000,
        "livemode": is_live(account),
        "open": of.held,
        "opened_reason": "rule",
        "payment_intent": payment_id(of),
        "reason": if of.held { "rule" } else { "approved" },
    })
}

/// A dispute. Where the merchant gives the money back it ends as the inquiry that it was.
pub(crate) fn dispute(account: &Account, of: &Session) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let refunded = of.state == State::Refunded;
    json!({
        "id": format!("dp_{}", end(of)),
        "object": "dispute",
        "amount": money.value.0,
        "charge": format!("ch_{}", end(of)),
        "created": of.updated_at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "livemode": is_live(account),
        "metadata": {},
        "payment_intent": payment_id(of),
        "reason": "fraudulent",
        "status": if refunded { "warning_closed" } else { "needs_response" },
    })
}

/// A list.
pub(crate) fn list(address: &str, data: &[Value], has_more: bool) -> Value {
    json!({ "object": "list", "data": data, "has_more": has_more, "url": address })
}
