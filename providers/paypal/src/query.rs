//! Asking where an order stands, after doing what the host wishes.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Attempt, Money, QueryFailure, Report, Settlement, Status, Wish,
};

use crate::api::{self, Problem};
use crate::wire::{self, CLOSED, Order, Phase};

/// Refusals that are about the payer's wallet or this payment. The payer would have to approve anew,
/// and nobody can send him back: the attempt is over.
pub(crate) const DECLINES: [&str; 15] = [
    "COMPLIANCE_VIOLATION",
    "DECLINED_DUE_TO_RELATED_TXN",
    "DOMESTIC_TRANSACTION_REQUIRED",
    "INSTRUMENT_DECLINED",
    "MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED",
    "PAYEE_BLOCKED_TRANSACTION",
    "PAYER_ACCOUNT_LOCKED_OR_CLOSED",
    "PAYER_ACCOUNT_RESTRICTED",
    "PAYER_ACTION_REQUIRED",
    "PAYER_CANNOT_PAY",
    "REDIRECT_PAYER_FOR_ALTERNATE_FUNDING",
    "TRANSACTION_BLOCKED_BY_PAYEE",
    "TRANSACTION_LIMIT_EXCEEDED",
    "TRANSACTION_RECEIVING_LIMIT_EXCEEDED",
    "TRANSACTION_REFUSED",
];

/// What is done to an order before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Close,
}

/// Finds the order, fulfils the wish, and tells.
///
/// Without a reference there is nothing to find: PayPal looks no order up by our id. The order of an
/// uncertain start is recovered by the host's repeat of `start` under the same request id. Until then
/// nobody has its id: no payer was sent there, and no capture can name it. So it is as good as absent.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    wish: Wish,
) -> Result<Report, QueryFailure> {
    let id = reference
        .filter(|reference| wire::is_id(reference))
        .ok_or(QueryFailure::Absent)?;
    let order = fetch(account, attempt, id)?;
    match needed(&order, wish) {
        None => told(&order),
        Some(Act::Capture) if order.amount != attempt.due => Ok(odd(&order)),
        Some(Act::Capture) => capture(account, attempt, &order),
        Some(Act::Close) => close(account, attempt, &order),
    }
}

/// What the wish asks of an order in this state. One that is marked as closed is never captured.
fn needed(order: &Order, wish: Wish) -> Option<Act> {
    if order.closed || order.is_captured() {
        return None;
    }
    match (order.phase, wish) {
        (Phase::Approved, Wish::Finish) => Some(Act::Capture),
        (Phase::Waiting | Phase::Approved, Wish::Close) => Some(Act::Close),
        _ => None,
    }
}

fn fetch(account: &Account, attempt: &Attempt, id: &str) -> Result<Order, QueryFailure> {
    let answer = api::get(account, &format!("/v2/checkout/orders/{id}"))?;
    match answer.status {
        200 => ours(&answer, attempt),
        // PayPal forgets orders that nobody approved or captured in time.
        404 => Err(QueryFailure::Absent),
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Takes what the payer approved.
fn capture(account: &Account, attempt: &Attempt, order: &Order) -> Result<Report, QueryFailure> {
    let path = format!("/v2/checkout/orders/{}/capture", order.id);
    let key = format!("{}-capture", attempt.id);
    let answer = api::post(account, &path, &key, &object([]))?;
    if matches!(answer.status, 200 | 201) {
        return told(&ours(&answer, attempt)?);
    }
    let problem = api::problem(&answer);
    match refused(&problem) {
        Refusal::Moved => told(&fetch(account, attempt, &order.id)?),
        Refusal::Declined => {
            // So that the approval, which still stands at PayPal, is not told as news again. Where the
            // mark cannot be made it is declined all the same: a capture is never tried twice.
            let _marked = mark(account, attempt, order);
            Ok(Report {
                status: Status::Declined,
                detail: problem.to_string(),
                ..quiet(order)
            })
        }
        Refusal::Unclear => Err(unavailable(&problem.to_string())),
    }
}

/// What a refused capture means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The order has moved on: what it is now is the answer.
    Moved,
    /// The payer's wallet said no.
    Declined,
    /// Nothing about the payment.
    Unclear,
}

fn refused(problem: &Problem) -> Refusal {
    match (problem.status, problem.issue.as_str()) {
        (422, "ORDER_ALREADY_CAPTURED" | "ORDER_NOT_APPROVED" | "ORDER_COMPLETION_IN_PROGRESS")
        | (404, _) => Refusal::Moved,
        (422, issue) if DECLINES.contains(&issue) => Refusal::Declined,
        _ => Refusal::Unclear,
    }
}

/// Marks the order as not wanted any more, and says that it is declined.
///
/// This is certain without PayPal's help: an approval moves no money, the host asks for no capture of
/// an attempt that is over, and this module makes none of a marked order.
fn close(account: &Account, attempt: &Attempt, order: &Order) -> Result<Report, QueryFailure> {
    let answer = mark(account, attempt, order)?;
    match answer.status {
        204 => {}
        // Captured or gone meanwhile; or PayPal patches no order in this state.
        400 | 404 | 422 => {
            let now = fetch(account, attempt, &order.id)?;
            if now.is_captured() || now.is_over() {
                return told(&now);
            }
        }
        _ => return Err(unavailable(&api::problem(&answer).to_string())),
    }
    Ok(Report {
        status: Status::Declined,
        detail: "called off by the merchant".into(),
        ..quiet(order)
    })
}

fn mark(account: &Account, attempt: &Attempt, order: &Order) -> Result<Answer, QueryFailure> {
    let patch = object([
        ("op", "replace".into()),
        (
            "path",
            "/purchase_units/@reference_id=='default'/custom_id".into(),
        ),
        ("value", format!("{}{CLOSED}", attempt.id).into()),
    ]);
    let path = format!("/v2/checkout/orders/{}", order.id);
    Ok(api::patch(account, &path, &Json::List(vec![patch]))?)
}

/// An order of another amount than is due is not captured: somebody changed it at PayPal.
fn odd(order: &Order) -> Report {
    Report {
        status: Status::Review,
        detail: "the order's amount is not what is due; it was not captured".into(),
        ..quiet(order)
    }
}

/// A report of which nothing was taken.
fn quiet(order: &Order) -> Report {
    Report {
        reference: order.id.clone(),
        status: Status::Pending,
        settlement: Settlement::Pending,
        received: Money {
            amount: 0,
            currency: order.amount.currency.clone(),
        },
        returned: 0,
        detail: String::new(),
    }
}

fn told(order: &Order) -> Result<Report, QueryFailure> {
    order
        .report()
        .ok_or_else(|| unavailable("the order is completed and shows no capture"))
}

fn ours(answer: &Answer, attempt: &Attempt) -> Result<Order, QueryFailure> {
    match answer.json().as_ref().and_then(wire::order) {
        Some(order) if order.attempt == attempt.id => Ok(order),
        Some(_) => Err(unavailable("the order belongs to another attempt")),
        None => Err(unavailable("the answer cannot be read")),
    }
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::refusal;
    use crate::wire::tests::{captured, read, told as vendor_told};

    fn order(status: &str) -> Order {
        wire::order(&read(&vendor_told(status, &[]))).unwrap()
    }

    #[test]
    fn only_finish_captures_and_only_what_the_payer_approved() {
        assert_eq!(needed(&order("APPROVED"), Wish::Finish), Some(Act::Capture));
        for wish in [Wish::Look, Wish::Close] {
            assert_ne!(needed(&order("APPROVED"), wish), Some(Act::Capture));
        }
        for status in ["CREATED", "PAYER_ACTION_REQUIRED", "VOIDED"] {
            assert_eq!(needed(&order(status), Wish::Finish), None, "{status}");
        }
    }

    #[test]
    fn an_order_marked_as_closed_is_never_captured() {
        let marked = Order {
            closed: true,
            ..order("APPROVED")
        };
        for wish in [Wish::Finish, Wish::Look, Wish::Close] {
            assert_eq!(needed(&marked, wish), None);
        }
    }

    #[test]
    fn close_leaves_alone_what_is_paid_or_over() {
        for status in ["COMPLETED", "PENDING"] {
            let told = vendor_told("COMPLETED", &[captured(status, None)]);
            let paid = wire::order(&read(&told)).unwrap();
            assert_eq!(needed(&paid, Wish::Close), None, "{status}");
        }
        assert_eq!(needed(&order("VOIDED"), Wish::Close), None);
        for status in ["CREATED", "APPROVED"] {
            assert_eq!(needed(&order(status), Wish::Close), Some(Act::Close));
        }
    }

    #[test]
    fn a_refused_capture_means_what_it_says() {
        for (status, issue, meaning) in [
            (422, "ORDER_ALREADY_CAPTURED", Refusal::Moved),
            (422, "ORDER_NOT_APPROVED", Refusal::Moved),
            (422, "ORDER_COMPLETION_IN_PROGRESS", Refusal::Moved),
            (404, "INVALID_RESOURCE_ID", Refusal::Moved),
            (422, "INSTRUMENT_DECLINED", Refusal::Declined),
            (422, "PAYER_ACTION_REQUIRED", Refusal::Declined),
            (422, "DUPLICATE_INVOICE_ID", Refusal::Unclear),
            (403, "PERMISSION_DENIED", Refusal::Unclear),
            (500, "INTERNAL_SERVER_ERROR", Refusal::Unclear),
            (500, "INSTRUMENT_DECLINED", Refusal::Unclear),
        ] {
            let problem = api::problem(&refusal(status, issue));
            assert_eq!(refused(&problem), meaning, "{status} {issue}");
        }
    }
}
