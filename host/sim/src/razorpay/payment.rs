//! Payments: the tries to pay a link, which its order contains, and their results.
use serde_json::{Value, json};

use crate::{
    afterwards::DisputeState,
    money::Amount,
    refund::{Refund, RefundState},
    session::{Session, State},
};

/// Key in a payment's `extra`: the bank has requested information.
pub(crate) const ASKED: &str = "asked";

/// Time in which the merchant may respond to the bank, in milliseconds.
const ANSWER_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// Time that a try waits for the payer, in milliseconds; then it is marked as failed.
const PATIENCE_MS: u64 = 10 * 60 * 1_000;
/// Time in which a try may be authorized late, in milliseconds.
const LATE_MS: u64 = 3 * 24 * 60 * 60 * 1_000;

/// Prefix of the keys of tries without money, and the reasons.
const TRY: &str = "try ";
const WAITING: &str = "waiting";
const REFUSED: &str = "payment_declined";

/// A try without money so far.
struct Try<'a> {
    /// Sequence number.
    number: usize,
    began_at: u64,
    /// Reason of the failure; `waiting` while the payer's app or bank has not answered.
    why: &'a str,
}

/// Tries without money, oldest first.
fn tries(of: &Session) -> impl Iterator<Item = Try<'_>> {
    let tries = of.extra.iter().filter(|(name, _)| name.starts_with(TRY));
    tries.enumerate().filter_map(|(number, (_, kept))| {
        let (at, why) = kept.split_once(' ')?;
        Some(Try {
            number,
            began_at: at.parse().ok()?,
            why,
        })
    })
}

fn keep(of: &mut Session, now: u64, why: &str) {
    let name = format!("{TRY}{:04}", tries(of).count());
    of.extra.insert(name, format!("{now} {why}"));
}

/// The payer's bank declines.
pub(crate) fn refused(of: &mut Session, now: u64) {
    keep(of, now, REFUSED);
}

/// The payer leaves with the payment open in an app; at most one such try is recorded.
pub(crate) fn waits(of: &mut Session, now: u64) {
    if !tries(of).any(|each| each.why == WAITING) {
        keep(of, now, WAITING);
    }
}

/// Whether the payer may still approve in an app a try that was started on the link, even if the link has ended.
pub(crate) fn may_come_late(of: &Session, now: u64) -> bool {
    tries(of).any(|each| each.why == WAITING && now < each.began_at.saturating_add(LATE_MS))
}

/// The payer has approved: the waiting try becomes the payment.
pub(crate) fn approved(of: &mut Session) {
    of.extra
        .retain(|name, kept| !(name.starts_with(TRY) && kept.ends_with(WAITING)));
}

pub(crate) fn is_tried(of: &Session) -> bool {
    status(of).is_some() || tries(of).next().is_some()
}

/// Id of the payment. All ids of one payment have the same suffix.
pub(crate) fn id(of: &Session) -> String {
    format!("pay_{}", end(of))
}

/// Id of the order that contains the tries.
pub(crate) fn order_id(of: &Session) -> String {
    format!("order_{}", end(of))
}

fn end(of: &Session) -> &str {
    of.reference.rsplit('_').next().unwrap_or_default()
}

/// The link that the id of a payment, a try or an order belongs to.
pub(crate) fn link_id(id: &str) -> Option<String> {
    let (kind, end) = id.split_once('_')?;
    let known = matches!(kind, "pay" | "order");
    known.then(|| format!("plink_{}", end.split('t').next().unwrap_or_default()))
}

/// `status` of the approved payment. `None` if there is none.
fn status(of: &Session) -> Option<&'static str> {
    Some(match of.state {
        // The document "Capture settings": an authorization that is not captured in time is refunded.
        State::Closed if of.voided => "refunded",
        State::Open | State::Declined | State::Closed => return None,
        State::Authorised => "authorized",
        State::Captured => "captured",
        State::Refunded => "refunded",
    })
}

/// All payments of the order, oldest first.
pub(crate) fn all(of: &Session, now: u64) -> Vec<Value> {
    let tried = tries(of).map(|each| tried(of, &each, now));
    tried.chain(payment(of)).collect()
}

/// The payment for an event: the approved one, or else the last try.
pub(crate) fn newest(of: &Session, now: u64) -> Option<Value> {
    all(of, now).pop()
}

fn tried(of: &Session, each: &Try<'_>, now: u64) -> Value {
    let waits = each.why == WAITING;
    let failed = !waits || now >= each.began_at.saturating_add(PATIENCE_MS);
    let reason = if waits { "payment_timed_out" } else { each.why };
    let mut payment = told(of, if failed { "failed" } else { "created" });
    payment["id"] = json!(format!("{}t{}", id(of), each.number));
    payment["created_at"] = json!(each.began_at / 1_000);
    if failed {
        payment["error_code"] = json!("BAD_REQUEST_ERROR");
        payment["error_description"] = json!("Payment was unsuccessful.");
        payment["error_source"] = json!("customer");
        payment["error_step"] = json!("payment_authorization");
        payment["error_reason"] = json!(reason);
    }
    payment
}

/// The approved payment. `None` if there is none. Razorpay's fee is 2 % here, and 18 % tax on that.
fn payment(of: &Session) -> Option<Value> {
    let mut payment = told(of, status(of)?);
    let given_back = if of.voided {
        of.due.value.0
    } else {
        of.returned.0 + of.refunded(RefundState::Pending).0
    };
    payment["amount_refunded"] = json!(given_back);
    payment["refund_status"] = match payment["status"].as_str() {
        Some("refunded") => json!("full"),
        _ if given_back > 0 => json!("partial"),
        _ => Value::Null,
    };
    payment["acquirer_data"]["rrn"] = json!("103608848276");
    payment["created_at"] = json!(of.authorised_at.unwrap_or(of.created_at) / 1_000);
    if let Some(money) = &of.received {
        let (fee, tax) = fee(money.value);
        payment["captured"] = json!(true);
        payment["fee"] = json!(fee.saturating_add(tax));
        payment["tax"] = json!(tax);
    }
    Some(payment)
}

/// Razorpay's fee without tax, and the tax on it.
pub(crate) fn fee(received: Amount) -> (u64, u64) {
    let fee = received.0 / 50;
    (fee, fee.saturating_mul(18) / 100)
}

/// The fields of all payments.
fn told(of: &Session, status: &str) -> Value {
    // The amount received, or else the amount due: a wrong currency applies to the whole payment.
    let money = of.received.as_ref().unwrap_or(&of.due);
    json!({
        "id": id(of),
        "entity": "payment",
        "amount": money.value.0,
        "currency": money.currency,
        "status": status,
        "order_id": order_id(of),
        "invoice_id": null,
        "international": false,
        "method": "upi",
        "amount_refunded": 0,
        "refund_status": null,
        "captured": false,
        "description": format!("#{}", end(of)),
        "card_id": null,
        "bank": null,
        "wallet": null,
        "vpa": "payer@upi",
        "email": "payer@example.com",
        "contact": "+919000090000",
        "notes": [],
        "fee": null,
        "tax": null,
        "error_code": null,
        "error_description": null,
        "error_source": null,
        "error_step": null,
        "error_reason": null,
        "acquirer_data": { "rrn": null },
        "created_at": of.created_at / 1_000,
    })
}

/// The order of a link. `None` before the first try.
pub(crate) fn order(of: &Session, now: u64) -> Option<Value> {
    let attempts = all(of, now).len();
    let paid = of.received.as_ref().map_or(0, |money| money.value.0);
    is_tried(of).then(|| {
        json!({
            "id": order_id(of),
            "entity": "order",
            "amount": of.due.value.0,
            "amount_paid": paid,
            "amount_due": of.due.value.0.saturating_sub(paid),
            "currency": of.due.currency,
            "receipt": of.attempt_id,
            "status": if of.received.is_some() { "paid" } else { "attempted" },
            "attempts": attempts,
            "notes": [],
            "created_at": of.created_at / 1_000,
        })
    })
}

/// All refunds of the payment, newest first: the merchant's, and Razorpay's automatic refund of an uncaptured
/// authorization.
pub(crate) fn refunds(of: &Session) -> Vec<Value> {
    let made = of.refunds.iter().rev().map(|made| refund(of, made));
    made.chain(released(of)).collect()
}

/// Razorpay's automatic refund of an authorization that was not captured in time.
pub(crate) fn released(of: &Session) -> Option<Value> {
    of.voided.then(|| {
        let id = format!("rfnd_{}", end(of));
        refund(of, &Refund::of_vendor(id, of.due.value, of.updated_at))
    })
}

/// The disputes, oldest first. The bank's inquiry has the phase `fraud`.
pub(crate) fn disputes(of: &Session) -> Vec<Value> {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let told = |name: &str, amount: Amount, chargeback, status, respond_by: u64, at: u64| {
        json!({
            "id": name,
            "entity": "dispute",
            "payment_id": id(of),
            "amount": amount.0,
            "currency": money.currency,
            "amount_deducted": if status == "lost" { amount.0 } else { 0 },
            "reason_code": if chargeback { "chargeback" } else { "fraud" },
            "respond_by": respond_by / 1_000,
            "status": status,
            "phase": if chargeback { "chargeback" } else { "fraud" },
            "created_at": at / 1_000,
        })
    };
    let mut all = Vec::new();
    if of.extra.contains_key(ASKED) {
        let status = if of.held && of.state != State::Refunded {
            "open"
        } else {
            "closed"
        };
        let respond_by = of.updated_at.saturating_add(ANSWER_MS);
        let id = format!("disp_{}", end(of));
        all.push(told(
            &id,
            money.value,
            false,
            status,
            respond_by,
            of.updated_at,
        ));
    }
    let disputed = of.disputes.iter().map(|dispute| {
        let status = match dispute.state {
            DisputeState::Open if of.state == State::Refunded => "closed",
            DisputeState::Open => "open",
            DisputeState::Won => "won",
            DisputeState::Lost => "lost",
        };
        let (id, amount) = (dispute.id.as_str(), dispute.amount);
        told(
            id,
            amount,
            !dispute.inquiry,
            status,
            dispute.respond_by,
            dispute.opened_at,
        )
    });
    all.extend(disputed);
    all
}

/// Notes and speed of a refund's request.
fn words(refund: &Refund) -> Value {
    let asked = refund.asked.as_ref();
    let words = asked.and_then(|asked| asked.note.as_deref());
    let words = words.and_then(|words| serde_json::from_str(words).ok());
    words.unwrap_or_else(|| json!({ "notes": [], "speed": "normal" }))
}

/// Replaces the notes of a refund.
pub(crate) fn note(refund: &mut Refund, notes: Value) {
    let mut words = words(refund);
    words["notes"] = notes;
    refund.asked.get_or_insert_default().note = Some(words.to_string());
}

/// A refund with the receipt, notes and speed of its request.
pub(crate) fn refund(of: &Session, refund: &Refund) -> Value {
    let money = of.received.as_ref().unwrap_or(&of.due);
    let words = words(refund);
    json!({
        "id": refund.id,
        "entity": "refund",
        "amount": refund.amount.0,
        "currency": money.currency,
        "payment_id": id(of),
        "notes": words["notes"],
        "receipt": refund.order(),
        "acquirer_data": { "arn": null },
        "created_at": refund.created_at / 1_000,
        "batch_id": null,
        "status": match refund.state {
            RefundState::Pending => "pending",
            RefundState::Succeeded => "processed",
            RefundState::Failed | RefundState::Cancelled => "failed",
        },
        "speed_processed": "normal",
        "speed_requested": words["speed"],
    })
}
