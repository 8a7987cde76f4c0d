//! Error pages, each with a next step for the payer.

use axum::response::Response;
use http::StatusCode;
use kassette_store::Fault;

use super::forms::BadForm;
use super::templates::{Navigation, Primary, State, Tone};
use super::visit::{PageOptions, Visit};
use crate::web::marks::InternalCause;

/// Reason why no payment or invitation can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No payment has the token.
    NotFound,
    /// No invitation has the token.
    NoInvitation,
    /// A rejected form of an invitation.
    Invitation(BadForm),
    /// A rejected form of a payment.
    Form(BadForm),
    /// A permanent internal error.
    Failure,
    /// A temporary internal error.
    Unavailable,
    Store {
        /// Whether the failure is temporary.
        for_now: bool,
        /// Cause, only for the log.
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
    /// An error page that is not about a payment.
    pub(crate) fn problem(&self, problem: Problem) -> Response {
        page(self, problem)
    }
}

/// The page for a problem.
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
    // With a token that may be valid, offer the page again.
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
        on_the_way: None,
        receipt: None,
        primary,
        navigation: Navigation::default(),
    });
    if let Problem::Store { cause, .. } = problem {
        response.extensions_mut().insert(InternalCause(cause));
    }
    response
}
