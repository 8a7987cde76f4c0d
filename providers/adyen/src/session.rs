//! Querying a session. Methods that need a capture are paid on its hosted page.
//!
//! Adyen returns a session's result, in the state of that time, only for the `sessionResult` that the payer's
//! browser brought back. It offers no other query for sessions, and nothing ends a session early. This is safe:
//! payments made there are only authorized, and only this module requests the capture, once it knows the payment's
//! id.
use kassette_plugin::json::object;
use kassette_plugin::provider::{
    Account, Attempt, Money, Particulars, QueryFailure, QueryPurpose, Report, Settlement, Status,
};

use crate::reference::{Payment, Stage};
use crate::wire::{self, SessionResult, SessionStatus};
use crate::{api, payment, start};

/// Maximum length of a session result, in bytes. The host accepts addresses of 8 KiB.
const RESULT: usize = 6 * 1024;

/// Fulfils the purpose and reports the status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    id: &str,
    purpose: QueryPurpose,
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let told = match return_query.and_then(result_of) {
        Some(result) => read(account, attempt, id, result)?,
        None => None,
    };
    let Some(told) = told else {
        if purpose == QueryPurpose::Cancel {
            void(account, attempt)?;
            return Ok(unpaid(attempt, id, Status::Declined, "closed"));
        }
        return Ok(unpaid(attempt, id, Status::Pending, "session open"));
    };
    if let Some(payment) = paid(&told) {
        let mut report = if told.manual_review && purpose == QueryPurpose::Sync {
            payment.review("authorised, in manual review")
        } else {
            payment::query(account, attempt, &payment, purpose)?
        };
        report.particulars.instrument = told.instrument;
        return Ok(report);
    }
    let (status, word) = match told.status {
        SessionStatus::Completed => (Status::Processing, "completed"),
        SessionStatus::Pending => (Status::Pending, "paymentPending"),
        SessionStatus::Active => (Status::Pending, "active"),
        SessionStatus::Unknown => (Status::Pending, "of an unknown status"),
        SessionStatus::Refused => (Status::Declined, "refused"),
        // The page may still be open in another window; an authorization made there is never captured.
        SessionStatus::Canceled => (Status::Cancelled, "canceled"),
        SessionStatus::Expired => (Status::Expired, "expired"),
    };
    let status = match (status, purpose) {
        (Status::Pending | Status::Processing, QueryPurpose::Cancel) => {
            void(account, attempt)?;
            Status::Declined
        }
        (Status::Expired | Status::Cancelled, QueryPurpose::Cancel) => Status::Declined,
        _ => status,
    };
    Ok(unpaid(attempt, id, status, word))
}

/// Report about a session without a known payment.
fn unpaid(attempt: &Attempt, id: &str, status: Status, word: &str) -> Report {
    Report {
        reference: id.to_owned(),
        status,
        settlement: Settlement::Pending,
        received: Money {
            amount: 0,
            currency: attempt.due.currency.clone(),
        },
        given_back: 0,
        detail: format!("session: {word}"),
        particulars: Particulars {
            provider_status: Some(word.to_owned()),
            ..Particulars::default()
        },
    }
}

/// The authorized payment in a result. `None` unless there is exactly one.
fn paid(told: &SessionResult) -> Option<Payment> {
    let [(psp_reference, amount)] = told.payments.as_slice() else {
        return None;
    };
    Some(Payment {
        psp_reference: psp_reference.clone(),
        amount: amount.clone(),
        stage: Stage::Authorised(None),
    })
}

/// The `sessionResult` in the payer's return query, still percent-encoded. Any caller can forge it, so `None` if
/// it is empty, too long, or contains characters that are invalid in an address.
fn result_of(return_query: &str) -> Option<&str> {
    let result = return_query
        .split('&')
        .find_map(|field| field.strip_prefix("sessionResult="))?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$'()*+,;=:@/?%".contains(&byte);
    (1..=RESULT)
        .contains(&result.len())
        .then_some(result)
        .filter(|result| result.bytes().all(fits))
}

/// Queries a session's result. `None` if Adyen rejects the payer's `sessionResult`.
fn read(
    account: &Account,
    attempt: &Attempt,
    id: &str,
    result: &str,
) -> Result<Option<SessionResult>, QueryFailure> {
    let answer = api::get(account, &format!("/sessions/{id}?sessionResult={result}"))?;
    match answer.status {
        200 => wire::session_result(&answer.body, id, &attempt.id)
            .map(Some)
            .ok_or_else(|| payment::unavailable("the answer is not about this session")),
        400 | 404 | 422 => Ok(None),
        _ => Err(payment::refused(&answer)),
    }
}

/// Cancels an authorization that no notification has reported, by its merchant reference. Succeeds if there is
/// none. A later authorization is never captured.
fn void(account: &Account, attempt: &Attempt) -> Result<(), QueryFailure> {
    let body = object([
        ("merchantAccount", api::merchant_account(account).into()),
        ("paymentReference", attempt.id.as_str().into()),
        ("reference", attempt.id.as_str().into()),
    ]);
    let answer = api::post(account, "/cancels", &format!("{}-void", attempt.id), &body)?;
    match answer.status {
        201 => Ok(()),
        422 if wire::problem(&answer).code != start::IN_PROGRESS => Ok(()),
        _ => Err(payment::refused(&answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};

    #[test]
    fn what_the_payer_brought_is_handed_on_as_it_is_or_not_at_all() {
        for (return_query, result) in [
            (
                "sessionId=CS1&sessionResult=Ab02b4c0%21BQAB%2B%2F%3D",
                Some("Ab02b4c0%21BQAB%2B%2F%3D"),
            ),
            ("sessionResult=Ab02b4c0!BQAB&x=1", Some("Ab02b4c0!BQAB")),
            ("sessionResult=", None),
            ("xsessionResult=1", None),
            ("sessionResult=a#b", None),
            ("sessionResult=a b", None),
            ("sessionResult=é", None),
            ("", None),
        ] {
            assert_eq!(result_of(return_query), result, "{return_query}");
        }
        let long = format!("sessionResult={}", "a".repeat(RESULT + 1));
        assert_eq!(result_of(&long), None);
    }

    #[test]
    fn a_session_that_nothing_is_known_of_waits_for_its_payer() {
        for purpose in [QueryPurpose::Sync, QueryPurpose::Capture] {
            let report = query(&account(), &attempt("credit_card"), "CS1", purpose, None).unwrap();
            assert_eq!(
                (
                    report.status,
                    report.received.amount,
                    report.reference.as_str()
                ),
                (Status::Pending, 0, "CS1")
            );
        }
        // Without a network the authorization cannot be cancelled.
        let closed = query(
            &account(),
            &attempt("credit_card"),
            "CS1",
            QueryPurpose::Cancel,
            None,
        );
        assert!(closed.is_err());
    }

    #[test]
    fn several_payments_of_one_session_wait_for_their_notifications() {
        let amount = attempt("credit_card").due;
        let told = SessionResult {
            status: SessionStatus::Completed,
            payments: vec![("A".into(), amount.clone()), ("B".into(), amount)],
            instrument: None,
            manual_review: false,
        };
        assert_eq!(paid(&told), None);
    }
}
