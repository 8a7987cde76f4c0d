//! Connections kept for the next request to the same host.
//!
//! An address was filtered when its connection was made, so a kept connection needs no new look.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use crate::connect::Sender;

/// Idle connections kept per host: more than one payment needs at once, little enough for vendors.
const MAX_IDLE_PER_HOST: usize = 8;
/// Hosts with kept connections; beyond that new ones are closed after use.
const MAX_HOSTS: usize = 256;
/// A connection idle for longer is closed: many servers close theirs after 60 s.
const MAX_IDLE: Duration = Duration::from_secs(45);
/// A request that changes something only takes a connection used this recently, so that it hardly
/// ever meets one which the server is closing and has to be called "may have left".
const RECENT: Duration = Duration::from_secs(5);

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(String);

impl Origin {
    pub(crate) fn of(url: &Url) -> Self {
        Self(url.origin().ascii_serialization())
    }
}

struct Idle {
    sender: Sender,
    since: Instant,
}

/// Bounded, and swept whenever something is put in.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<HashMap<Origin, Vec<Idle>>>,
}

impl Pool {
    /// A usable kept connection; for a request that changes something, a recently used one.
    pub(crate) fn take(&self, origin: &Origin, mutating: bool) -> Option<Sender> {
        let patience = if mutating { RECENT } else { MAX_IDLE };
        let mut all = self.lock();
        let kept = all.get_mut(origin)?;
        while let Some(idle) = kept.pop() {
            if idle.since.elapsed() > patience || !idle.sender.is_usable() {
                continue;
            }
            let Sender::H2(shared) = &idle.sender else {
                return Some(idle.sender);
            };
            let sender = Sender::H2(shared.clone());
            // Not renewed before it has answered: a peer that went away would be asked for ever.
            kept.push(idle);
            return Some(sender);
        }
        None
    }

    /// Keeps a connection that has answered, unless there are enough. Of shared ones the last to
    /// answer is kept: another may be dead without anybody knowing.
    pub(crate) fn put(&self, origin: Origin, sender: Sender) {
        let mut all = self.lock();
        all.retain(|_, kept| {
            kept.retain(|idle| idle.since.elapsed() <= MAX_IDLE && idle.sender.is_usable());
            !kept.is_empty()
        });
        if all.len() >= MAX_HOSTS && !all.contains_key(&origin) {
            return;
        }
        let kept = all.entry(origin).or_default();
        let shared = matches!(sender, Sender::H2(_));
        let idle = Idle {
            sender,
            since: Instant::now(),
        };
        if let (true, Some(known)) = (shared, kept.last_mut()) {
            *known = idle;
        } else if kept.len() < MAX_IDLE_PER_HOST {
            kept.push(idle);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Idle>>> {
        // A panic elsewhere cannot leave a half-made map: every change is one call.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
