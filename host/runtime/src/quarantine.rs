//! Takes a version that keeps failing out of service for a while. The last good version serves during that time.
//!
//! Only faults of the module count. Its deadline limits CPU time only, and a call refused by a full pool is not a
//! fault. Callbacks never count: strangers send them, and must not be able to take a provider out of service. If a
//! callback fails, the last good version reads it at once.
//!
//! Nor may one account stop all others. Faults that an account's provider may have caused count only up to the
//! number of such faults at other accounts. Faults in test do not count for live. A version without a replacement
//! is not quarantined for replies that violate the contract.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;
use parking_lot::Mutex;

use crate::shards;

/// Conditions and duration of a quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuarantineRules {
    /// Number of faults within the window that quarantine a version, at least 1.
    pub faults: u32,
    /// The same after a quarantine, until it has been over for its own length, and at least for `window`.
    pub faults_again: u32,
    /// Length of the window in which faults are counted.
    pub window: Duration,
    /// At least one in this many calls must fail. A rare fault does not justify losing the other calls.
    pub one_in: u32,
    /// Duration of the first quarantine. Each further one doubles it.
    pub first: Duration,
    /// Maximum duration of a quarantine.
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

/// Maximum number of faults kept, as a multiple of the number that quarantines a version.
const KEPT: usize = 16;

/// Source of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultSource {
    pub(crate) environment: Environment,
    /// Account whose settings or whose provider's response may have caused it. `None` if no data of a provider
    /// took part.
    pub(crate) account: Option<AccountId>,
}

/// Calls and faults of a version, separately for each environment.
#[derive(Debug)]
pub(crate) struct Quarantines {
    live: Quarantine,
    test: Quarantine,
    /// Whether an earlier version could replace this one.
    is_replaceable: AtomicBool,
}

impl Quarantines {
    pub(crate) fn new(rules: QuarantineRules) -> Self {
        Self {
            live: Quarantine::new(rules),
            test: Quarantine::new(rules),
            is_replaceable: AtomicBool::new(false),
        }
    }

    fn in_environment(&self, environment: Environment) -> &Quarantine {
        match environment {
            Environment::Live => &self.live,
            Environment::Test => &self.test,
        }
    }

    pub(crate) fn set_replaceable(&self, is_replaceable: bool) {
        self.is_replaceable.store(is_replaceable, Ordering::Relaxed);
    }

    /// Counts a call at its start, in a shard.
    pub(crate) fn count(&self, environment: Environment, shard: usize) {
        self.in_environment(environment).count(shard);
    }

    /// Number of all failures that the module caused.
    pub(crate) fn faults(&self) -> u64 {
        self.live.faults() + self.test.faults()
    }

    /// Records a failure that the module caused. `is_reply` means that it answered and the reply violated the
    /// contract. Returns the quarantine if this fault starts one.
    pub(crate) fn record_fault(
        &self,
        source: &FaultSource,
        is_reply: bool,
        now: Time,
    ) -> Option<QuarantineStart> {
        let quarantine = self.in_environment(source.environment);
        quarantine.total.fetch_add(1, Ordering::Relaxed);
        if is_reply && !self.is_replaceable.load(Ordering::Relaxed) {
            return None;
        }
        quarantine.record_fault(source.account.as_ref(), now)
    }

    /// Time until which the version is quarantined in an environment. `None` if it may serve there.
    pub(crate) fn quarantined_until(
        &self,
        environment: Environment,
        clock: impl FnOnce() -> Time,
    ) -> Option<Time> {
        self.in_environment(environment).quarantined_until(clock)
    }

    /// Ends all quarantines and clears the record, on an operator's request.
    pub(crate) fn lift(&self) {
        self.live.lift();
        self.test.lift();
    }
}

/// Calls and faults of a version in one environment. A successful call costs one addition.
#[derive(Debug)]
struct Quarantine {
    rules: QuarantineRules,
    /// One counter for each shard.
    calls: [CachePadded<AtomicU64>; shards::MAX_SHARDS],
    /// End of the quarantine as Unix time in milliseconds. 0 if there is none.
    until: AtomicU64,
    total: AtomicU64,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    /// Faults within the window, the oldest first.
    recent: VecDeque<Fault>,
    /// Number of quarantines in a row, and the end and length of the last one.
    strikes: u32,
    returned: Option<(Time, Duration)>,
}

#[derive(Debug)]
struct Fault {
    at: Time,
    /// Number of calls before it.
    calls: u64,
    /// Account that may have caused it.
    account: Option<AccountId>,
}

/// Number of faults that count: all without an account, plus those of accounts, in which one account counts for no
/// more than all others together.
#[derive(Default)]
struct Counted<'a> {
    own: usize,
    of_accounts: HashMap<&'a AccountId, usize>,
}

impl<'a> Counted<'a> {
    fn add(&mut self, fault: &'a Fault) {
        match &fault.account {
            None => self.own += 1,
            Some(account) => *self.of_accounts.entry(account).or_default() += 1,
        }
    }

    fn sum(&self) -> usize {
        let all: usize = self.of_accounts.values().sum();
        let most = self.of_accounts.values().copied().max().unwrap_or_default();
        self.own + (all - most) + most.min(all - most)
    }
}

/// A quarantine that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuarantineStart {
    pub(crate) until: Time,
    pub(crate) faults: usize,
}

impl Quarantine {
    fn new(rules: QuarantineRules) -> Self {
        Self {
            rules,
            calls: Default::default(),
            until: AtomicU64::new(0),
            total: AtomicU64::new(0),
            faults: Mutex::default(),
        }
    }

    fn count(&self, shard: usize) {
        self.calls[shard % shards::MAX_SHARDS].fetch_add(1, Ordering::Relaxed);
    }

    fn calls(&self) -> u64 {
        let calls = self.calls.iter();
        calls.map(|calls| calls.load(Ordering::Relaxed)).sum()
    }

    fn faults(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn record_fault(&self, account: Option<&AccountId>, now: Time) -> Option<QuarantineStart> {
        let mut faults = self.faults.lock();
        // Calls that were running when the quarantine started may still fail.
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
        let (calls, enough) = (self.calls(), enough as usize);
        faults.keep(account, (now, calls), (self.rules.window, enough));
        let mut counted = Counted::default();
        // The most recent faults that are sufficient.
        let since = faults.recent.iter().rev().find(|fault| {
            counted.add(fault);
            counted.sum() >= enough
        })?;
        let count = counted.sum();
        let among = calls.saturating_sub(since.calls).saturating_add(1);
        if among > u64::from(self.rules.one_in) * count as u64 {
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

    /// Reads the clock only if a quarantine has not been cleared yet.
    fn quarantined_until(&self, clock: impl FnOnce() -> Time) -> Option<Time> {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return None;
        }
        if clock().as_millis() < until {
            return Some(Time::from_millis(until));
        }
        // The quarantine has ended. If another thread has started a new one, keep it.
        let _ = self
            .until
            .compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        None
    }

    fn lift(&self) {
        let mut faults = self.faults.lock();
        *faults = Faults::default();
        self.until.store(0, Ordering::Relaxed);
    }
}

impl Faults {
    /// Adds a fault and drops those outside of the window. Keeps at most `enough` per account, so that one account
    /// cannot displace the faults of others.
    fn keep(
        &mut self,
        account: Option<&AccountId>,
        (at, calls): (Time, u64),
        (window, enough): (Duration, usize),
    ) {
        self.recent.retain(|fault| at.since(fault.at) <= window);
        let is_its = |fault: &&Fault| fault.account.as_ref() == account;
        if self.recent.iter().filter(is_its).count() >= enough
            && let Some(oldest) = self.recent.iter().position(|fault| is_its(&fault))
        {
            self.recent.remove(oldest);
        }
        if self.recent.len() >= enough.saturating_mul(KEPT) {
            self.recent.pop_front();
        }
        self.recent.push_back(Fault {
            at,
            calls,
            account: account.cloned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(1_795_000_000);

    fn after(seconds: u64) -> Time {
        START.after(Duration::from_secs(seconds))
    }

    /// Runs this many calls that all fail at the same time. Returns the result of the last.
    fn fail(quarantine: &Quarantine, times: u32, now: Time) -> Option<QuarantineStart> {
        let mut last = None;
        for _ in 0..times {
            quarantine.count(0);
            last = quarantine.record_fault(None, now);
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
        // The quarantine has been over for longer than its length, so the version counts as new.
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
        // The same faults without successful calls between them.
        fail(&quarantine, 10, after(0));
        assert!(quarantine.quarantined_until(|| after(0)).is_some());
    }

    fn account(name: &str) -> AccountId {
        AccountId::parse(name).unwrap()
    }

    /// Whether this many faults at each of these accounts quarantine a version.
    fn quarantines(faults: &[(&str, u32)]) -> bool {
        let quarantine = Quarantine::new(QuarantineRules::default());
        for (name, times) in faults {
            for _ in 0..*times {
                quarantine.count(0);
                quarantine.record_fault(Some(&account(name)), after(0));
            }
        }
        quarantine.quarantined_until(|| after(0)).is_some()
    }

    #[test]
    fn faults_at_one_account_quarantine_no_version_however_many() {
        assert!(!quarantines(&[("one", 200)]));
        assert!(!quarantines(&[("one", 200), ("two", 1)]));
        assert!(!quarantines(&[("two", 4), ("one", 200)]));
        assert!(quarantines(&[("one", 5), ("two", 5)]));
        assert!(quarantines(&[("two", 5), ("one", 200)]));
        assert!(quarantines(&[("one", 4), ("two", 3), ("three", 3)]));
    }

    #[test]
    fn faults_in_test_do_not_count_for_live() {
        let both = Quarantines::new(QuarantineRules::default());
        let source = FaultSource {
            environment: Environment::Test,
            account: None,
        };
        for _ in 0..10 {
            both.count(Environment::Test, 0);
            both.record_fault(&source, false, after(0));
        }
        let until = |environment| both.quarantined_until(environment, || after(0));
        assert_eq!(until(Environment::Live), None);
        assert!(until(Environment::Test).is_some());
        assert_eq!(both.faults(), 10);
    }

    #[test]
    fn bad_replies_quarantine_only_a_version_that_another_can_replace() {
        let source = FaultSource {
            environment: Environment::Live,
            account: None,
        };
        for is_replaceable in [false, true] {
            let both = Quarantines::new(QuarantineRules::default());
            both.set_replaceable(is_replaceable);
            for _ in 0..10 {
                both.count(Environment::Live, 0);
                both.record_fault(&source, true, after(0));
            }
            let until = both.quarantined_until(Environment::Live, || after(0));
            assert_eq!(until.is_some(), is_replaceable);
        }
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
