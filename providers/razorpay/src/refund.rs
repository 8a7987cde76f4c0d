//! Refunds of a captured payment.
//!
//! Razorpay prevents duplicates by `X-Refund-Idempotency`, but does not document how long. So the payment's
//! refunds are read before another is requested: each contains its `receipt`, the refund order's id.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::api;
use crate::query::{self, MOST_REFUNDED, PAYMENTS, is_id, unavailable};
use crate::wire::{self, Payment, Problem};

/// Maximum length of a note, in characters.
const NOTE: usize = 256;
/// Maximum length of Razorpay's message in a detail, in characters.
const WORDS: usize = 120;

/// Refund terms: UPI, in full or in parts. Razorpay itself sets no time limit; it passes on the answer of the
/// bank, and most banks refuse after six months ("Handle Refund Errors").
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    vec![Refundable::in_parts("upi_imps")]
}

/// Result of a search for a refund.
enum Looked {
    /// The refund exists.
    Made(Given),
    /// The refund does not exist; these are the captured payments.
    NotOf(Vec<Payment>),
}

/// Makes the refund, or finds the refund that an earlier call made.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    let payments = match look(account, paid, order) {
        Ok(Looked::Made(given)) => return Ok(given),
        Ok(Looked::NotOf(payments)) => payments,
        Err(QueryFailure::Unavailable(why)) => return Err(RefundFailure::Unavailable(why)),
        Err(QueryFailure::Absent) => {
            return Err(RefundFailure::Refused("the link is unknown".into()));
        }
    };
    // If the link was paid more than one time: the payment with a sufficient remaining amount.
    let enough = |payment: &&Payment| {
        payment.money.amount.saturating_sub(payment.refunded) >= order.amount.amount
    };
    let payment = payments.iter().find(enough).or_else(|| payments.first());
    let payment = payment.ok_or_else(|| RefundFailure::Refused("nothing was captured".into()))?;
    let path = format!("{PAYMENTS}/{}/refund", payment.id);
    let answer = api::refund(account, &path, &order.id, &body(order))?;
    if answer.is_success() {
        let refund = answer
            .json()
            .as_ref()
            .and_then(|told| answered(told, order));
        return refund
            .map(|refund| given(&refund))
            .ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()));
    }
    let problem = wire::problem(&answer);
    match problem.status {
        401 | 429 => Err(RefundFailure::Unavailable(problem.to_string())),
        // An earlier request with this key is in progress.
        409 => Err(RefundFailure::Uncertain(problem.to_string())),
        // This request refunded nothing. An earlier one whose answer was lost is visible now.
        400..=499 => match look(account, paid, order) {
            Ok(Looked::Made(given)) => Ok(given),
            Ok(Looked::NotOf(_)) => Err(RefundFailure::Refused(said(&problem))),
            Err(_) => Err(RefundFailure::Uncertain(problem.to_string())),
        },
        _ => Err(RefundFailure::Uncertain(problem.to_string())),
    }
}

/// Queries a refund by its id, or searches the refunds of the link's payments.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if let Some(id) = order.reference.as_deref().filter(|id| is_id(id)) {
        let answer = api::get(account, &format!("/v1/refunds/{id}"))?;
        if answer.status != 200 {
            // Razorpay issued this id, so that an unknown id proves nothing.
            return Err(query::refused(&answer));
        }
        let refund = answer
            .json()
            .as_ref()
            .and_then(|told| answered(told, order));
        return refund
            .map(|refund| given(&refund))
            .ok_or_else(query::unreadable);
    }
    match look(account, paid, order) {
        Ok(Looked::Made(given)) => Ok(given),
        Ok(Looked::NotOf(_)) => Err(QueryFailure::Absent),
        Err(QueryFailure::Absent) => Err(unavailable("the link is unknown")),
        Err(failure) => Err(failure),
    }
}

/// Searches for the refund in every captured payment of the link.
fn look(account: &Account, paid: &Paid, order: &Order) -> Result<Looked, QueryFailure> {
    let link = if is_id(&paid.reference) {
        query::read(account, &paid.attempt, &paid.reference)?
    } else {
        query::find(account, &paid.attempt)?.ok_or(QueryFailure::Absent)?
    };
    let (mut payments, unreadable) = query::tries(account, &link)?;
    payments.retain(|payment| payment.captured);
    let currency = &order.amount.currency;
    payments.retain(|payment| payment.money.currency == *currency);
    if payments.len() > MOST_REFUNDED {
        return Err(unavailable("it was paid more often than is looked at"));
    }
    for payment in &payments {
        let refunds = query::refunds_of(account, &payment.id)?;
        let ours = |refund: &&Refund| refund.order_id.as_ref() == Some(&order.id);
        let ours = refunds.read.iter().filter(ours);
        // If two refunds have this id, the one with the most progress counts.
        if let Some(refund) = ours.max_by_key(|refund| progress(refund.state)) {
            return Ok(Looked::Made(given(refund)));
        }
        if !refunds.complete {
            return Err(unavailable("the payment has refunds that were not read"));
        }
    }
    if let Some(why) = unreadable.first() {
        return Err(unavailable(why));
    }
    Ok(Looked::NotOf(payments))
}

const fn progress(state: RefundState) -> u8 {
    match state {
        RefundState::Failed => 0,
        RefundState::Pending => 1,
        RefundState::Succeeded => 2,
    }
}

/// Reads the answer to the order's own request, which may omit the order's id and amount.
fn answered(told: &Json, order: &Order) -> Option<Refund> {
    let amount = order.amount.amount;
    let refund = wire::refund_of(told, Some(amount))?;
    (refund.amount == amount).then_some(refund)
}

/// Body of the request. Normal speed, because an instant refund costs a fee, and may be the account's default.
fn body(order: &Order) -> Json {
    let mut body = vec![
        ("amount".to_owned(), order.amount.amount.into()),
        ("speed".to_owned(), "normal".into()),
        ("receipt".to_owned(), order.id.as_str().into()),
    ];
    if let Some(reason) = &order.reason {
        let plain = reason.chars().filter(|c| !c.is_control());
        let reason: String = plain.take(NOTE).collect();
        body.push(("notes".to_owned(), object([("reason", reason.into())])));
    }
    Json::Object(body)
}

fn given(refund: &Refund) -> Given {
    let detail = match refund.state {
        RefundState::Pending => "pending at the bank",
        RefundState::Succeeded => "processed",
        RefundState::Failed => "failed",
    };
    Given {
        reference: refund.id.clone(),
        state: refund.state,
        claim_url: None,
        detail: detail.into(),
        paid_out: None,
    }
}

/// Reason of a refusal: for refunds only the description contains it.
fn said(problem: &Problem) -> String {
    let plain = problem
        .description
        .chars()
        .filter(|c| matches!(c, ' '..='~'));
    let words: String = plain.take(WORDS).collect();
    format!("status {}: {words}", problem.status)
}

#[cfg(test)]
mod tests;
