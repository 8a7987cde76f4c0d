//! JSON responses, written into a buffer of the usual size.

use std::fmt::Display;

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::{Serialize, Serializer};

use crate::web::error::ApiError;

/// 200 with a body of about `usual` bytes.
///
/// # Errors
/// Only if the body cannot be represented in JSON, which would be a bug.
pub(super) fn json(body: &impl Serialize, usual: usize) -> Result<Response, ApiError> {
    let mut text = Vec::with_capacity(usual);
    serde_json::to_writer(&mut text, body).map_err(ApiError::internal)?;
    let mut response = Response::new(Body::from(text));
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(response)
}

/// Serializes a value as its display text.
pub(super) fn shown<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}
