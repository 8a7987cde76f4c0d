//! Stripe's refusals.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{account::Unchanged, config::SimError};

/// `{"error":{"type","code","message","param"}}` with its HTTP status.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
        }
    }

    /// A request that does not match the documentation.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    pub(crate) fn param(self, param: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..self
        }
    }

    pub(crate) fn missing(param: &str) -> Self {
        Self::invalid(format!("Missing required param: {param}."))
            .code("parameter_missing")
            .param(param)
    }

    pub(crate) fn unknown_param(param: &str) -> Self {
        Self::invalid(format!("Received unknown parameter: {param}"))
            .code("parameter_unknown")
            .param(param)
    }

    /// The object's state does not allow the call.
    pub(crate) fn state(message: impl Into<String>) -> Self {
        Self::invalid(message)
    }

    /// The bank refuses a payment that it had authorized.
    pub(crate) fn declined() -> Self {
        let message = "Your card was declined.";
        let status = StatusCode::PAYMENT_REQUIRED;
        Self::new(status, "card_error", message).code("card_declined")
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::invalid(format!("No such {what}: '{id}'"))
                .code("resource_missing")
                .param("id")
        }
    }

    pub(crate) fn no_such_address() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::invalid("Unrecognized request URL.")
        }
    }

    pub(crate) fn unauthorized() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            ..Self::invalid("Invalid API Key provided.")
        }
    }

    /// The key was used for another request.
    pub(crate) fn key_reused() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "idempotency_error",
            "Keys for idempotent requests can only be used with the same parameters they were first used with.",
        )
    }

    /// A failure of Stripe itself.
    pub(crate) fn of_vendor(status: StatusCode) -> Self {
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Self::new(
                status,
                "invalid_request_error",
                "Request rate limit exceeded.",
            )
            .code("rate_limit");
        }
        Self::new(
            status,
            "api_error",
            "Sorry! There was an error while talking to Stripe.",
        )
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
            Unchanged::Unknown => Self::not_found("object", ""),
            Unchanged::Conflict => Self::state("The object's state does not allow this."),
            Unchanged::Refused => Self::declined(),
            Unchanged::Books(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut error = json!({ "type": self.kind, "message": self.message });
        if let Some(code) = self.code {
            error["code"] = code.into();
        }
        if let Some(param) = self.param {
            error["param"] = param.into();
        }
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
