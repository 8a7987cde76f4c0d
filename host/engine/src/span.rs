//! Ranges of keys, and the rows that a group writes.

use std::collections::BTreeMap;
use std::ops::Bound;

use sled::{IVec, Tree};

/// Key of a row.
pub type Key = Vec<u8>;

/// Rows written by a group. `None` if the row was removed.
pub type Written = BTreeMap<Key, Option<IVec>>;

/// Order in which the rows of a span are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending.
    Keys,
    /// Descending.
    Backwards,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: Bound<Key>,
    pub to: Bound<Key>,
}

impl Span {
    /// All keys with this prefix.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let to = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self {
            from: Bound::Included(prefix.to_vec()),
            to,
        }
    }

    /// The part after a key.
    pub fn after(self, key: &[u8]) -> Self {
        Self {
            from: Bound::Excluded(key.to_vec()),
            to: self.to,
        }
    }

    /// The part that starts at a key.
    pub fn since(self, key: &[u8]) -> Self {
        Self {
            from: Bound::Included(key.to_vec()),
            to: self.to,
        }
    }

    /// The part before a key.
    pub fn before(self, key: &[u8]) -> Self {
        Self {
            from: self.from,
            to: Bound::Excluded(key.to_vec()),
        }
    }

    /// The part that follows a key in the given order.
    pub fn behind(self, key: &[u8], order: Order) -> Self {
        match order {
            Order::Keys => self.after(key),
            Order::Backwards => self.before(key),
        }
    }

    /// Whether no key can be in the span.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
            _ => false,
        }
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (
            self.from.as_ref().map(Vec::as_slice),
            self.to.as_ref().map(Vec::as_slice),
        )
    }

    /// Iterates over the tree's rows in the span, in ascending order.
    pub fn iter(&self, tree: &Tree) -> sled::Iter {
        tree.range::<&[u8], _>(self.bounds())
    }

    /// Whether a group has written a row in the span.
    pub fn touches(&self, written: &Written) -> bool {
        written.range::<[u8], _>(self.bounds()).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        let span = Span::prefix(b"a\xff");
        assert_eq!(span.to, Bound::Excluded(b"b".to_vec()));
        assert_eq!(Span::prefix(b"\xff").to, Bound::Unbounded);
    }
}
