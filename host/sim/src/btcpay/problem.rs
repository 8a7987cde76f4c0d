//! BTCPay Server's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::account::Unchanged;

/// `{"code","message"}`, or a list of invalid fields with messages.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    body: Value,
}

impl Problem {
    fn new(status: StatusCode, code: &str, message: &str) -> Self {
        Self {
            status,
            body: json!({ "code": code, "message": message }),
        }
    }

    /// A field is invalid.
    pub(crate) fn field(path: &str, message: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            body: json!([{ "path": path, "message": message }]),
        }
    }

    /// The body is malformed.
    pub(crate) fn unreadable(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", message)
    }

    /// The API key is missing or wrong.
    pub(crate) fn unauthenticated() -> Self {
        let message = "Authentication is required for accessing this endpoint";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
    }

    /// The key does not belong to the store.
    pub(crate) fn forbidden() -> Self {
        let message = "Insufficient API Permissions";
        Self::new(StatusCode::FORBIDDEN, "missing-permission", message)
    }

    /// The invoice's state does not allow a refund.
    pub(crate) fn non_refundable() -> Self {
        let message = "Cannot refund this invoice";
        Self::new(StatusCode::BAD_REQUEST, "non-refundable", message)
    }

    /// Unknown pull payment.
    pub(crate) fn no_pull_payment() -> Self {
        let message = "The pull payment was not found";
        Self::new(StatusCode::NOT_FOUND, "pullpayment-not-found", message)
    }

    /// Unknown endpoint: the web server itself answers, without a body of the API.
    pub(crate) fn no_address() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            body: Value::Null,
        }
    }

    /// Unknown invoice.
    pub(crate) fn not_found() -> Self {
        let message = "The invoice was not found";
        Self::new(StatusCode::NOT_FOUND, "invoice-not-found", message)
    }

    /// A failure of the server itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::new(status, "rate-limited", "Slow down"),
            StatusCode::SERVICE_UNAVAILABLE => Self::new(status, "unavailable", "Try again"),
            _ => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal-error",
                "Unexpected error",
            ),
        }
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown => Self::not_found(),
            Unchanged::Conflict | Unchanged::Refused => {
                Self::field("status", "Status can not be changed")
            }
            Unchanged::Books(error) => {
                tracing::error!(%error, "the simulator's books cannot be written");
                Self::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
