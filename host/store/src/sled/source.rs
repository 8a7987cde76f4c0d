//! Where rows are read.

use std::ops::Range;

use ::sled::IVec;
use kassette_domain::id::PaymentId;
use serde::de::DeserializeOwned;

use super::payment_index::{Fingerprint, Mark, Position};
use super::records;
use super::schema::Key;
use super::span::Span;
use crate::Fault;

/// Where rows are read: in an operation, or from outside.
pub(super) trait Source {
    /// A row as it was written.
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault>;

    /// At most `limit` rows of a span, first to last.
    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault>;

    /// Payments that a fingerprint may stand for: their rows tell.
    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Result<Vec<PaymentId>, Fault>;

    /// Those of some positions of the payment index at which there are payments.
    fn positions(&self, first: Position, count: u16) -> Range<Position>;

    /// A row's value.
    fn load<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, Fault> {
        self.get(key)?
            .map(|row| records::decode(key, &row))
            .transpose()
    }

    /// A row that another row promises.
    fn expect<T: DeserializeOwned>(&self, key: &[u8]) -> Result<T, Fault> {
        self.load(key)?
            .ok_or_else(|| records::damaged(key, "it is missing"))
    }
}
