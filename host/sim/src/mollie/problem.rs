//! Mollie's refusals.
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{account::Unchanged, config::SimError};

/// Media type of every answer.
pub(crate) const HAL: &str = "application/hal+json";

/// A refusal with its status.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    field: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            field: None,
        }
    }

    /// An invalid field.
    pub(crate) fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..Self::unprocessable(detail)
        }
    }

    /// The request is well-formed but cannot be executed.
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// The request is malformed, or its idempotency key belongs to another one.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "not like that")
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "Missing authentication, or failed to authenticate";
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// A failure of the provider itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        let detail = match status {
            StatusCode::TOO_MANY_REQUESTS => "too many requests",
            StatusCode::SERVICE_UNAVAILABLE => "the payment platform is not available for a while",
            _ => "something went wrong",
        };
        Self::new(status, detail)
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown => Self::not_found("no such payment"),
            Unchanged::Conflict | Unchanged::Refused => {
                Self::unprocessable("the payment's status does not allow this")
            }
            Unchanged::Books(error) => error.into(),
        }
    }
}

impl From<SimError> for Problem {
    fn from(error: SimError) -> Self {
        tracing::error!(%error, "the simulated Mollie cannot go on");
        Self::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
            "_links": { "documentation": {
                "href": "https://docs.mollie.com/overview/handling-errors",
                "type": "text/html",
            } },
        });
        if let Some(field) = self.field {
            body["field"] = Value::from(field);
        }
        hal(self.status, &body)
    }
}

/// An answer in the provider's media type.
pub(crate) fn hal(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, HAL)], body.to_string()).into_response()
}
