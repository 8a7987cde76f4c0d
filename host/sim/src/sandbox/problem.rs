//! The sandbox's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::account::Unchanged;

/// `{"error":{"code","message","fields"}}` with its HTTP status.
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

    /// The request is not in the documented format.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// The request is well-formed, but the payment is refused.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "payment_refused", message)
    }

    /// The amount is outside the sandbox's limits.
    pub(crate) fn not_accepted() -> Self {
        let message = "the amount is not accepted for this account";
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "amount_not_accepted",
            message,
        )
    }

    /// The payment's state does not allow the call.
    pub(crate) fn wrong_state() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "wrong_state",
            "the session's state does not allow this",
        )
    }

    /// Unknown payment.
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

    /// The key was used for a different request.
    pub(crate) fn key_reused() -> Self {
        let message = "this Idempotency-Key was used with other data";
        Self::new(StatusCode::CONFLICT, "idempotency_mismatch", message)
    }

    /// The payer's details are required first.
    pub(crate) fn ask(fields: Vec<&'static str>) -> Self {
        let message = "more must be known about the payer";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self {
            fields,
            ..Self::new(status, "payer_details_required", message)
        }
    }

    /// A failure of the provider itself.
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
