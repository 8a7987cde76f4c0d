//! Asking where an order stands, after doing what the host asks for.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Attempt, Money, Particulars, QueryFailure, QueryPurpose, Report, Settlement, Status,
};

use crate::api::{self, Problem};
use crate::wire::{self, CLOSED, Order, Phase};

/// Refusals that are about the payer's wallet or this payment. The payer would have to approve anew,
/// and the gateway cannot send him back: the attempt is over.
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

/// Why an order is declined that the host closed.
pub(crate) const CALLED_OFF: &str = "called off by the merchant";

/// What is done to an order before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Close,
}

/// Finds the order, fulfils the purpose, and tells.
///
/// Without a reference there is nothing to find: PayPal looks no order up by our id. The order of an
/// uncertain start is recovered by the host's repeat of `start` under the same request id. Until then
/// the host does not know its id: no payer was sent there, and no capture can name it. So it is as good
/// as absent.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // The order's id stands in it, but only an order whose id we know was shown to a payer.
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let id = reference
        .filter(|reference| wire::is_id(reference))
        .ok_or(QueryFailure::Absent)?;
    let Some(order) = fetch(account, attempt, id)? else {
        return forgotten(account, attempt, id, purpose);
    };
    match needed(&order, purpose) {
        None => told(&order),
        Some(Act::Capture) if order.amount != attempt.due => Ok(odd(&order)),
        Some(Act::Capture) => capture(account, attempt, &order),
        Some(Act::Close) => close(account, attempt, &order),
    }
}

/// What the purpose asks of an order in this state. One that is marked as closed is never captured.
fn needed(order: &Order, purpose: QueryPurpose) -> Option<Act> {
    if order.closed || order.is_captured() {
        return None;
    }
    match (order.phase, purpose) {
        (Phase::Approved, QueryPurpose::Capture) => Some(Act::Capture),
        (Phase::Waiting | Phase::Approved, QueryPurpose::Cancel) => Some(Act::Close),
        _ => None,
    }
}

/// Reads an order; none where PayPal says that it knows none of that id.
fn fetch(account: &Account, attempt: &Attempt, id: &str) -> Result<Option<Order>, QueryFailure> {
    let answer = api::get(account, &format!("/v2/checkout/orders/{id}"))?;
    match answer.status {
        200 => ours(&answer, attempt).map(Some),
        404 => Ok(None),
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// What it means that PayPal knows the order no more (404, INVALID_RESOURCE_ID).
///
/// PayPal's document of an order's links gives three hours from its creation to send the payer there, and
/// three from then on for his approval and the capture; an account manager can make the first 24, 48 or 72.
/// After that the order is gone, and with it the approval, which had reserved nothing. What was captured is
/// not forgotten. Only this module's capture moves money, and a capture of an order that is not there is
/// refused with the same 404. So this is an end, `expired`, before the approval as after it:
///
/// - for `sync` and `capture` once the attempt's own time is over. Before that it contradicts the document,
///   proves nothing, and is told as `absent`: the host asks again;
/// - for `cancel` at once, where PayPal refuses with 404 to change the order too: nothing captures an attempt
///   that was closed.
fn forgotten(
    account: &Account,
    attempt: &Attempt,
    id: &str,
    purpose: QueryPurpose,
) -> Result<Report, QueryFailure> {
    if purpose == QueryPurpose::Cancel {
        let answer = mark(account, attempt, id)?;
        match answer.status {
            204 => return Ok(ended(attempt, id, Status::Declined, CALLED_OFF)),
            404 => {}
            _ => return Err(unavailable(&api::problem(&answer).to_string())),
        }
    } else if account.now < attempt.expires {
        return Err(QueryFailure::Absent);
    }
    let why = "PayPal knows the order no more: it was not captured in time";
    Ok(ended(attempt, id, Status::Expired, why))
}

/// The end of an order that cannot be read: nothing was taken.
fn ended(attempt: &Attempt, id: &str, status: Status, detail: &str) -> Report {
    Report {
        reference: id.to_owned(),
        status,
        settlement: Settlement::Pending,
        received: Money {
            amount: 0,
            currency: attempt.due.currency.clone(),
        },
        given_back: 0,
        detail: detail.into(),
        particulars: Particulars::default(),
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
        Refusal::Moved => match fetch(account, attempt, &order.id)? {
            Some(order) => told(&order),
            None => forgotten(account, attempt, &order.id, QueryPurpose::Capture),
        },
        Refusal::Declined => {
            // So that the approval, which still stands at PayPal, is not told as news again. Where the
            // mark cannot be made it is declined all the same: a capture is never tried twice.
            let _marked = mark(account, attempt, &order.id);
            let mut report = order.quiet();
            report.status = Status::Declined;
            report.detail = problem.to_string();
            report.particulars.reason = Some(problem.issue);
            Ok(report)
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
    let answer = mark(account, attempt, &order.id)?;
    match answer.status {
        204 => {}
        // Captured or gone meanwhile; or PayPal patches no order in this state.
        400 | 404 | 422 => match fetch(account, attempt, &order.id)? {
            Some(now) if now.is_captured() || now.is_over() => return told(&now),
            Some(_) => {}
            None => return forgotten(account, attempt, &order.id, QueryPurpose::Cancel),
        },
        _ => return Err(unavailable(&api::problem(&answer).to_string())),
    }
    Ok(Report {
        status: Status::Declined,
        detail: CALLED_OFF.into(),
        ..order.quiet()
    })
}

fn mark(account: &Account, attempt: &Attempt, id: &str) -> Result<Answer, QueryFailure> {
    let patch = object([
        ("op", "replace".into()),
        (
            "path",
            "/purchase_units/@reference_id=='default'/custom_id".into(),
        ),
        ("value", format!("{}{CLOSED}", attempt.id).into()),
    ]);
    let path = format!("/v2/checkout/orders/{id}");
    Ok(api::patch(account, &path, &Json::List(vec![patch]))?)
}

/// An order of another amount than is due is not captured: it was changed at PayPal. So no authorisation is
/// told that an operator could have captured.
fn odd(order: &Order) -> Report {
    let mut report = order.quiet();
    report.status = Status::Review;
    report.detail = "the order's amount is not what is due; it was not captured".into();
    report.particulars.authorised_at = None;
    report.particulars.capture_before = None;
    report
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
    fn only_capture_captures_and_only_what_the_payer_approved() {
        assert_eq!(
            needed(&order("APPROVED"), QueryPurpose::Capture),
            Some(Act::Capture)
        );
        for purpose in [QueryPurpose::Sync, QueryPurpose::Cancel] {
            assert_ne!(needed(&order("APPROVED"), purpose), Some(Act::Capture));
        }
        for status in ["CREATED", "PAYER_ACTION_REQUIRED", "VOIDED"] {
            assert_eq!(
                needed(&order(status), QueryPurpose::Capture),
                None,
                "{status}"
            );
        }
    }

    #[test]
    fn an_order_marked_as_closed_is_never_captured() {
        let marked = Order {
            closed: true,
            ..order("APPROVED")
        };
        for purpose in [
            QueryPurpose::Capture,
            QueryPurpose::Sync,
            QueryPurpose::Cancel,
        ] {
            assert_eq!(needed(&marked, purpose), None);
        }
    }

    #[test]
    fn cancel_leaves_alone_what_is_paid_or_over() {
        for status in ["COMPLETED", "PENDING"] {
            let told = vendor_told("COMPLETED", &[captured(status, None)]);
            let paid = wire::order(&read(&told)).unwrap();
            assert_eq!(needed(&paid, QueryPurpose::Cancel), None, "{status}");
        }
        assert_eq!(needed(&order("VOIDED"), QueryPurpose::Cancel), None);
        for status in ["CREATED", "APPROVED"] {
            assert_eq!(
                needed(&order(status), QueryPurpose::Cancel),
                Some(Act::Close)
            );
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
