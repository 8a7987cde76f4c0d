//! Querying a payment, after capturing or cancelling it as the host requests.
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Attempt, Money, QueryFailure, QueryPurpose, Report, Status,
};

use crate::wire::{self, Payment, Problem, Stands};
use crate::{api, search};

/// A change of a payment before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Cancel,
    /// Releases an authorization of a method that cannot be cancelled.
    Release,
}

/// Finds the payment, captures or cancels it if the purpose requires this, and reports its status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // Mollie adds no query to the return address.
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let payment = locate(account, attempt, reference)?;
    let mut report = match needed(&payment, purpose) {
        None => payment.report(),
        Some(act) => match perform(account, attempt, &payment, act)? {
            (payment, Some(problem)) => payment.refused(&problem.to_string()),
            (payment, None) => payment.report(),
        },
    };
    // Mollie has the same status for a payer's cancellation and this module's.
    if purpose == QueryPurpose::Cancel && report.status == Status::Cancelled {
        report.status = Status::Declined;
    }
    Ok(report)
}

/// Change that the purpose requires in this state, or `None`. Most methods cannot be cancelled while they wait for
/// the payer; such a payment is reported as open until it expires. A payment with a capture in progress is neither
/// captured again nor cancelled.
fn needed(payment: &Payment, purpose: QueryPurpose) -> Option<Act> {
    let waits = !payment.is_captured_whole() && !payment.belongings.is_being_captured();
    match (payment.stands, purpose) {
        (Stands::Authorized, QueryPurpose::Capture) if waits => Some(Act::Capture),
        (Stands::Authorized, _) if !waits => None,
        (Stands::Open | Stands::Pending | Stands::Authorized, QueryPurpose::Cancel)
            if payment.is_cancelable =>
        {
            Some(Act::Cancel)
        }
        (Stands::Authorized, QueryPurpose::Cancel) => Some(Act::Release),
        _ => None,
    }
}

/// Executes a change. Returns the payment after it, and the problem if Mollie refused a capture.
fn perform(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    act: Act,
) -> Result<(Payment, Option<Problem>), QueryFailure> {
    let path = format!("/v2/payments/{}", payment.id);
    let answer = match act {
        Act::Capture => api::post(
            account,
            &format!("{path}/captures"),
            &capture_key(attempt, payment),
            &object([("amount", wire::money_json(&left(payment)))]),
        )?,
        Act::Release => api::post(
            account,
            &format!("{path}/release-authorization"),
            &format!("{}-release", attempt.id),
            &object([]),
        )?,
        Act::Cancel => api::delete(account, &path)?,
    };
    match answer.status {
        // The answers contain the capture or nothing; 404 and 422 mean that the payment has changed in the
        // meantime, or that the change is impossible. So read its current state.
        200..=299 | 404 | 422 => {
            let now = ours(search::read(account, &payment.id)?, account, attempt)?;
            let is_refused = act == Act::Capture && answer.status >= 400;
            Ok((now, is_refused.then(|| wire::problem(&answer))))
        }
        _ => Err(refused(&answer)),
    }
}

/// Idempotency key of the next capture. Mollie answers a key with its first result, so each retry after a failed
/// capture has a new key.
fn capture_key(attempt: &Attempt, payment: &Payment) -> String {
    match payment.belongings.captures.len() {
        0 => format!("{}-capture", attempt.id),
        failed => format!("{}-capture-{failed}", attempt.id),
    }
}

/// The authorized amount that has not been captured.
fn left(payment: &Payment) -> Money {
    let captured = payment.captured.as_ref().map_or(0, |money| money.amount);
    Money {
        amount: payment.amount.amount.saturating_sub(captured),
        currency: payment.amount.currency.clone(),
    }
}

fn locate(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
) -> Result<Payment, QueryFailure> {
    if let Some(id) = reference.filter(|reference| wire::is_id(reference)) {
        match search::read(account, id) {
            Err(QueryFailure::Absent) => {}
            read => return ours(read?, account, attempt),
        }
    }
    let found = search::find(account, &attempt.id)?.ok_or(QueryFailure::Absent)?;
    ours(found, account, attempt)
}

fn ours(payment: Payment, account: &Account, attempt: &Attempt) -> Result<Payment, QueryFailure> {
    if payment
        .environment
        .is_some_and(|mode| mode != account.environment)
    {
        let why = format!("{} is of the other mode", payment.id);
        return Err(QueryFailure::Unavailable(why));
    }
    if payment.attempt.as_ref().is_some_and(|id| *id != attempt.id) {
        let why = format!("{} belongs to another attempt", payment.id);
        return Err(QueryFailure::Unavailable(why));
    }
    Ok(payment)
}

fn refused(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{read, told};
    use serde_json::json;

    fn payment(status: &str, is_cancelable: bool) -> Payment {
        let mut told = told(status);
        told["isCancelable"] = json!(is_cancelable);
        read(&told).unwrap()
    }

    #[test]
    fn only_capture_captures_and_only_what_the_payer_approved() {
        for cancelable in [true, false] {
            let authorized = payment("authorized", cancelable);
            assert_eq!(
                needed(&authorized, QueryPurpose::Capture),
                Some(Act::Capture)
            );
            assert_eq!(needed(&authorized, QueryPurpose::Sync), None);
            assert_ne!(
                needed(&authorized, QueryPurpose::Cancel),
                Some(Act::Capture)
            );
        }
        for status in ["open", "pending", "paid", "canceled", "expired", "failed"] {
            assert_eq!(
                needed(&payment(status, true), QueryPurpose::Capture),
                None,
                "{status}"
            );
        }
    }

    #[test]
    fn what_is_captured_already_is_not_captured_again() {
        let mut authorized = payment("authorized", false);
        authorized.captured = Some(authorized.amount.clone());
        assert_eq!(needed(&authorized, QueryPurpose::Capture), None);
        authorized.captured = Some(Money {
            amount: 990,
            currency: "EUR".into(),
        });
        assert_eq!(left(&authorized).amount, 4000);
    }

    #[test]
    fn what_is_being_captured_is_left_alone_and_what_failed_is_captured_under_another_key() {
        let with = |status: &str| {
            let mut told = told("authorized");
            told["_embedded"] = json!({ "captures": [{ "id": "cpt_1", "status": status }] });
            read(&told).unwrap()
        };
        let under_way = with("pending");
        for purpose in [
            QueryPurpose::Capture,
            QueryPurpose::Sync,
            QueryPurpose::Cancel,
        ] {
            assert_eq!(needed(&under_way, purpose), None);
        }
        let failed = with("failed");
        assert_eq!(needed(&failed, QueryPurpose::Capture), Some(Act::Capture));
        let attempt = crate::start::tests::attempt("credit_card");
        assert_eq!(capture_key(&attempt, &failed), "attempt-1-capture-1");
        let first = payment("authorized", false);
        assert_eq!(capture_key(&attempt, &first), "attempt-1-capture");
    }

    #[test]
    fn cancel_does_what_mollie_allows() {
        assert_eq!(
            needed(&payment("open", true), QueryPurpose::Cancel),
            Some(Act::Cancel)
        );
        assert_eq!(needed(&payment("open", false), QueryPurpose::Cancel), None);
        assert_eq!(
            needed(&payment("authorized", true), QueryPurpose::Cancel),
            Some(Act::Cancel)
        );
        assert_eq!(
            needed(&payment("authorized", false), QueryPurpose::Cancel),
            Some(Act::Release)
        );
        for status in ["paid", "canceled", "expired", "failed"] {
            assert_eq!(
                needed(&payment(status, true), QueryPurpose::Cancel),
                None,
                "{status}"
            );
        }
    }

    #[test]
    fn sync_touches_nothing() {
        for status in ["open", "pending", "authorized", "paid"] {
            assert_eq!(
                needed(&payment(status, true), QueryPurpose::Sync),
                None,
                "{status}"
            );
        }
    }
}
