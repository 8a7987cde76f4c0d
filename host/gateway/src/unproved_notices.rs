//! Unverified notices that arrive before the start has recorded their reference. They are stored in memory,
//! apart from verified ones, which strangers therefore cannot displace. A lost notice is replaced by the
//! queries that follow every start.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kassette_domain::id::AccountId;
use kassette_domain::time::Time;
use kassette_http::subscriber;
use parking_lot::Mutex;

/// How long a notice waits for its reference (decisions, "Provider callbacks").
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// Maximum number of notices.
pub const MOST: usize = 4096;
/// Maximum number of notices from one address.
pub const PER_ADDRESS: usize = 64;

/// Notices that wait for a start to record their reference. Each causes a query about that attempt.
#[derive(Debug, Default)]
pub(crate) struct UnprovedNotices {
    /// Number of notices, so that steps need no lock while there are none.
    count: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    of: HashMap<(AccountId, String), UnprovedNotice>,
    /// Number of notices stored so far. Orders notices with the same time.
    last_number: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnprovedNotice {
    /// Environment of the account, as a label.
    environment: &'static str,
    from: IpAddr,
    number: u64,
    until: Time,
}

impl UnprovedNotices {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Stores a notice. At a limit, the oldest one is dropped: of this address if it has reached its limit,
    /// otherwise of all.
    pub(crate) fn keep(
        &self,
        key: (AccountId, String),
        environment: &'static str,
        from: IpAddr,
        now: Time,
    ) {
        let from = subscriber(from);
        let mut kept = self.kept.lock();
        kept.of.retain(|_, told| now < told.until);
        if !kept.of.contains_key(&key) {
            let own = kept.of.values().filter(|told| told.from == from).count();
            if own >= PER_ADDRESS {
                kept.drop_oldest(|told| told.from == from);
            } else if kept.of.len() >= MOST {
                kept.drop_oldest(|_| true);
            }
        }
        kept.last_number += 1;
        let notice = UnprovedNotice {
            environment,
            from,
            number: kept.last_number,
            until: now.after(KEPT_FOR),
        };
        kept.of.insert(key, notice);
        self.count.store(kept.of.len(), Ordering::SeqCst);
    }

    /// Removes the notice about a reference. Returns whether there was one that has not expired.
    pub(crate) fn take(&self, account: &AccountId, reference: &str, now: Time) -> bool {
        let mut kept = self.kept.lock();
        let taken = kept.of.remove(&(account.clone(), reference.to_owned()));
        self.count.store(kept.of.len(), Ordering::SeqCst);
        taken.is_some_and(|told| now < told.until)
    }
}

impl Kept {
    fn drop_oldest(&mut self, among: impl Fn(&UnprovedNotice) -> bool) {
        let candidates = self.of.iter().filter(|(_, told)| among(told));
        let oldest = candidates.min_by_key(|(_, told)| told.number);
        let oldest = oldest.map(|(key, told)| (key.clone(), told.environment));
        if let Some((key, environment)) = oldest {
            self.of.remove(&key);
            metrics::counter!(
                "kassette_callback_notices_dropped_total",
                "environment" => environment
            )
            .increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_000_000);

    fn account() -> AccountId {
        AccountId::parse("alpha").unwrap()
    }

    fn keep(unproved: &UnprovedNotices, reference: &str, from: IpAddr, now: Time) {
        unproved.keep((account(), reference.to_owned()), "live", from, now);
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn an_address_pushes_out_its_own_oldest_notice_alone() {
        let unproved = UnprovedNotices::default();
        keep(&unproved, "genuine", address(1), NOW);
        for number in 0..PER_ADDRESS * 10 {
            keep(&unproved, &format!("flood-{number}"), address(2), NOW);
        }
        assert_eq!(unproved.count.load(Ordering::SeqCst), 1 + PER_ADDRESS);
        assert!(unproved.take(&account(), "genuine", NOW));
        assert!(!unproved.take(&account(), "flood-0", NOW));
        let newest = format!("flood-{}", PER_ADDRESS * 10 - 1);
        assert!(unproved.take(&account(), &newest, NOW));
        assert!(!unproved.take(&account(), &newest, NOW), "it was taken");
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let unproved = UnprovedNotices::default();
        for number in 0..PER_ADDRESS * 2 {
            let low = u16::try_from(number).unwrap();
            let from = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, low]);
            keep(&unproved, &format!("flood-{number}"), from, NOW);
        }
        assert_eq!(unproved.count.load(Ordering::SeqCst), PER_ADDRESS);
    }

    #[test]
    fn many_addresses_together_are_bounded() {
        let unproved = UnprovedNotices::default();
        for number in 0..MOST + 10 {
            let low = u16::try_from(number).unwrap();
            let from = IpAddr::from([10, 0, low.to_be_bytes()[0], low.to_be_bytes()[1]]);
            keep(&unproved, &format!("flood-{number}"), from, NOW);
        }
        assert_eq!(unproved.count.load(Ordering::SeqCst), MOST);
    }

    #[test]
    fn a_notice_waits_for_an_hour() {
        let unproved = UnprovedNotices::default();
        keep(&unproved, "one", address(1), NOW);
        assert!(!unproved.take(&account(), "one", NOW.after(KEPT_FOR)));
        keep(&unproved, "two", address(1), NOW);
        keep(&unproved, "three", address(1), NOW.after(KEPT_FOR));
        assert_eq!(unproved.count.load(Ordering::SeqCst), 1);
    }
}
