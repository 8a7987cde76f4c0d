//! Parts of a payment: captures, refunds, chargebacks, the payer's means of payment.
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    account::Account,
    afterwards::{Dispute, DisputeState},
    mollie::{problem::Problem, wire::time},
    money::{Amount, Money},
    refund::{Refund, RefundState},
    session::Session,
};

/// Key in a session's `extra`: number of failed captures before the newest one.
const FAILED: &str = "failedCaptures";

/// Key in a session's `extra`: time of the reversal of an immediate chargeback.
const REVERSED: &str = "reversedAt";

/// Parts that can be embedded in a payment.
const EMBEDDED: [&str; 3] = ["captures", "refunds", "chargebacks"];

/// The embedded parts that a query requests.
pub(crate) fn asked(query: Option<&str>) -> Result<Vec<&'static str>, Problem> {
    let known = |name: &str| EMBEDDED.into_iter().find(|known| *known == name);
    let unknown = || Problem::bad_request("embed: captures, refunds or chargebacks");
    let query = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut asked = Vec::new();
    for (name, value) in query {
        match name.as_ref() {
            "embed" => {
                for name in value.split(',').filter(|name| !name.is_empty()) {
                    asked.push(known(name).ok_or_else(unknown)?);
                }
            }
            // QR codes and details, which simulated payers do not need.
            "include" | "testmode" => {}
            _ => return Err(Problem::bad_request(format!("{name}: unknown parameter"))),
        }
    }
    Ok(asked)
}

/// The embedded parts with these names, each newest first.
pub(crate) fn embedded(account: &Account, session: &Session, names: &[&'static str]) -> Value {
    let list = |name: &str| match name {
        "captures" => captures(account, session),
        "refunds" => refunds(account, session),
        _ => chargebacks(session),
    };
    let named = names
        .iter()
        .map(|name| ((*name).to_owned(), list(name).into()));
    Value::Object(named.collect::<Map<String, Value>>())
}

/// Records a failed capture, before the next one is requested.
pub(crate) fn begin_anew(session: &mut Session) {
    if session.capture_refused {
        let failed = failed(session) + 1;
        session.extra.insert(FAILED.to_owned(), failed.to_string());
        session.capture_refused = false;
    }
}

fn failed(session: &Session) -> usize {
    let kept = session.extra.get(FAILED);
    kept.and_then(|kept| kept.parse().ok()).unwrap_or(0)
}

/// The newest capture as the API returns it.
pub(crate) fn capture(account: &Account, session: &Session) -> Value {
    let status = match session.capturing() {
        Some(_) => "pending",
        None if session.received.is_some() => "succeeded",
        None if session.capture_refused => "failed",
        None => "pending",
    };
    told(account, session, failed(session), status)
}

/// The list of a payment's captures.
pub(crate) fn listed(account: &Account, session: &Session) -> Value {
    let captures = captures(account, session);
    json!({
        "count": captures.len(),
        "_embedded": { "captures": captures },
        "_links": {
            "self": { "href": format!("{}/captures", own(session)), "type": "application/hal+json" },
            "previous": null,
            "next": null,
        },
    })
}

fn captures(account: &Account, session: &Session) -> Vec<Value> {
    let before = failed(session);
    let asked = session.capture_key.is_some();
    let newest = (asked || session.received.is_some()).then(|| capture(account, session));
    let failed = (0..before)
        .rev()
        .map(|number| told(account, session, number, "failed"));
    newest.into_iter().chain(failed).collect()
}

fn told(account: &Account, session: &Session, number: usize, status: &str) -> Value {
    let id = session
        .reference
        .replacen("tr_", &format!("cpt_{number}"), 1);
    let own = own(session);
    json!({
        "resource": "capture",
        "id": id,
        "mode": account.settings.environment.as_str(),
        "amount": session.taken().unwrap_or(&session.due),
        "status": status,
        "paymentId": session.reference,
        "createdAt": time(session.updated_at),
        "_links": {
            "self": { "href": format!("{own}/captures/{id}"), "type": "application/hal+json" },
            "payment": { "href": own, "type": "application/hal+json" },
            "documentation": { "href": "https://docs.mollie.com", "type": "text/html" },
        },
    })
}

/// All refunds, newest first.
pub(crate) fn refunds(account: &Account, session: &Session) -> Vec<Value> {
    let refunds = session.refunds.iter().rev();
    refunds.map(|made| refund(account, session, made)).collect()
}

/// A refund as the API returns it.
pub(crate) fn refund(account: &Account, session: &Session, refund: &Refund) -> Value {
    let status = match (refund.state, refund.ends_at()) {
        // A refund that waits for the clock is shown as waiting for the balance.
        (RefundState::Pending, Some(None)) => "queued",
        (RefundState::Pending, _) => "pending",
        (RefundState::Succeeded, _) => "refunded",
        (RefundState::Failed, _) => "failed",
        (RefundState::Cancelled, _) => "canceled",
    };
    let note = Note::new(refund);
    let own = own(session);
    json!({
        "resource": "refund",
        "id": refund.id,
        "mode": account.settings.environment.as_str(),
        "amount": of_received(session, refund.amount),
        "settlementAmount": {
            "value": format!("-{}", refund.amount),
            "currency": of_received(session, refund.amount).currency,
        },
        "description": note.description,
        "metadata": note.metadata,
        "status": status,
        "paymentId": session.reference,
        "createdAt": time(refund.created_at),
        "_links": {
            "self": { "href": format!("{own}/refunds/{}", refund.id), "type": "application/hal+json" },
            "payment": { "href": own, "type": "application/hal+json" },
            "documentation": { "href": "https://docs.mollie.com", "type": "text/html" },
        },
    })
}

/// Further fields of a refund's request.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) description: String,
    pub(crate) metadata: Value,
}

impl Note {
    /// The fields of a refund; empty for a refund made in the dashboard.
    fn new(refund: &Refund) -> Self {
        let note = refund
            .asked
            .as_ref()
            .and_then(|asked| asked.note.as_deref());
        let read = note.and_then(|note| serde_json::from_str(note).ok());
        read.unwrap_or_default()
    }
}

/// The chargebacks. Each withdraws the money, defended or not, until the bank reverses it.
fn chargebacks(session: &Session) -> Vec<Value> {
    let chargeback = |id: &str, amount, created, reversed: Option<String>| {
        json!({
            "resource": "chargeback",
            "id": id,
            // Mollie writes some amounts with a minus, and the settlement's always.
            "amount": signed(session, amount, session.token.ends_with(['0', '2', '4', '6', '8'])),
            "settlementAmount": signed(session, amount, true),
            "reason": null,
            "paymentId": session.reference,
            "createdAt": time(created),
            "reversedAt": reversed,
        })
    };
    let disputed = session.disputes.iter().rev().map(|dispute| {
        let reversed = (dispute.state == DisputeState::Won).then(|| time(dispute.updated_at));
        chargeback(&dispute.id, dispute.amount, dispute.opened_at, reversed)
    });
    let reversed = session.extra.get(REVERSED).cloned();
    let at_once = (session.held || reversed.is_some()).then(|| {
        let id = session.reference.replacen("tr_", "chb_", 1);
        let amount = session
            .received
            .as_ref()
            .map_or(Amount(0), |money| money.value);
        chargeback(
            &id,
            amount,
            session.captured_at.unwrap_or_default(),
            reversed,
        )
    });
    disputed.chain(at_once).collect()
}

/// An amount of the received currency as text, with or without a minus.
fn signed(session: &Session, amount: Amount, minus: bool) -> Value {
    let sign = if minus { "-" } else { "" };
    let received = session.received.as_ref().unwrap_or(&session.due);
    json!({ "value": format!("{sign}{amount}"), "currency": received.currency })
}

/// The amount withdrawn by chargebacks.
pub(crate) fn charged_back(session: &Session) -> Amount {
    let taken = |dispute: &&Dispute| dispute.state != DisputeState::Won;
    let disputed = session.disputes.iter().filter(taken);
    let disputed: u64 = disputed.map(|dispute| dispute.amount.0).sum();
    let at_once = session.received.as_ref().filter(|_| session.held);
    Amount(disputed.saturating_add(at_once.map_or(0, |money| money.value.0)))
}

/// Reverses the immediate chargeback.
pub(crate) fn reverse(session: &mut Session, now: u64) {
    session.extra.insert(REVERSED.to_owned(), time(now));
}

/// The fee that Mollie reports: only PayPal's.
pub(crate) fn fee(session: &Session) -> Amount {
    Amount(if session.method == "paypal" { 199 } else { 0 })
}

/// The payer's means of payment. `None` before the approval.
pub(crate) fn details(session: &Session) -> Option<Value> {
    session.authorised_at?;
    Some(match session.method.as_str() {
        "credit_card" => json!({
            "cardLabel": "Mastercard", "cardNumber": "4444", "cardHolder": "T. TEST",
            "cardSecurity": "3dsecure", "feeRegion": "other",
        }),
        "ideal" => json!({
            "consumerName": "T. TEST", "consumerAccount": "NL91ABNA0417164300",
            "consumerBic": "ABNANL2A",
        }),
        "paypal" => json!({
            "consumerAccount": "payer@shop.example",
            "paypalReference": session.reference.replacen("tr_", "", 1),
            "paypalFee": of_received(session, fee(session)),
        }),
        _ => return None,
    })
}

/// Address of the payment at the API.
pub(crate) fn own(session: &Session) -> String {
    format!("https://api.mollie.com/v2/payments/{}", session.reference)
}

fn of_received(session: &Session, value: Amount) -> Money {
    let money = session.received.as_ref().unwrap_or(&session.due);
    Money {
        value,
        currency: money.currency.clone(),
    }
}
