//! Querying an order, after capturing or cancelling it as the host requests.
use kassette_plugin::encode;
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::read::Unreadable;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Refund, Report};
use kassette_plugin::{settings, time};

use crate::api;
use crate::report::{is_declined, refused, report};
use crate::wire::{self, Dispute, Order, Problem, Stands, Tried};

/// Setting: whether an order stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// Maximum number of orders of an attempt that are read. There is more than one only if two starts ran
/// simultaneously, and then the payer received the address of only one.
const ORDERS: usize = 4;

/// Maximum number of listed orders with one reference: the attempt's orders and the refunds ordered by the host.
const LISTED: usize = 100;

/// Maximum number of listed orders with any reference, which is also Revolut's limit.
const MOST_ORDERS: usize = 500;

/// A change of an order before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Cancel,
}

/// Finds the order, captures or cancels it if the purpose requires this, and reports its status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // Not needed to find the order, because the attempt's id is enough. Its presence shows that the payer has
    // returned.
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let came_back = return_query.is_some();
    let keep = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    // A payer on Revolut's page may try again. A payer who has returned chose not to.
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
        // The order was not cancelled and could still be paid.
        return Err(unavailable("declined, but not yet cancelled"));
    }
    let mut unreadable = Unreadable::default();
    let disputes = disputes(account, &order, &mut unreadable)?;
    let refunds = match order.stands {
        Stands::Completed => all_refunds(account, &attempt.id, &order, &mut unreadable)?,
        _ => Vec::new(),
    };
    order.unreadable.extend(unreadable);
    let mut report = report(order, &disputes, over);
    report.particulars.refunds = refunds;
    Ok(report)
}

/// Change that the purpose requires in this state, or `None`. After a decline the payer could try again, so unless
/// `kept_open`, the order is cancelled for every purpose, which makes `declined` final.
fn needed(order: &Order, purpose: QueryPurpose, kept_open: bool) -> Option<Act> {
    match (order.stands, purpose) {
        (Stands::Pending, _) if is_declined(order) && !kept_open => Some(Act::Cancel),
        (Stands::Authorised, QueryPurpose::Capture) => Some(Act::Capture),
        (Stands::Pending | Stands::Authorised, QueryPurpose::Cancel) => Some(Act::Cancel),
        _ => None,
    }
}

/// Executes a change. Returns the order after it, and the problem if Revolut refused a capture.
fn perform(
    account: &Account,
    attempt: &Attempt,
    order: &Order,
    act: Act,
) -> Result<(Order, Option<Problem>), QueryFailure> {
    let path = format!("/api/orders/{}", order.id);
    // Neither accepts an idempotency key, but an order is captured or cancelled only one time, even if the call is
    // repeated.
    let answer = match act {
        Act::Capture => {
            let body = object([("amount", order.amount.amount.into())]);
            api::post(account, &format!("{path}/capture"), &body)?
        }
        Act::Cancel => api::act(account, &format!("{path}/cancel"))?,
    };
    match answer.status {
        200..=299 => Ok((ours(wire::order(&answer.body), attempt)?, None)),
        // The order has changed in the meantime, or the change is impossible: read its current state.
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

/// Searches for the order by the attempt's id, which is the merchant reference. Of several orders the one with the
/// most progress counts. `None` if there are none.
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

/// The refunds of an order that have its reference: those ordered by the host.
pub(crate) fn refunds(
    account: &Account,
    attempt: &str,
    order: &str,
    unreadable: &mut Unreadable,
) -> Result<Vec<Refund>, QueryFailure> {
    let list = list(account, attempt)?;
    let refunds = wire::refunds(&list, order, unreadable);
    refunds.ok_or_else(self::unreadable)
}

/// The refunds of an order, including those made in Revolut Business. The latter have no reference, so all orders
/// created after this order are searched. The order itself only contains a sum, without failed refunds.
fn all_refunds(
    account: &Account,
    attempt: &str,
    order: &Order,
    unreadable: &mut Unreadable,
) -> Result<Vec<Refund>, QueryFailure> {
    let mut known = refunds(account, attempt, &order.id, unreadable)?;
    let Some(since) = order.created else {
        return Ok(known);
    };
    // A time contains no characters that need escaping in a query.
    let path = format!(
        "/api/orders?from={}&limit={MOST_ORDERS}",
        time::rfc3339(since)
    );
    let answer = api::get(account, &path)?;
    if answer.status != 200 {
        return Err(no_answer(&answer));
    }
    let all = wire::refunds(&answer.body, &order.id, unreadable).unwrap_or_default();
    for refund in all {
        if !known.iter().any(|other| other.id == refund.id) {
            known.push(refund);
        }
    }
    Ok(known)
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
        Stands::Pending | Stands::Unknown => 1,
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

/// The disputes about the captured payment. Empty outside production, and for a key without access.
fn disputes(
    account: &Account,
    order: &Order,
    unreadable: &mut Unreadable,
) -> Result<Vec<Dispute>, QueryFailure> {
    let taken = order
        .payments
        .iter()
        .find(|payment| payment.tried == Tried::Captured);
    let known = taken.filter(|payment| !payment.id.is_empty());
    let Some(payment) = known.filter(|_| order.stands == Stands::Completed) else {
        return Ok(Vec::new());
    };
    let answer = api::get(account, &format!("/api/disputes?payment_id={}", payment.id))?;
    match answer.status {
        200 => Ok(wire::disputes(&answer.body, unreadable).unwrap_or_else(|| {
            unreadable.note("the disputes cannot be read");
            Vec::new()
        })),
        403 | 404 => Ok(Vec::new()),
        _ => Err(no_answer(&answer)),
    }
}

fn ours(order: Option<Order>, attempt: &Attempt) -> Result<Order, QueryFailure> {
    match order {
        Some(order) if order.attempt.as_ref().is_none_or(|id| *id == attempt.id) => Ok(order),
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
