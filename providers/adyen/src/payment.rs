//! Capturing, cancelling and reporting a payment that a notification or a session's result has identified.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, Capture, QueryFailure, QueryPurpose, Report};

use crate::reference::{Payment, Stage};
use crate::wire::{self, Problem};
use crate::{api, methods, start};

/// Adyen's error code for a modification of an unknown payment.
const NO_PAYMENT: &str = "167";

/// Captures or cancels the payment if the purpose requires this, and reports its status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    purpose: QueryPurpose,
) -> Result<Report, QueryFailure> {
    let by_us = methods::is_captured_by_us(&attempt.method);
    let mut report = match (&payment.stage, purpose) {
        (Stage::Captured, _) => payment.captured("CAPTURE"),
        (Stage::Cancelled, _) => payment.cancelled("cancelled"),
        (Stage::Noted, _) => payment.beside("notifications alone tell more of this payment"),
        (Stage::Authorised(_) | Stage::Refused(_), _) if !by_us => {
            payment.captured("AUTHORISATION of a method that takes the money at once")
        }
        (Stage::Authorised(refused), QueryPurpose::Capture) => {
            capture(account, attempt, payment, refused.as_deref())?
        }
        // A new capture: Adyen would answer the first capture's key with the first answer.
        (Stage::Refused(capture_id), QueryPurpose::Capture) => {
            let again = payment.at(Stage::Authorised(Some(capture_id.clone())));
            capture(account, attempt, &again, Some(capture_id))?
        }
        (Stage::Authorised(_) | Stage::Refused(_), QueryPurpose::Cancel) => {
            cancel(account, attempt, payment)?
        }
        (Stage::Authorised(_), QueryPurpose::Sync) => payment.authorised("AUTHORISATION"),
        (Stage::Refused(_), QueryPurpose::Sync) => {
            payment.review("CAPTURE refused, still authorised")
        }
    };
    let at_once = matches!(payment.stage, Stage::Authorised(_) | Stage::Refused(_)) && !by_us;
    if at_once {
        report.particulars.captures = vec![Capture {
            id: payment.psp_reference.clone(),
            amount: payment.amount.amount,
            at: None,
            reversed: false,
        }];
    }
    let word = match payment.stage {
        Stage::Authorised(_) | Stage::Refused(_) => Some("Authorised"),
        Stage::Captured => Some("SentForSettle"),
        Stage::Cancelled => Some("Cancelled"),
        Stage::Noted => None,
    };
    report.particulars.provider_status = word.map(str::to_owned);
    Ok(report)
}

/// Requests a capture of the full authorized amount. Adyen accepts the request and reports the outcome by a
/// notification; until then the payment is reported as authorized. If Adyen refuses immediately, the payment is
/// reported for review, still authorized.
fn capture(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    after: Option<&str>,
) -> Result<Report, QueryFailure> {
    let key = match after {
        None => format!("{}-capture", attempt.id),
        Some(refused) => format!("{}-{refused}", attempt.id),
    };
    let amount = [("amount".to_owned(), wire::money_json(&payment.amount))];
    let answer = modify(account, attempt, payment, "captures", &key, &amount)?;
    match received(&answer, payment)? {
        None => Ok(payment.authorised("CAPTURE awaited")),
        Some(problem) => {
            let mut report = payment.review(&format!("capture refused: {problem}"));
            report.particulars.reason = Some(problem.code);
            Ok(report)
        }
    }
}

/// Requests a cancellation; Adyen reports its outcome in the same way.
///
/// Uses `cancels`, never `reversals`: a reversal would refund a payment that was captured in the meantime.
fn cancel(account: &Account, attempt: &Attempt, payment: &Payment) -> Result<Report, QueryFailure> {
    let key = format!("{}-cancel", attempt.id);
    let answer = modify(account, attempt, payment, "cancels", &key, &[])?;
    match received(&answer, payment)? {
        None => Ok(payment.authorised("CANCELLATION awaited")),
        Some(problem) => Err(QueryFailure::Unavailable(problem.to_string())),
    }
}

fn modify(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    operation: &str,
    key: &str,
    more: &[(String, Json)],
) -> Result<Answer, QueryFailure> {
    let mut fields = vec![
        (
            "merchantAccount".to_owned(),
            api::merchant_account(account).into(),
        ),
        // Adyen returns it as the notification's `merchantReference`.
        ("reference".to_owned(), attempt.id.as_str().into()),
    ];
    fields.extend_from_slice(more);
    let path = format!("/payments/{}/{operation}", payment.psp_reference);
    Ok(api::post(account, &path, key, &Json::Object(fields))?)
}

/// Whether Adyen accepted a modification: `None` if so, otherwise the problem of a final refusal.
fn received(answer: &Answer, payment: &Payment) -> Result<Option<Problem>, QueryFailure> {
    let problem = wire::problem(answer);
    match answer.status {
        201 if wire::is_received(&answer.body, &payment.psp_reference) => Ok(None),
        201 => Err(unavailable("the answer cannot be read")),
        404 => Err(QueryFailure::Absent),
        422 if problem.code == NO_PAYMENT => Err(QueryFailure::Absent),
        422 if problem.code != start::IN_PROGRESS => Ok(Some(problem)),
        _ => Err(refused(answer)),
    }
}

/// Maps an unexpected answer to `Unavailable`.
pub(crate) fn refused(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

pub(crate) fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use kassette_plugin::provider::{Money, Settlement, Status};

    fn reported(method: &str, stage: Stage, purpose: QueryPurpose) -> Result<Report, QueryFailure> {
        let payment = Payment {
            psp_reference: "993617898204183D".into(),
            amount: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            stage,
        };
        query(&account(), &attempt(method), &payment, purpose)
    }

    #[test]
    fn an_authorisation_proves_money_only_where_the_method_takes_it_at_once() {
        for method in ["ideal", "upi_imps"] {
            for purpose in [
                QueryPurpose::Capture,
                QueryPurpose::Sync,
                QueryPurpose::Cancel,
            ] {
                let report = reported(method, Stage::Authorised(None), purpose).unwrap();
                assert_eq!(
                    (report.status, report.settlement, report.received.amount),
                    (Status::Completed, Settlement::Confirmed, 4990),
                    "{method}"
                );
            }
        }
        for method in ["credit_card", "klarna", "paypal"] {
            let report = reported(method, Stage::Authorised(None), QueryPurpose::Sync).unwrap();
            assert_eq!(
                (report.status, report.settlement),
                (Status::Processing, Settlement::Pending),
                "{method}"
            );
            assert_eq!(report.particulars.references, ["993617898204183D"]);
            // Both send a request, and this test has no network.
            for purpose in [QueryPurpose::Capture, QueryPurpose::Cancel] {
                assert!(
                    reported(method, Stage::Authorised(None), purpose).is_err(),
                    "{method}"
                );
            }
        }
    }

    #[test]
    fn what_was_noted_beside_a_payment_ends_nothing() {
        for purpose in [
            QueryPurpose::Capture,
            QueryPurpose::Sync,
            QueryPurpose::Cancel,
        ] {
            let report = reported("credit_card", Stage::Noted, purpose).unwrap();
            assert_eq!(
                (report.status, report.received.amount),
                (Status::Pending, 0)
            );
        }
    }

    #[test]
    fn a_refused_capture_is_for_a_person() {
        let stage = Stage::Refused("853617894906488A".into());
        let report = reported("credit_card", stage, QueryPurpose::Sync).unwrap();
        assert_eq!(report.status, Status::Review);
        assert!(report.reference.ends_with("/refused/853617894906488A"));
    }
}
