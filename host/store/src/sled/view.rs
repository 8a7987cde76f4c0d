//! Reads from outside: straight from the tree, on the caller, and what has to be waited for.
//!
//! A tree shows a batch before it is on disk. A view therefore notes what it read; whoever used it
//! waits for the group under way where that group writes any of it. Groups follow one another, so
//! whatever was read is then on disk: it came from that group, or from one before.

use std::cell::RefCell;

use ::sled::{IVec, Tree};
use kassette_domain::id::PaymentId;
use parking_lot::RwLock;

use super::keys::Key;
use super::register::{Fingerprint, List, Mark, Place, Register};
use super::rows::{Source, Span, Written, engine};
use crate::Fault;

/// One read from outside, of any number of rows.
pub(super) struct View<'a> {
    tree: &'a Tree,
    /// A payment is entered when its row is in the tree; who finds it here reads that row.
    register: &'a RwLock<Register>,
    keys: RefCell<Vec<Key>>,
    spans: RefCell<Vec<Span>>,
}

impl<'a> View<'a> {
    pub(super) const fn new(tree: &'a Tree, register: &'a RwLock<Register>) -> Self {
        Self {
            tree,
            register,
            keys: RefCell::new(Vec::new()),
            spans: RefCell::new(Vec::new()),
        }
    }

    /// Whether a group has written any of what was read.
    pub(super) fn touches(&self, written: &Written) -> bool {
        self.keys
            .borrow()
            .iter()
            .any(|key| written.contains_key(key))
            || self.spans.borrow().iter().any(|span| span.touches(written))
    }

    /// A row whose loss in a crash would mislead nobody: never waited for.
    pub(super) fn glance(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        self.tree.get(key).map_err(|error| engine(&error))
    }

    /// At most `limit` rows of a span, first to last, of which none is waited for: for whoever reads
    /// what they lead to as well, and whom it misleads in nothing that a row is gone too early.
    pub(super) fn skim(&self, span: &Span, limit: usize) -> Result<Vec<Key>, Fault> {
        let rows = span.of(self.tree).take(limit);
        rows.map(|row| {
            row.map(|(key, _)| key.to_vec())
                .map_err(|error| engine(&error))
        })
        .collect()
    }

    /// At most `limit` rows of a span, last to first.
    pub(super) fn scan_back(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.collect(span, span.of(self.tree).rev().take(limit))
    }

    /// At most `limit` payments of a list, the newest first; see [`Register::listed`].
    pub(super) fn listed(
        &self,
        list: List,
        after: Option<Place>,
        limit: usize,
    ) -> Vec<(Place, PaymentId)> {
        self.register.read().listed(list, after, limit)
    }

    fn collect(
        &self,
        span: &Span,
        rows: impl Iterator<Item = sled::Result<(IVec, IVec)>>,
    ) -> Result<Vec<(Key, IVec)>, Fault> {
        self.spans.borrow_mut().push(span.clone());
        rows.map(|row| {
            let (key, row) = row.map_err(|error| engine(&error))?;
            Ok((key.to_vec(), row))
        })
        .collect()
    }
}

impl Source for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        self.keys.borrow_mut().push(key.to_vec());
        self.glance(key)
    }

    fn scan(&self, span: &Span, limit: usize) -> Result<Vec<(Key, IVec)>, Fault> {
        self.collect(span, span.of(self.tree).take(limit))
    }

    fn found(&self, mark: Mark, fingerprint: Fingerprint) -> Vec<PaymentId> {
        self.register.read().found(mark, fingerprint).collect()
    }

    fn at_places(&self, first: Place, count: u16) -> Vec<PaymentId> {
        self.register.read().range(first, count)
    }
}
