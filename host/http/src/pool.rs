//! Connections kept for the next request to the same host.
//!
//! Addresses are filtered when a connection is opened and not checked again. No connection is kept for long,
//! because names change their addresses and certificates expire.
//!
//! Decided 2026-11-27: not the pool of `hyper-util`'s client. It limits the idle connections per host and their
//! idle time, but neither the age of a connection nor the total number, and it cannot reserve recently used
//! connections for requests that change something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use url::Url;

use crate::connect::{Connection, Sender};

/// Maximum number of idle connections per host: as many as the calls to one provider at a time under load, so that
/// none of them needs a new connection. They are closed after [`MAX_IDLE`].
const MAX_IDLE_PER_HOST: usize = 64;
/// One host may keep at most 1/`HOSTS` of all idle connections.
const HOSTS: usize = 4;
/// Maximum number of idle connections. Beyond it, connections are closed after use.
const MAX_KEPT: u64 = 2048;
/// At most one in this many of the process's file descriptors is used for an idle connection. The others are for
/// active work.
const FILES_PER_KEPT: u64 = 32;
/// Maximum idle time. Many servers close their end after 60 s.
const MAX_IDLE: Duration = Duration::from_secs(45);
/// Maximum age of a connection for new requests, even if it is busy. The next connection resolves the name and
/// checks the certificate again.
const MAX_AGE: Duration = Duration::from_secs(90);
/// Maximum idle time of a connection for a request that changes something. A server rarely closes such a
/// connection at that moment, which would leave it unknown whether the request was sent.
const RECENT: Duration = Duration::from_secs(5);
/// Minimum time between two sweeps, so that connections which expire shortly after each other need only one.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);

/// Limits on kept connections.
#[derive(Clone, Copy)]
struct PoolLimits {
    kept: usize,
    per_host: usize,
    idle: Duration,
    age: Duration,
    between_sweeps: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept = (files / FILES_PER_KEPT).min(MAX_KEPT);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        Self {
            kept,
            per_host: (kept / HOSTS).min(MAX_IDLE_PER_HOST),
            idle: MAX_IDLE,
            age: MAX_AGE,
            between_sweeps: BETWEEN_SWEEPS,
        }
    }
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(String);

impl Origin {
    pub(crate) fn from_url(url: &Url) -> Self {
        Self(url.origin().ascii_serialization())
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Idle {
    /// Time at which the connection is closed at the latest.
    fn ends(&self, limits: PoolLimits) -> Instant {
        (self.since + limits.idle).min(self.connection.made + limits.age)
    }

    fn is_good(&self, now: Instant, limits: PoolLimits) -> bool {
        now < self.ends(limits) && self.connection.sender.is_usable()
    }
}

/// Bounded set of idle connections. A task sweeps it as long as it is not empty.
#[derive(Default)]
pub(crate) struct Pool {
    limits: PoolLimits,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    idle: HashMap<Origin, Vec<Idle>>,
    sweeper: Option<JoinHandle<()>>,
}

impl Pool {
    /// Returns a usable kept connection. If `mutating`, only a connection that was used within [`RECENT`].
    pub(crate) fn take(&self, origin: &Origin, mutating: bool) -> Option<Connection> {
        let limits = self.limits;
        let patience = if mutating { RECENT } else { limits.idle };
        let now = Instant::now();
        let mut all = self.lock();
        let kept = all.idle.get_mut(origin)?;
        while let Some(idle) = kept.pop() {
            if now.duration_since(idle.since) > patience || !idle.is_good(now, limits) {
                continue;
            }
            let Sender::H2(shared) = &idle.connection.sender else {
                return Some(idle.connection);
            };
            let connection = Connection {
                sender: Sender::H2(shared.clone()),
                made: idle.connection.made,
            };
            // `since` is renewed only by a response. Otherwise a vanished peer would get requests forever.
            kept.push(idle);
            return Some(connection);
        }
        None
    }

    /// Keeps a connection that has responded, unless it is too old or a limit is reached. Of HTTP/2 connections to
    /// one host, the last to respond replaces the other, which may be dead.
    pub(crate) fn put(self: &Arc<Self>, origin: Origin, connection: Connection) {
        let (now, limits) = (Instant::now(), self.limits);
        let idle = Idle {
            connection,
            since: now,
        };
        if !idle.is_good(now, limits) {
            return;
        }
        let mut all = self.lock();
        let mut is_full = all.is_full(limits);
        if is_full {
            all.sweep(now, limits);
            is_full = all.is_full(limits);
        }
        let first_look = idle.ends(limits);
        let shared = matches!(idle.connection.sender, Sender::H2(_));
        match all.idle.get_mut(&origin).and_then(|kept| kept.last_mut()) {
            Some(known) if shared => *known = idle,
            _ if is_full => return,
            _ => {
                let kept = all.idle.entry(origin).or_default();
                kept.retain(|idle| idle.is_good(now, limits));
                if kept.len() < limits.per_host {
                    kept.push(idle);
                }
            }
        }
        if all.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            let sweeps = sweep(Arc::downgrade(self), first_look);
            all.sweeper = Some(tokio::spawn(sweeps));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A panic cannot leave the map in an inconsistent state: every change is a single call.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_full(&self, limits: PoolLimits) -> bool {
        let kept: usize = self.idle.values().map(Vec::len).sum();
        kept >= limits.kept
    }

    /// Closes expired connections. Returns the time at which the next one expires, `None` if the pool is empty.
    fn sweep(&mut self, now: Instant, limits: PoolLimits) -> Option<Instant> {
        let mut next = None::<Instant>;
        self.idle.retain(|_, kept| {
            kept.retain(|idle| idle.is_good(now, limits));
            let ends = kept.iter().map(|idle| idle.ends(limits));
            next = next.into_iter().chain(ends).min();
            !kept.is_empty()
        });
        next
    }
}

/// Sweeps until the pool is empty or dropped.
async fn sweep(pool: Weak<Pool>, first_look: Instant) {
    let mut look = first_look;
    loop {
        sleep_until(look).await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        let now = Instant::now();
        let mut all = pool.lock();
        let Some(next) = all.sweep(now, pool.limits) else {
            // The next `put` starts another sweeper.
            all.sweeper = None;
            return;
        };
        look = next.max(now + pool.limits.between_sweeps);
    }
}

impl Sender {
    fn is_usable(&self) -> bool {
        match self {
            Self::H1(sender) => sender.is_ready(),
            Self::H2(sender) => !sender.is_closed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::connect::{h1, h2};

    const SHORT: Duration = Duration::from_millis(20);
    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(3600);

    fn pool(idle: Duration, age: Duration) -> Arc<Pool> {
        Arc::new(Pool {
            limits: PoolLimits {
                kept: 4,
                per_host: 2,
                idle,
                age,
                between_sweeps: Duration::from_millis(1),
            },
            kept: Mutex::default(),
        })
    }

    /// A new connection and its other end.
    async fn made(shared: bool) -> (Connection, DuplexStream) {
        let (ours, theirs) = duplex(64 * 1024);
        let made = Instant::now();
        let mut sender = if shared {
            h2(Box::new(ours)).await.unwrap()
        } else {
            h1(Box::new(ours)).await.unwrap()
        };
        if let Sender::H1(sender) = &mut sender {
            sender.ready().await.unwrap();
        }
        (Connection { sender, made }, theirs)
    }

    fn origin(name: &str) -> Origin {
        Origin::from_url(&format!("https://{name}/").parse().unwrap())
    }

    /// Waits until a connection is closed.
    async fn closed(mut theirs: DuplexStream) {
        let mut heard = Vec::new();
        let end = timeout(Duration::from_secs(60), theirs.read_to_end(&mut heard)).await;
        end.expect("it is closed").unwrap();
    }

    fn is_empty(pool: &Pool) -> bool {
        let all = pool.lock();
        all.idle.is_empty() && all.sweeper.is_none()
    }

    #[tokio::test]
    async fn a_connection_gets_no_request_beyond_its_age_however_busy_it_is() {
        for shared in [false, true] {
            let pool = pool(LONG, SHORT * 10);
            let shop = origin("shop.example");
            let (connection, _theirs) = made(shared).await;
            let made = connection.made;
            pool.put(shop.clone(), connection);
            loop {
                let asked = Instant::now();
                let Some(connection) = pool.take(&shop, true) else {
                    break;
                };
                assert!(asked - made < SHORT * 10);
                pool.put(shop.clone(), connection);
                tokio::task::yield_now().await;
            }
            assert!(made.elapsed() >= SHORT * 10);
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_too_old_when_it_has_answered_is_not_kept() {
        let pool = pool(LONG, Duration::ZERO);
        let (connection, theirs) = made(false).await;
        pool.put(origin("shop.example"), connection);
        assert!(is_empty(&pool));
        closed(theirs).await;
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_are_closed_whatever_hosts_they_are_to() {
        let pool = pool(LONG, LONG);
        let mut kept = Vec::new();
        for name in ["a.example", "b.example"] {
            for _ in 0..2 {
                let (connection, theirs) = made(false).await;
                pool.put(origin(name), connection);
                kept.push(theirs);
            }
        }
        for name in ["a.example", "c.example"] {
            let (connection, theirs) = made(false).await;
            pool.put(origin(name), connection);
            closed(theirs).await;
        }
        assert!(pool.take(&origin("a.example"), true).is_some());
        let (connection, _theirs) = made(false).await;
        pool.put(origin("c.example"), connection);
        assert!(pool.take(&origin("c.example"), true).is_some());
    }

    #[tokio::test]
    async fn one_host_leaves_room_for_others() {
        let pool = pool(LONG, LONG);
        let mut kept = Vec::new();
        for _ in 0..pool.limits.per_host {
            let (connection, theirs) = made(false).await;
            pool.put(origin("a.example"), connection);
            kept.push(theirs);
        }
        let (connection, theirs) = made(false).await;
        pool.put(origin("a.example"), connection);
        closed(theirs).await;
        let (connection, _theirs) = made(false).await;
        pool.put(origin("b.example"), connection);
        assert!(pool.take(&origin("b.example"), true).is_some());
    }

    #[tokio::test]
    async fn idle_connections_are_closed_when_no_traffic_sweeps_them() {
        for shared in [false, true] {
            let pool = pool(SHORT, LONG);
            // In the second round, the sweeper of the first has ended.
            for _ in 0..2 {
                let (first, first_end) = made(shared).await;
                pool.put(origin("a.example"), first);
                let (second, second_end) = made(shared).await;
                pool.put(origin("b.example"), second);
                closed(first_end).await;
                closed(second_end).await;
                assert!(is_empty(&pool));
            }
        }
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_at_its_age_before_it_has_been_idle_for_long() {
        let pool = pool(LONG, SHORT);
        let (connection, theirs) = made(false).await;
        pool.put(origin("shop.example"), connection);
        closed(theirs).await;
        assert!(is_empty(&pool));
    }
}
