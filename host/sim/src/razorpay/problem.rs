//! Razorpay's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{account::Unchanged, config::SimError};

/// `{"error":{"code","description","field",…}}` with its HTTP status.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    description: String,
    field: Option<&'static str>,
}

impl Problem {
    /// A refused request, for any reason: Razorpay uses 400 for unknown ids and for wrong states too.
    pub(crate) fn bad(description: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: "BAD_REQUEST_ERROR",
            description: description.into(),
            field: None,
        }
    }

    pub(crate) fn field(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    pub(crate) fn unknown_id() -> Self {
        Self::bad("The id provided does not exist")
    }

    pub(crate) fn no_such_address() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::bad("The requested URL was not found on the server.")
        }
    }

    pub(crate) fn unauthorized() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            ..Self::bad("Authentication failed")
        }
    }

    /// A failure of Razorpay itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Self {
                status,
                ..Self::bad("Request failed. Please try after sometime.")
            };
        }
        Self {
            status,
            code: "SERVER_ERROR",
            description: "The server encountered an unexpected condition.".to_owned(),
            field: None,
        }
    }
}

impl From<SimError> for Problem {
    fn from(error: SimError) -> Self {
        tracing::error!(%error, "the simulator failed");
        Self::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unknown => Self::unknown_id(),
            Unchanged::Refused => Self::bad("The payment could not be captured by the bank."),
            Unchanged::Conflict => Self::bad("The state does not allow this."),
            Unchanged::Books(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = json!({
            "code": self.code,
            "description": self.description,
            "source": "business",
            "step": "payment_initiation",
            "reason": "input_validation_failed",
            "metadata": {},
            "field": self.field,
        });
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
