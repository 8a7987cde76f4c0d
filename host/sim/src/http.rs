//! Parsing of requests, shared by the providers' APIs.
use axum::http::{HeaderMap, header};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Maximum size of a request body, in bytes.
pub(crate) const MOST_BODY: usize = 64 * 1024;

/// The credentials after the scheme. `None` unless there is exactly one `Authorization` header.
fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    only(headers, header::AUTHORIZATION.as_str())?.strip_prefix(scheme)
}

/// The value of a header. `None` unless there is exactly one with this name.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The token of `Authorization: Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    credentials(headers, "Bearer ")
}

/// User and password of `Authorization: Basic`.
pub(crate) fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let bytes = STANDARD.decode(credentials(headers, "Basic ")?).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// The media type without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// Parses a body that must be JSON.
///
/// # Errors
/// A description of the problem.
pub(crate) fn json_body<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<T, String> {
    if media_type(headers) != Some("application/json") {
        return Err("Content-Type: application/json is expected".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// The fields of a body that must be a form, in order.
///
/// # Errors
/// A description of the problem.
pub(crate) fn form_body(headers: &HeaderMap, body: &[u8]) -> Result<Vec<(String, String)>, String> {
    if media_type(headers) != Some("application/x-www-form-urlencoded") {
        return Err("Content-Type: application/x-www-form-urlencoded is expected".to_owned());
    }
    std::str::from_utf8(body).map_err(|error| error.to_string())?;
    Ok(url::form_urlencoded::parse(body).into_owned().collect())
}

/// Compares two secrets in constant time.
pub(crate) fn same(given: &str, expected: &str) -> bool {
    let hash = |text: &str| -> [u8; 32] { Sha256::digest(text.as_bytes()).into() };
    hash(given).ct_eq(&hash(expected)).into()
}

/// Hash that distinguishes requests with the same idempotency key.
pub(crate) fn fingerprint(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn authorization(value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).unwrap();
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    #[test]
    fn credentials_are_read_by_their_scheme_alone() {
        let of_user = authorization("Basic dXNlcjpwOnc=");
        assert_eq!(basic(&of_user), Some(("user".into(), "p:w".into())));
        assert_eq!(bearer(&of_user), None);
        assert_eq!(bearer(&authorization("Bearer abc")), Some("abc"));
        let mut twice = authorization("Bearer abc");
        twice.append(
            header::AUTHORIZATION,
            HeaderValue::from_static("Bearer def"),
        );
        assert_eq!(bearer(&twice), None);
    }

    #[test]
    fn a_body_of_another_media_type_is_refused() {
        let mut headers = HeaderMap::new();
        let body = b"a=1&b=%20";
        assert!(form_body(&headers, body).is_err());
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"),
        );
        let fields = form_body(&headers, body).unwrap();
        assert_eq!(fields[1], ("b".to_owned(), " ".to_owned()));
        assert!(json_body::<serde_json::Value>(&headers, b"{}").is_err());
    }
}
