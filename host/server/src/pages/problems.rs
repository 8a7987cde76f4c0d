//! Calm pages for what is wrong, each with what to do next.

use axum::response::Response;
use http::StatusCode;
use kassette_store::Fault;

use super::forms::BadForm;
use super::templates::{Navigation, Primary, State, Tone};
use super::visit::{PageOptions, Visit};
use crate::web::marks::InternalCause;

/// What is wrong where no payment can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No payment has the token.
    NotFound,
    /// No invitation has the token.
    NoInvitation,
    /// A form of an invitation that is not to be acted on.
    Invitation(BadForm),
    /// A form that is not to be acted on.
    Form(BadForm),
    /// Our own fault, for good.
    Failure,
    /// Our own fault, for now.
    Unavailable,
    Store {
        /// For now; else for good.
        for_now: bool,
        /// Why, for the log alone.
        cause: String,
    },
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let cause = fault.to_string();
        let for_now = match fault {
            Fault::Busy => return Self::Unavailable,
            Fault::Unavailable(_) | Fault::Stopping => true,
            Fault::Corrupt(_) => false,
        };
        Self::Store { for_now, cause }
    }
}

impl Visit {
    /// A page about no payment.
    pub(crate) fn problem(&self, problem: Problem) -> Response {
        page(self, problem)
    }
}

/// The page about a problem.
fn page(visit: &Visit, problem: Problem) -> Response {
    let t = visit.t;
    let (status, heading, text) = match &problem {
        Problem::NotFound => (
            StatusCode::NOT_FOUND,
            t.not_found_title(),
            t.not_found_text(),
        ),
        Problem::NoInvitation => (
            StatusCode::NOT_FOUND,
            t.no_invitation_title(),
            t.no_invitation_text(),
        ),
        Problem::Form(BadForm::Foreign) => {
            (StatusCode::FORBIDDEN, t.foreign_title(), t.foreign_text())
        }
        Problem::Invitation(BadForm::Foreign) => (
            StatusCode::FORBIDDEN,
            t.foreign_title(),
            t.invitation_foreign_text(),
        ),
        Problem::Form(BadForm::TooLarge) | Problem::Invitation(BadForm::TooLarge) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            t.too_large_title(),
            t.too_large_text(),
        ),
        Problem::Form(BadForm::Unreadable) | Problem::Invitation(BadForm::Unreadable) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            t.unreadable_title(),
            t.unreadable_text(),
        ),
        Problem::Failure | Problem::Store { for_now: false, .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            t.failure_title(),
            t.failure_text(),
        ),
        Problem::Unavailable
        | Problem::Store { for_now: true, .. }
        | Problem::Form(BadForm::Busy)
        | Problem::Invitation(BadForm::Busy) => (
            StatusCode::SERVICE_UNAVAILABLE,
            t.failure_title(),
            t.failure_text(),
        ),
    };
    // Who has a token that may be right can look again.
    let primary = match (&visit.token, &problem) {
        (Some(token), Problem::Form(_)) => Some(Primary::Link {
            href: format!("/checkout/{token}"),
            label: t.open_payment(),
        }),
        (Some(token), Problem::Invitation(_)) => Some(Primary::Link {
            href: format!("/invitation/{token}"),
            label: t.open_invitation(),
        }),
        _ => None,
    };
    let options = PageOptions {
        status: Some(status),
        ..PageOptions::default()
    };
    let mut response = visit.framed(heading.clone(), None, options, |frame| State {
        frame,
        tone: Tone::Bad,
        heading,
        text,
        extra: None,
        primary,
        navigation: Navigation::default(),
    });
    if let Problem::Store { cause, .. } = problem {
        response.extensions_mut().insert(InternalCause(cause));
    }
    response
}
