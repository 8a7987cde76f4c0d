//! The lists of the payment index: chains from the newest payment to the oldest, and the limits of one walk.

use kassette_domain::id::MerchantId;
use kassette_domain::time::Time;

use crate::rows::schema::Position;
use crate::rows::seal::Fingerprint;
use crate::sled::memory::payment_index::period::{Milestones, Period};
use crate::sled::memory::payment_index::{
    IndexCell, List, LookupKey, NONE, OfMerchant, PaymentIndex, tag,
};

/// Maximum number of newer payments behind which a new payment is inserted: as many as may overtake it on the
/// way to the store. More can be newer only if a clock went back. The list is then slightly out of order, but
/// complete. Every creation takes this many steps while the clock is behind.
pub(crate) const MAX_STEPS: usize = 64;
/// Maximum number of payments in one walk: some hundred microseconds during which no group can enter
/// payments.
pub(crate) const MAX_WALK: usize = 8192;

/// Result of a walk along a list.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The payments, newest first.
    pub(crate) positions: Vec<Position>,
    /// The last payment that was passed. Payments after it were not read.
    pub(crate) last: Option<Position>,
    /// Whether no further matching payment can follow.
    pub(crate) ended: bool,
}

impl PaymentIndex {
    /// Positions of at most `limit` payments of a list that were created in a period, newest first. If
    /// `after` is given, only payments after it.
    pub(crate) fn listed(
        &self,
        list: List,
        period: Period,
        after: Option<Position>,
        limit: usize,
    ) -> Walked {
        let next = move |position, cell| self.next(list, position, cell);
        let after = after.or_else(|| self.ahead_of(list, period));
        let first = match after {
            Some(after) => self.cell(after).map_or(NONE, |cell| next(after, cell)),
            None => self.first_of(list),
        };
        let fits = |cell: IndexCell| match list {
            List::All | List::Of(_) => true,
            List::With(mark, of) => cell.tags[mark as usize] == tag(u32::from_be_bytes(of)),
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

    /// A payment of a list that is too new for a period, like all payments before it.
    fn ahead_of(&self, list: List, period: Period) -> Option<Position> {
        let milestones = match list {
            List::All => &self.milestones,
            List::Of(merchant) => &self.merchants.get(&merchant)?.milestones,
            // An order rarely has more than a few payments, and payments with a common amount are close together.
            List::With(..) => return None,
        };
        milestones.not_before(period.until?.after(self.disorder))
    }

    /// The next older payment of a list.
    fn next(&self, list: List, position: Position, cell: IndexCell) -> Position {
        match list {
            List::All => self.older(position),
            List::Of(_) => cell.older_of_merchant,
            List::With(mark, _) => cell.next[mark as usize],
        }
    }

    /// The newest payment of a list. For an order or an amount, the first candidate.
    fn first_of(&self, list: List) -> Position {
        match list {
            List::All => self.newest.unwrap_or(NONE),
            List::Of(merchant) => self.merchants.get(&merchant).map_or(NONE, |of| of.newest),
            List::With(mark, of) => self.first(mark, u32::from_be_bytes(of)),
        }
    }

    /// The next older of all payments.
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

    /// Inserts a payment into the list of all, after newer ones.
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

    /// Inserts a payment into its merchant's list.
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

    /// Orders and amounts are lists too: many payments can share one.
    pub(crate) fn link_marked(
        &mut self,
        position: Position,
        at: Time,
        (mark, of): (LookupKey, Fingerprint),
    ) {
        match self.newer(List::With(mark, of), at) {
            None => self.put_first(mark, u32::from_be_bytes(of), position),
            Some(newer) => {
                let older = self
                    .cell(newer)
                    .map_or(NONE, |cell| cell.next[mark as usize]);
                self.set(position, |cell| cell.next[mark as usize] = older);
                self.set(newer, |cell| cell.next[mark as usize] = position);
            }
        }
    }

    /// The last payment of a list that is newer than `at`. `None` if even the first is not newer.
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
                // The payments from here on stay after the new one, and may be as new as the latest.
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
