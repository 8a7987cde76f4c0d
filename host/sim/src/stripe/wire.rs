//! Stripe's objects, as far as the module parses them.
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    account::Account,
    afterwards::{Dispute, DisputeState},
    config::Environment,
    money::{Amount, Money},
    refund::{Refund, RefundState},
    session::{Phase, Session, State},
    stripe::params::Metadata,
};

/// Objects that can be expanded in a session.
pub(crate) const EXPANDABLE: [&str; 6] = [
    "line_items",
    "payment_intent",
    "payment_intent.latest_charge",
    "payment_intent.latest_charge.balance_transaction",
    "payment_intent.latest_charge.refunds",
    "payment_intent.review",
];
/// Objects that can be expanded in a payment.
pub(crate) const EXPANDABLE_IN_PAYMENT: [&str; 4] = [
    "latest_charge",
    "latest_charge.balance_transaction",
    "latest_charge.refunds",
    "review",
];

/// Time in which a card's authorization can be captured, in milliseconds.
const WINDOW_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Maximum number of refunds in a charge; the list of refunds contains the others.
const TOLD: usize = 10;

/// Key in a payment's `extra`: an authorization was cancelled.
pub(crate) const VOIDED: &str = "voided";
/// Key in a payment's `extra`: the reviewer found fraud.
pub(crate) const FRAUD: &str = "fraud";
/// Key in a payment's `extra`: Radar requested a review.
pub(crate) const REVIEWED: &str = "reviewed";
/// Key in a payment's `extra`: the merchant captures.
pub(crate) const MANUAL: &str = "manual";
/// Key in a payment's `extra`: the session's metadata.
pub(crate) const METADATA: &str = "metadata";
/// Key in a payment's `extra`: the metadata of the payment and of its charge.
pub(crate) const PAYMENT_METADATA: &str = "payment-metadata";
/// Key in a payment's `extra`: the session's line items.
pub(crate) const SOLD: &str = "sold";
/// Key in a payment's `extra`: the payer's e-mail address.
pub(crate) const EMAIL: &str = "email";

/// The metadata under this key in `extra`.
fn kept(of: &Session, name: &str) -> Value {
    let kept = of.extra.get(name);
    let kept = kept.and_then(|kept| serde_json::from_str(kept).ok());
    kept.unwrap_or_else(|| json!({ "attempt": of.attempt_id }))
}

/// Id of the payment. All ids of one payment have the same suffix.
pub(crate) fn payment_id(session: &Session) -> String {
    format!("pi_{}", end(session))
}

fn end(session: &Session) -> &str {
    session.reference.rsplit('_').next().unwrap_or_default()
}

/// The session that the id of a payment, or of its charge, belongs to.
pub(crate) fn session_id(account: &Account, id: &str) -> Option<String> {
    let end = id.strip_prefix("pi_").or_else(|| id.strip_prefix("ch_"))?;
    Some(format!("{}{end}", prefix(account)))
}

/// Prefix of session ids.
pub(crate) fn prefix(account: &Account) -> &'static str {
    match account.settings.environment {
        Environment::Test => "cs_test_",
        Environment::Live => "cs_live_",
    }
}

pub(crate) fn is_live(account: &Account) -> bool {
    account.settings.environment == Environment::Live
}

/// Whether an authorization was cancelled, by the merchant or by Stripe.
fn is_voided(session: &Session) -> bool {
    session.voided || session.extra.contains_key(VOIDED)
}

/// `status` of a session.
pub(crate) fn status(session: &Session, now: u64) -> &'static str {
    match session.phase(now) {
        Phase::Open => "open",
        Phase::Declined if session.payable => "open",
        Phase::Closed if is_voided(session) => "complete",
        Phase::Declined | Phase::Closed | Phase::Expired => "expired",
        Phase::Authorised
        | Phase::InReview
        | Phase::Captured
        | Phase::Disputed
        | Phase::Refunded => "complete",
    }
}

/// `status` of its payment. `None` until the payer tries to pay.
fn payment_status(session: &Session, now: u64) -> Option<&'static str> {
    Some(match session.phase(now) {
        Phase::Open => return None,
        Phase::Declined if session.payable => "requires_payment_method",
        Phase::Declined => "canceled",
        Phase::Authorised if session.capturing().is_some() => "processing",
        Phase::Authorised => "requires_capture",
        Phase::InReview | Phase::Captured | Phase::Disputed | Phase::Refunded => "succeeded",
        Phase::Closed if is_voided(session) => "canceled",
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
        let whole = |path: &String| path.starts_with("payment_intent");
        if !expand.iter().any(whole) {
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
    let mut told = json!({
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
        "metadata": kept(of, METADATA),
        "mode": "payment",
        "payment_intent": payment,
        "payment_method_types": [kind],
        "payment_status": if of.received.is_some() { "paid" } else { "unpaid" },
        "status": status,
        "success_url": of.return_url,
        "ui_mode": "hosted",
        "url": (status == "open").then(|| account.page_url(of)),
    });
    if expand.iter().any(|path| path == "line_items") {
        told["line_items"] = line_items(of);
    }
    told
}

/// A line item.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sold {
    /// Total of the line item.
    pub(crate) due: Money,
    pub(crate) quantity: u64,
    pub(crate) name: String,
    pub(crate) description: String,
}

/// A session's line items.
fn line_items(of: &Session) -> Value {
    let sold = of.extra.get(SOLD);
    let sold: Vec<Sold> = sold
        .and_then(|sold| serde_json::from_str(sold).ok())
        .unwrap_or_default();
    let items: Vec<Value> = sold
        .iter()
        .enumerate()
        .map(|(at, item)| {
            json!({
                "id": format!("li_{at}{}", end(of)),
                "object": "item",
                "amount_subtotal": item.due.value.0,
                "amount_total": item.due.value.0,
                "currency": item.due.currency,
                "description": item.name,
                "quantity": item.quantity,
            })
        })
        .collect();
    let address = format!("/v1/checkout/sessions/{}/line_items", of.reference);
    list(&address, &items, false)
}

/// A `PaymentIntent`.
pub(crate) fn payment(account: &Account, of: &Session, now: u64, expand: &[String]) -> Value {
    let phase = of.phase(now);
    let status = payment_status(of, now).unwrap_or("requires_payment_method");
    // The amount received, or else the amount due: a wrong currency applies to the whole payment.
    let money = of.received.as_ref().unwrap_or(&of.due);
    let tried = of.received.is_some() || phase == Phase::Authorised;
    let error = (of.state == State::Declined).then(|| {
        json!({
            "type": "card_error", "code": "card_declined", "decline_code": "generic_decline",
            "message": "Your card was declined.",
        })
    });
    let charge = (tried || is_voided(of)).then(|| {
        let inside = |path: &String| Some(path.strip_prefix("latest_charge")?.to_owned());
        let inside: Vec<String> = expand.iter().filter_map(inside).collect();
        if inside.is_empty() {
            json!(charge_id(of))
        } else {
            charge(account, of, &inside)
        }
    });
    let review = of.extra.contains_key(REVIEWED).then(|| {
        if expand.iter().any(|path| path == "review") {
            review(account, of)
        } else {
            json!(format!("prv_{}", end(of)))
        }
    });
    let capturable = if status == "requires_capture" {
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
        "cancellation_reason": (status == "canceled").then(|| canceled_for(of)),
        "capture_method": if of.extra.contains_key(MANUAL) { "manual" } else { "automatic_async" },
        "created": of.created_at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "description": of.order,
        "last_payment_error": error,
        "latest_charge": charge,
        "livemode": is_live(account),
        "metadata": kept(of, PAYMENT_METADATA),
        "review": review,
        "status": status,
    })
}

/// Reason of a cancellation.
fn canceled_for(of: &Session) -> &'static str {
    if of.extra.contains_key(FRAUD) {
        "fraudulent"
    } else if of.voided {
        "automatic"
    } else {
        "abandoned"
    }
}

pub(crate) fn charge_id(of: &Session) -> String {
    format!("ch_{}", end(of))
}

fn approved_at(of: &Session) -> u64 {
    of.authorised_at.unwrap_or(of.updated_at)
}

/// A charge. Objects that are not expanded are shown by their ids, or not at all.
pub(crate) fn charge(account: &Account, of: &Session, expand: &[String]) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let captured = of.received.as_ref().map_or(0, |money| money.value.0);
    // A partial capture follows an authorization of the full amount.
    let amount = if of.capture_key.is_some() {
        captured.max(of.due.value.0)
    } else {
        money.value.0
    };
    // Pending refunds count already.
    let refunded = of.returned.0 + of.refunded(RefundState::Pending).0;
    let mut charge = json!({
        "id": charge_id(of),
        "object": "charge",
        "amount": amount,
        "amount_captured": captured,
        "amount_refunded": refunded,
        "balance_transaction": of.received.is_some().then(|| booking_id(of)),
        "captured": of.received.is_some(),
        "created": approved_at(of) / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "disputed": !of.disputes.is_empty(),
        "livemode": is_live(account),
        "metadata": kept(of, PAYMENT_METADATA),
        "paid": true,
        "payment_intent": payment_id(of),
        "payment_method_details": details(of),
        "refunded": captured > 0 && refunded == captured,
        "status": "succeeded",
    });
    let wants = |name: &str| expand.iter().any(|path| path == name);
    if wants(".refunds") {
        let refunds = of.refunds.iter().rev();
        let refunds: Vec<Value> = refunds.take(TOLD).map(|made| refund(of, made)).collect();
        charge["refunds"] = list("/v1/refunds", &refunds, of.refunds.len() > TOLD);
    }
    if wants(".balance_transaction") && of.received.is_some() {
        charge["balance_transaction"] = booking(of);
    }
    charge
}

/// The payer's means of payment.
fn details(of: &Session) -> Value {
    let until = approved_at(of).saturating_add(WINDOW_MS) / 1_000;
    let (kind, details) = match of.method.as_str() {
        "credit_card" => {
            let until = (of.state == State::Authorised).then_some(until);
            let card = json!({ "brand": "visa", "last4": "4242", "capture_before": until });
            ("card", card)
        }
        "ideal" => ("ideal", json!({ "bank": "ing", "bic": "INGBNL2A" })),
        "klarna" => ("klarna", json!({ "payment_method_category": "pay_later" })),
        "cash_app" => ("cashapp", json!({ "buyer_id": null, "cashtag": null })),
        _ => {
            let card = json!({ "brand": "mastercard", "last4": "4444" });
            (
                "revolut_pay",
                json!({ "funding": { "type": "card", "card": card } }),
            )
        }
    };
    json!({ "type": kind, kind: details })
}

fn booking_id(of: &Session) -> String {
    format!("txn_{}", end(of))
}

/// Stripe's fee: 1.5 % and 0.25 here.
pub(crate) fn fee(received: Amount) -> Amount {
    Amount(received.0.saturating_mul(15) / 1_000 + 25)
}

/// The balance transaction of a charge.
fn booking(of: &Session) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let fee = fee(money.value).0;
    let at = of.captured_at.unwrap_or(of.updated_at);
    json!({
        "id": booking_id(of),
        "object": "balance_transaction",
        "amount": money.value.0,
        "created": at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "fee": fee,
        "net": money.value.0.saturating_sub(fee),
        "source": charge_id(of),
        "type": "charge",
    })
}

/// Radar's review.
pub(crate) fn review(account: &Account, of: &Session) -> Value {
    let closed = if of.held {
        None
    } else if of.extra.contains_key(FRAUD) {
        Some("refunded_as_fraud")
    } else {
        Some("approved")
    };
    json!({
        "id": format!("prv_{}", end(of)),
        "object": "review",
        "charge": charge_id(of),
        "closed_reason": closed,
        "created": of.updated_at / 1_000,
        "livemode": is_live(account),
        "open": of.held,
        "opened_reason": "rule",
        "payment_intent": payment_id(of),
        "reason": closed.unwrap_or("rule"),
    })
}

pub(crate) fn refund(of: &Session, refund: &Refund) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let failed = refund.state == RefundState::Failed;
    let pending = refund.state == RefundState::Pending;
    let status = match refund.state {
        RefundState::Pending => "pending",
        RefundState::Succeeded => "succeeded",
        RefundState::Failed => "failed",
        RefundState::Cancelled => "canceled",
    };
    let note = Note::new(refund);
    json!({
        "id": refund.id,
        "object": "refund",
        "amount": refund.amount.0,
        "balance_transaction": format!("txn_{}", refund.id.trim_start_matches("re_")),
        "charge": charge_id(of),
        "created": refund.created_at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "failure_reason": failed.then_some("lost_or_stolen_card"),
        "metadata": note.metadata,
        "payment_intent": payment_id(of),
        "pending_reason": pending.then_some("processing"),
        "reason": note.reason,
        "receipt_number": null,
        "status": status,
    })
}

/// Further fields of a refund's request.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) metadata: Metadata,
    pub(crate) reason: Option<String>,
}

impl Note {
    /// The fields of a refund; empty for a refund made in the dashboard.
    pub(crate) fn new(refund: &Refund) -> Self {
        let note = refund
            .asked
            .as_ref()
            .and_then(|asked| asked.note.as_deref());
        let read = note.and_then(|note| serde_json::from_str(note).ok());
        read.unwrap_or_default()
    }
}

/// A dispute. If the merchant refunds the payment, it ends like an inquiry.
pub(crate) fn dispute(account: &Account, of: &Session, dispute: &Dispute) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let status = match dispute.state {
        DisputeState::Open if of.state == State::Refunded => "warning_closed",
        DisputeState::Open if dispute.inquiry => "warning_needs_response",
        DisputeState::Open => "needs_response",
        DisputeState::Won if dispute.inquiry => "warning_closed",
        DisputeState::Won => "won",
        DisputeState::Lost => "lost",
    };
    json!({
        "id": dispute.id,
        "object": "dispute",
        "amount": dispute.amount.0,
        "charge": charge_id(of),
        "created": dispute.opened_at / 1_000,
        "currency": money.currency.to_ascii_lowercase(),
        "evidence_details": { "due_by": dispute.respond_by / 1_000 },
        "livemode": is_live(account),
        "metadata": {},
        "payment_intent": payment_id(of),
        "reason": dispute.reason,
        "status": status,
    })
}

pub(crate) fn list(address: &str, data: &[Value], has_more: bool) -> Value {
    json!({ "object": "list", "data": data, "has_more": has_more, "url": address })
}
