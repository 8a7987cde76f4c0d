//! Every payment in memory, as little of it as finding it takes.
//!
//! sled keeps about a hundred bytes in memory for each page for ever, a page holds 9 to 16 rows, and
//! each row takes several microseconds to put there. An index of rows for each way to find a
//! payment would therefore cost more memory and far more time than what stands here: 32 bytes a
//! payment. It is written as rows of `reg/`, some dozens of payments in each, in the group that
//! writes the payments themselves, and read back when the store is opened (about 0.3 s a million).
//!
//! What is found here are positions; which payment is at one its row of `reg/` says (`payment_index_rows`): ids
//! would be a third of the memory, and a reader that finds a payment reads rows anyway.
//!
//! A payment is found by 32 bits of a hash; the reader reads its row and compares. The hashes
//! of what callers choose are keyed, so that no caller can choose what collides. Lists are chains from
//! the newest to the oldest, by merchant, by order, and of all.
//!
//! The buckets of the hashes grow one at a time, behind each other (linear hashing: W. Litwin, 1980),
//! so that no creation waits until a million others have found a new bucket. There are never fewer
//! than 65,536, so the bucket that a payment is in says half of its hash, and the other half is kept.

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

/// No position: the end of a chain.
const NONE: Position = Position::MAX;
/// Cells or buckets that are allocated at once, so that growing never copies or doubles what is there.
const CHUNK: usize = 4096;
/// How much earlier than the first of a chunk another of it may have been made and still count from
/// the same time: threads that ask at once overtake each other, and clocks are put right.
const MARGIN: Duration = Duration::from_secs(60 * 60);
/// In place of a time that does not count from its chunk's: it stands apart.
const ODD: u32 = u32::MAX;
/// Payments for each bucket, on average and at most.
const LOAD: usize = 2;
/// Buckets at first: with so many, which one it is says the lower half of a hash.
const LEAST_BUCKETS: usize = 1 << TAG_AT;
/// Where the half of a hash begins that a cell keeps.
const TAG_AT: u32 = 16;
/// Payments that room is made for at once; the number is read from a row that may be damaged.
const MAX_RESERVED: usize = 1 << 24;

/// By what a payment is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupKey {
    /// The reference that makes its request idempotent.
    Reference,
    /// Its checkout token.
    Token,
    Order,
}

const MARKS: usize = 3;

/// What the payment index keeps of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: PaymentId,
    pub(crate) merchant: MerchantId,
    /// When it was made; none where the id says so.
    pub(crate) odd_time: Option<Time>,
    /// In the order of [`LookupKey`].
    pub(crate) marks: [Fingerprint; MARKS],
}

impl Entry {
    /// What is kept of a payment.
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

    /// Whether it is found by this.
    pub(crate) fn has(&self, mark: LookupKey, fingerprint: Fingerprint) -> bool {
        self.marks[mark as usize] == fingerprint
    }
}

/// Which list of payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    All,
    Of(MerchantId),
    /// Those whose order has this fingerprint.
    With(Fingerprint),
}

/// The payments of a merchant.
struct OfMerchant {
    newest: Position,
    milestones: Milestones,
}

/// Without gaps: they would be two bytes of 28.
#[derive(Clone, Copy)]
#[repr(Rust, packed(2))]
struct IndexCell {
    /// The upper halves of its hashes.
    tags: [u16; MARKS],
    /// The next in the same bucket, by mark; older ones come later.
    next: [Position; MARKS],
    /// The next older of the same merchant.
    older_of_merchant: Position,
    /// When it was made: milliseconds from its chunk's time, or [`ODD`].
    made: u32,
}

/// A list that only grows, and never moves what is in it.
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
    /// Of each chunk of cells, from when the times of its payments count.
    since: Vec<Time>,
    /// The newest of each bucket, by mark.
    buckets: Chunked<[Position; MARKS]>,
    merchants: HashMap<MerchantId, OfMerchant>,
    newest: Option<Position>,
    milestones: Milestones,
    /// When the newest was made. A payment that is made then or later is the newest of every list, and no
    /// other has to be looked at: at a million payments each look waits for memory.
    latest: Time,
    /// How much newer than a payment those behind it in a list can be. Nothing, but where a clock went
    /// back by more than [`listing::MAX_STEPS`] payments.
    disorder: Duration,
    /// The next older of all, where that is not the one that arrived before.
    older: HashMap<Position, Position>,
    /// When those were made whose cells do not say so.
    odd_times: HashMap<Position, Time>,
}

impl PaymentIndex {
    /// How many payments there are; the next one's position.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// When the newest was made; none where there is none.
    pub(crate) fn latest(&self) -> Option<Time> {
        (self.len() > 0).then_some(self.latest)
    }

    /// Whether there is room for so many more.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.len() + more < NONE as usize
    }

    /// Those of some positions at which there are payments.
    pub(crate) fn range(&self, first: Position, count: u16) -> Range<Position> {
        let end = Position::try_from(self.len()).unwrap_or(NONE);
        first..first.saturating_add(count.into()).min(end).max(first)
    }

    /// Positions of payments that a fingerprint may stand for, the newest first.
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

    /// Makes room for so many before the first is entered, so that entering them moves nothing.
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
        self.link_order(position, at, entry.marks[LookupKey::Order as usize]);
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
            // It has not come yet: what belongs there is still in the one that it will be split from.
            bucket - level / 2
        }
    }

    /// The newest of a hash's bucket.
    fn first(&self, mark: LookupKey, hash: u32) -> Position {
        let bucket = self.buckets.get(self.bucket(hash));
        bucket.map_or(NONE, |newest| newest[mark as usize])
    }

    /// Makes a payment the first of a hash's bucket.
    fn put_first(&mut self, mark: LookupKey, hash: u32, position: Position) {
        let bucket = self.bucket(hash);
        if let Some(newest) = self.buckets.get_mut(bucket) {
            let next = std::mem::replace(&mut newest[mark as usize], position);
            self.set(position, |cell| cell.next[mark as usize] = next);
        }
    }

    /// Adds a bucket where all are full.
    fn grow(&mut self) {
        self.reserve(0);
        if self.len() >= self.buckets.len() * LOAD {
            self.split();
        }
    }

    /// Adds a bucket and gives it what belongs there. Chains keep their order, so lists stay as they
    /// are.
    fn split(&mut self) {
        let new = self.buckets.len();
        let half = (new + 1).next_power_of_two() / 2;
        let Some(old) = self.buckets.get(new - half).copied() else {
            return;
        };
        // The next bit of the hashes. A cell has it: there are at least `LEAST_BUCKETS`.
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

/// The half of a hash that its bucket does not say.
const fn tag(hash: u32) -> u16 {
    (hash >> TAG_AT) as u16
}

#[cfg(test)]
mod tests;
