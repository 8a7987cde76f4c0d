//! Request ids, with which callers and operators find the same log lines.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header, in requests and in all responses.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an id that a caller sends.
const MAX: usize = 128;

/// Id of a request: sent by the caller, or 32 random hexadecimal characters.
#[derive(Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The id of a request. The caller's id is used if there is exactly one header, with 1 to 128 visible ASCII
    /// characters.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(X_REQUEST_ID).iter();
        match (values.next(), values.next()) {
            (Some(value), None) if is_usable(value.as_bytes()) => Self(value.clone()),
            _ => Self(generate()),
        }
    }

    /// Adds the id to a response's headers.
    pub(crate) fn mark(self, answer: &mut HeaderMap) {
        answer.insert(X_REQUEST_ID, self.0);
    }

    /// The id of a response. Empty if it does not have one.
    pub(crate) fn marked(answer: &HeaderMap) -> &str {
        let id = answer.get(X_REQUEST_ID).map(HeaderValue::to_str);
        id.and_then(Result::ok).unwrap_or_default()
    }
}

fn is_usable(id: &[u8]) -> bool {
    (1..=MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Random bytes per id.
const BYTES: usize = 16;
/// Ids per system call. A system call for each id would cost more than everything else about it.
const STOCK: usize = 64;

/// Random bytes from the operating system that have not been used for an id.
struct Stock {
    bytes: [u8; BYTES * STOCK],
    left: usize,
}

impl Stock {
    const EMPTY: Self = Self {
        bytes: [0; BYTES * STOCK],
        left: 0,
    };

    fn next(&mut self) -> Option<[u8; BYTES]> {
        if self.left == 0 {
            getrandom::fill(&mut self.bytes).ok()?;
            self.left = STOCK;
        }
        self.left -= 1;
        let at = self.left * BYTES;
        self.bytes[at..at + BYTES].try_into().ok()
    }
}

fn generate() -> HeaderValue {
    thread_local! {
        static STOCK: RefCell<Stock> = const { RefCell::new(Stock::EMPTY) };
    }
    /// Distinguishes requests if the operating system provides no random bytes.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let bytes = STOCK.with_borrow_mut(Stock::next).unwrap_or_else(|| {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        u128::from(count).to_be_bytes()
    });
    let mut text = [0_u8; 2 * BYTES];
    match hex::encode_to_slice(bytes, &mut text).map(|()| HeaderValue::from_bytes(&text)) {
        Ok(Ok(value)) => value,
        _ => HeaderValue::from_static("none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(values: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        let mut answer = HeaderMap::new();
        RequestId::from_headers(&headers).mark(&mut answer);
        RequestId::marked(&answer).to_owned()
    }

    fn is_generated(id: &str) -> bool {
        id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    }

    #[test]
    fn a_callers_visible_id_is_kept() {
        let longest = "x".repeat(MAX);
        for own in ["1", "order-7/{a}~!", &longest] {
            assert_eq!(id(&[own.as_bytes()]), own);
        }
    }

    #[test]
    fn anything_else_gets_an_id_of_ours() {
        let too_long = "x".repeat(MAX + 1);
        for own in [&b""[..], b"a b", b"a\tb", b"\xc3\xa9", too_long.as_bytes()] {
            assert!(is_generated(&id(&[own])), "{own:?}");
        }
        assert!(is_generated(&id(&[b"a", b"b"])), "two are none");
        assert_ne!(id(&[]), id(&[]));
    }

    #[test]
    fn no_id_is_given_twice() {
        let ids: std::collections::HashSet<String> = (0..STOCK * 3).map(|_| id(&[])).collect();
        assert_eq!(ids.len(), STOCK * 3);
    }

    proptest! {
        #[test]
        fn an_id_is_always_1_to_128_visible_characters(own in proptest::collection::vec(0x20_u8..0x7f, 0..200)) {
            let id = id(&[&own]);
            prop_assert!(is_usable(id.as_bytes()));
            prop_assert!(is_generated(&id) || id.as_bytes() == own);
        }
    }
}
