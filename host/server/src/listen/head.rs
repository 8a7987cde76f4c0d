//! Heads that two readers could understand in two ways, which the HTTP library lets through.
//!
//! What it refuses itself (a head that does not parse: 400, one that is too long: 431) it answers without
//! a body and without a request id, and it has no hook for either; that answer comes from
//! `hyper::proto::h1::role`, before any request exists.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONNECTION, HOST, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Request, Version};

use crate::web::ApiError;
use crate::web::marks::PauseReading;
use crate::web::request_id::RequestId;

/// The answer to a head that is not plain; none for any other.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<Response<Body>> {
    let message = wrong(request.version(), request.headers())?;
    let mut response = marked(ApiError::Malformed(message.into()), request.headers());
    // Where the request ends is what is in doubt.
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    Some(response)
}

/// What is given in place of an answer that its sender's budget of bytes has no room for.
pub(super) fn over_budget(answer: &Response<Body>) -> Response<Body> {
    let mut response = marked(ApiError::Busy, answer.headers());
    response.extensions_mut().insert(PauseReading);
    response
}

/// An error with what every response has; its id is that of the headers, where they have one.
fn marked(error: ApiError, headers: &HeaderMap) -> Response<Body> {
    let mut response = error.into_response();
    let id = RequestId::of(headers);
    let headers = response.headers_mut();
    id.mark(headers);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// RFC 9112, 3.2 and 6.1. HTTP/2 frames its bodies and names its host by itself.
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
