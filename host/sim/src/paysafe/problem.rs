//! Paysafe's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::account::Unchanged;

/// Error code: a field is missing, unknown or invalid.
const INVALID: &str = "5068";

/// `{"error":{"code","message"}}` with its HTTP status.
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

    /// A field is missing, unknown or invalid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, message)
    }

    /// The handle is not payable.
    pub(crate) fn not_payable() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "5283", "the handle is not payable")
    }

    /// The refund is refused.
    pub(crate) fn no_refund(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::PAYMENT_REQUIRED, code, message)
    }

    /// The `merchantRefNum` was used before.
    pub(crate) fn repeated() -> Self {
        Self::new(StatusCode::CONFLICT, "5031", "processed before")
    }

    /// Unknown address.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "5269", "not found")
    }

    /// A method that the address does not support.
    pub(crate) fn not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "5271", "not like that")
    }

    /// The API key is missing or wrong.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "5279", "invalid credentials")
    }

    /// A failure of Paysafe itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        let code = match status {
            StatusCode::TOO_MANY_REQUESTS => "1200",
            StatusCode::SERVICE_UNAVAILABLE => "1008",
            _ => "1000",
        };
        Self::new(status, code, "simulated")
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown | Unchanged::Conflict | Unchanged::Refused => Self::not_payable(),
            Unchanged::Books(error) => {
                tracing::error!(%error, "the simulator's books cannot be written");
                Self::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // The message of an invalid request starts with the field's name.
        let field = self.message.split(':').next().unwrap_or_default();
        let fields =
            (self.code == INVALID).then(|| json!([{ "field": field, "error": self.message }]));
        let error = json!({ "code": self.code, "message": self.message, "fieldErrors": fields });
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
