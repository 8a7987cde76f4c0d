//! Index of all payments in memory, with the minimum data to find them.
//!
//! sled permanently keeps about a hundred bytes in memory for each page, a page holds 9 to 16 rows, and
//! each row takes several microseconds to put there. An index of rows for each way to find a
//! payment would therefore cost more memory and far more time than this index: 40 bytes a
//! payment. It is written as rows of `reg/`, some dozens of payments in each, in the group that
//! writes the payments themselves, and read back when the store is opened (about 0.3 s a million).
//!
//! The index returns positions. The row of `reg/` contains the payment at a position (`payment_index_rows`):
//! ids here would take a third of the memory, and a reader that finds a payment reads rows anyway.
//!
//! A payment is found by 32 bits of a hash; the reader reads its row and compares. The hashes
//! of what callers choose are keyed, so that no caller can choose what collides. Lists are chains from
//! the newest to the oldest, by merchant, by order, by amount, and of all.
//!
//! The buckets of the hashes grow one at a time (linear hashing: W. Litwin, 1980), so that no creation waits
//! until a million other payments have moved to new buckets. There are never fewer than 65,536 buckets, so
//! the bucket of a payment determines half of its hash, and the index stores only the other half.

mod listing;
pub(crate) mod period;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::time::Time;
use period::Milestones;
use serde::{Deserialize, Serialize};

use crate::rows::schema::Position;
use crate::rows::seal::Fingerprint;

/// Marks the end of a chain.
const NONE: Position = Position::MAX;
/// Number of cells or buckets per allocation, so that growing never copies existing ones.
const CHUNK: usize = 4096;
/// How much earlier than the first payment of a chunk another one may be and still be stored relative to the
/// chunk's time. Concurrent requests overtake each other, and clocks are adjusted.
const MARGIN: Duration = Duration::from_secs(60 * 60);
/// Marks a time that cannot be stored relative to the chunk's time. It is stored separately.
const ODD: u32 = u32::MAX;
/// Maximum average number of payments per bucket.
const LOAD: usize = 2;
/// Initial number of buckets. The bucket then determines the lower half of a hash.
const LEAST_BUCKETS: usize = 1 << TAG_AT;
/// Lowest bit of the half of a hash that a cell stores.
const TAG_AT: u32 = 16;
/// Maximum number of payments for which memory is reserved in advance, because the number comes from a row
/// that may be damaged.
const MAX_RESERVED: usize = 1 << 24;

/// The key by which a payment is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupKey {
    /// The reference that makes the request idempotent.
    Reference,
    /// The checkout token.
    Token,
    Order,
    /// The invoice amount with its currency.
    Amount,
}

const MARKS: usize = 4;

/// Data of a payment in the payment index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: PaymentId,
    pub(crate) merchant: MerchantId,
    /// Creation time. `None` if the id contains it.
    pub(crate) odd_time: Option<Time>,
    /// In the order of [`LookupKey`].
    pub(crate) marks: [Fingerprint; MARKS],
}

impl Entry {
    /// Creates the entry of a payment.
    pub(crate) fn new(
        id: PaymentId,
        merchant: MerchantId,
        created_at: Time,
        marks: [Fingerprint; MARKS],
    ) -> Self {
        Self {
            id,
            merchant,
            odd_time: (id.time() != created_at).then_some(created_at),
            marks,
        }
    }

    /// Whether the payment has this fingerprint.
    pub(crate) fn has(&self, mark: LookupKey, fingerprint: Fingerprint) -> bool {
        self.marks[mark as usize] == fingerprint
    }
}

/// A list of payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    All,
    Of(MerchantId),
    /// Payments whose order or amount has this fingerprint.
    With(LookupKey, Fingerprint),
}

/// The payments of a merchant.
struct OfMerchant {
    newest: Position,
    milestones: Milestones,
}

#[derive(Clone, Copy)]
#[repr(Rust, packed(2))]
struct IndexCell {
    /// The upper halves of the hashes.
    tags: [u16; MARKS],
    /// The next payment in the same bucket, by mark. Older payments come later.
    next: [Position; MARKS],
    /// The next older payment of the same merchant.
    older_of_merchant: Position,
    /// Creation time in milliseconds after the chunk's time, or [`ODD`].
    made: u32,
}

/// A list that only grows and never moves its items.
struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        full + self.chunks.last().map_or(0, Vec::len)
    }

    fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(item),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct PaymentIndex {
    cells: Chunked<IndexCell>,
    /// Base time of each chunk of cells.
    since: Vec<Time>,
    /// The newest payment of each bucket, by mark.
    buckets: Chunked<[Position; MARKS]>,
    merchants: HashMap<MerchantId, OfMerchant>,
    newest: Option<Position>,
    milestones: Milestones,
    /// Creation time of the newest payment. A payment that is not older is the newest of every list, so no
    /// other cell needs to be read. With a million payments, each such read waits for memory.
    latest: Time,
    /// Maximum time by which a payment may be newer than the one before it in a list. Zero, unless a clock
    /// went back by more than [`listing::MAX_STEPS`] payments.
    disorder: Duration,
    /// The next older payment of all, if it is not the one that arrived before.
    older: HashMap<Position, Position>,
    /// Creation times that do not fit into cells.
    odd_times: HashMap<Position, Time>,
}

impl PaymentIndex {
    /// Number of payments, which is also the position of the next one.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Creation time of the newest payment. `None` without payments.
    pub(crate) fn latest(&self) -> Option<Time> {
        (self.len() > 0).then_some(self.latest)
    }

    /// Whether this many more payments fit.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.len() + more < NONE as usize
    }

    /// The part of a range of positions that contains payments.
    pub(crate) fn range(&self, first: Position, count: u16) -> Range<Position> {
        let end = Position::try_from(self.len()).unwrap_or(NONE);
        first..first.saturating_add(count.into()).min(end).max(first)
    }

    /// Positions of payments that may match a fingerprint, newest first.
    pub(crate) fn found(
        &self,
        mark: LookupKey,
        fingerprint: Fingerprint,
    ) -> impl Iterator<Item = Position> + '_ {
        let hash = u32::from_be_bytes(fingerprint);
        self.chain(self.first(mark, hash), move |_, cell| {
            cell.next[mark as usize]
        })
        .filter(move |(_, cell)| cell.tags[mark as usize] == tag(hash))
        .map(|(position, _)| position)
    }

    /// Reserves memory before the first payment is entered, so that entering moves nothing.
    pub(crate) fn reserve(&mut self, count: usize) {
        if self.len() == 0 {
            let wanted = count.min(MAX_RESERVED).div_ceil(LOAD).max(LEAST_BUCKETS);
            while self.buckets.len() < wanted {
                self.buckets.push([NONE; MARKS]);
            }
        }
    }

    /// Enters a payment at the next position.
    pub(crate) fn enter(&mut self, entry: &Entry) {
        let Ok(position) = Position::try_from(self.len()) else {
            return;
        };
        let at = entry.odd_time.unwrap_or_else(|| entry.id.time());
        self.grow();
        let hashes = entry.marks.map(u32::from_be_bytes);
        self.push(position, hashes.map(tag), at);
        for mark in [LookupKey::Reference, LookupKey::Token] {
            self.put_first(mark, hashes[mark as usize], position);
        }
        self.link_all(position, at);
        self.link_merchant(position, at, entry.merchant);
        for mark in [LookupKey::Order, LookupKey::Amount] {
            self.link_marked(position, at, (mark, entry.marks[mark as usize]));
        }
        self.latest = self.latest.max(at);
    }

    fn push(&mut self, position: Position, tags: [u16; MARKS], at: Time) {
        if self.len().is_multiple_of(CHUNK) {
            self.since.push(at.before(MARGIN));
        }
        let since = self.since.last().copied().unwrap_or_default();
        let made = at.as_millis().checked_sub(since.as_millis());
        let made = made.and_then(|made| u32::try_from(made).ok());
        let made = made.unwrap_or(ODD);
        if made == ODD {
            self.odd_times.insert(position, at);
        }
        self.cells.push(IndexCell {
            tags,
            next: [NONE; MARKS],
            older_of_merchant: NONE,
            made,
        });
    }

    fn time(&self, position: Position, cell: IndexCell) -> Time {
        let made = cell.made;
        if made == ODD {
            return self.odd_times.get(&position).copied().unwrap_or_default();
        }
        let since = self.since.get(position as usize / CHUNK).copied();
        since
            .unwrap_or_default()
            .after(Duration::from_millis(made.into()))
    }

    fn chain(
        &self,
        first: Position,
        next: impl Fn(Position, IndexCell) -> Position,
    ) -> impl Iterator<Item = (Position, IndexCell)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let cell = self.cell(at)?;
            let here = at;
            at = next(here, cell);
            Some((here, cell))
        })
    }

    fn cell(&self, position: Position) -> Option<IndexCell> {
        self.cells.get(position as usize).copied()
    }

    fn set(&mut self, position: Position, change: impl FnOnce(&mut IndexCell)) {
        if let Some(cell) = self.cells.get_mut(position as usize) {
            change(cell);
        }
    }

    /// The bucket of a hash: as many of its lower bits as there are buckets for.
    fn bucket(&self, hash: u32) -> usize {
        let count = self.buckets.len();
        let level = count.next_power_of_two();
        let bucket = hash as usize & (level - 1);
        if bucket < count {
            bucket
        } else {
            // The bucket does not exist yet. Its payments are still in the bucket that it will be split from.
            bucket - level / 2
        }
    }

    /// The newest payment in the bucket of a hash.
    fn first(&self, mark: LookupKey, hash: u32) -> Position {
        let bucket = self.buckets.get(self.bucket(hash));
        bucket.map_or(NONE, |newest| newest[mark as usize])
    }

    /// Makes a payment the first in the bucket of a hash.
    fn put_first(&mut self, mark: LookupKey, hash: u32, position: Position) {
        let bucket = self.bucket(hash);
        if let Some(newest) = self.buckets.get_mut(bucket) {
            let next = std::mem::replace(&mut newest[mark as usize], position);
            self.set(position, |cell| cell.next[mark as usize] = next);
        }
    }

    /// Adds a bucket if the average load is at its maximum.
    fn grow(&mut self) {
        self.reserve(0);
        if self.len() >= self.buckets.len() * LOAD {
            self.split();
        }
    }

    /// Adds a bucket and moves its payments there. Chains keep their order, so lists do not change.
    fn split(&mut self) {
        let new = self.buckets.len();
        let half = (new + 1).next_power_of_two() / 2;
        let Some(old) = self.buckets.get(new - half).copied() else {
            return;
        };
        // The next bit of the hashes. Cells contain it, because there are at least `LEAST_BUCKETS`.
        let bit = half.trailing_zeros() - TAG_AT;
        let mut firsts = [[NONE; MARKS]; 2];
        for mark in 0..MARKS {
            let mut lasts = [NONE; 2];
            let mut at = old[mark];
            while let Some(cell) = self.cell(at) {
                let to = usize::from(cell.tags[mark] >> bit & 1);
                match lasts[to] {
                    NONE => firsts[to][mark] = at,
                    last => self.set(last, |cell| cell.next[mark] = at),
                }
                lasts[to] = at;
                at = cell.next[mark];
            }
            for last in lasts {
                self.set(last, |cell| cell.next[mark] = NONE);
            }
        }
        let [stay, go] = firsts;
        if let Some(old) = self.buckets.get_mut(new - half) {
            *old = stay;
        }
        self.buckets.push(go);
    }
}

/// The half of a hash that the bucket does not determine.
const fn tag(hash: u32) -> u16 {
    (hash >> TAG_AT) as u16
}

#[cfg(test)]
mod tests;
