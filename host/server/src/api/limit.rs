//! Rate limits: token buckets, held as the one time at which each is full again.
//!
//! That form (the generic cell rate algorithm) needs one number a bucket and no refilling, and a
//! bucket whose time has passed is the same as one that was never there. So idle buckets are
//! forgotten without loss, and memory is bounded.
//!
//! Decided 2026-11-24: not `governor`, because the crate cannot do two things that are needed here. Each merchant
//! has a rate of its own, and `governor` has one quota for all keys of a limiter. A flood of addresses must cost no
//! memory, and `governor` keeps every key until it is told to forget the idle ones. The algorithm is the same.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::time::Duration;

use kassette_domain::id::{AccountId, KeyId};
use kassette_domain::policy::RateLimit;
use kassette_domain::time::Time;
use parking_lot::Mutex;

use crate::proxies::subscriber;
use crate::web::error::Exhausted;

/// Locks that share the buckets between them, so that cores seldom wait for one another.
const SHARDS: usize = 16;

/// Most buckets in a shard (65,536 in all, some 4 MiB): more callers than that at once share one
/// bucket, so a flood of addresses costs neither memory nor the rest of the service.
const SHARD_CAPACITY: usize = 4096;

/// Shortest time between two searches for idle buckets in a full shard, nanoseconds: a search looks
/// at every bucket of the shard.
const SWEEP_EVERY: u64 = 1_000_000_000;

/// Token buckets by some key.
pub(crate) struct Buckets<K> {
    shards: [Mutex<Shard<K>>; SHARDS],
    hasher: RandomState,
}

struct Shard<K> {
    /// When each bucket is full again, nanoseconds since the epoch.
    full_at: HashMap<K, u64>,
    /// The bucket of all keys for which there is no room.
    crowd: u64,
    /// When idle buckets were last looked for.
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
    /// [`Exhausted`] where there is none; nothing is taken then.
    pub(crate) fn take(&self, key: &K, limit: RateLimit, now: Time) -> Result<(), Exhausted> {
        self.take_many(key, 1, limit, now)
    }

    /// Takes `cost` tokens at once, or as many as the bucket holds where that is less, so that what is
    /// dear stays possible.
    ///
    /// # Errors
    /// [`Exhausted`] where there are fewer; nothing is taken then.
    pub(crate) fn take_many(
        &self,
        key: &K,
        cost: u32,
        limit: RateLimit,
        now: Time,
    ) -> Result<(), Exhausted> {
        let now = now.as_millis().saturating_mul(1_000_000);
        let hash = self.hasher.hash_one(key);
        // Any bits would do; these are not the ones that the map looks at first.
        let index = usize::try_from(hash >> 32).unwrap_or_default() % SHARDS;
        let mut shard = self.shards[index].lock();
        if let Some(full_at) = shard.full_at.get_mut(key) {
            return take(full_at, cost, limit, now);
        }
        take(shard.make(key, now), cost, limit, now)
    }
}

impl<K: Hash + Eq + Clone> Shard<K> {
    /// A bucket for a key that has none.
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

/// Takes tokens from a bucket that is full again at `full_at`.
fn take(full_at: &mut u64, cost: u32, limit: RateLimit, now: u64) -> Result<(), Exhausted> {
    let interval = 1_000_000_000 / u64::from(limit.per_second.max(1));
    let whole = interval.saturating_mul(u64::from(limit.burst.max(1)));
    let cost = interval.saturating_mul(u64::from(cost.clamp(1, limit.burst.max(1))));
    // No bucket takes longer to fill: the clock was ahead when it was last taken from.
    *full_at = (*full_at).min(now.saturating_add(whole));
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

/// Addresses that have proved callbacks of an account within thirty days. Only the holder of a vendor's secret
/// gets onto an account's list, so a flood from other addresses neither fills it nor holds up those on it.
#[derive(Default)]
pub(crate) struct ProvenAddresses(Mutex<HashMap<AccountId, HashMap<IpAddr, Time>>>);

/// How long an address is known: a shop with few payments hears of its vendor some times a month.
pub(crate) const PROVEN_FOR: Duration = Duration::from_secs(30 * 86_400);
/// Most addresses of an account: vendors send from some dozens. Who has the secret of one account pushes
/// out no address of another.
pub(crate) const MOST_PROVEN: usize = 1024;

impl ProvenAddresses {
    /// Whether an address has proved a callback of the account lately.
    pub(crate) fn contains(&self, account: &AccountId, address: IpAddr, now: Time) -> bool {
        let proven = self.0.lock();
        let proved = proven
            .get(account)
            .and_then(|of| of.get(&subscriber(address)));
        proved.is_some_and(|at| now.since(*at) < PROVEN_FOR)
    }

    /// An address has proved a callback of the account; `environment` is the account's, as a label.
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

/// Callbacks from one address that has proved none: a vendor's new address takes a few until its first one
/// is read, and is known from then on.
pub(crate) const UNPROVED_OF_ADDRESS: RateLimit = RateLimit {
    per_second: 2,
    burst: 20,
};
/// Those from all such addresses for one account: some dozens of addresses use it up.
pub(crate) const UNPROVED_OF_ACCOUNT: RateLimit = RateLimit {
    per_second: 50,
    burst: 100,
};

#[derive(Default)]
struct Unproved {
    addresses: Buckets<IpAddr>,
    accounts: Buckets<AccountId>,
    /// Callbacks from a known address that proved nothing all the same.
    of_proven: Buckets<(AccountId, IpAddr)>,
}

/// The buckets of the public listener.
#[derive(Default)]
pub(crate) struct RateLimiters {
    /// Requests with a usable key, by key.
    pub(crate) keys: Buckets<KeyId>,
    /// Requests without one.
    addresses: Buckets<IpAddr>,
    /// Vendors' callbacks that were proved, by account.
    pub(crate) accounts: Buckets<AccountId>,
    /// Callbacks from addresses that have proved none.
    unproved: Unproved,
    /// Who has proved callbacks lately.
    pub(crate) proven: ProvenAddresses,
}

impl RateLimiters {
    /// Takes a token for a callback from an address that has proved none.
    ///
    /// # Errors
    /// [`Exhausted`] where the address or the account has none left.
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

    /// Counts a callback from a known address that proved nothing. Once there are too many, the address is
    /// known no more: what it proved must not carry whatever else is sent from there.
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
    /// [`Exhausted`] where there is none.
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
        // A proof makes it known again.
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
    fn a_clock_that_comes_back_has_no_caller_wait_longer_than_a_whole_bucket() {
        let buckets = Buckets::default();
        assert_eq!(buckets.take(&1, SLOW, at(86_400_000)), Ok(()));
        let refused = buckets.take(&1, SLOW, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(500));
        assert_eq!(buckets.take(&1, SLOW, at(500)), Ok(()));
        assert!(buckets.take(&1, SLOW, at(500)).is_err());
        for _ in 0..3 {
            assert_eq!(buckets.take(&1, SLOW, at(2000)), Ok(()));
        }
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
