//! Permits for requests and calls that wait for a vendor (a bulkhead): how many of a kind there may be
//! at once, and how many of them one account or one merchant may hold.
//!
//! A holder may have as many as are free (dynamic thresholds; Choudhury and Hahne, "Dynamic queue
//! length thresholds for shared-memory packet switches", 1998). One account whose vendor hangs takes half
//! of the permits, two take a third each, and one more always finds some. Of an
//! account's permits a merchant may have as many as are left to the account, so that one alone takes a third of all and the next finds
//! some at the same account. Test and live have permits of their own, and so has what a stranger may have
//! written. Callers that wait get permits in order of arrival; those over their limit are passed over.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::key::Environment;
use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a call waits for a permit.
const PATIENCE: Duration = Duration::from_millis(250);

/// What takes a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request to start, from its arrival to its answer.
    Request,
    /// A call that starts an attempt.
    Start,
    /// A call that reads a callback from an address that has proved one lately.
    Callback,
    /// A call that reads any other callback.
    Unproved,
    /// A call that asks about an attempt, captures or closes it.
    Query,
}

impl Kind {
    pub const ALL: [Self; 5] = [
        Self::Request,
        Self::Start,
        Self::Callback,
        Self::Unproved,
        Self::Query,
    ];

    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Start => "start",
            Self::Callback => "callback",
            Self::Unproved => "unproved",
            Self::Query => "query",
        }
    }

    /// Permits in live and in test. Those of calls, and what health probes take, are the runtime's
    /// (`PoolSizes::providers`).
    pub const fn permits(self, environment: Environment) -> usize {
        let (live, test) = match self {
            Self::Request => (384, 96),
            Self::Start => (96, 24),
            Self::Callback => (24, 8),
            Self::Unproved => (16, 4),
            Self::Query => (32, 16),
        };
        match environment {
            Environment::Live => live,
            Environment::Test => test,
        }
    }
}

/// The permits of all kinds, live and test.
#[derive(Debug)]
pub(crate) struct ProviderPermits {
    live: [Arc<Pool>; 5],
    test: [Arc<Pool>; 5],
}

impl Default for ProviderPermits {
    fn default() -> Self {
        let pools = |environment: Environment| {
            Kind::ALL.map(|kind| {
                let labels = [
                    ("kind", kind.as_str()),
                    ("environment", environment.as_str()),
                ];
                Arc::new(Pool {
                    most: kind.permits(environment),
                    state: Mutex::default(),
                    taken: metrics::gauge!("kassette_provider_permits_held", &labels),
                    refused: metrics::counter!("kassette_provider_permits_refused_total", &labels),
                })
            })
        };
        Self {
            live: pools(Environment::Live),
            test: pools(Environment::Test),
        }
    }
}

impl ProviderPermits {
    fn pool(&self, kind: Kind, environment: Environment) -> &Arc<Pool> {
        let pools = match environment {
            Environment::Live => &self.live,
            Environment::Test => &self.test,
        };
        &pools[kind as usize]
    }

    /// A permit, or none where none is free.
    pub(crate) fn try_acquire(
        &self,
        kind: Kind,
        environment: Environment,
        holder: Holder,
    ) -> Option<Permit> {
        let pool = self.pool(kind, environment);
        let permit = pool.acquire(&holder);
        if permit.is_none() {
            pool.refused.increment(1);
        }
        permit
    }

    /// A permit, or none after a short wait.
    pub(crate) async fn acquire(
        &self,
        kind: Kind,
        environment: Environment,
        holder: Holder,
    ) -> Option<Permit> {
        let pool = self.pool(kind, environment);
        let granted = {
            let mut state = pool.state.lock();
            if state.take(pool.most, &holder) {
                drop(state);
                return Some(pool.permit(holder));
            }
            let (grant, granted) = oneshot::channel();
            state.waiting.retain(|waiter| !waiter.grant.is_closed());
            state.waiting.push_back(Waiter { holder, grant });
            granted
        };
        match timeout(PATIENCE, granted).await {
            Ok(Ok(permit)) => Some(permit),
            _ => {
                pool.refused.increment(1);
                None
            }
        }
    }
}

/// On whose account a permit is taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holder {
    /// The account that is called.
    pub(crate) account: Option<AccountId>,
    /// The merchant for whom.
    pub(crate) merchant: Option<MerchantId>,
}

impl Holder {
    fn pair(&self) -> Option<(AccountId, MerchantId)> {
        self.account.clone().zip(self.merchant)
    }
}

impl From<&AccountId> for Holder {
    fn from(account: &AccountId) -> Self {
        Self {
            account: Some(account.clone()),
            merchant: None,
        }
    }
}

#[derive(Debug)]
struct Pool {
    most: usize,
    state: Mutex<State>,
    taken: Gauge,
    refused: Counter,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Only those that hold something.
    accounts: HashMap<AccountId, usize>,
    merchants: HashMap<MerchantId, usize>,
    /// What a merchant holds at an account.
    pairs: HashMap<(AccountId, MerchantId), usize>,
    /// In the order of arrival; those whose caller has given up too.
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    holder: Holder,
    grant: oneshot::Sender<Permit>,
}

impl Pool {
    fn acquire(self: &Arc<Self>, holder: &Holder) -> Option<Permit> {
        let is_taken = self.state.lock().take(self.most, holder);
        is_taken.then(|| self.permit(holder.clone()))
    }

    /// The permit that was taken for a holder.
    fn permit(self: &Arc<Self>, holder: Holder) -> Permit {
        self.taken.increment(1);
        Permit {
            pool: Arc::clone(self),
            holder,
        }
    }

    /// Gives what is free to those who wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let next = self.state.lock().take_for_waiter(self.most);
            let Some(Waiter { holder, grant }) = next else {
                return;
            };
            // If the caller has just given up, dropping the permit returns it.
            let _given_up = grant.send(self.permit(holder));
        }
    }
}

impl State {
    /// Whether a holder may have one more of so many.
    fn has_room(&self, most: usize, holder: &Holder) -> bool {
        let free = most.saturating_sub(self.taken);
        let at_account = held(&self.accounts, holder.account.as_ref());
        at_account < free
            && held(&self.merchants, holder.merchant.as_ref()) < free
            && held(&self.pairs, holder.pair().as_ref()) < free - at_account
    }

    /// Takes one of so many, where the holder may have it.
    fn take(&mut self, most: usize, holder: &Holder) -> bool {
        if !self.has_room(most, holder) {
            return false;
        }
        self.taken += 1;
        count(&mut self.accounts, holder.account.as_ref());
        count(&mut self.merchants, holder.merchant.as_ref());
        count(&mut self.pairs, holder.pair().as_ref());
        true
    }

    /// Takes one for the first who waits and may have it.
    fn take_for_waiter(&mut self, most: usize) -> Option<Waiter> {
        let may_have =
            |waiter: &Waiter| !waiter.grant.is_closed() && self.has_room(most, &waiter.holder);
        let at = self.waiting.iter().position(may_have)?;
        let waiter = self.waiting.remove(at)?;
        self.take(most, &waiter.holder);
        Some(waiter)
    }

    fn give_back(&mut self, holder: &Holder) {
        self.taken -= 1;
        discount(&mut self.accounts, holder.account.as_ref());
        discount(&mut self.merchants, holder.merchant.as_ref());
        discount(&mut self.pairs, holder.pair().as_ref());
    }
}

fn held<K: Hash + Eq>(of: &HashMap<K, usize>, who: Option<&K>) -> usize {
    who.and_then(|who| of.get(who)).copied().unwrap_or_default()
}

fn count<K: Hash + Eq + Clone>(of: &mut HashMap<K, usize>, who: Option<&K>) {
    if let Some(who) = who {
        *of.entry(who.clone()).or_default() += 1;
    }
}

fn discount<K: Hash + Eq>(of: &mut HashMap<K, usize>, who: Option<&K>) {
    if let Some(held) = who.and_then(|who| of.get_mut(who)) {
        *held -= 1;
    }
    of.retain(|_, held| *held > 0);
}

/// A permit; given back on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Arc<Pool>,
    holder: Holder,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.state.lock().give_back(&self.holder);
        self.pool.taken.decrement(1);
        self.pool.grant();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn holder(account: &str, merchant: i64) -> Holder {
        Holder {
            account: Some(AccountId::parse(account).unwrap()),
            merchant: Some(MerchantId(merchant.try_into().unwrap())),
        }
    }

    fn fill(permits: &ProviderPermits, environment: Environment, holder: &Holder) -> Vec<Permit> {
        let acquire = || permits.try_acquire(Kind::Start, environment, holder.clone());
        std::iter::from_fn(acquire).collect()
    }

    /// As queries and callbacks hold permits: for no merchant.
    fn account(name: &str) -> Holder {
        (&AccountId::parse(name).unwrap()).into()
    }

    #[test]
    fn an_account_that_hangs_takes_half_and_leaves_room_for_each_other() {
        let permits = ProviderPermits::default();
        let most = Kind::Start.permits(Environment::Live);
        let first = fill(&permits, Environment::Live, &account("one-live"));
        assert_eq!(first.len(), most / 2);
        let second = fill(&permits, Environment::Live, &account("two-live"));
        assert_eq!(second.len(), most / 4);
        assert!(!fill(&permits, Environment::Live, &account("three-live")).is_empty());
    }

    #[test]
    fn a_merchant_takes_no_more_by_way_of_several_accounts() {
        let permits = ProviderPermits::default();
        let most = Kind::Start.permits(Environment::Live);
        let mut held = Vec::new();
        for account in ["one-live", "two-live", "three-live"] {
            held.extend(fill(&permits, Environment::Live, &holder(account, 1)));
        }
        assert_eq!(held.len(), most / 2);
        assert!(!fill(&permits, Environment::Live, &holder("two-live", 2)).is_empty());
    }

    #[test]
    fn a_merchant_leaves_permits_of_an_account_to_each_other_merchant() {
        for environment in [Environment::Live, Environment::Test] {
            let permits = ProviderPermits::default();
            let first = fill(&permits, environment, &holder("shared", 1));
            assert_eq!(first.len(), Kind::Start.permits(environment) / 3);
            let mut others = Vec::new();
            for merchant in 2..4 {
                let found = fill(&permits, environment, &holder("shared", merchant));
                assert!(!found.is_empty(), "{environment} {merchant}");
                others.extend(found);
            }
            assert!(!fill(&permits, environment, &holder("another", 1)).is_empty());
        }
    }

    #[test]
    fn test_takes_nothing_from_live_and_no_kind_from_another() {
        let permits = ProviderPermits::default();
        let mut held = Vec::new();
        for account in 0..20 {
            let holder = holder(&format!("test-{account}"), account);
            held.extend(fill(&permits, Environment::Test, &holder));
        }
        let account = account("one-live");
        let live = fill(&permits, Environment::Live, &account);
        assert_eq!(live.len(), Kind::Start.permits(Environment::Live) / 2);
        for kind in [Kind::Callback, Kind::Unproved, Kind::Query] {
            for environment in [Environment::Live, Environment::Test] {
                let holder = account.clone();
                assert!(permits.try_acquire(kind, environment, holder).is_some());
            }
        }
    }

    #[tokio::test]
    async fn a_place_that_becomes_free_is_taken_by_who_waits() {
        let permits = ProviderPermits::default();
        let account = holder("one-live", 1);
        let mut held = fill(&permits, Environment::Live, &account);
        let acquire = || permits.acquire(Kind::Start, Environment::Live, account.clone());
        assert!(acquire().await.is_none());
        let (permit, ()) = tokio::join!(acquire(), async { drop(held.pop()) });
        assert!(permit.is_some());
        drop((permit, held));
        let pool = permits.pool(Kind::Start, Environment::Live);
        let state = pool.state.lock();
        assert!(state.taken == 0 && state.accounts.is_empty());
        assert!(state.merchants.is_empty() && state.pairs.is_empty());
    }

    #[tokio::test]
    async fn those_who_wait_get_permits_in_the_order_of_arrival() {
        let permits = ProviderPermits::default();
        let account = holder("one-live", 1);
        let mut held = fill(&permits, Environment::Live, &account);
        let acquire = || permits.acquire(Kind::Start, Environment::Live, account.clone());
        let (mut first, mut second) = (pin!(acquire()), pin!(acquire()));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        drop(held.pop());
        assert!(second.as_mut().now_or_never().is_none());
        let permit = first.as_mut().now_or_never().flatten();
        assert!(permit.is_some());
        drop(permit);
        assert!(second.as_mut().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn one_who_may_have_none_keeps_no_other_waiting() {
        let permits = ProviderPermits::default();
        let (full, other) = (account("one-live"), account("two-live"));
        let acquire = |of: &Holder| permits.acquire(Kind::Query, Environment::Live, of.clone());
        let all = |of: &Holder| {
            let take = || permits.try_acquire(Kind::Query, Environment::Live, of.clone());
            std::iter::from_fn(take).collect::<Vec<_>>()
        };
        let _held = all(&full);
        let mut others = all(&other);
        let released = async { drop(others.pop()) };
        let (first, second, ()) = tokio::join!(acquire(&full), acquire(&other), released);
        assert!(first.is_none() && second.is_some());
    }
}
