//! Giving money back: a refund of the order, which is an order of its own.
//!
//! It carries the reference of the order that it gives back, so that its news leads there and one list shows
//! all of them; its `metadata` names the host's id for it. `Idempotency-Key` keeps it to one, and Revolut does
//! not say for how long, so that the list is read before another is made.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::wire::{self, REFUND, Tried};
use crate::{METHODS, api, query};

/// How long the order of a refund may take to reach its end ("Refund an order"), in milliseconds. One whose
/// payment is declined may be `processing` meanwhile.
const ENDS: u64 = 2 * 86_400_000;

/// Longest description, in characters.
const DESCRIPTION: usize = 255;

/// Both methods give back in parts; Revolut documents neither a last day nor a most.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    METHODS.into_iter().map(Refundable::in_parts).collect()
}

/// Gives back, or finds what an earlier call gave back.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    if !wire::is_id(&paid.reference) {
        return Err(RefundFailure::Refused("the order is unknown".into()));
    }
    match look(account, paid, order) {
        Ok(None) => {}
        Ok(Some(given)) => return Ok(given),
        Err(why) => return Err(RefundFailure::Unavailable(why)),
    }
    let path = format!("/api/orders/{}/refund", paid.reference);
    let answer = api::refund(account, &path, &order.id, &body(paid, order))?;
    if answer.is_success() {
        let made = wire::order(&answer.body).filter(|made| is_of(made, paid, order));
        return made
            .map(|made| given(&made, account.now))
            .ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()));
    }
    let problem = wire::problem(&answer);
    match problem.status {
        401 | 429 => Err(RefundFailure::Unavailable(problem.to_string())),
        409 => Err(RefundFailure::Uncertain(problem.to_string())),
        // A refund that is declined is answered 400, and its order is there all the same.
        400..=499 => match look(account, paid, order) {
            Ok(Some(given)) => Ok(given),
            Ok(None) => Err(RefundFailure::Refused(problem.to_string())),
            Err(_) => Err(RefundFailure::Uncertain(problem.to_string())),
        },
        _ => Err(RefundFailure::Uncertain(problem.to_string())),
    }
}

/// Asks for a refund by its id, or looks for it among those of the order.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if let Some(id) = order.reference.as_deref().filter(|id| wire::is_id(id)) {
        return match query::read(account, id) {
            Ok(made) if is_of(&made, paid, order) => Ok(given(&made, account.now)),
            Ok(_) => Err(query::unavailable("the order is no refund of this one")),
            // Revolut has named this id: that it does not know it is no proof.
            Err(QueryFailure::Absent) => Err(query::unavailable("the refund is unknown")),
            Err(failure) => Err(failure),
        };
    }
    match look(account, paid, order) {
        Ok(Some(given)) => Ok(given),
        Ok(None) => Err(QueryFailure::Absent),
        Err(why) => Err(QueryFailure::Unavailable(why)),
    }
}

/// Looks for the refund; why that cannot be done now.
fn look(account: &Account, paid: &Paid, order: &Order) -> Result<Option<Given>, String> {
    match query::refunds(account, &paid.attempt, &paid.reference) {
        Ok(refunds) => {
            let ours = |refund: &Refund| refund.order_id.as_ref() == Some(&order.id);
            let found = refunds.into_iter().find(ours);
            Ok(found.map(|refund| told(refund.id, refund.state)))
        }
        Err(QueryFailure::Unavailable(why)) => Err(why),
        Err(QueryFailure::Absent) => Err("the orders cannot be listed".into()),
    }
}

fn body(paid: &Paid, order: &Order) -> Json {
    let reference = object([("reference", paid.attempt.as_str().into())]);
    let mut body = vec![
        ("amount".to_owned(), order.amount.amount.into()),
        ("currency".to_owned(), order.amount.currency.as_str().into()),
        ("merchant_order_data".to_owned(), reference),
        (
            "metadata".to_owned(),
            object([(REFUND, order.id.as_str().into())]),
        ),
    ];
    if let Some(reason) = &order.reason {
        let plain = reason.chars().filter(|c| !c.is_control());
        let reason: String = plain.take(DESCRIPTION).collect();
        body.push(("description".to_owned(), reason.into()));
    }
    Json::Object(body)
}

/// Whether that order gives this back.
fn is_of(made: &wire::Order, paid: &Paid, order: &Order) -> bool {
    made.related.as_ref() == Some(&paid.reference) && made.amount == order.amount
}

/// What the refund's own order says.
fn given(made: &wire::Order, now: u64) -> Given {
    let declined = |payment: &wire::Payment| {
        let moved = payment.facts.updated;
        payment.tried == Tried::Ended && moved.is_some_and(|at| now >= at.saturating_add(ENDS))
    };
    let state = match wire::refunded(made.stands) {
        RefundState::Pending if !made.payments.is_empty() && made.payments.iter().all(declined) => {
            RefundState::Failed
        }
        state => state,
    };
    let why = made.payments.iter().find_map(|each| each.decline.clone());
    let mut given = told(made.id.clone(), state);
    if let Some(why) = why {
        given.detail = format!("{}, {why}", given.detail);
    }
    given
}

fn told(reference: String, state: RefundState) -> Given {
    let detail = match state {
        RefundState::Pending => "processing",
        RefundState::Succeeded => "completed",
        RefundState::Failed => "failed",
    };
    Given {
        reference,
        state,
        claim_url: None,
        detail: detail.into(),
    }
}

#[cfg(test)]
mod tests;
