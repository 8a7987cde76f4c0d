//! The register's lists: chains from the newest payment to the oldest, and how far one look goes.

use kassette_domain::id::MerchantId;
use kassette_domain::time::Time;

use super::{Fingerprint, List, Mark, NONE, OfMerchant, Place, Register, Slot, tag};
use crate::sled::period::{Milestones, Period};

/// How far a payment is moved down a list because others are newer: as many as may overtake it on their
/// way to the store. Only where a clock went back do more stand before it: then the list is a little out of
/// order, and nothing is lost. For as long as the clock is behind each creation goes so far.
pub(super) const MAX_STEPS: usize = 64;
/// Payments of a list that one look goes along: some hundred microseconds for which no group can enter
/// payments.
pub(super) const MAX_WALK: usize = 8192;

/// What was found along a list.
#[derive(Debug, Default)]
pub(in crate::sled) struct Walked {
    /// The payments, the newest first.
    pub(in crate::sled) places: Vec<Place>,
    /// The last payment that was passed; what follows it was not looked at.
    pub(in crate::sled) last: Option<Place>,
    /// Whether nothing follows it that could be found.
    pub(in crate::sled) ended: bool,
}

impl Register {
    /// Places of at most `limit` payments of a list that were made in a period, the newest first; of
    /// those after the one at `after` where it is given.
    pub(in crate::sled) fn listed(
        &self,
        list: List,
        period: Period,
        after: Option<Place>,
        limit: usize,
    ) -> Walked {
        const ORDER: usize = Mark::Order as usize;
        let next = move |place, slot| self.next(list, place, slot);
        let after = after.or_else(|| self.ahead_of(list, period));
        let first = match after {
            Some(after) => self.slot(after).map_or(NONE, |slot| next(after, slot)),
            None => self.first_of(list),
        };
        let fits = |slot: Slot| match list {
            List::All | List::Of(_) => true,
            List::With(order) => slot.tags[ORDER] == tag(u32::from_be_bytes(order)),
        };
        let too_old = period.since.map(|since| since.before(self.disorder));
        let mut walked = Walked::default();
        let chain = self.chain(first, next).filter(|(_, slot)| fits(*slot));
        for (passed, (place, slot)) in chain.enumerate() {
            let at = self.time(place, slot);
            if too_old.is_some_and(|too_old| at < too_old) {
                break;
            }
            if walked.places.len() == limit || passed == MAX_WALK {
                return walked;
            }
            walked.last = Some(place);
            if period.holds(at) {
                walked.places.push(place);
            }
        }
        walked.ended = true;
        walked
    }

    /// A payment of a list before which all others are too new for a period, as it is itself.
    fn ahead_of(&self, list: List, period: Period) -> Option<Place> {
        let milestones = match list {
            List::All => &self.milestones,
            List::Of(merchant) => &self.merchants.get(&merchant)?.milestones,
            // One order rarely has more than a few payments.
            List::With(_) => return None,
        };
        milestones.not_before(period.until?.after(self.disorder))
    }

    /// The next older of a list.
    fn next(&self, list: List, place: Place, slot: Slot) -> Place {
        match list {
            List::All => self.older(place),
            List::Of(_) => slot.older_of_merchant,
            List::With(_) => slot.next[Mark::Order as usize],
        }
    }

    /// The newest of a list; of an order's, the first that may be.
    fn first_of(&self, list: List) -> Place {
        match list {
            List::All => self.newest.unwrap_or(NONE),
            List::Of(merchant) => self.merchants.get(&merchant).map_or(NONE, |of| of.newest),
            List::With(order) => self.first(Mark::Order, u32::from_be_bytes(order)),
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
    pub(super) fn link_all(&mut self, place: Place, at: Time) {
        match self.newer(List::All, at) {
            None => {
                self.set_older(place, self.newest.unwrap_or(NONE));
                self.newest = Some(place);
            }
            Some(newer) => {
                self.set_older(place, self.older(newer));
                self.set_older(newer, place);
            }
        }
        self.milestones.pass(place, at);
    }

    /// Puts it into its merchant's.
    pub(super) fn link_merchant(&mut self, place: Place, at: Time, merchant: MerchantId) {
        let newer = self.newer(List::Of(merchant), at);
        let of = self.merchants.entry(merchant).or_insert(OfMerchant {
            newest: NONE,
            milestones: Milestones::default(),
        });
        of.milestones.pass(place, at);
        match newer {
            None => {
                let newest = std::mem::replace(&mut of.newest, place);
                self.set(place, |slot| slot.older_of_merchant = newest);
            }
            Some(newer) => {
                let older = self.slot(newer).map_or(NONE, |slot| slot.older_of_merchant);
                self.set(place, |slot| slot.older_of_merchant = older);
                self.set(newer, |slot| slot.older_of_merchant = place);
            }
        }
    }

    /// Orders are a list too: many payments can share one.
    pub(super) fn link_order(&mut self, place: Place, at: Time, order: Fingerprint) {
        const ORDER: usize = Mark::Order as usize;
        match self.newer(List::With(order), at) {
            None => self.put_first(Mark::Order, u32::from_be_bytes(order), place),
            Some(newer) => {
                let older = self.slot(newer).map_or(NONE, |slot| slot.next[ORDER]);
                self.set(place, |slot| slot.next[ORDER] = older);
                self.set(newer, |slot| slot.next[ORDER] = place);
            }
        }
    }

    /// The last of a list before one that is made at `at`: those before it are newer; none where the
    /// list's first is not.
    fn newer(&mut self, list: List, at: Time) -> Option<Place> {
        if at >= self.latest {
            return None;
        }
        let mut last = None;
        let mut steps = 0;
        let mut place = self.first_of(list);
        while let Some(slot) = self.slot(place) {
            if at >= self.time(place, slot) {
                return last;
            }
            if steps == MAX_STEPS {
                // Those from here on stay behind it, and may be as new as the latest.
                self.disorder = self.disorder.max(self.latest.since(at));
                return last;
            }
            steps += 1;
            last = Some(place);
            place = self.next(list, place, slot);
        }
        last
    }
}
