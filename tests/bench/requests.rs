//! The requests of the benchmarks.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::gateway::DOMAIN;

/// A number that no other request of this run uses.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn get(key: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: pay.example\r\nauthorization: Bearer {key}\r\n\r\n")
        .into()
}

/// A POST request with an API key and a JSON body.
pub(crate) fn post(key: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: pay.example\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into()
}

/// Creates with unique numbers: one request in which the numbers are replaced.
pub(crate) struct Creates {
    request: Vec<u8>,
    /// Offsets of the numbers.
    places: Vec<usize>,
}

impl Creates {
    /// Digits of a number.
    const DIGITS: usize = 12;

    /// Creates of hosted payments.
    pub(crate) fn hosted(key: &str) -> Self {
        Self::with(key, "")
    }

    /// Creates of direct payments with iDEAL, whose module ranks the accounts at once.
    pub(crate) fn direct(key: &str) -> Self {
        Self::by_method(key, "ideal")
    }

    /// Creates of direct payments with another method.
    pub(crate) fn by_method(key: &str, method: &str) -> Self {
        let more = format!(r#","checkout_mode":"direct","payment_method":"{method}""#);
        Self::with(key, &more)
    }

    fn with(key: &str, more: &str) -> Self {
        let zero = "0".repeat(Self::DIGITS);
        let body = format!(
            r#"{{"order_id":"order-{zero}","idempotency_key":"bench:{zero}:attempt-1","amount":"49.90","currency":"EUR","customer_email":"someone@example.com","return_url":"https://{DOMAIN}/thanks"{more}}}"#
        );
        let request = post(key, "/api/v1/payments", &body);
        let places = memchr::memmem::find_iter(&request, zero.as_bytes()).collect();
        Self { request, places }
    }

    /// Appends the next request.
    pub(crate) fn write(&mut self, into: &mut Vec<u8>) {
        let mut number = String::with_capacity(Self::DIGITS);
        let _ = write!(number, "{:0width$}", next(), width = Self::DIGITS);
        for place in &self.places {
            self.request[*place..*place + Self::DIGITS].copy_from_slice(number.as_bytes());
        }
        into.extend_from_slice(&self.request);
    }
}

/// Pseudo-random choice from a list.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Picks one of `items` with a xorshift generator, which is sufficient to spread reads.
    pub(crate) fn from<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let count = items.len() as u64;
        &items[usize::try_from(self.0 % count).unwrap_or_default()]
    }
}
