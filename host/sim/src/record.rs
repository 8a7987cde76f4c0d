//! Records the modules' requests, for checks against the providers' documentation.
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
};

use axum::http::{HeaderMap, StatusCode};
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;

use crate::{config::SimError, http::MOST_BODY};

/// Parts of the names of headers with secret values.
const SECRET: [&str; 4] = ["authorization", "key", "secret", "token"];

/// Path of PayPal's public certificates for webhooks.
const PUBLISHED: &str = "/v1/notifications/certs/";

/// The file of one module.
pub(crate) struct Recorder {
    module: String,
    file: Mutex<File>,
}

impl Recorder {
    /// Opens a module's file for appending.
    ///
    /// # Errors
    /// [`SimError::Books`] if it cannot be opened.
    pub(crate) fn open(folder: &Path, module: &str) -> Result<Self, SimError> {
        let path = folder.join(format!("{module}.jsonl"));
        let opened = std::fs::create_dir_all(folder)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&path));
        Ok(Self {
            module: module.to_owned(),
            file: Mutex::new(opened.map_err(|source| SimError::Books { path, source })?),
        })
    }

    fn write(&self, line: &Value) {
        // In one write, so that the lines of several processes do not mix.
        if let Err(error) = self.file.lock().write_all(format!("{line}\n").as_bytes()) {
            tracing::warn!(%error, "a simulated call is not recorded");
        }
    }
}

/// Records a call and passes it on.
pub(crate) async fn layer(
    State(recorder): State<Arc<Recorder>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MOST_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let host = crate::http::only(&parts.headers, "host").unwrap_or_default();
    // A public certificate is not a part of the API, and no document describes it.
    if !parts.uri.path().starts_with(PUBLISHED) {
        recorder.write(&json!({
            "module": recorder.module,
            "method": parts.method.as_str(),
            "url": format!("http://{host}{}", parts.uri),
            "headers": headers(&parts.headers),
            "body": String::from_utf8_lossy(&body),
        }));
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// All header names, with masked secret values.
fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let pair = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        let secret =
            SECRET.iter().any(|word| name.as_str().contains(word)) && name != "idempotency-key";
        let value = if secret {
            "***"
        } else {
            value.to_str().unwrap_or_default()
        };
        (name.to_string(), Value::from(value))
    };
    headers.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        let given = [
            ("authorization", "Bearer s3cret"),
            ("x-api-key", "s3cret"),
            ("idempotency-key", "attempt-1"),
            ("content-type", "application/json"),
        ];
        let given = given.map(|(name, value)| {
            (
                axum::http::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let told = headers(&HeaderMap::from_iter(given));
        assert_eq!(told["authorization"], "***");
        assert_eq!(told["x-api-key"], "***");
        assert_eq!(told["idempotency-key"], "attempt-1");
        assert_eq!(told["content-type"], "application/json");
    }
}
