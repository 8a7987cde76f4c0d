//! How the sandbox says no.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::account::Unchanged;

/// `{"error":{"code","message","fields"}}` with its status.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    fields: Vec<&'static str>,
}

#[derive(Serialize)]
struct Body {
    error: Error,
}

#[derive(Serialize)]
struct Error {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<&'static str>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            fields: Vec::new(),
        }
    }

    /// The request is not in the form that the API documents.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// The form is right, the payment cannot be had like that.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "payment_refused", message)
    }

    /// The payment is not in a state that allows the call.
    pub(crate) fn wrong_state() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "wrong_state",
            "the session's state does not allow this",
        )
    }

    /// No such payment.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "no such session")
    }

    /// Credentials or token are missing, wrong or expired.
    pub(crate) fn unauthorized(code: &'static str) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            code,
            "credentials are missing, wrong or expired",
        )
    }

    /// The key was used for something else.
    pub(crate) fn key_reused() -> Self {
        let message = "this Idempotency-Key was used with other data";
        Self::new(StatusCode::CONFLICT, "idempotency_mismatch", message)
    }

    /// The payer's details are needed first.
    pub(crate) fn ask(fields: Vec<&'static str>) -> Self {
        let message = "more must be known about the payer";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self {
            fields,
            ..Self::new(status, "payer_details_required", message)
        }
    }

    /// A failure of the vendor's own.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::new(
                status,
                "rate_limited",
                "too many requests, nothing was done",
            ),
            StatusCode::SERVICE_UNAVAILABLE => Self::new(
                status,
                "maintenance",
                "down for maintenance, nothing was done",
            ),
            _ => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "unexpected error",
            ),
        }
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown => Self::not_found(),
            Unchanged::Conflict => Self::wrong_state(),
            Unchanged::Refused => Self::refused("the capture was refused; the authorisation stays"),
            Unchanged::Books(error) => {
                tracing::error!(%error, "the simulator's books cannot be written");
                Self::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = Error {
            code: self.code,
            message: self.message,
            fields: self.fields,
        };
        (self.status, Json(Body { error })).into_response()
    }
}
