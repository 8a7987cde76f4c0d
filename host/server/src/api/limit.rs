//! Rate limits: token buckets, each stored as the time at which it will be full.
//!
//! This form (the generic cell rate algorithm) needs one number per bucket and no refilling. A bucket whose
//! time has passed equals a new one, so idle buckets can be removed and memory is bounded.
//!
//! Decided 2026-11-24: not `governor`, because it lacks two features. Each merchant has its own rate, whereas
//! `governor` has one quota for all keys of a limiter. A flood of addresses must not use memory, whereas
//! `governor` keeps every key until idle ones are explicitly removed. The algorithm is the same.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::time::Duration;

use kassette_domain::id::{AccountId, KeyId};
use kassette_domain::key::KeyOwner;
use kassette_domain::policy::RateLimit;
use kassette_domain::time::Time;
use parking_lot::Mutex;

use crate::proxies::subscriber;
use crate::web::error::Exhausted;

/// Number of locks among which buckets are divided, so that cores seldom wait for each other.
const SHARDS: usize = 16;

/// Maximum number of buckets per shard (65,536 in total, about 4 MiB). More simultaneous callers share one
/// bucket, so that a flood of addresses costs neither memory nor other callers' service.
const SHARD_CAPACITY: usize = 4096;

/// Minimum time between two searches for idle buckets in a full shard, in nanoseconds: a search reads all
/// buckets of the shard.
const SWEEP_EVERY: u64 = 1_000_000_000;

/// Maximum difference between the times of two simultaneous requests, in nanoseconds.
const MOMENT: u64 = 1_000_000_000;

/// Token buckets by key.
pub(crate) struct Buckets<K> {
    shards: [Mutex<Shard<K>>; SHARDS],
    hasher: RandomState,
}

struct Shard<K> {
    /// Time at which each bucket is full, in nanoseconds since the epoch.
    full_at: HashMap<K, u64>,
    /// The shared bucket of all keys without a bucket of their own.
    crowd: u64,
    /// Time of the last search for idle buckets.
    swept_at: u64,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        let shard = |_| {
            Mutex::new(Shard {
                full_at: HashMap::new(),
                crowd: 0,
                swept_at: 0,
            })
        };
        Self {
            shards: std::array::from_fn(shard),
            hasher: RandomState::new(),
        }
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Takes one token from the bucket of `key`.
    ///
    /// # Errors
    /// [`Exhausted`] if the bucket is empty.
    pub(crate) fn take(&self, key: &K, limit: RateLimit, now: Time) -> Result<(), Exhausted> {
        self.take_many(key, 1, limit, now)
    }

    /// Takes `cost` tokens, or the bucket's capacity if that is less, so that expensive requests remain
    /// possible.
    ///
    /// # Errors
    /// [`Exhausted`] if there are fewer; then none is removed.
    pub(crate) fn take_many(
        &self,
        key: &K,
        cost: u32,
        limit: RateLimit,
        now: Time,
    ) -> Result<(), Exhausted> {
        let now = now.as_millis().saturating_mul(1_000_000);
        let hash = self.hasher.hash_one(key);
        // Any bits would work; these are not the first ones that the map uses.
        let index = usize::try_from(hash >> 32).unwrap_or_default() % SHARDS;
        let mut shard = self.shards[index].lock();
        if let Some(full_at) = shard.full_at.get_mut(key) {
            return take(full_at, cost, limit, now);
        }
        take(shard.make(key, now), cost, limit, now)
    }
}

impl<K: Hash + Eq + Clone> Shard<K> {
    /// Returns a new bucket for a key, or the shared one if the shard is full.
    fn make(&mut self, key: &K, now: u64) -> &mut u64 {
        if self.full_at.len() >= SHARD_CAPACITY {
            if now.saturating_sub(self.swept_at) >= SWEEP_EVERY {
                self.swept_at = now;
                self.full_at.retain(|_, full_at| *full_at > now);
            }
            if self.full_at.len() >= SHARD_CAPACITY {
                return &mut self.crowd;
            }
        }
        self.full_at.entry(key.clone()).or_insert(0)
    }
}

/// Takes tokens from a bucket with the time `full_at`.
fn take(full_at: &mut u64, cost: u32, limit: RateLimit, now: u64) -> Result<(), Exhausted> {
    let interval = 1_000_000_000 / u64::from(limit.per_second.max(1));
    let whole = interval.saturating_mul(u64::from(limit.burst.max(1)));
    let cost = interval.saturating_mul(u64::from(cost.clamp(1, limit.burst.max(1))));
    // No bucket takes longer to fill. A later time means that the clock was ahead at the last request, so the
    // bucket counts as full. A small difference comes from another core with a later time.
    let longest = now.saturating_add(whole);
    *full_at = match *full_at > longest.saturating_add(MOMENT) {
        true => now,
        false => (*full_at).min(longest),
    };
    let after = (*full_at).max(now).saturating_add(cost);
    let missing = after.saturating_sub(now.saturating_add(whole));
    if missing > 0 {
        return Err(Exhausted {
            retry_after: Duration::from_nanos(missing),
            limit,
        });
    }
    *full_at = after;
    Ok(())
}

/// Addresses that have sent a verified callback of an account within thirty days. Only the holder of a
/// provider's secret gets onto an account's list, so a flood from other addresses neither fills it nor delays
/// listed addresses.
#[derive(Default)]
pub(crate) struct ProvenAddresses(Mutex<HashMap<AccountId, HashMap<IpAddr, Time>>>);

/// How long an address remains listed: a shop with few payments gets callbacks a few times per month.
pub(crate) const PROVEN_FOR: Duration = Duration::from_secs(30 * 86_400);
/// Maximum number of addresses per account: providers use some dozens. The holder of one account's secret
/// cannot displace addresses of another account.
pub(crate) const MOST_PROVEN: usize = 1024;

impl ProvenAddresses {
    /// Whether an address has recently sent a verified callback of the account.
    pub(crate) fn contains(&self, account: &AccountId, address: IpAddr, now: Time) -> bool {
        let proven = self.0.lock();
        let proved = proven
            .get(account)
            .and_then(|of| of.get(&subscriber(address)));
        proved.is_some_and(|at| now.since(*at) < PROVEN_FOR)
    }

    /// Lists an address after a verified callback; `environment` is the account's, as a metric label.
    pub(crate) fn insert(
        &self,
        account: &AccountId,
        environment: &'static str,
        address: IpAddr,
        now: Time,
    ) {
        let mut proven = self.0.lock();
        let proven = proven.entry(account.clone()).or_default();
        let address_block = subscriber(address);
        if proven.len() >= MOST_PROVEN && !proven.contains_key(&address_block) {
            proven.retain(|_, at| now.since(*at) < PROVEN_FOR);
            let oldest = proven.iter().min_by_key(|(_, at)| **at);
            let oldest = oldest.map(|(address_block, _)| *address_block);
            if let Some(oldest) = oldest.filter(|_| proven.len() >= MOST_PROVEN) {
                proven.remove(&oldest);
                let provider = account.as_str().to_owned();
                metrics::counter!(
                    "kassette_callback_addresses_dropped_total",
                    "provider" => provider, "environment" => environment
                )
                .increment(1);
            }
        }
        proven.insert(address_block, now);
    }

    fn forget(&self, account: &AccountId, address: IpAddr) {
        if let Some(proven) = self.0.lock().get_mut(account) {
            proven.remove(&subscriber(address));
        }
    }
}

/// Rate limit of callbacks per unlisted address: a provider's new address sends a few until the first is
/// verified, and is then listed.
pub(crate) const UNPROVED_OF_ADDRESS: RateLimit = RateLimit {
    per_second: 2,
    burst: 20,
};
/// Rate limit of callbacks from all unlisted addresses per account: some dozens of addresses exhaust it.
pub(crate) const UNPROVED_OF_ACCOUNT: RateLimit = RateLimit {
    per_second: 50,
    burst: 100,
};

#[derive(Default)]
struct Unproved {
    addresses: Buckets<IpAddr>,
    accounts: Buckets<AccountId>,
    /// Unverified callbacks from listed addresses.
    of_proven: Buckets<(AccountId, IpAddr)>,
}

/// The rate limiters of the public listener.
#[derive(Default)]
pub(crate) struct RateLimiters {
    /// Requests with a usable key, by key.
    pub(crate) keys: Buckets<KeyId>,
    /// Changes by keys, by owner.
    pub(crate) changes: Buckets<KeyOwner>,
    /// Requests without a usable key.
    addresses: Buckets<IpAddr>,
    /// Verified callbacks, by account.
    pub(crate) accounts: Buckets<AccountId>,
    /// Callbacks from unlisted addresses.
    unproved: Unproved,
    /// Addresses with recent verified callbacks.
    pub(crate) proven: ProvenAddresses,
}

impl RateLimiters {
    /// Takes a token for a callback from an unlisted address.
    ///
    /// # Errors
    /// [`Exhausted`] if the bucket of the address or of the account is empty.
    pub(crate) fn unproved(
        &self,
        account: &AccountId,
        address: IpAddr,
        now: Time,
    ) -> Result<(), Exhausted> {
        let Unproved {
            addresses,
            accounts,
            ..
        } = &self.unproved;
        addresses.take(&subscriber(address), UNPROVED_OF_ADDRESS, now)?;
        accounts.take(account, UNPROVED_OF_ACCOUNT, now)
    }

    /// Counts an unverified callback from a listed address. After too many, the address is removed from the
    /// list, because earlier callbacks must not give priority to everything else that it sends.
    pub(crate) fn disproved(&self, account: &AccountId, address: IpAddr, now: Time) {
        let sender = (account.clone(), subscriber(address));
        let of_proven = &self.unproved.of_proven;
        if of_proven.take(&sender, UNPROVED_OF_ADDRESS, now).is_err() {
            self.proven.forget(account, address);
        }
    }

    /// Takes one token from the bucket of an address.
    ///
    /// # Errors
    /// [`Exhausted`] if the bucket is empty.
    pub(crate) fn address(
        &self,
        address: IpAddr,
        limit: RateLimit,
        now: Time,
    ) -> Result<(), Exhausted> {
        self.addresses.take(&subscriber(address), limit, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_that_prove_nothing_leave_callbacks_of_another_address_a_token() {
        let (limits, now) = (RateLimiters::default(), Time::from_secs(1000));
        let account = AccountId::parse("vendor-live").unwrap();
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let take = |last| limits.unproved(&account, address(last), now);
        for forger in 0..4 {
            assert_eq!((0..1000).filter(|_| take(forger).is_ok()).count(), 20);
        }
        take(200).unwrap();
        let taken: usize = (100..150)
            .map(|forger| (0..1000).filter(|_| take(forger).is_ok()).count())
            .sum();
        assert_eq!(taken, 19, "the account's share is bounded");
    }

    #[test]
    fn an_address_is_known_for_a_day_by_what_it_proved_and_for_that_account_alone() {
        let (recorder, measured) = crate::telemetry::for_tests();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let (proven, now) = (ProvenAddresses::default(), Time::from_secs(1000));
        let account = |name| AccountId::parse(name).unwrap();
        let address = IpAddr::from([192, 0, 2, 1]);
        proven.insert(&account("one"), "live", address, now);
        assert!(proven.contains(&account("one"), address, now));
        assert!(!proven.contains(&account("two"), address, now));
        assert!(!proven.contains(&account("one"), address, now.after(PROVEN_FOR)));
        proven.insert(&account("two"), "live", address, now);
        for number in 0..u32::try_from(MOST_PROVEN).unwrap() * 2 {
            let later = now.after(Duration::from_millis(u64::from(number) + 1));
            let address = IpAddr::from(number.to_be_bytes());
            proven.insert(&account("one"), "live", address, later);
        }
        assert_eq!(proven.0.lock()[&account("one")].len(), MOST_PROVEN);
        let dropped = format!(
            "kassette_callback_addresses_dropped_total{{provider=\"one\",environment=\"live\"}} {}",
            MOST_PROVEN + 1
        );
        assert!(measured.render().contains(&dropped), "{dropped}");
        assert!(
            !proven.contains(&account("one"), address, now),
            "the oldest has gone"
        );
        assert!(proven.contains(&account("two"), address, now));
    }

    #[test]
    fn an_address_that_proves_nothing_too_often_is_known_no_more() {
        let (limits, now) = (RateLimiters::default(), Time::from_secs(1000));
        let account = AccountId::parse("vendor-live").unwrap();
        let address = |last| IpAddr::from([192, 0, 2, last]);
        for last in [1, 2] {
            limits.proven.insert(&account, "live", address(last), now);
        }
        for _ in 0..UNPROVED_OF_ADDRESS.burst {
            limits.disproved(&account, address(1), now);
            assert!(limits.proven.contains(&account, address(1), now));
        }
        limits.disproved(&account, address(1), now);
        assert!(!limits.proven.contains(&account, address(1), now));
        assert!(limits.proven.contains(&account, address(2), now));
        // A verified callback lists it again.
        limits.proven.insert(&account, "live", address(1), now);
        assert!(limits.proven.contains(&account, address(1), now));
    }

    const SLOW: RateLimit = RateLimit {
        per_second: 2,
        burst: 3,
    };

    fn at(millis: u64) -> Time {
        Time::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let buckets = Buckets::default();
        for _ in 0..3 {
            assert_eq!(buckets.take(&1, SLOW, at(0)), Ok(()));
        }
        let refused = buckets.take(&1, SLOW, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(500));
        assert!(buckets.take(&1, SLOW, at(499)).is_err());
        assert!(buckets.take(&1, SLOW, at(500)).is_ok());
        assert!(buckets.take(&1, SLOW, at(500)).is_err());
        assert!(buckets.take(&2, SLOW, at(500)).is_ok(), "another's bucket");
    }

    #[test]
    fn a_clock_that_goes_back_refuses_nobody_s_next_request() {
        let buckets = Buckets::default();
        for _ in 0..3 {
            assert_eq!(buckets.take(&1, SLOW, at(86_400_000)), Ok(()));
        }
        for _ in 0..3 {
            assert_eq!(buckets.take(&1, SLOW, at(0)), Ok(()));
        }
        let refused = buckets.take(&1, SLOW, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(500));
        // Simultaneous requests may have their times in any order.
        assert!(
            buckets
                .take(&1, SLOW, at(0).before(Duration::from_millis(900)))
                .is_err()
        );
    }

    #[test]
    fn what_costs_more_takes_more_and_never_more_than_the_whole_bucket() {
        let buckets = Buckets::default();
        assert!(buckets.take_many(&1, 2, SLOW, at(0)).is_ok());
        let refused = buckets.take_many(&1, 2, SLOW, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(500));
        assert!(buckets.take(&1, SLOW, at(0)).is_ok(), "nothing was taken");
        assert!(buckets.take(&1, SLOW, at(0)).is_err());
        assert!(buckets.take_many(&2, 10, SLOW, at(0)).is_ok());
        assert!(buckets.take(&2, SLOW, at(0)).is_err());
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_a_bucket() {
        let limits = RateLimiters::default();
        let once = RateLimit {
            per_second: 1,
            burst: 1,
        };
        let take = |text: &str| limits.address(text.parse().unwrap(), once, at(0)).is_ok();
        assert!(take("2001:db8::1") && !take("2001:db8::2") && take("2001:db8:0:1::1"));
        assert!(take("192.0.2.1") && take("192.0.2.2") && !take("::ffff:192.0.2.1"));
    }

    #[test]
    fn a_flood_of_callers_costs_bounded_memory_and_nobody_else_their_bucket() {
        let buckets = Buckets::default();
        assert!(buckets.take(&u32::MAX, SLOW, at(0)).is_ok());
        let flood = u32::try_from(SHARDS * SHARD_CAPACITY * 2).unwrap();
        for caller in 0..flood {
            let _ = buckets.take(&caller, SLOW, at(0));
        }
        let held = |buckets: &Buckets<u32>| -> usize {
            let shards = buckets.shards.iter();
            shards.map(|shard| shard.lock().full_at.len()).sum()
        };
        assert!(held(&buckets) <= SHARDS * SHARD_CAPACITY);
        assert!(buckets.take(&u32::MAX, SLOW, at(0)).is_ok());
        assert!(buckets.take(&u32::MAX, SLOW, at(0)).is_ok());
        assert!(buckets.take(&u32::MAX, SLOW, at(0)).is_err());
        for caller in 0..1000 {
            assert!(buckets.take(&(flood + caller), SLOW, at(60_000)).is_ok());
        }
        assert!(held(&buckets) < SHARDS * SHARD_CAPACITY, "idle ones went");
    }

    proptest! {
        #[test]
        fn no_window_ever_holds_more_than_burst_and_rate(
            per_second in 1_u32..2000,
            burst in 1_u32..50,
            gaps in proptest::collection::vec(0_u64..200, 1..200),
        ) {
            let limit = RateLimit { per_second, burst };
            let mut full_at = 0;
            let mut now = 1_000_000_000_000;
            let mut granted = Vec::new();
            for gap in gaps {
                now += gap * 1_000_000;
                match take(&mut full_at, 1, limit, now) {
                    Ok(()) => granted.push(now),
                    Err(refused) => {
                        let wait = u64::try_from(refused.retry_after.as_nanos()).unwrap();
                        prop_assert!(wait > 0);
                        prop_assert!(take(&mut full_at.clone(), 1, limit, now + wait).is_ok());
                        prop_assert!(take(&mut full_at.clone(), 1, limit, now + wait - 1).is_err());
                    }
                }
            }
            let interval = 1_000_000_000 / u64::from(per_second);
            for (first, from) in granted.iter().enumerate() {
                for (last, to) in granted.iter().enumerate().skip(first) {
                    let taken = u64::try_from(last - first + 1).unwrap();
                    prop_assert!(taken <= u64::from(burst) + (to - from) / interval);
                }
            }
        }
    }
}
