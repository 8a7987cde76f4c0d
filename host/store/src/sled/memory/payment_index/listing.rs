//! The payment index's lists: chains from the newest payment to the oldest, and how far one look goes.

use kassette_domain::id::MerchantId;
use kassette_domain::time::Time;

use crate::rows::schema::Position;
use crate::rows::seal::Fingerprint;
use crate::sled::memory::payment_index::period::{Milestones, Period};
use crate::sled::memory::payment_index::{
    IndexCell, List, LookupKey, NONE, OfMerchant, PaymentIndex, tag,
};

/// How far a payment is moved down a list because others are newer: as many as may overtake it on their
/// way to the store. Only where a clock went back do more stand before it: then the list is a little out of
/// order, and nothing is lost. For as long as the clock is behind each creation goes so far.
pub(crate) const MAX_STEPS: usize = 64;
/// Payments of a list that one look goes along: some hundred microseconds for which no group can enter
/// payments.
pub(crate) const MAX_WALK: usize = 8192;

/// What was found along a list.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The payments, the newest first.
    pub(crate) positions: Vec<Position>,
    /// The last payment that was passed; what follows it was not looked at.
    pub(crate) last: Option<Position>,
    /// Whether nothing follows it that could be found.
    pub(crate) ended: bool,
}

impl PaymentIndex {
    /// Positions of at most `limit` payments of a list that were made in a period, the newest first; of
    /// those after the one at `after` where it is given.
    pub(crate) fn listed(
        &self,
        list: List,
        period: Period,
        after: Option<Position>,
        limit: usize,
    ) -> Walked {
        const ORDER: usize = LookupKey::Order as usize;
        let next = move |position, cell| self.next(list, position, cell);
        let after = after.or_else(|| self.ahead_of(list, period));
        let first = match after {
            Some(after) => self.cell(after).map_or(NONE, |cell| next(after, cell)),
            None => self.first_of(list),
        };
        let fits = |cell: IndexCell| match list {
            List::All | List::Of(_) => true,
            List::With(order) => cell.tags[ORDER] == tag(u32::from_be_bytes(order)),
        };
        let too_old = period.since.map(|since| since.before(self.disorder));
        let mut walked = Walked::default();
        let chain = self.chain(first, next).filter(|(_, cell)| fits(*cell));
        for (passed, (position, cell)) in chain.enumerate() {
            let at = self.time(position, cell);
            if too_old.is_some_and(|too_old| at < too_old) {
                break;
            }
            if walked.positions.len() == limit || passed == MAX_WALK {
                return walked;
            }
            walked.last = Some(position);
            if period.holds(at) {
                walked.positions.push(position);
            }
        }
        walked.ended = true;
        walked
    }

    /// A payment of a list before which all others are too new for a period, as it is itself.
    fn ahead_of(&self, list: List, period: Period) -> Option<Position> {
        let milestones = match list {
            List::All => &self.milestones,
            List::Of(merchant) => &self.merchants.get(&merchant)?.milestones,
            // One order rarely has more than a few payments.
            List::With(_) => return None,
        };
        milestones.not_before(period.until?.after(self.disorder))
    }

    /// The next older of a list.
    fn next(&self, list: List, position: Position, cell: IndexCell) -> Position {
        match list {
            List::All => self.older(position),
            List::Of(_) => cell.older_of_merchant,
            List::With(_) => cell.next[LookupKey::Order as usize],
        }
    }

    /// The newest of a list; of an order's, the first that may be.
    fn first_of(&self, list: List) -> Position {
        match list {
            List::All => self.newest.unwrap_or(NONE),
            List::Of(merchant) => self.merchants.get(&merchant).map_or(NONE, |of| of.newest),
            List::With(order) => self.first(LookupKey::Order, u32::from_be_bytes(order)),
        }
    }

    /// The next older of all.
    fn older(&self, position: Position) -> Position {
        let odd = self.older.get(&position).copied();
        odd.unwrap_or_else(|| position.checked_sub(1).unwrap_or(NONE))
    }

    fn set_older(&mut self, position: Position, older: Position) {
        self.older.remove(&position);
        if self.older(position) != older {
            self.older.insert(position, older);
        }
    }

    /// Puts a payment into the list of all, after those that are newer.
    pub(crate) fn link_all(&mut self, position: Position, at: Time) {
        match self.newer(List::All, at) {
            None => {
                self.set_older(position, self.newest.unwrap_or(NONE));
                self.newest = Some(position);
            }
            Some(newer) => {
                self.set_older(position, self.older(newer));
                self.set_older(newer, position);
            }
        }
        self.milestones.pass(position, at);
    }

    /// Puts it into its merchant's.
    pub(crate) fn link_merchant(&mut self, position: Position, at: Time, merchant: MerchantId) {
        let newer = self.newer(List::Of(merchant), at);
        let of = self.merchants.entry(merchant).or_insert(OfMerchant {
            newest: NONE,
            milestones: Milestones::default(),
        });
        of.milestones.pass(position, at);
        match newer {
            None => {
                let newest = std::mem::replace(&mut of.newest, position);
                self.set(position, |cell| cell.older_of_merchant = newest);
            }
            Some(newer) => {
                let older = self.cell(newer).map_or(NONE, |cell| cell.older_of_merchant);
                self.set(position, |cell| cell.older_of_merchant = older);
                self.set(newer, |cell| cell.older_of_merchant = position);
            }
        }
    }

    /// Orders are a list too: many payments can share one.
    pub(crate) fn link_order(&mut self, position: Position, at: Time, order: Fingerprint) {
        const ORDER: usize = LookupKey::Order as usize;
        match self.newer(List::With(order), at) {
            None => self.put_first(LookupKey::Order, u32::from_be_bytes(order), position),
            Some(newer) => {
                let older = self.cell(newer).map_or(NONE, |cell| cell.next[ORDER]);
                self.set(position, |cell| cell.next[ORDER] = older);
                self.set(newer, |cell| cell.next[ORDER] = position);
            }
        }
    }

    /// The last of a list before one that is made at `at`: those before it are newer; none where the
    /// list's first is not.
    fn newer(&mut self, list: List, at: Time) -> Option<Position> {
        if at >= self.latest {
            return None;
        }
        let mut last = None;
        let mut steps = 0;
        let mut position = self.first_of(list);
        while let Some(cell) = self.cell(position) {
            if at >= self.time(position, cell) {
                return last;
            }
            if steps == MAX_STEPS {
                // Those from here on stay behind it, and may be as new as the latest.
                self.disorder = self.disorder.max(self.latest.since(at));
                return last;
            }
            steps += 1;
            last = Some(position);
            position = self.next(list, position, cell);
        }
        last
    }
}
