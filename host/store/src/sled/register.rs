//! Every payment in memory, as little of it as finding it takes.
//!
//! sled keeps about a hundred bytes in memory for each page for ever, a page holds 9 to 16 rows, and
//! each row takes several microseconds to put there. An index of rows for each way to find a
//! payment would therefore cost more memory and far more time than what stands here: 38 to 44 bytes a
//! payment. It is written as rows of `reg/`, some dozens of payments in each, in the group that
//! writes the payments themselves, and read back when the store is opened (about 0.3 s a million).
//!
//! What is found here are places; which payment is at one its row of `reg/` says (`registered`): ids
//! would be a third of the memory, and whoever finds a payment reads rows anyway.
//!
//! A payment is found by 32 bits of a hash; who looks for it reads its row and compares. The hashes
//! of what callers choose are keyed, so that nobody can choose what collides. Lists are chains from
//! the newest to the oldest, by merchant, by order, and of all.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

/// A payment's number in order of arrival, from 0.
pub(super) type Place = u32;

/// No place: the end of a chain.
const NONE: Place = Place::MAX;
/// Slots that are allocated at once, so that growing never copies or doubles what is there.
const CHUNK: usize = 4096;
/// How much earlier than the first of a chunk another of it may have been made and still count from
/// the same time: threads that ask at once overtake each other, and clocks are put right.
const MARGIN: Duration = Duration::from_secs(60 * 60);
/// In place of a time that does not count from its chunk's: it stands apart.
const ODD: u32 = u32::MAX;
/// Payments for each bucket of an index, at most.
const LOAD: usize = 2;
/// Buckets of an index at first.
const LEAST_BUCKETS: usize = 1024;
/// Payments that room is made for at once; the number is read from a row that may be damaged.
const MAX_RESERVED: usize = 1 << 24;
/// How far a payment is moved down a list because others are newer. Only where a clock went back do
/// more stand before it: then the list is a little out of order, and nothing is lost.
const MAX_STEPS: usize = 1024;

/// A part of a hash.
pub(super) type Fingerprint = [u8; 4];

/// By what a payment is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The reference that makes its request idempotent.
    Reference,
    /// Its checkout token.
    Token,
    /// The merchant's order.
    Order,
}

const MARKS: usize = 3;

/// What the register keeps of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: PaymentId,
    pub(super) merchant: MerchantId,
    /// When it was made; none where the id says so.
    pub(super) odd_time: Option<Time>,
    /// In the order of [`Mark`].
    pub(super) marks: [Fingerprint; MARKS],
}

impl Entry {
    /// What is kept of a payment.
    pub(super) fn new(
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
    pub(super) fn has(&self, mark: Mark, fingerprint: Fingerprint) -> bool {
        self.marks[mark as usize] == fingerprint
    }
}

/// Which list of payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    All,
    Of(MerchantId),
    /// Those whose order has this fingerprint.
    With(Fingerprint),
}

struct Slot {
    marks: [u32; MARKS],
    /// The next in the same bucket, by mark; older ones come later.
    next: [Place; MARKS],
    /// The next older of the same merchant.
    older_of_merchant: Place,
    /// When it was made: milliseconds from its chunk's [`Chunk::since`], or [`ODD`].
    made: u32,
}

/// Payments that arrived one after the other.
struct Chunk {
    /// Their times count from here.
    since: Time,
    slots: Vec<Slot>,
}

/// The register.
#[derive(Default)]
pub(super) struct Register {
    chunks: Vec<Chunk>,
    /// The newest of each bucket, by mark. Their number is a power of two.
    buckets: [Vec<Place>; MARKS],
    /// The newest of each merchant.
    merchants: HashMap<MerchantId, Place>,
    newest: Option<Place>,
    /// When the newest was made. Whoever is made then or later is the newest of every list, and no
    /// other has to be looked at: at a million payments each look waits for memory.
    latest: Time,
    /// The next older of all, where that is not the one that arrived before.
    older: HashMap<Place, Place>,
    /// When those were made whose slots do not say so.
    odd_times: HashMap<Place, Time>,
}

impl Register {
    /// How many payments there are; the next one's place.
    pub(super) fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        full + self.chunks.last().map_or(0, |chunk| chunk.slots.len())
    }

    /// Whether there is room for so many more.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.len() + more < NONE as usize
    }

    /// Those of some places at which there are payments.
    pub(super) fn range(&self, first: Place, count: u16) -> Range<Place> {
        let end = Place::try_from(self.len()).unwrap_or(NONE);
        first..first.saturating_add(count.into()).min(end).max(first)
    }

    /// Places of payments that a fingerprint may stand for, the newest first.
    pub(super) fn found(
        &self,
        mark: Mark,
        fingerprint: Fingerprint,
    ) -> impl Iterator<Item = Place> + '_ {
        let wanted = u32::from_be_bytes(fingerprint);
        let first = self.bucket(mark as usize, wanted);
        self.chain(first, move |_, slot| slot.next[mark as usize])
            .filter(move |(_, slot)| slot.marks[mark as usize] == wanted)
            .map(|(place, _)| place)
    }

    /// Places of at most `limit` payments of a list, the newest first; of those after the one at
    /// `after` where it is given.
    pub(super) fn listed(&self, list: List, after: Option<Place>, limit: usize) -> Vec<Place> {
        let order = Mark::Order as usize;
        let next = move |place: Place, slot: &Slot| match list {
            List::All => self.older(place),
            List::Of(_) => slot.older_of_merchant,
            List::With(_) => slot.next[order],
        };
        let first = match (after, list) {
            (Some(after), _) => self.slot(after).map_or(NONE, |slot| next(after, slot)),
            (None, List::All) => self.newest.unwrap_or(NONE),
            (None, List::Of(merchant)) => self.merchants.get(&merchant).copied().unwrap_or(NONE),
            (None, List::With(order_mark)) => self.bucket(order, u32::from_be_bytes(order_mark)),
        };
        let fits = |slot: &Slot| match list {
            List::All | List::Of(_) => true,
            List::With(wanted) => slot.marks[order] == u32::from_be_bytes(wanted),
        };
        self.chain(first, next)
            .filter(|(_, slot)| fits(slot))
            .map(|(place, _)| place)
            .take(limit)
            .collect()
    }

    /// Makes room for so many, so that entering them moves nothing.
    pub(super) fn reserve(&mut self, count: usize) {
        let wanted = count.min(MAX_RESERVED).div_ceil(LOAD);
        let wanted = wanted.next_power_of_two().max(LEAST_BUCKETS);
        if self.buckets[0].len() < wanted {
            self.set_buckets(wanted);
        }
    }

    /// Enters a payment at the next place.
    pub(super) fn enter(&mut self, entry: &Entry) {
        let Ok(place) = Place::try_from(self.len()) else {
            return;
        };
        let at = entry.odd_time.unwrap_or_else(|| entry.id.time());
        self.grow();
        let mut slot = Slot {
            marks: entry.marks.map(u32::from_be_bytes),
            next: [NONE; MARKS],
            older_of_merchant: NONE,
            made: ODD,
        };
        for mark in [Mark::Reference, Mark::Token].map(|mark| mark as usize) {
            let at = self.bucket_at(mark, slot.marks[mark]);
            slot.next[mark] = std::mem::replace(&mut self.buckets[mark][at], place);
        }
        self.push(place, slot, at);
        self.link_all(place, at);
        self.link_merchant(place, at, entry.merchant);
        self.link_order(place, at);
        self.latest = self.latest.max(at);
    }

    fn push(&mut self, place: Place, mut slot: Slot, at: Time) {
        let full = self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.slots.len() == CHUNK);
        if full {
            self.chunks.push(Chunk {
                since: at.before(MARGIN),
                slots: Vec::with_capacity(CHUNK),
            });
        }
        if let Some(chunk) = self.chunks.last_mut() {
            let made = at.as_millis().checked_sub(chunk.since.as_millis());
            match made.and_then(|made| u32::try_from(made).ok()) {
                Some(made) if made != ODD => slot.made = made,
                _ => {
                    self.odd_times.insert(place, at);
                }
            }
            chunk.slots.push(slot);
        }
    }

    /// The next older of all.
    fn older(&self, place: Place) -> Place {
        let odd = self.older.get(&place).copied();
        odd.unwrap_or_else(|| place.checked_sub(1).unwrap_or(NONE))
    }

    fn set_older(&mut self, place: Place, older: Place) {
        self.older.remove(&place);
        if self.older(place) != older {
            self.older.insert(place, older);
        }
    }

    /// Puts a payment into the list of all, after those that are newer.
    fn link_all(&mut self, place: Place, at: Time) {
        let newest = self.newest.unwrap_or(NONE);
        match self.newer(newest, at, |place, _| self.older(place)) {
            None => {
                self.set_older(place, newest);
                self.newest = Some(place);
            }
            Some(newer) => {
                self.set_older(place, self.older(newer));
                self.set_older(newer, place);
            }
        }
    }

    /// Puts it into its merchant's.
    fn link_merchant(&mut self, place: Place, at: Time, merchant: MerchantId) {
        let newest = self.merchants.get(&merchant).copied().unwrap_or(NONE);
        match self.newer(newest, at, |_, slot| slot.older_of_merchant) {
            None => {
                self.set(place, |slot| slot.older_of_merchant = newest);
                self.merchants.insert(merchant, place);
            }
            Some(newer) => {
                let older = self.slot(newer).map_or(NONE, |slot| slot.older_of_merchant);
                self.set(place, |slot| slot.older_of_merchant = older);
                self.set(newer, |slot| slot.older_of_merchant = place);
            }
        }
    }

    /// Orders are a list too: many payments can share one.
    fn link_order(&mut self, place: Place, at: Time) {
        const ORDER: usize = Mark::Order as usize;
        let Some(mark) = self.slot(place).map(|slot| slot.marks[ORDER]) else {
            return;
        };
        let bucket = self.bucket_at(ORDER, mark);
        let first = self.buckets[ORDER][bucket];
        match self.newer(first, at, |_, slot| slot.next[ORDER]) {
            None => {
                self.set(place, |slot| slot.next[ORDER] = first);
                self.buckets[ORDER][bucket] = place;
            }
            Some(newer) => {
                let older = self.slot(newer).map_or(NONE, |slot| slot.next[ORDER]);
                self.set(place, |slot| slot.next[ORDER] = older);
                self.set(newer, |slot| slot.next[ORDER] = place);
            }
        }
    }

    /// The last of a chain that is newer than `at`; none where its first is not.
    fn newer(&self, first: Place, at: Time, next: impl Fn(Place, &Slot) -> Place) -> Option<Place> {
        if at >= self.latest {
            return None;
        }
        self.chain(first, next)
            .take(MAX_STEPS)
            .take_while(|(place, slot)| at < self.time(*place, slot))
            .last()
            .map(|(place, _)| place)
    }

    fn time(&self, place: Place, slot: &Slot) -> Time {
        if slot.made == ODD {
            return self.odd_times.get(&place).copied().unwrap_or_default();
        }
        let chunk = self.chunks.get(place as usize / CHUNK);
        let since = chunk.map_or_else(Time::default, |chunk| chunk.since);
        since.after(Duration::from_millis(slot.made.into()))
    }

    fn chain(
        &self,
        first: Place,
        next: impl Fn(Place, &Slot) -> Place,
    ) -> impl Iterator<Item = (Place, &Slot)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let slot = self.slot(at)?;
            let here = at;
            at = next(here, slot);
            Some((here, slot))
        })
    }

    fn slot(&self, place: Place) -> Option<&Slot> {
        let place = place as usize;
        self.chunks.get(place / CHUNK)?.slots.get(place % CHUNK)
    }

    fn set(&mut self, place: Place, change: impl FnOnce(&mut Slot)) {
        let place = place as usize;
        let chunk = self.chunks.get_mut(place / CHUNK);
        if let Some(slot) = chunk.and_then(|chunk| chunk.slots.get_mut(place % CHUNK)) {
            change(slot);
        }
    }

    fn bucket_at(&self, mark: usize, hash: u32) -> usize {
        hash as usize & (self.buckets[mark].len() - 1)
    }

    fn bucket(&self, mark: usize, hash: u32) -> Place {
        if self.buckets[mark].is_empty() {
            return NONE;
        }
        self.buckets[mark][self.bucket_at(mark, hash)]
    }

    /// Doubles the buckets where they are full. Chains keep their order, so lists stay as they are.
    fn grow(&mut self) {
        let buckets = self.buckets[0].len();
        if self.len() < buckets * LOAD {
            return;
        }
        self.set_buckets((buckets * 2).max(LEAST_BUCKETS));
    }

    fn set_buckets(&mut self, more: usize) {
        for mark in 0..MARKS {
            let before = std::mem::take(&mut self.buckets[mark]);
            let mut after = vec![NONE; more];
            // Those of a bucket go to several that get none from another.
            for first in before {
                let mut chain = Vec::new();
                let mut at = first;
                while let Some(slot) = self.slot(at) {
                    chain.push((at, slot.marks[mark] as usize & (more - 1)));
                    at = slot.next[mark];
                }
                for (place, bucket) in chain.into_iter().rev() {
                    let older = std::mem::replace(&mut after[bucket], place);
                    self.set(place, |slot| slot.next[mark] = older);
                }
            }
            self.buckets[mark] = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(number: u32, order: u8, merchant: u64, at: u64) -> Entry {
        let mut id = [0; 16];
        id[12..].copy_from_slice(&number.to_be_bytes());
        let reference = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        let token = number.to_be_bytes();
        Entry::new(
            PaymentId::from_bytes(id),
            MerchantId(merchant),
            Time::from_millis(at),
            [reference, token, [0, 0, 0, order]],
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lists_are_newest_first_and_whole_at_any_order_of_times(
            made in prop::collection::vec((0_u8..4, 0_u64..3, 0_u64..50), 1..3000),
            // Also beyond what counts from a chunk's time, on either side.
            millis in prop::sample::select(vec![1, 600_000, 300_000_000]),
            page in 1_usize..70,
        ) {
            let mut register = Register::default();
            let mut model = Vec::new();
            for (number, (order, merchant, at)) in made.into_iter().enumerate() {
                let (number, at) = (u32::try_from(number).unwrap(), at * millis);
                let entry = entry(number, order, merchant, at);
                register.enter(&entry);
                model.push((at, number, order, merchant, entry));
            }
            prop_assert_eq!(register.len(), model.len());
            for (_, number, .., entry) in &model {
                for mark in [Mark::Reference, Mark::Token] {
                    let found: Vec<_> = register.found(mark, entry.marks[mark as usize]).collect();
                    prop_assert_eq!(found, vec![*number]);
                }
            }
            let all = |list| {
                let mut places = Vec::new();
                loop {
                    let found = register.listed(list, places.last().copied(), page);
                    if found.is_empty() {
                        return places;
                    }
                    places.extend(found);
                }
            };
            let expected = |fits: &dyn Fn(u8, u64) -> bool| {
                let mut fitting: Vec<_> = model.iter().filter(|m| fits(m.2, m.3)).collect();
                fitting.sort_by_key(|m| std::cmp::Reverse((m.0, m.1)));
                fitting.iter().map(|m| m.1).collect::<Vec<_>>()
            };
            // Beyond so many newer ones a payment is not moved.
            if model.len() < MAX_STEPS {
                prop_assert_eq!(all(List::All), expected(&|_, _| true));
                prop_assert_eq!(all(List::Of(MerchantId(1))), expected(&|_, m| m == 1));
                prop_assert_eq!(all(List::With([0, 0, 0, 2])), expected(&|o, _| o == 2));
            } else {
                for (list, fits) in [
                    (List::All, &(|_, _| true) as &dyn Fn(u8, u64) -> bool),
                    (List::Of(MerchantId(1)), &|_, m| m == 1),
                    (List::With([0, 0, 0, 2]), &|o, _| o == 2),
                ] {
                    let (mut found, mut wanted) = (all(list), expected(fits));
                    found.sort();
                    wanted.sort();
                    prop_assert_eq!(found, wanted);
                }
            }
        }
    }
}
