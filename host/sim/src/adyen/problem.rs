//! Adyen's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::account::Unchanged;

/// `{"status","errorCode","message","errorType"}` with its HTTP status.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    kind: &'static str,
    message: String,
}

impl Problem {
    fn new(
        status: StatusCode,
        code: &'static str,
        kind: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code,
            kind,
            message: message.into(),
        }
    }

    /// The request is malformed.
    pub(crate) fn unreadable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "702", "validation", message)
    }

    /// The request is well-formed but invalid.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            code,
            "validation",
            message,
        )
    }

    /// The API key is missing or wrong.
    pub(crate) fn unauthorized() -> Self {
        let message = "HTTP Status Response - Unauthorized";
        Self::new(StatusCode::UNAUTHORIZED, "000", "security", message)
    }

    /// The key does not belong to the merchant account.
    pub(crate) fn wrong_account() -> Self {
        let message = "Invalid Merchant Account";
        Self::new(StatusCode::FORBIDDEN, "901", "security", message)
    }

    /// Unknown link or payment.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "", "validation", "Not found")
    }

    /// A failure of the provider itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        let (status, message) = match status {
            StatusCode::TOO_MANY_REQUESTS => (status, "Too many requests"),
            StatusCode::SERVICE_UNAVAILABLE => (status, "Service unavailable"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
        };
        Self::new(status, "", "internal", message)
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown => Self::not_found(),
            Unchanged::Conflict | Unchanged::Refused => {
                Self::invalid("29_001", "The status does not allow this")
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
        let body = json!({
            "status": self.status.as_u16(),
            "errorCode": self.code,
            "message": self.message,
            "errorType": self.kind,
        });
        (self.status, Json(body)).into_response()
    }
}
