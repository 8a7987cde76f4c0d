//! Querying a session, after capturing or closing it as the host requests.
use kassette_plugin::json::object;
use kassette_plugin::provider::http::Response;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Report};
use kassette_plugin::settings;

use crate::api::{self, Broken};
use crate::wire::{self, Phase, Problem, Session};

/// Setting: whether a session stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// A change of a session before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Close,
}

/// Finds the session, captures or closes it if the purpose requires this, and reports its status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // The attempt's id is enough to find the session. The query that the payer's browser brought back only shows
    // that the payer has returned.
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let came_back = return_query.is_some();
    let keep = settings::flag(&account.settings, KEEP_OPEN, false)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    // A payer on the provider's page may try again. A payer who has returned chose not to.
    let kept_open = keep && !came_back && purpose != QueryPurpose::Cancel;
    let session = locate(account, attempt, reference)?.ok_or(QueryFailure::Absent)?;
    let report = match needed(session.phase, session.payable, purpose, kept_open) {
        None => session.report(kept_open),
        Some(act) => match perform(account, attempt, session, act)? {
            (session, Some(problem)) => session.refused(&problem),
            (session, None) => session.report(kept_open),
        },
    };
    // No report: the session was declined but not closed, so the payer could still pay.
    report.ok_or_else(|| unavailable("declined, but not yet closed"))
}

/// Change that the purpose requires in this phase, or `None`. A declined session that is still payable is closed
/// for every purpose, because the payer could come back and pay, unless it is to stay open.
fn needed(phase: Phase, payable: bool, purpose: QueryPurpose, kept_open: bool) -> Option<Act> {
    match (phase, purpose) {
        (Phase::Declined, _) if payable && !kept_open => Some(Act::Close),
        (Phase::Authorised, QueryPurpose::Capture) => Some(Act::Capture),
        (Phase::Open | Phase::Authorised, QueryPurpose::Cancel) => Some(Act::Close),
        _ => None,
    }
}

/// Executes a change. Returns the session after it, and the problem if the provider refused a capture.
fn perform(
    account: &Account,
    attempt: &Attempt,
    session: Session,
    act: Act,
) -> Result<(Session, Option<Problem>), QueryFailure> {
    let (operation, body) = match act {
        Act::Capture => (
            "capture",
            object([("amount", wire::money_json(&session.due))]),
        ),
        Act::Close => ("close", object([])),
    };
    let path = format!("/v1/sessions/{}/{operation}", session.id);
    let key = format!("{}-{operation}", attempt.id);
    let answer = api::post(account, &path, &key, &body).map_err(broken)?;
    let now = || locate(account, attempt, Some(&session.id))?.ok_or(QueryFailure::Absent);
    match answer.status {
        200 => Ok((ours(wire::session(&answer.body), attempt)?, None)),
        // The session has changed in the meantime: report its current state.
        404 | 409 => Ok((now()?, None)),
        422 if act == Act::Capture => Ok((now()?, Some(wire::problem(&answer)))),
        _ => Err(refused(&answer)),
    }
}

fn locate(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
) -> Result<Option<Session>, QueryFailure> {
    let Some(reference) = reference.filter(|reference| is_plain(reference)) else {
        return find(account, attempt);
    };
    let answer = api::get(account, &format!("/v1/sessions/{reference}")).map_err(broken)?;
    match answer.status {
        200 => ours(wire::session(&answer.body), attempt).map(Some),
        404 => find(account, attempt),
        _ => Err(refused(&answer)),
    }
}

/// Searches for the session by the attempt's id. `None` if the provider has none.
pub(crate) fn find(account: &Account, attempt: &Attempt) -> Result<Option<Session>, QueryFailure> {
    let path = format!("/v1/sessions?merchant_reference={}", attempt.id);
    let answer = api::get(account, &path).map_err(broken)?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    match wire::found(&answer.body) {
        Some(None) => Ok(None),
        Some(found) => ours(found, attempt).map(Some),
        None => Err(unavailable("the answer cannot be read")),
    }
}

fn ours(session: Option<Session>, attempt: &Attempt) -> Result<Session, QueryFailure> {
    match session {
        Some(session) if session.attempt == attempt.id => Ok(session),
        Some(session) => Err(unavailable(&format!(
            "{} belongs to another attempt",
            session.id
        ))),
        None => Err(unavailable("the answer cannot be read")),
    }
}

/// Whether a reference has the form of a provider id, which needs no escaping in a path.
pub(crate) fn is_plain(reference: &str) -> bool {
    !reference.is_empty()
        && reference
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(crate) fn broken(broken: Broken) -> QueryFailure {
    match broken {
        Broken::NotSent(why) | Broken::NoAnswer(why) => QueryFailure::Unavailable(why),
    }
}

fn refused(answer: &Response) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_capture_captures_and_only_what_the_payer_approved() {
        for purpose in [QueryPurpose::Sync, QueryPurpose::Cancel] {
            assert_ne!(
                needed(Phase::Authorised, false, purpose, false),
                Some(Act::Capture)
            );
        }
        assert_eq!(
            needed(Phase::Authorised, false, QueryPurpose::Capture, false),
            Some(Act::Capture)
        );
        assert_eq!(
            needed(Phase::InReview, false, QueryPurpose::Capture, false),
            None
        );
        assert_eq!(
            needed(Phase::Open, true, QueryPurpose::Capture, false),
            None
        );
    }

    #[test]
    fn sync_touches_nothing_that_could_still_be_paid_by_an_undeclined_payer() {
        for phase in [
            Phase::Open,
            Phase::Authorised,
            Phase::InReview,
            Phase::Captured,
        ] {
            assert_eq!(
                needed(phase, phase == Phase::Open, QueryPurpose::Sync, false),
                None
            );
        }
    }

    #[test]
    fn a_decline_is_made_certain_whatever_the_purpose() {
        for purpose in [
            QueryPurpose::Capture,
            QueryPurpose::Sync,
            QueryPurpose::Cancel,
        ] {
            assert_eq!(
                needed(Phase::Declined, true, purpose, false),
                Some(Act::Close)
            );
            assert_eq!(needed(Phase::Declined, false, purpose, false), None);
            assert_eq!(needed(Phase::Declined, true, purpose, true), None);
        }
    }

    #[test]
    fn cancel_leaves_alone_what_is_paid_or_over() {
        for phase in [
            Phase::Capturing,
            Phase::InReview,
            Phase::Captured,
            Phase::Disputed,
            Phase::Refunded,
            Phase::Closed,
            Phase::Expired,
        ] {
            assert_eq!(needed(phase, false, QueryPurpose::Cancel, false), None);
        }
    }

    #[test]
    fn a_reference_that_could_change_the_path_is_not_used() {
        assert!(is_plain("sbx_0a"));
        for odd in ["", "a/b", "a?b", "..", "a%2fb"] {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}
