//! Refunds. A refund of an order is an order itself.
//!
//! It has the reference of the refunded order, so that its webhooks lead to that order and one list contains all
//! refunds; its `metadata` contains the refund order's id. `Idempotency-Key` prevents duplicates, but Revolut does
//! not document how long, so the list is read before another refund is requested.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::read::Unreadable;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::wire::{self, REFUND, Tried};
use crate::{METHODS, api, query};

/// Maximum time until a refund's order ends ("Refund an order"), in milliseconds. An order whose payment is
/// declined may remain `processing` until then.
const ENDS: u64 = 2 * 86_400_000;

/// Maximum length of a description, in characters.
const DESCRIPTION: usize = 255;

/// Refund terms: both methods, in full or in parts. Revolut documents no maximum number of refunds and no time
/// limit.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    METHODS.into_iter().map(Refundable::in_parts).collect()
}

/// Makes the refund, or finds the refund that an earlier call made.
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
        // The answer is about this refund, even if it omits its data.
        return wire::order(&answer.body)
            .map(|made| given(&made, account.now))
            .ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()));
    }
    let problem = wire::problem(&answer);
    match problem.status {
        401 | 429 => Err(RefundFailure::Unavailable(problem.to_string())),
        409 => Err(RefundFailure::Uncertain(problem.to_string())),
        // A declined refund results in status 400, but its order exists.
        400..=499 => match look(account, paid, order) {
            Ok(Some(given)) => Ok(given),
            Ok(None) => Err(RefundFailure::Refused(problem.to_string())),
            Err(_) => Err(RefundFailure::Uncertain(problem.to_string())),
        },
        _ => Err(RefundFailure::Uncertain(problem.to_string())),
    }
}

/// Queries a refund by its id, or finds it among the order's refunds.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if let Some(id) = order.reference.as_deref().filter(|id| wire::is_id(id)) {
        return match query::read(account, id) {
            Ok(made) if is_of(&made, paid) => Ok(given(&made, account.now)),
            Ok(_) => Err(query::unavailable("the order is no refund of this one")),
            // Revolut issued this id, so that a 404 proves nothing unless the list contains the refund.
            Err(QueryFailure::Absent) => match look(account, paid, order) {
                Ok(Some(given)) => Ok(given),
                _ => Err(query::unavailable("the refund is unknown")),
            },
            Err(failure) => Err(failure),
        };
    }
    match look(account, paid, order) {
        Ok(Some(given)) => Ok(given),
        Ok(None) => Err(QueryFailure::Absent),
        Err(why) => Err(QueryFailure::Unavailable(why)),
    }
}

/// Searches for the refund. The error is the reason why the search is not possible now.
fn look(account: &Account, paid: &Paid, order: &Order) -> Result<Option<Given>, String> {
    let mut unreadable = Unreadable::default();
    match query::refunds(account, &paid.attempt, &paid.reference, &mut unreadable) {
        Ok(refunds) => {
            let ours = |refund: &Refund| refund.order_id.as_ref() == Some(&order.id);
            // If two refunds have this order's id, the one with the most progress counts.
            let found = refunds
                .into_iter()
                .filter(ours)
                .min_by_key(|refund| match refund.state {
                    RefundState::Succeeded => 0,
                    RefundState::Pending => 1,
                    RefundState::Failed => 2,
                });
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

/// Whether that order is a refund of this payment.
fn is_of(made: &wire::Order, paid: &Paid) -> bool {
    made.related
        .as_ref()
        .is_some_and(|order| *order == paid.reference)
}

/// State of a refund, from its own order.
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
        paid_out: None,
    }
}

#[cfg(test)]
mod tests;
