//! PayPal's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::account::Unchanged;

/// `{"name","message","debug_id","details":[{"issue","description"}]}` with its HTTP status.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    name: &'static str,
    issue: Option<&'static str>,
    description: String,
}

impl Problem {
    fn new(status: StatusCode, name: &'static str) -> Self {
        Self {
            status,
            name,
            issue: None,
            description: String::new(),
        }
    }

    /// The request is not in the documented format.
    pub(crate) fn invalid(issue: &'static str, description: impl Into<String>) -> Self {
        Self {
            issue: Some(issue),
            description: description.into(),
            ..Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST")
        }
    }

    /// The request is well-formed but cannot be executed.
    pub(crate) fn refused(issue: &'static str) -> Self {
        Self {
            issue: Some(issue),
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "UNPROCESSABLE_ENTITY")
        }
    }

    /// Unknown order, capture or webhook.
    pub(crate) fn not_found() -> Self {
        Self {
            issue: Some("INVALID_RESOURCE_ID"),
            ..Self::new(StatusCode::NOT_FOUND, "RESOURCE_NOT_FOUND")
        }
    }

    /// The access token is missing, wrong or expired.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "AUTHENTICATION_FAILURE")
    }

    /// A method that the address does not support.
    pub(crate) fn not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_SUPPORTED")
    }

    /// A failure of PayPal itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::new(status, "RATE_LIMIT_REACHED"),
            StatusCode::SERVICE_UNAVAILABLE => Self::new(status, "SERVICE_UNAVAILABLE"),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_SERVER_ERROR"),
        }
    }
}

impl Unchanged {
    /// The refusal in PayPal's terms; `conflict` is its issue for a state that does not allow the call.
    pub(crate) fn told(self, conflict: &'static str) -> Problem {
        match self {
            Self::Unknown => Problem::not_found(),
            Self::Conflict => Problem::refused(conflict),
            Self::Refused => Problem::refused("INSTRUMENT_DECLINED"),
            Self::Books(error) => {
                tracing::error!(%error, "the simulator's books cannot be written");
                Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "name": self.name,
            "message": "simulated",
            "debug_id": "5117d1a11a7ed",
            "links": [],
        });
        if let Some(issue) = self.issue {
            body["details"] = json!([{ "issue": issue, "description": self.description }]);
        }
        (self.status, Json(body)).into_response()
    }
}
