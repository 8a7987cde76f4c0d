//! Giving money back: a refund of the order's capture.
//!
//! The order is read first. It names its capture, and shows a refund that an earlier call made. Two things
//! beside keep a repeat from giving back twice: PayPal answers a request id for 45 days with the refund that
//! it made, and an `invoice_id` refunds once (`DUPLICATE_INVOICE_ID`).
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::api::{self, Problem};
use crate::{money, wire};

/// Days after the payment in which PayPal takes a refund ("Refund Payments for Individual Transactions").
const DAYS: u32 = 180;

/// How long PayPal keeps a refund's request id, less a day, in milliseconds.
const KEPT: u64 = 44 * 86_400_000;

/// Longest note to the payer, in characters.
const NOTE: usize = 255;

/// Both wallets give back in parts. How many refunds a capture takes PayPal does not say.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    let term = |method| Refundable {
        days: Some(DAYS),
        ..Refundable::in_parts(method)
    };
    vec![term("paypal"), term("venmo")]
}

/// Gives back, or finds what an earlier call gave back.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    let body = body(paid, order).ok_or_else(|| {
        let currency = &order.amount.currency;
        RefundFailure::Refused(format!("PayPal gives {currency} back without decimals"))
    })?;
    let known = read(account, paid).map_err(|failure| match failure {
        QueryFailure::Unavailable(why) => RefundFailure::Unavailable(why),
        QueryFailure::Absent => RefundFailure::Unavailable("the order is unknown".into()),
    })?;
    let capture = match &known {
        Some(known) => {
            if let Some(given) = listed(known, order) {
                return Ok(given);
            }
            known.credited().map(|capture| capture.id.as_str())
        }
        None if account.now >= order.asked_at.saturating_add(KEPT) => {
            let why = "PayPal tells neither the order nor keeps the request id any more";
            return Err(RefundFailure::Uncertain(why.into()));
        }
        None => {
            let mut others = paid.references.iter().map(String::as_str);
            others.find(|id| wire::is_id(id))
        }
    };
    let capture = capture.ok_or_else(|| {
        RefundFailure::Refused("the order shows no capture that took money".into())
    })?;
    let path = format!("/v2/payments/captures/{capture}/refund");
    let answer = api::post(account, &path, &order.id, &body)?;
    if matches!(answer.status, 200 | 201) {
        return told(&answer, paid, order).ok_or_else(unreadable);
    }
    let problem = api::problem(&answer);
    match meaning(&problem) {
        Meaning::Later => Err(RefundFailure::Unavailable(problem.to_string())),
        Meaning::Unclear => Err(RefundFailure::Uncertain(problem.to_string())),
        // This request gave nothing back. An earlier one whose answer was lost is seen in the order.
        Meaning::Refused => match read(account, paid) {
            Ok(now) => match now.and_then(|now| listed(&now, order)) {
                Some(given) => Ok(given),
                None => Err(RefundFailure::Refused(problem.to_string())),
            },
            Err(_) => Err(RefundFailure::Uncertain(problem.to_string())),
        },
    }
}

/// Asks for a refund by its id, or looks for it in the order.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if let Some(id) = order.reference.as_deref().filter(|id| wire::is_id(id)) {
        let answer = api::get(account, &format!("/v2/payments/refunds/{id}"))?;
        if answer.status != 200 {
            // PayPal has named this id: that it does not know it is no proof.
            return Err(unavailable(&api::problem(&answer).to_string()));
        }
        return told(&answer, paid, order).ok_or_else(|| unavailable("the answer cannot be read"));
    }
    let known = read(account, paid)?;
    let known = known.ok_or_else(|| unavailable("PayPal tells the order no more"))?;
    listed(&known, order).ok_or(QueryFailure::Absent)
}

/// Reads the order; none where PayPal tells it no more.
fn read(account: &Account, paid: &Paid) -> Result<Option<wire::Order>, QueryFailure> {
    if !wire::is_id(&paid.reference) {
        return Ok(None);
    }
    let answer = api::get(account, &format!("/v2/checkout/orders/{}", paid.reference))?;
    match answer.status {
        200 => match answer.json().as_ref().and_then(wire::order) {
            Some(order) if order.attempt == paid.attempt => Ok(Some(order)),
            Some(_) => Err(unavailable("the order belongs to another attempt")),
            None => Err(unavailable("the answer cannot be read")),
        },
        404 => Ok(None),
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// The whole amount is named too: PayPal would give back all that is left by then.
fn body(paid: &Paid, order: &Order) -> Option<Json> {
    let mut body = vec![
        ("amount".to_owned(), money::written(&order.amount)?),
        // So that news of the refund leads to the attempt.
        ("custom_id".to_owned(), paid.attempt.as_str().into()),
        ("invoice_id".to_owned(), order.id.as_str().into()),
    ];
    let reason = order.reason.as_deref().unwrap_or_default();
    let plain = reason.chars().filter(|c| !c.is_control());
    let note: String = plain.take(NOTE).collect();
    if !note.trim().is_empty() {
        body.push(("note_to_payer".to_owned(), note.into()));
    }
    Some(Json::Object(body))
}

/// Reads the refund that an answer tells; none that is another one's.
fn told(answer: &Answer, paid: &Paid, order: &Order) -> Option<Given> {
    let value = answer.json()?;
    let refund = wire::refund(&value, &order.amount.currency, &paid.attempt)?;
    (refund.amount == order.amount.amount).then_some(())?;
    let reason = wire::word(value.path(&["status_details", "reason"]));
    Some(given(&refund, reason))
}

/// Finds the refund among those of its order.
fn listed(known: &wire::Order, order: &Order) -> Option<Given> {
    let ours = |refund: &&Refund| refund.order_id.as_ref() == Some(&order.id);
    known
        .refunds
        .iter()
        .find(ours)
        .map(|refund| given(refund, None))
}

fn given(refund: &Refund, reason: Option<String>) -> Given {
    let said = match refund.state {
        RefundState::Pending => "pending",
        RefundState::Succeeded => "completed",
        RefundState::Failed => "failed or cancelled",
    };
    Given {
        reference: refund.id.clone(),
        state: refund.state,
        claim_url: None,
        detail: match reason {
            Some(reason) => format!("{said}, {reason}"),
            None => said.into(),
        },
    }
}

/// What a refusal proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Nothing about the refund.
    Later,
    /// This request gave nothing back.
    Refused,
    /// It may have.
    Unclear,
}

fn meaning(problem: &Problem) -> Meaning {
    match (problem.status, problem.issue.as_str()) {
        // A refund of this order was made before.
        (_, "DUPLICATE_INVOICE_ID" | "DUPLICATE_REQUEST_ID") => Meaning::Unclear,
        (401 | 429, _) => Meaning::Later,
        // PREVIOUS_REQUEST_IN_PROGRESS
        (409, _) => Meaning::Unclear,
        (400..=499, _) => Meaning::Refused,
        _ => Meaning::Unclear,
    }
}

fn unreadable() -> RefundFailure {
    RefundFailure::Uncertain("the answer cannot be read".into())
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests;
