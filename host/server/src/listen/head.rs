//! Rejects ambiguous heads, which different parsers could read differently, but which hyper accepts.
//!
//! hyper itself rejects heads that cannot be parsed (400) or are too long (431), without a body or a request id.
//! These responses cannot be changed, because `hyper::proto::h1::role` sends them before a request exists.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONNECTION, HOST, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Request, Version};

use crate::web::ApiError;
use crate::web::marks::PauseReading;
use crate::web::request_id::RequestId;

/// Response to an ambiguous head. `None` if the head is valid.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<Response<Body>> {
    let message = wrong(request.version(), request.headers())?;
    let mut response = marked(ApiError::Malformed(message.into()), request.headers());
    // The end of this request is uncertain, so the connection cannot be used again.
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    Some(response)
}

/// Response that replaces `answer` if it does not fit into the sender's byte budget.
pub(super) fn over_budget(answer: &Response<Body>) -> Response<Body> {
    let mut response = marked(ApiError::Busy, answer.headers());
    response.extensions_mut().insert(PauseReading);
    response
}

/// An error with the headers that all responses have. Its request id is that of `headers`, if they have a usable
/// one.
fn marked(error: ApiError, headers: &HeaderMap) -> Response<Body> {
    let mut response = error.into_response();
    let id = RequestId::from_headers(headers);
    let headers = response.headers_mut();
    id.mark(headers);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Checks RFC 9112, 3.2 and 6.1. HTTP/2 has its own framing and its own field for the host.
fn wrong(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let lines = |name| headers.get_all(name).iter().count();
    match version {
        Version::HTTP_11 if lines(HOST) == 0 => Some("a request in HTTP/1.1 needs a Host header"),
        Version::HTTP_10 | Version::HTTP_11 if lines(HOST) > 1 => {
            Some("a request has one Host header, not several")
        }
        Version::HTTP_11 if lines(TRANSFER_ENCODING) > 1 => {
            Some("a request has one Transfer-Encoding header, not several")
        }
        _ => None,
    }
}
