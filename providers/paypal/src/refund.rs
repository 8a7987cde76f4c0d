//! Refunds of the order's capture.
//!
//! The order is read first: it contains the capture, and any refund made by an earlier call. Two more measures
//! prevent a double refund: PayPal answers a repeated request id with the same refund for 45 days, and accepts an
//! `invoice_id` for only one refund (`DUPLICATE_INVOICE_ID`).
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::api::{self, Problem};
use crate::start::cut;
use crate::{money, wire};

/// Days after the payment in which PayPal accepts a refund ("Refund Payments for Individual Transactions").
const DAYS: u32 = 180;

/// Time in which a request id can be repeated, in milliseconds: PayPal's 45 days, minus a day.
const KEPT: u64 = 44 * 86_400_000;

/// Maximum length of the note to the payer, in UTF-16 code units.
const NOTE: usize = 255;

/// Refund terms: both wallets, in full or in parts. PayPal documents no maximum number of refunds per capture.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    let term = |method| Refundable {
        days: Some(DAYS),
        whole_units: money::WHOLE.map(str::to_owned).into(),
        ..Refundable::in_parts(method)
    };
    vec![term("paypal"), term("venmo")]
}

/// Makes the refund, or finds the refund that an earlier call made.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    let noted = body(paid, order, true).ok_or_else(|| {
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
    let mut answer = api::post(account, &path, &order.id, &noted)?;
    // Repeat without the note if PayPal refuses it.
    if matches!(answer.status, 400 | 422) && api::problem(&answer).is_about_words() {
        let bare = body(paid, order, false).unwrap_or(noted);
        answer = api::post(account, &path, &format!("{}-bare", order.id), &bare)?;
    }
    if matches!(answer.status, 200 | 201) {
        return told(&answer, paid, order).ok_or_else(unreadable);
    }
    let problem = api::problem(&answer);
    match meaning(&problem) {
        Meaning::Later => Err(RefundFailure::Unavailable(problem.to_string())),
        Meaning::Unclear => Err(RefundFailure::Uncertain(problem.to_string())),
        // This request refunded nothing. The order shows whether an earlier request, whose answer was lost, did.
        Meaning::Refused => match read(account, paid) {
            Ok(now) => match now.and_then(|now| listed(&now, order)) {
                Some(given) => Ok(given),
                None => Err(RefundFailure::Refused(problem.to_string())),
            },
            Err(_) => Err(RefundFailure::Uncertain(problem.to_string())),
        },
    }
}

/// Queries a refund by its id, or finds it in the order.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if let Some(id) = order.reference.as_deref().filter(|id| wire::is_id(id)) {
        let answer = api::get(account, &format!("/v2/payments/refunds/{id}"))?;
        if answer.status != 200 {
            // PayPal issued this id, so that a 404 proves nothing.
            return Err(unavailable(&api::problem(&answer).to_string()));
        }
        return told(&answer, paid, order).ok_or_else(|| unavailable("the answer cannot be read"));
    }
    let known = read(account, paid)?;
    let known = known.ok_or_else(|| unavailable("PayPal tells the order no more"))?;
    match (listed(&known, order), known.unreadable.first()) {
        (Some(given), _) => Ok(given),
        // The unreadable entry may be this refund.
        (None, Some(why)) => Err(unavailable(why)),
        (None, None) => Err(QueryFailure::Absent),
    }
}

/// Reads the order. `None` if the reference is not an order id or PayPal no longer knows the order.
fn read(account: &Account, paid: &Paid) -> Result<Option<wire::Order>, QueryFailure> {
    if !wire::is_id(&paid.reference) {
        return Ok(None);
    }
    let answer = api::get(account, &format!("/v2/checkout/orders/{}", paid.reference))?;
    let currency = Some(paid.received.currency.as_str());
    match answer.status {
        200 => match answer
            .json()
            .and_then(|order| wire::order(&order, currency))
        {
            Some(order) if order.is_of(&paid.attempt) => Ok(Some(order)),
            Some(_) => Err(unavailable("the order belongs to another attempt")),
            None => Err(unavailable("the answer cannot be read")),
        },
        404 => Ok(None),
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Body of the request. `None` if PayPal cannot represent the amount. A full refund contains its amount too,
/// because PayPal would otherwise refund everything that is left at that time.
fn body(paid: &Paid, order: &Order, noted: bool) -> Option<Json> {
    let mut body = vec![
        ("amount".to_owned(), money::written(&order.amount)?),
        // Lets webhooks about the refund name the attempt.
        ("custom_id".to_owned(), paid.attempt.as_str().into()),
        ("invoice_id".to_owned(), order.id.as_str().into()),
    ];
    let reason = order.reason.as_deref().unwrap_or_default();
    let note = cut(reason, NOTE);
    if noted && !note.trim().is_empty() {
        body.push(("note_to_payer".to_owned(), note.into()));
    }
    Some(Json::Object(body))
}

/// Reads the refund in an answer. `None` if its amount or currency differs from the order's. A minimal answer
/// contains neither amount nor order id and is trusted, because it answers the order's own request.
fn told(answer: &Answer, paid: &Paid, order: &Order) -> Option<Given> {
    let value = answer.json()?;
    let amount = Some(order.amount.amount);
    let refund = wire::refund(&value, &order.amount.currency, &paid.attempt, amount)?;
    (refund.amount == order.amount.amount).then_some(())?;
    let reason = wire::word(value.path(&["status_details", "reason"]));
    Some(given(&refund, reason))
}

/// Finds the order's refund in the PayPal order.
fn listed(known: &wire::Order, order: &Order) -> Option<Given> {
    let ours = |refund: &&Refund| refund.order_id.as_ref() == Some(&order.id);
    // If two refunds have this id, the one with the most progress counts.
    let ours = known.refunds.iter().filter(ours);
    ours.max_by_key(|refund| progress(refund.state))
        .map(|refund| given(refund, None))
}

const fn progress(state: RefundState) -> u8 {
    match state {
        RefundState::Failed => 0,
        RefundState::Pending => 1,
        RefundState::Succeeded => 2,
    }
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
        paid_out: None,
    }
}

/// Meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Proves nothing about the refund; try again later.
    Later,
    /// This request refunded nothing.
    Refused,
    /// The refund may exist.
    Unclear,
}

fn meaning(problem: &Problem) -> Meaning {
    match (problem.status, problem.issue.as_str()) {
        // A refund with this order's id exists already.
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
