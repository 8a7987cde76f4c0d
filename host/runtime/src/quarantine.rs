//! Takes a version that keeps failing out of service for a while; the last good one serves meanwhile.
//!
//! Only what is the module's own fault counts. A deadline is one of CPU time, and a call that was
//! refused for want of room is no fault. Callbacks never count: strangers send them, and no stranger
//! may take a provider out of service by sending rubbish. A callback that fails is read by the last
//! good version there and then.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use kassette_domain::time::Time;
use parking_lot::Mutex;

use crate::shards;

/// When a version is quarantined, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuarantineRules {
    /// Faults within the window that quarantine a version, at least 1.
    pub faults: u32,
    /// The same for a version that was quarantined before and has not proved itself since.
    pub faults_again: u32,
    /// Over how long faults are counted.
    pub window: Duration,
    /// They must be at least one in so many calls: a rare fault is no reason to give up the rest.
    pub one_in: u32,
    /// How long the first time. Each next time doubles it.
    pub first: Duration,
    /// How long at most.
    pub longest: Duration,
}

impl Default for QuarantineRules {
    fn default() -> Self {
        Self {
            faults: 10,
            faults_again: 3,
            window: Duration::from_secs(60),
            one_in: 5,
            first: Duration::from_secs(30),
            longest: Duration::from_secs(3600),
        }
    }
}

/// The calls and faults of one version. A call that goes well costs one addition.
#[derive(Debug)]
pub(crate) struct Quarantine {
    rules: QuarantineRules,
    /// One counter for each shard.
    calls: [CachePadded<AtomicU64>; shards::MAX_SHARDS],
    /// Milliseconds of the time at which it returns; 0 where it is not quarantined.
    until: AtomicU64,
    /// All that were seen.
    total: AtomicU64,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    /// When, and how many calls there had been.
    recent: VecDeque<(Time, u64)>,
    /// How often it was quarantined in a row, and until when the last time.
    strikes: u32,
    returned: Option<(Time, Duration)>,
}

/// A version was quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuarantineStart {
    pub(crate) until: Time,
    pub(crate) faults: usize,
}

impl Quarantine {
    pub(crate) fn new(rules: QuarantineRules) -> Self {
        Self {
            rules,
            calls: Default::default(),
            until: AtomicU64::new(0),
            total: AtomicU64::new(0),
            faults: Mutex::default(),
        }
    }

    /// A call begins, in a shard.
    pub(crate) fn count(&self, shard: usize) {
        self.calls[shard % shards::MAX_SHARDS].fetch_add(1, Ordering::Relaxed);
    }

    fn calls(&self) -> u64 {
        let calls = self.calls.iter();
        calls.map(|calls| calls.load(Ordering::Relaxed)).sum()
    }

    /// Calls that ever failed for the module's own fault.
    pub(crate) fn faults(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// A call failed for the module's own fault.
    pub(crate) fn record_fault(&self, now: Time) -> Option<QuarantineStart> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock();
        // Calls that were under way when it was quarantined still end.
        if self.until.load(Ordering::Relaxed) > now.as_millis() {
            return None;
        }
        if let Some((at, length)) = faults.returned
            && now.since(at) > length.max(self.rules.window)
        {
            (faults.strikes, faults.returned) = (0, None);
        }
        let enough = match faults.strikes {
            0 => self.rules.faults,
            _ => self.rules.faults_again,
        };
        let calls = self.calls();
        faults.recent.push_back((now, calls));
        while faults.recent.len() > enough as usize {
            faults.recent.pop_front();
        }
        let (since, before) = *faults.recent.front()?;
        let count = faults.recent.len();
        let among = calls.saturating_sub(before).saturating_add(1);
        if count < enough as usize
            || now.since(since) > self.rules.window
            || among > u64::from(self.rules.one_in) * count as u64
        {
            return None;
        }
        let doubled = 2_u32.saturating_pow(faults.strikes);
        let length = self
            .rules
            .first
            .saturating_mul(doubled)
            .min(self.rules.longest);
        let until = now.after(length);
        faults.strikes = faults.strikes.saturating_add(1);
        faults.returned = Some((until, length));
        faults.recent.clear();
        self.until.store(until.as_millis(), Ordering::Relaxed);
        Some(QuarantineStart {
            until,
            faults: count,
        })
    }

    /// Until when it is quarantined; none where it may serve. The clock is asked only of one that was
    /// quarantined.
    pub(crate) fn quarantined_until(&self, clock: impl FnOnce() -> Time) -> Option<Time> {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return None;
        }
        if clock().as_millis() < until {
            return Some(Time::from_millis(until));
        }
        // Back. Where another thread quarantined it again meanwhile, that stays.
        let _ = self
            .until
            .compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        None
    }

    /// The operator wants it to serve: all is forgotten.
    pub(crate) fn lift(&self) {
        let mut faults = self.faults.lock();
        *faults = Faults::default();
        self.until.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(1_795_000_000);

    fn after(seconds: u64) -> Time {
        START.after(Duration::from_secs(seconds))
    }

    /// So many calls that all fail at once; what the last one led to.
    fn fail(quarantine: &Quarantine, times: u32, now: Time) -> Option<QuarantineStart> {
        let mut last = None;
        for _ in 0..times {
            quarantine.count(0);
            last = quarantine.record_fault(now);
        }
        last
    }

    #[test]
    fn a_version_that_keeps_failing_is_quarantined_and_returns() {
        let quarantine = Quarantine::new(QuarantineRules::default());
        assert_eq!(fail(&quarantine, 9, after(0)), None);
        assert_eq!(quarantine.quarantined_until(|| after(0)), None);
        let quarantined = fail(&quarantine, 1, after(1)).unwrap();
        assert_eq!((quarantined.until, quarantined.faults), (after(31), 10));
        assert_eq!(quarantine.quarantined_until(|| after(30)), Some(after(31)));
        assert_eq!(
            fail(&quarantine, 50, after(30)),
            None,
            "calls that come home"
        );
        assert_eq!(quarantine.quarantined_until(|| after(31)), None);
    }

    #[test]
    fn one_that_fails_again_is_quarantined_sooner_and_for_twice_as_long() {
        let quarantine = Quarantine::new(QuarantineRules::default());
        let mut now = after(0);
        fail(&quarantine, 7, now);
        for expected in [30, 60, 120, 240, 480, 960, 1920, 3600, 3600] {
            let quarantined = fail(&quarantine, 3, now).unwrap();
            assert_eq!(quarantined.until.since(now), Duration::from_secs(expected));
            now = quarantined.until;
        }
        // Well behaved for as long as it was quarantined: the record is clean.
        now = now.after(Duration::from_secs(3601));
        assert_eq!(fail(&quarantine, 9, now), None);
        let quarantined = fail(&quarantine, 1, now).unwrap();
        assert_eq!(quarantined.until.since(now), Duration::from_secs(30));
    }

    #[test]
    fn faults_that_are_far_apart_quarantine_no_version() {
        let quarantine = Quarantine::new(QuarantineRules::default());
        for minute in 0..100 {
            assert_eq!(fail(&quarantine, 1, after(minute * 7)), None);
        }
    }

    #[test]
    fn a_rare_fault_among_many_good_calls_quarantines_no_version() {
        let quarantine = Quarantine::new(QuarantineRules::default());
        for _ in 0..100 {
            (0..9).for_each(|shard| quarantine.count(shard));
            assert_eq!(fail(&quarantine, 1, after(0)), None);
        }
        // The same faults without the good calls between.
        fail(&quarantine, 10, after(0));
        assert!(quarantine.quarantined_until(|| after(0)).is_some());
    }

    #[test]
    fn an_operator_s_word_ends_it() {
        let quarantine = Quarantine::new(QuarantineRules::default());
        fail(&quarantine, 10, after(0));
        quarantine.lift();
        assert_eq!(quarantine.quarantined_until(|| after(0)), None);
        assert_eq!(fail(&quarantine, 9, after(0)), None);
    }
}
