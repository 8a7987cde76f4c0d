//! Public texts that clients may cache, with an `ETag`, and 304 for unchanged copies.

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};

/// Clients may use a copy for 300 seconds.
const CACHED: &str = "public, max-age=300";

/// A text with its `ETag`.
#[derive(Clone)]
pub(crate) struct Cached {
    text: Bytes,
    media_type: &'static str,
    tag: HeaderValue,
}

impl Cached {
    /// A JSON text, with an `ETag` derived from its content.
    pub(super) fn new(text: impl Into<Bytes>) -> Self {
        Self::from_text(text.into(), "application/json")
    }

    /// The same for an HTML page.
    pub(crate) fn html(text: impl Into<Bytes>) -> Self {
        Self::from_text(text.into(), "text/html; charset=utf-8")
    }

    fn from_text(text: Bytes, media_type: &'static str) -> Self {
        let digest = hex::encode(&Sha256::digest(&text)[..8]);
        let tag = HeaderValue::try_from(format!("\"{digest}\""));
        Self {
            text,
            media_type,
            tag: tag.unwrap_or(HeaderValue::from_static("\"0\"")),
        }
    }

    /// The text, or 304 if the client has it.
    pub(crate) fn answer(self, headers: &HeaderMap) -> Response {
        let cached = [
            (CACHE_CONTROL, HeaderValue::from_static(CACHED)),
            (ETAG, self.tag.clone()),
        ];
        if has(headers, &self.tag) {
            return (StatusCode::NOT_MODIFIED, cached).into_response();
        }
        let form = [(CONTENT_TYPE, self.media_type)];
        (cached, form, self.text).into_response()
    }
}

/// Whether `If-None-Match` contains a tag, by weak comparison (RFC 9110, 13.1.2). Our tags contain no comma, so
/// splitting at commas cannot create a match.
fn has(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|named| named == b"*" || named.strip_prefix(b"W/").unwrap_or(named) == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_among_others_and_behind_a_w() {
        let tag = HeaderValue::from_static("\"ab\"");
        for (lines, expected) in [
            (&["\"ab\""][..], true),
            (&["W/\"ab\""], true),
            (&["\"x\" , W/\"ab\""], true),
            (&["\"x\"", "\"ab\""], true),
            (&["*"], true),
            (&[], false),
            (&["ab"], false),
            (&["\"abc\""], false),
            (&["\"x\",\"y\""], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_NONE_MATCH, HeaderValue::from_static(line));
            }
            assert_eq!(has(&headers, &tag), expected, "{lines:?}");
        }
    }

    #[test]
    fn another_text_has_another_tag() {
        assert_ne!(Cached::new("{}").tag, Cached::new("{ }").tag);
    }
}
