//! Format of an input with requests for a router: text like HTTP/1 requests, separated by lines `%%`.
//!
//! A name in braces is replaced by a value that only the running test knows, such as `{payment}` by a payment's id
//! or `{now+60}` by a time. Credentials are only inserted in `Authorization`, so that no response has a reason to
//! contain one.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use memchr::memmem;
use serde_json::Value;
use tower::ServiceExt as _;

/// Maximum number of requests per input.
const MOST: usize = 6;
/// Maximum bytes of a response, more than any list of a world needs.
const ANSWER: usize = 4 << 20;

/// Values by name.
pub(crate) type Words = BTreeMap<&'static str, String>;

/// A request that can be sent.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) version: Version,
    pub(crate) body: Vec<u8>,
    /// Name of the credential in `Authorization`, if it is one of the world.
    pub(crate) credential: Option<&'static str>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap_or("?"))
    }

    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The requests of an input, as text.
pub(crate) fn split(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let all = rest?;
        let (first, after) = match memmem::find(all, b"\n%%\n") {
            Some(at) => (&all[..at], Some(&all[at + 4..])),
            None => (all, None),
        };
        rest = after;
        Some(first)
    })
    .take(MOST)
}

/// Parses a request. `None` if an HTTP library would reject it.
pub(crate) fn read(
    section: &[u8],
    words: &Words,
    credentials: &Words,
    now: u64,
) -> Option<Request> {
    let (head, body) = match memmem::find(section, b"\n\n") {
        Some(at) => (&section[..at], &section[at + 2..]),
        None => (section, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = fill(lines.next()?, words, now);
    let mut parts = first.splitn(3, |byte| *byte == b' ');
    let method = Method::from_bytes(parts.next()?).ok()?;
    let target = String::from_utf8(parts.next()?.to_vec()).ok()?;
    target.parse::<Uri>().ok()?;
    let version = match parts.next() {
        Some(b"HTTP/2") => Version::HTTP_2,
        Some(b"HTTP/1.0") => Version::HTTP_10,
        _ => Version::HTTP_11,
    };
    let mut headers = HeaderMap::new();
    let mut credential = None;
    for line in lines.take(64).filter(|line| !line.is_empty()) {
        let at = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        let value = line[at + 1..].trim_ascii();
        let value = if name == http::header::AUTHORIZATION {
            let named = credentials.iter().find(|(name, _)| {
                let word = [b"{", name.as_bytes(), b"}"].concat();
                memmem::find(value, &word).is_some()
            });
            credential = credential.or(named.map(|(name, _)| *name));
            fill(value, credentials, now)
        } else {
            fill(value, words, now)
        };
        headers.append(name, HeaderValue::from_bytes(&value).ok()?);
    }
    Some(Request {
        method,
        target,
        headers,
        version,
        body: fill(body, words, now),
        credential,
    })
}

/// Replaces names in braces. `{now}`, `{now+9}` and `{now-9}` are seconds since 1970.
fn fill(text: &[u8], words: &Words, now: u64) -> Vec<u8> {
    const LONGEST_WORD: usize = 24;
    let mut filled = Vec::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'{', rest) {
        filled.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let end = memchr::memchr(b'}', &rest[..rest.len().min(LONGEST_WORD)]);
        let word = end.and_then(|end| std::str::from_utf8(&rest[1..end]).ok());
        let meant = word.and_then(|word| match word.strip_prefix("now") {
            Some("") => Some(now.to_string()),
            Some(by) => {
                let by: i64 = by.parse().ok()?;
                Some(now.checked_add_signed(by)?.to_string())
            }
            None => words.get(word).cloned(),
        });
        match (meant, end) {
            (Some(meant), Some(end)) => {
                filled.extend_from_slice(meant.as_bytes());
                rest = &rest[end + 1..];
            }
            _ => {
                filled.push(b'{');
                rest = &rest[1..];
            }
        }
    }
    filled.extend_from_slice(rest);
    filled
}

/// Sends a request to a router, from an address reserved for documentation.
pub(crate) async fn send(router: &Router, asked: &Request) -> Answer {
    let mut request = http::Request::builder()
        .method(asked.method.clone())
        .uri(&asked.target)
        .version(asked.version)
        .body(Body::from(asked.body.clone()))
        .unwrap();
    *request.headers_mut() = asked.headers.clone();
    let peer = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 4711));
    request.extensions_mut().insert(ConnectInfo(peer));
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, ANSWER).await;
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.expect("an answer ends whole").to_vec(),
    }
}

/// Prints a result if `KASSETTE_FUZZ_SHOW` is set, to examine a single input.
#[expect(clippy::print_stderr, reason = "a person has asked for it")]
pub(crate) fn show(told: impl FnOnce() -> String) {
    static SHOWN: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("KASSETTE_FUZZ_SHOW").is_some());
    if *SHOWN {
        eprintln!("{}", told());
    }
}
