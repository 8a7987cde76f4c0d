//! Querying an order, after capturing or closing it as the host requests.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Attempt, Dispute, DisputeState, Money, Particulars, QueryFailure, QueryPurpose,
    Refund, Report, Settlement, Status,
};

use crate::api::{self, Problem};
use crate::capture::{Capture, Taken};
use crate::dispute;
use crate::wire::{self, CLOSED, Order, Phase};

/// Refusals that concern the payer's wallet or this payment. The payer would have to approve again, and the
/// gateway cannot send the payer back, so the attempt ends.
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

/// Detail of the report about an order that the host closed.
pub(crate) const CALLED_OFF: &str = "called off by the merchant";

/// A change of an order before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Close,
}

/// Finds the order, captures or closes it if the purpose requires this, and reports its status.
///
/// Without a reference the result is `Absent`, because PayPal cannot search for an order by attempt id. The host
/// recovers the order of an uncertain start by repeating `start` with the same request id. Until then its id is
/// unknown: no payer was sent to it, and no capture can name it.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // Contains the order's id, which is not needed: payers only see orders whose id the host knows.
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let id = reference
        .filter(|reference| wire::is_id(reference))
        .ok_or(QueryFailure::Absent)?;
    let Some(order) = fetch(account, attempt, id)? else {
        return forgotten(account, attempt, id, purpose);
    };
    match needed(&order, purpose) {
        None => with_disputes(account, order),
        Some(Act::Capture) if order.amount.as_ref() != Some(&attempt.due) => Ok(odd(&order)),
        Some(Act::Capture) => capture(account, attempt, &order),
        Some(Act::Close) => close(account, attempt, &order),
    }
}

/// Report about an order with its disputes, which have to be read separately. They are read if the capture is
/// contested or PayPal lists a refund that was not ordered here, because PayPal books the amount of a lost dispute
/// as a refund of the capture. That refund is removed if its dispute is known.
fn with_disputes(account: &Account, mut order: Order) -> Result<Report, QueryFailure> {
    let elsewhere = |refund: &Refund| refund.order_id.is_none();
    let refunded = order.refunds.iter().any(elsewhere);
    let contested = |capture: &&Capture| {
        refunded || matches!(capture.taken, Taken::Contested | Taken::ChargedBack)
    };
    let disputes = match order.credited().filter(contested) {
        Some(capture) => dispute::about(account, capture)?,
        None => Vec::new(),
    };
    for dispute in &disputes {
        if dispute.state != DisputeState::Won {
            order.leave_out_refund_of(dispute.amount);
        }
    }
    let mut report = told(&order)?;
    let lost = |dispute: &&Dispute| dispute.state == DisputeState::Lost;
    let gone = disputes.iter().filter(lost);
    let gone = gone.fold(report.given_back, |sum, dispute| {
        sum.saturating_add(dispute.amount)
    });
    report.given_back = gone.min(report.received.amount);
    let open = |dispute: &Dispute| dispute.state == DisputeState::Open;
    if disputes.iter().any(open) {
        report.status = Status::Review;
        report.settlement = Settlement::Pending;
    }
    report.particulars.disputes = disputes;
    Ok(report)
}

/// Change that the purpose requires in this state, or `None`. An order marked as closed is never captured.
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

/// Reads an order. `None` if PayPal answers that it does not know the id.
fn fetch(account: &Account, attempt: &Attempt, id: &str) -> Result<Option<Order>, QueryFailure> {
    let answer = api::get(account, &format!("/v2/checkout/orders/{id}"))?;
    match answer.status {
        200 => ours(&answer, attempt).map(Some),
        404 => Ok(None),
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Report about an order that PayPal no longer knows (404, INVALID_RESOURCE_ID).
///
/// According to PayPal's documentation of order links, the payer has three hours after the creation to open the
/// page, and three more for the approval and the capture; an account manager can extend the first period to 24, 48
/// or 72 hours. Then the order and its approval disappear; the approval reserved nothing. Captured orders do not
/// disappear. Only this module's capture moves money, and PayPal refuses the capture of a missing order with the
/// same 404. So the attempt ends as `expired`, whether it was approved or not:
///
/// - for `sync` and `capture` after the attempt's own expiry. An earlier 404 contradicts the documentation and
///   proves nothing: the result is `Absent`, and the host queries again;
/// - for `cancel` immediately, if PayPal also answers the change of the order with 404: a closed attempt is never
///   captured.
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

/// Final report about an order that cannot be read: nothing was captured.
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

/// Captures an approved order.
fn capture(account: &Account, attempt: &Attempt, order: &Order) -> Result<Report, QueryFailure> {
    let path = format!("/v2/checkout/orders/{}/capture", order.id);
    let key = format!("{}-capture", attempt.id);
    let answer = api::post(account, &path, &key, &object([]))?;
    if matches!(answer.status, 200 | 201) {
        // A minimal answer contains no capture, so read the order.
        let captured = ours(&answer, attempt)?;
        if captured.report().is_some() && captured.is_told_whole() {
            return told(&captured);
        }
        return match fetch(account, attempt, &order.id)? {
            Some(order) => told(&order),
            None => forgotten(account, attempt, &order.id, QueryPurpose::Capture),
        };
    }
    let problem = api::problem(&answer);
    match refused(&problem) {
        Refusal::Moved => match fetch(account, attempt, &order.id)? {
            Some(order) => told(&order),
            None => forgotten(account, attempt, &order.id, QueryPurpose::Capture),
        },
        Refusal::Declined => {
            // Mark the order, so that the approval, which remains valid at PayPal, does not count as a new one. If
            // this fails, the attempt is declined nevertheless: no capture is tried again.
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

/// Meaning of a refused capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The order has changed: report its current state.
    Moved,
    /// The payer's wallet declined.
    Declined,
    /// Proves nothing about the payment.
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

/// Marks the order as closed and reports it as declined.
///
/// This is final without PayPal's help: an approval moves no money, the host requests no capture for an attempt
/// that has ended, and this module never captures a marked order.
fn close(account: &Account, attempt: &Attempt, order: &Order) -> Result<Report, QueryFailure> {
    let answer = mark(account, attempt, &order.id)?;
    match answer.status {
        204 => {}
        // Captured or gone in the meantime, or PayPal does not allow the change in this state.
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

/// Report about an order whose amount differs from the amount due, because it was changed at PayPal. It is not
/// captured. The authorization times are removed, so that no operator tries to capture it.
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
    let currency = Some(attempt.due.currency.as_str());
    let order = answer.json();
    match order
        .as_ref()
        .and_then(|order| wire::order(order, currency))
    {
        Some(order) if order.is_of(&attempt.id) => Ok(order),
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
        wire::order(&read(&vendor_told(status, &[])), None).unwrap()
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
            let paid = wire::order(&read(&told), None).unwrap();
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
