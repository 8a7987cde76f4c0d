//! Asking where an order stands, after doing what the host asks for.
use kassette_plugin::encode;
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Refund, Report};
use kassette_plugin::settings;

use crate::api;
use crate::report::{is_declined, refused, report};
use crate::wire::{self, Dispute, Order, Problem, Stands, Tried};

/// Setting: whether an order stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// Orders of one attempt that are looked at. More than one is there only where two starts met, and
/// then the payer was shown the address of one.
const ORDERS: usize = 4;

/// Orders of one reference that are listed: those and the refunds that the host asks for, of which a report
/// tells no more than so many.
const LISTED: usize = 100;
const MOST_REFUNDS: usize = 64;

/// What is done to an order before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Cancel,
}

/// Finds the order, fulfils the purpose, and tells.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // An order is always found by the attempt's id: the payer's word is needed for no look-up.
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let came_back = return_query.is_some();
    let keep = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    // While the payer is at Revolut's page they may try again; back here they chose not to.
    let kept_open = keep && !came_back && purpose != QueryPurpose::Cancel;
    let over = account.now >= attempt.expires;
    let mut order = locate(account, attempt, reference)?;
    if let Some(act) = needed(&order, purpose, kept_open) {
        let problem;
        (order, problem) = perform(account, attempt, &order, act)?;
        if let Some(problem) = problem {
            return Ok(refused(order, &problem, over));
        }
    }
    if is_declined(&order) && !kept_open {
        // It was not cancelled, and could still be paid.
        return Err(unavailable("declined, but not yet cancelled"));
    }
    let disputes = disputes(account, &order)?;
    let refunds = match order.stands {
        Stands::Completed => refunds(account, &attempt.id, &order.id)?,
        _ => Vec::new(),
    };
    let mut report = report(order, &disputes, over);
    report.particulars.refunds = refunds;
    Ok(report)
}

/// What the purpose asks of an order as it stands. A declined payer could still try again, so that order
/// is cancelled whatever the purpose, unless it is kept open: then `declined` is certain.
fn needed(order: &Order, purpose: QueryPurpose, kept_open: bool) -> Option<Act> {
    match (order.stands, purpose) {
        (Stands::Pending, _) if is_declined(order) && !kept_open => Some(Act::Cancel),
        (Stands::Authorised, QueryPurpose::Capture) => Some(Act::Capture),
        (Stands::Pending | Stands::Authorised, QueryPurpose::Cancel) => Some(Act::Cancel),
        _ => None,
    }
}

/// Does it; the order afterwards, and why a capture was refused.
fn perform(
    account: &Account,
    attempt: &Attempt,
    order: &Order,
    act: Act,
) -> Result<(Order, Option<Problem>), QueryFailure> {
    let path = format!("/api/orders/{}", order.id);
    // Neither takes an idempotency key: an order is captured once and cancelled once, also where the
    // call is repeated.
    let answer = match act {
        Act::Capture => {
            let body = object([("amount", order.amount.amount.into())]);
            api::post(account, &format!("{path}/capture"), &body)?
        }
        Act::Cancel => api::act(account, &format!("{path}/cancel"))?,
    };
    match answer.status {
        200..=299 => Ok((ours(wire::order(&answer.body), attempt)?, None)),
        // It has moved on meanwhile, or cannot be done: what it is now is the answer.
        400 | 404 | 409 | 422 => {
            let now = ours(Some(read(account, &order.id)?), attempt)?;
            let problem = (act == Act::Capture).then(|| wire::problem(&answer));
            Ok((now, problem))
        }
        _ => Err(no_answer(&answer)),
    }
}

fn locate(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
) -> Result<Order, QueryFailure> {
    if let Some(id) = reference.filter(|reference| wire::is_id(reference)) {
        match read(account, id) {
            Err(QueryFailure::Absent) => {}
            read => return ours(Some(read?), attempt),
        }
    }
    let found = find(account, &attempt.id)?.ok_or(QueryFailure::Absent)?;
    ours(Some(found), attempt)
}

/// Looks the attempt up by its id, which is the merchant's reference. Of several orders the one that
/// went furthest counts.
pub(crate) fn find(account: &Account, attempt: &str) -> Result<Option<Order>, QueryFailure> {
    let ids = wire::listed(&list(account, attempt)?).ok_or_else(unreadable)?;
    let mut best: Option<Order> = None;
    for id in ids.iter().take(ORDERS) {
        let order = read(account, id)?;
        if best.as_ref().is_none_or(|best| rank(best) < rank(&order)) {
            best = Some(order);
        }
    }
    Ok(best)
}

/// The refunds of an order that carry its reference: those that the host has asked for. Others are seen in
/// the order's sum alone.
pub(crate) fn refunds(
    account: &Account,
    attempt: &str,
    order: &str,
) -> Result<Vec<Refund>, QueryFailure> {
    let mut refunds = wire::refunds(&list(account, attempt)?, order).ok_or_else(unreadable)?;
    refunds.truncate(MOST_REFUNDS);
    Ok(refunds)
}

/// The newest orders with that reference, payments and refunds.
fn list(account: &Account, reference: &str) -> Result<Vec<u8>, QueryFailure> {
    let path = format!(
        "/api/orders?merchant_order_data_reference={}&limit={LISTED}",
        encode::percent(reference)
    );
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => Ok(answer.body),
        _ => Err(no_answer(&answer)),
    }
}

const fn rank(order: &Order) -> u8 {
    match order.stands {
        Stands::Cancelled | Stands::Failed => 0,
        Stands::Pending => 1,
        Stands::Processing => 2,
        Stands::Authorised => 3,
        Stands::Completed => 4,
    }
}

pub(crate) fn read(account: &Account, id: &str) -> Result<Order, QueryFailure> {
    let answer = api::get(account, &format!("/api/orders/{id}"))?;
    match answer.status {
        200 => wire::order(&answer.body).ok_or_else(unreadable),
        404 => Err(QueryFailure::Absent),
        _ => Err(no_answer(&answer)),
    }
}

/// The disputes about what was taken. Revolut knows them in production alone; elsewhere, and for a key
/// that may not ask, there are none.
fn disputes(account: &Account, order: &Order) -> Result<Vec<Dispute>, QueryFailure> {
    let taken = order
        .payments
        .iter()
        .find(|payment| payment.tried == Tried::Captured);
    let Some(payment) = taken.filter(|_| order.stands == Stands::Completed) else {
        return Ok(Vec::new());
    };
    let answer = api::get(account, &format!("/api/disputes?payment_id={}", payment.id))?;
    match answer.status {
        200 => wire::disputes(&answer.body).ok_or_else(unreadable),
        403 | 404 => Ok(Vec::new()),
        _ => Err(no_answer(&answer)),
    }
}

fn ours(order: Option<Order>, attempt: &Attempt) -> Result<Order, QueryFailure> {
    match order {
        Some(order) if order.attempt.as_ref() == Some(&attempt.id) => Ok(order),
        Some(order) => Err(unavailable(&format!(
            "{} belongs to another attempt",
            order.id
        ))),
        None => Err(unreadable()),
    }
}

fn no_answer(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

fn unreadable() -> QueryFailure {
    unavailable("the answer cannot be read")
}

pub(crate) fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{read as told_order, told, tried};

    fn order(state: &str) -> Order {
        told_order(&told(state)).unwrap()
    }

    #[test]
    fn only_capture_captures_and_only_what_the_payer_approved() {
        assert_eq!(
            needed(&order("authorised"), QueryPurpose::Capture, true),
            Some(Act::Capture)
        );
        assert_eq!(needed(&order("authorised"), QueryPurpose::Sync, true), None);
        assert_eq!(
            needed(&order("authorised"), QueryPurpose::Cancel, false),
            Some(Act::Cancel)
        );
        for state in ["pending", "processing", "completed", "cancelled", "failed"] {
            assert_eq!(
                needed(&order(state), QueryPurpose::Capture, true),
                None,
                "{state}"
            );
        }
    }

    #[test]
    fn a_decline_is_made_certain_whatever_the_purpose_unless_the_order_is_kept_open() {
        let declined = told_order(&tried("pending", "declined", 4990)).unwrap();
        for purpose in [
            QueryPurpose::Capture,
            QueryPurpose::Sync,
            QueryPurpose::Cancel,
        ] {
            assert_eq!(needed(&declined, purpose, false), Some(Act::Cancel));
        }
        for purpose in [QueryPurpose::Capture, QueryPurpose::Sync] {
            assert_eq!(needed(&declined, purpose, true), None);
        }
    }

    #[test]
    fn sync_leaves_alone_what_could_still_be_paid() {
        for state in ["pending", "processing", "authorised", "completed"] {
            assert_eq!(
                needed(&order(state), QueryPurpose::Sync, true),
                None,
                "{state}"
            );
        }
    }

    #[test]
    fn cancel_leaves_alone_what_is_paid_or_over_or_under_way() {
        for state in ["processing", "completed", "cancelled", "failed"] {
            assert_eq!(
                needed(&order(state), QueryPurpose::Cancel, false),
                None,
                "{state}"
            );
        }
        assert_eq!(
            needed(&order("pending"), QueryPurpose::Cancel, false),
            Some(Act::Cancel)
        );
    }

    #[test]
    fn of_several_orders_the_furthest_counts() {
        let states = [
            "cancelled",
            "pending",
            "processing",
            "authorised",
            "completed",
        ];
        let ranks: Vec<u8> = states.iter().map(|state| rank(&order(state))).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
    }
}
