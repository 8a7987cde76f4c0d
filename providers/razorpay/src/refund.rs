//! Giving money back: a refund of the payment that was captured.
//!
//! Razorpay keeps a refund to one by `X-Refund-Idempotency`, and does not say for how long. So the refunds
//! that the payment has are read before another is made: each shows its `receipt`, which is our id for it.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::api;
use crate::query::{self, MOST_REFUNDED, PAGE, PAYMENTS, is_id, unavailable};
use crate::wire::{self, Payment, Problem};

/// Longest note, in characters.
const NOTE: usize = 256;
/// Most of Razorpay's words that are told, in bytes.
const WORDS: usize = 120;

/// UPI payments are given back in parts. Razorpay itself knows no last day: it hands on what the bank says,
/// most of which take nothing back after six months ("Handle Refund Errors").
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    vec![Refundable::in_parts("upi_imps")]
}

/// What was found about a refund.
enum Looked {
    /// It was made before.
    Made(Given),
    /// None of these payments, all that took money, shows it.
    NotOf(Vec<Payment>),
}

/// Gives back, or finds what an earlier call gave back.
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
    // Of a link that was paid twice the payment that has enough left.
    let enough = |payment: &&Payment| {
        payment.money.amount.saturating_sub(payment.refunded) >= order.amount.amount
    };
    let payment = payments.iter().find(enough).or_else(|| payments.first());
    let payment = payment.ok_or_else(|| RefundFailure::Refused("nothing was captured".into()))?;
    let path = format!("{PAYMENTS}/{}/refund", payment.id);
    let answer = api::refund(account, &path, &order.id, &body(order))?;
    if answer.is_success() {
        let refund = answer.json().as_ref().and_then(wire::refund);
        let ours = refund.filter(|refund| refund.amount == order.amount.amount);
        return ours
            .map(|refund| given(&refund))
            .ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()));
    }
    let problem = wire::problem(&answer);
    match problem.status {
        401 | 429 => Err(RefundFailure::Unavailable(problem.to_string())),
        // An earlier request with this key is still being worked at.
        409 => Err(RefundFailure::Uncertain(problem.to_string())),
        // This request gave nothing back. An earlier one whose answer was lost is seen now.
        400..=499 => match look(account, paid, order) {
            Ok(Looked::Made(given)) => Ok(given),
            Ok(Looked::NotOf(_)) => Err(RefundFailure::Refused(said(&problem))),
            Err(_) => Err(RefundFailure::Uncertain(problem.to_string())),
        },
        _ => Err(RefundFailure::Uncertain(problem.to_string())),
    }
}

/// Asks for a refund by its id, or looks for it among those of the payment.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if let Some(id) = order.reference.as_deref().filter(|id| is_id(id)) {
        let answer = api::get(account, &format!("/v1/refunds/{id}"))?;
        if answer.status != 200 {
            // Razorpay has named this id: that it does not know it is no proof.
            return Err(query::refused(&answer));
        }
        let refund = answer.json().as_ref().and_then(wire::refund);
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

/// Looks for the refund at every payment of the link that took money.
fn look(account: &Account, paid: &Paid, order: &Order) -> Result<Looked, QueryFailure> {
    let link = if is_id(&paid.reference) {
        query::read(account, &paid.attempt, &paid.reference)?
    } else {
        query::find(account, &paid.attempt)?.ok_or(QueryFailure::Absent)?
    };
    let mut payments = query::tries(account, &link)?;
    payments.retain(|payment| payment.captured);
    let currency = &order.amount.currency;
    payments.retain(|payment| payment.money.currency == *currency);
    if payments.len() > MOST_REFUNDED {
        return Err(unavailable("it was paid more often than is looked at"));
    }
    for payment in &payments {
        let refunds = query::refunds_of(account, &payment.id)?;
        let ours = |refund: &&Refund| refund.order_id.as_ref() == Some(&order.id);
        if let Some(refund) = refunds.iter().find(ours) {
            return Ok(Looked::Made(given(refund)));
        }
        if refunds.len() >= PAGE {
            return Err(unavailable(
                "the payment has more refunds than are looked at",
            ));
        }
    }
    Ok(Looked::NotOf(payments))
}

/// At the usual speed: an instant one costs a fee, and an account may be set to it.
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
    }
}

/// Why Razorpay refuses: of refunds only its description says it.
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
