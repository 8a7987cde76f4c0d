//! Revolut's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{account::Unchanged, config::SimError};

/// A refusal with its HTTP status: `{"code","message","timestamp"}`.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// The request is malformed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The request is well-formed, but a value is invalid.
    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation", message)
    }

    /// The order's state does not allow it.
    pub(crate) fn bad_state() -> Self {
        let message = "the order's state does not allow this";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_state", message)
    }

    /// The idempotency key was used for another request.
    pub(crate) fn conflict() -> Self {
        let message = "the request conflicts with an earlier one";
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is no such thing")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "method_not_allowed", "not like that")
    }

    pub(crate) fn unauthorised() -> Self {
        let message = "the secret key is missing or wrong";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
    }

    /// A failure of the provider itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        let (code, message) = match status {
            StatusCode::TOO_MANY_REQUESTS => ("too_many_requests", "too many requests"),
            StatusCode::SERVICE_UNAVAILABLE => ("unavailable", "not available for a while"),
            _ => ("internal_server_error", "something went wrong"),
        };
        Self::new(status, code, message)
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown => Self::not_found(),
            Unchanged::Conflict => Self::bad_state(),
            Unchanged::Refused => Self::bad_request("the capture failed"),
            Unchanged::Books(error) => error.into(),
        }
    }
}

impl From<SimError> for Problem {
    fn from(error: SimError) -> Self {
        tracing::error!(%error, "the simulated Revolut cannot go on");
        Self::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // No client here reads the time.
        let body = json!({ "code": self.code, "message": self.message, "timestamp": 0 });
        (self.status, Json(body)).into_response()
    }
}
