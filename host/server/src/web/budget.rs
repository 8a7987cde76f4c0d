//! Limits the bytes that peers make this process hold: heads and bodies of unanswered requests, and responses that
//! have not been received.
//!
//! Each connection has a small allowance. Bytes beyond that count against the address and against a budget of the
//! listener, of which unauthenticated senders may use half. An address may hold at most as many bytes as are free,
//! so that another address always finds some. A request is rejected if a budget is exhausted, even while its body
//! arrives. A response that has started is never aborted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Gauge};
use parking_lot::Mutex;

use super::marks::Credential;
use crate::proxies::subscriber;

/// Allowance of a connection, in bytes. An ordinary request does not need more.
pub(crate) const OWN: usize = 16 << 10;

/// The byte budgets of a listener.
#[derive(Clone)]
pub(crate) struct ByteBudget(Arc<Mutex<State>>);

struct State {
    per_address: usize,
    overall: usize,
    addresses: HashMap<IpAddr, usize>,
    held: usize,
    /// Part of `held` that unauthenticated senders hold.
    anonymous: usize,
    reserved: Gauge,
    refused: Counter,
}

impl State {
    /// Maximum number of bytes that an address may hold if it reserves `more` now. At most as many as are then
    /// free.
    fn most(&self, more: usize, anonymous: bool) -> usize {
        let free = self.overall.saturating_sub(self.held + more);
        let most = self.per_address.min(free);
        match anonymous {
            true => most.min((self.overall / 2).saturating_sub(self.anonymous + more)),
            false => most,
        }
    }
}

/// The sender, or its class of requests, has reached the limit for requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are in hand for this sender")]
pub(crate) struct Overloaded;

impl ByteBudget {
    /// Budgets in bytes for each address and for the listener.
    pub(crate) fn new(per_address: usize, overall: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            per_address,
            overall,
            addresses: HashMap::new(),
            held: 0,
            anonymous: 0,
            reserved: metrics::gauge!("kassette_http_held_bytes"),
            refused: metrics::counter!("kassette_http_budget_refusals_total"),
        })))
    }

    /// Returns the budget of a new connection.
    pub(crate) fn connection(&self) -> ConnectionBudget {
        ConnectionBudget {
            budget: self.clone(),
            own: Arc::new(Mutex::new(OWN)),
        }
    }
}

/// Budget of a connection.
#[derive(Clone)]
pub(crate) struct ConnectionBudget {
    budget: ByteBudget,
    /// Remaining bytes of the connection's allowance.
    own: Arc<Mutex<usize>>,
}

impl ConnectionBudget {
    /// Creates a reservation for a request or response of a client. On a connection from a trusted proxy, `client`
    /// is the client behind the proxy.
    pub(crate) fn reservation(&self, client: IpAddr, anonymous: bool) -> Reservation {
        Reservation {
            connection: self.clone(),
            client,
            credential: OnceLock::new(),
            address: subscriber(client),
            sum: Mutex::new(Held {
                own: 0,
                shared: 0,
                anonymous,
            }),
        }
    }
}

/// Bytes held by a request or response, and its client. Dropping it releases the bytes.
pub(crate) struct Reservation {
    connection: ConnectionBudget,
    client: IpAddr,
    credential: OnceLock<Credential>,
    /// The client's address, shortened to the part that is counted.
    address: IpAddr,
    sum: Mutex<Held>,
}

struct Held {
    own: usize,
    shared: usize,
    anonymous: bool,
}

impl Reservation {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// [`Overloaded`]. In that case nothing is reserved.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), Overloaded> {
        self.add(bytes, true)
    }

    /// Reserves the bytes of a response that exists already, regardless of the budget.
    pub(crate) fn charge(&self, bytes: usize) {
        let _always = self.add(bytes, false);
    }

    fn add(&self, bytes: usize, bounded: bool) -> Result<(), Overloaded> {
        let mut sum = self.sum.lock();
        let mut left = self.connection.own.lock();
        let own = bytes.min(*left);
        let shared = bytes - own;
        if shared > 0 {
            let mut state = self.connection.budget.0.lock();
            let reserved = state.addresses.get(&self.address).copied();
            let reserved = reserved.unwrap_or_default() + shared;
            if bounded && reserved > state.most(shared, sum.anonymous) {
                state.refused.increment(1);
                return Err(Overloaded);
            }
            state.addresses.insert(self.address, reserved);
            state.held += shared;
            if sum.anonymous {
                state.anonymous += shared;
            }
            state.reserved.increment(float(shared));
        }
        *left -= own;
        sum.own += own;
        sum.shared += shared;
        Ok(())
    }

    /// Records that the sender of a request with these extensions is authenticated.
    pub(crate) fn mark_authenticated(extensions: &http::Extensions) {
        if let Some(reservation) = extensions.get::<Arc<Self>>() {
            reservation.authenticate();
        }
    }

    /// Records the credential of a request with these extensions. Later calls have no effect.
    pub(crate) fn note_credential(extensions: &http::Extensions, credential: Credential) {
        if let Some(reservation) = extensions.get::<Arc<Self>>() {
            let _first = reservation.credential.set(credential);
        }
    }

    /// Address of the client.
    pub(crate) const fn client(&self) -> IpAddr {
        self.client
    }

    /// Credential of the sender. `None` if it has not been verified yet.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.credential.get().copied()
    }

    fn authenticate(&self) {
        let mut sum = self.sum.lock();
        if std::mem::take(&mut sum.anonymous) && sum.shared > 0 {
            self.connection.budget.0.lock().anonymous -= sum.shared;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let sum = self.sum.get_mut();
        *self.connection.own.lock() += sum.own;
        if sum.shared == 0 {
            return;
        }
        let mut state = self.connection.budget.0.lock();
        state.reserved.decrement(float(sum.shared));
        state.held -= sum.shared;
        if sum.anonymous {
            state.anonymous -= sum.shared;
        }
        if let Some(reserved) = state.addresses.get_mut(&self.address) {
            *reserved -= sum.shared;
            if *reserved == 0 {
                state.addresses.remove(&self.address);
            }
        }
    }
}

/// Value of a gauge.
#[expect(
    clippy::cast_precision_loss,
    reason = "the sum of all is far below 2^52"
)]
fn float(bytes: usize) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER_ADDRESS: usize = 4 << 20;
    const OVERALL: usize = 128 << 20;
    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn an_address_holds_so_many_bytes_and_others_are_not_concerned() {
        let budget = ByteBudget::new(PER_ADDRESS, OVERALL);
        let connection = budget.connection();
        let large = connection.reservation(ONE, false);
        large.reserve(OWN + PER_ADDRESS).unwrap();
        let more = budget.connection().reservation(ONE, false);
        more.reserve(OWN).unwrap();
        assert_eq!(more.reserve(1), Err(Overloaded));
        budget
            .connection()
            .reservation(OTHER, false)
            .reserve(OWN + 1)
            .unwrap();
        drop(large);
        more.reserve(PER_ADDRESS).unwrap();
        drop(more);
        assert!(budget.0.lock().addresses.is_empty());
        assert_eq!(*connection.own.lock(), OWN);
    }

    /// Reserves in parts until the budget is exhausted. Returns the shared bytes reserved.
    fn fill(budget: &ByteBudget, last: u8, anonymous: bool) -> (Reservation, usize) {
        const PART: usize = 64 << 10;
        let address = IpAddr::from([198, 51, 100, last]);
        let filled = budget.connection().reservation(address, anonymous);
        filled.reserve(OWN).unwrap();
        let parts = std::iter::from_fn(|| filled.reserve(PART).ok()).count();
        (filled, parts * PART)
    }

    #[test]
    fn all_together_hold_so_many_bytes_and_one_more_address_finds_some() {
        let budget = ByteBudget::new(PER_ADDRESS, OVERALL);
        let held: Vec<_> = (0..200).map(|last| fill(&budget, last, false)).collect();
        let sum: usize = held.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, budget.0.lock().held);
        assert!((OVERALL / 20 * 19..=OVERALL).contains(&sum), "{sum}");
        assert_eq!(held[0].1, PER_ADDRESS);
        let last = budget.connection().reservation(ONE, false);
        last.reserve(OWN + (8 << 10)).unwrap();
        drop((held, last));
        assert_eq!(budget.0.lock().held, 0);
    }

    #[test]
    fn what_anonymous_senders_hold_takes_nothing_from_one_that_shows_a_credential() {
        let budget = ByteBudget::new(PER_ADDRESS, OVERALL);
        let held: Vec<_> = (0..200).map(|last| fill(&budget, last, true)).collect();
        let sum: usize = held.iter().map(|(_, bytes)| bytes).sum();
        assert!((OVERALL / 20 * 9..=OVERALL / 2).contains(&sum), "{sum}");
        let late = budget.connection().reservation(ONE, true);
        assert_eq!(late.reserve(PER_ADDRESS), Err(Overloaded));
        late.authenticate();
        late.reserve(PER_ADDRESS / 2).unwrap();
        // The bytes of an anonymous sender are available to others after it has authenticated.
        held[0].0.authenticate();
        let next = budget.connection().reservation(OTHER, true);
        next.reserve(PER_ADDRESS / 2).unwrap();
        drop((held, late, next));
        assert_eq!(budget.0.lock().anonymous, 0);
    }

    #[test]
    fn an_answer_that_is_made_is_held_and_bars_what_comes_next() {
        let budget = ByteBudget::new(PER_ADDRESS, OVERALL);
        let answer = budget.connection().reservation(ONE, false);
        answer.charge(OWN + PER_ADDRESS + 1);
        let next = budget.connection().reservation(ONE, false);
        assert_eq!(next.reserve(OWN + 1), Err(Overloaded));
        drop(answer);
        next.reserve(OWN + 1).unwrap();
    }
}
