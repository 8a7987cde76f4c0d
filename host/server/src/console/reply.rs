//! Pages and refusals as responses, and the headers of every response.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY};
use http::{HeaderValue, StatusCode, response};
use kassette_store::Fault;
use serde_json::Value;

use super::STYLE;
use crate::web::ApiError;
use crate::web::body::BodyError;
use crate::web::marks::InternalCause;

/// Only our own stylesheet, script and forms: a text that became markup could load and send nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page.
pub(crate) struct Html<T>(pub(crate) T);

impl<T: Template> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        match self.0.render() {
            Ok(html) => {
                let media_type = HeaderValue::from_static("text/html; charset=utf-8");
                ([(CONTENT_TYPE, media_type)], html).into_response()
            }
            Err(error) => ConsoleError::internal(error).into_response(),
        }
    }
}

/// Reason why a page is not shown.
#[derive(Debug)]
pub(crate) enum ConsoleError {
    /// 303: the page is at another address of ours.
    SeeOther(String),
    /// A refusal of the admin API, or of the console itself.
    Refused(Refusal),
    /// 500. The text is only logged.
    Internal(String),
}

/// A refusal in one sentence.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// Name of the field at fault.
    pub(crate) field: Option<String>,
    /// Value of `Retry-After`.
    pub(crate) retry_after: Option<HeaderValue>,
}

impl ConsoleError {
    pub(crate) fn of(status: StatusCode, message: impl Into<String>) -> Self {
        Self::Refused(Refusal {
            status,
            message: message.into(),
            field: None,
            retry_after: None,
        })
    }

    pub(crate) fn not_found() -> Self {
        Self::of(StatusCode::NOT_FOUND, "There is nothing at this address.")
    }

    /// 403.
    pub(crate) fn forbidden(message: &str) -> Self {
        Self::of(StatusCode::FORBIDDEN, message)
    }

    /// 503 if the store does not answer, else 500.
    pub(super) fn of_fault(fault: Fault) -> Self {
        let (head, body) = ApiError::from(fault).into_response().into_parts();
        drop(body);
        Self::refused(head, &Value::Null)
    }

    pub(super) fn of_body(error: BodyError) -> Self {
        let status = ApiError::from(error).into_response().status();
        Self::of(status, error.to_string())
    }

    /// 422.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::of(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        Self::Internal(cause.to_string())
    }

    /// A refusal of the admin API.
    pub(super) fn refused(mut head: response::Parts, body: &Value) -> Self {
        if let Some(InternalCause(cause)) = head.extensions.remove() {
            return Self::Internal(cause);
        }
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Self::Refused(Refusal {
            status: head.status,
            message: text("error").unwrap_or_else(|| head.status.to_string()),
            field: text("field"),
            retry_after: head.headers.remove(http::header::RETRY_AFTER),
        })
    }
}

/// Page for a refusal without another place.
#[derive(Template)]
#[template(path = "console/refused.html")]
struct RefusedPage<'a> {
    style: &'a str,
    title: &'a str,
    message: &'a str,
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        let (status, message, cause) = match self {
            Self::SeeOther(address) => return see_other(&address),
            Self::Refused(refusal) => {
                let mut response = refused_page(refusal.status, &refusal.message);
                if let Some(seconds) = refusal.retry_after {
                    let name = http::header::RETRY_AFTER;
                    response.headers_mut().insert(name, seconds);
                }
                return response;
            }
            Self::Internal(cause) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "The gateway failed. Its log says why.",
                cause,
            ),
        };
        let mut response = refused_page(status, message);
        response.extensions_mut().insert(InternalCause(cause));
        response
    }
}

fn refused_page(status: StatusCode, message: &str) -> Response {
    let page = RefusedPage {
        style: &STYLE.path,
        title: status.canonical_reason().unwrap_or("Refused"),
        message,
    };
    match page.render() {
        Ok(html) => {
            let media_type = HeaderValue::from_static("text/html; charset=utf-8");
            (status, [(CONTENT_TYPE, media_type)], html).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// 303 to an address of ours.
pub(crate) fn see_other(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(location) = HeaderValue::from_str(address) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Sets the headers of every response.
pub(super) async fn with_headers(mut response: Response) -> Response {
    let is_asset = response.headers().contains_key(http::header::CACHE_CONTROL);
    if is_asset {
        return response;
    }
    crate::pages::guard(&mut response, false);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
