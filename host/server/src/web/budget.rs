//! Bytes that peers make this process hold: heads and bodies that are not answered yet, and answers that
//! are not taken yet.
//!
//! Each connection has a little of its own. What it holds beyond that counts against its address, and,
//! until the sender has shown a credential, against what all strangers share. A request is refused where a
//! budget is used up; nothing that is under way is cut off for it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;

/// Bytes of a connection that count against nothing else. An ordinary request needs no more.
const OWN: usize = 16 << 10;
/// Most bytes of all who have shown no credential.
const STRANGERS: usize = 64 << 20;

/// The budgets of a listener.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Mutex<State>>);

struct State {
    per_address: usize,
    addresses: HashMap<IpAddr, usize>,
    strangers: usize,
    held: Gauge,
    refused: Counter,
}

/// No more bytes may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are in hand for this sender")]
pub(crate) struct UsedUp;

impl Budget {
    /// Each address may hold so many bytes.
    pub(crate) fn new(per_address: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            per_address,
            addresses: HashMap::new(),
            strangers: 0,
            held: metrics::gauge!("kassette_http_held_bytes"),
            refused: metrics::counter!("kassette_http_bytes_refused_total"),
        })))
    }

    /// A connection that holds nothing yet.
    pub(crate) fn connection(&self) -> Connection {
        Connection {
            budget: self.clone(),
            own: Arc::new(Mutex::new(OWN)),
        }
    }
}

/// What a connection holds.
#[derive(Clone)]
pub(crate) struct Connection {
    budget: Budget,
    /// Bytes of its own that are left.
    own: Arc<Mutex<usize>>,
}

impl Connection {
    /// A request or an answer of an address; trusted proxies bring those of many.
    pub(crate) fn held(&self, address: IpAddr, stranger: bool) -> Held {
        Held {
            connection: self.clone(),
            address,
            sum: Mutex::new(Sum {
                own: 0,
                shared: 0,
                stranger,
            }),
        }
    }
}

/// What one request or answer holds; given back on drop.
pub(crate) struct Held {
    connection: Connection,
    address: IpAddr,
    sum: Mutex<Sum>,
}

struct Sum {
    own: usize,
    shared: usize,
    stranger: bool,
}

impl Held {
    /// Holds more.
    ///
    /// # Errors
    /// [`UsedUp`]; nothing more is held then.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), UsedUp> {
        self.add(bytes, true)
    }

    /// Holds an answer that is made already.
    pub(crate) fn owe(&self, bytes: usize) {
        let _always = self.add(bytes, false);
    }

    fn add(&self, bytes: usize, bounded: bool) -> Result<(), UsedUp> {
        let mut sum = self.sum.lock();
        let mut left = self.connection.own.lock();
        let own = bytes.min(*left);
        let shared = bytes - own;
        if shared > 0 {
            let mut state = self.connection.budget.0.lock();
            let held = state.addresses.get(&self.address).copied();
            let held = held.unwrap_or_default() + shared;
            let strangers = state.strangers + if sum.stranger { shared } else { 0 };
            if bounded && (held > state.per_address || (sum.stranger && strangers > STRANGERS)) {
                state.refused.increment(1);
                return Err(UsedUp);
            }
            state.addresses.insert(self.address, held);
            state.strangers = strangers;
            state.held.increment(float(shared));
        }
        *left -= own;
        sum.own += own;
        sum.shared += shared;
        Ok(())
    }

    /// The sender of a request with these extensions has shown a credential.
    pub(crate) fn vouch_for(extensions: &http::Extensions) {
        if let Some(held) = extensions.get::<Arc<Self>>() {
            held.vouch();
        }
    }

    fn vouch(&self) {
        let mut sum = self.sum.lock();
        if std::mem::take(&mut sum.stranger) && sum.shared > 0 {
            self.connection.budget.0.lock().strangers -= sum.shared;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let sum = self.sum.get_mut();
        *self.connection.own.lock() += sum.own;
        if sum.shared == 0 {
            return;
        }
        let mut state = self.connection.budget.0.lock();
        state.held.decrement(float(sum.shared));
        if sum.stranger {
            state.strangers -= sum.shared;
        }
        if let Some(held) = state.addresses.get_mut(&self.address) {
            *held -= sum.shared;
            if *held == 0 {
                state.addresses.remove(&self.address);
            }
        }
    }
}

/// A gauge's value.
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
    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn an_address_holds_so_many_bytes_and_others_are_not_concerned() {
        let budget = Budget::new(PER_ADDRESS);
        let connection = budget.connection();
        let large = connection.held(ONE, false);
        large.take(OWN + PER_ADDRESS).unwrap();
        let more = budget.connection().held(ONE, false);
        more.take(OWN).unwrap();
        assert_eq!(more.take(1), Err(UsedUp));
        budget
            .connection()
            .held(OTHER, false)
            .take(OWN + 1)
            .unwrap();
        drop(large);
        more.take(PER_ADDRESS).unwrap();
        drop(more);
        assert!(budget.0.lock().addresses.is_empty());
        assert_eq!(*connection.own.lock(), OWN);
    }

    #[test]
    fn what_strangers_hold_takes_nothing_from_who_shows_a_credential() {
        let budget = Budget::new(PER_ADDRESS);
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let mut held = Vec::new();
        for last in 0..u8::try_from(STRANGERS / PER_ADDRESS).unwrap() {
            let stranger = budget.connection().held(address(last), true);
            stranger.take(OWN + PER_ADDRESS).unwrap();
            held.push(stranger);
        }
        let late = budget.connection().held(address(100), true);
        assert_eq!(late.take(OWN + 1), Err(UsedUp));
        late.take(OWN).unwrap();
        late.vouch();
        late.take(PER_ADDRESS).unwrap();
        // What one held as a stranger is the strangers' again once a credential is shown.
        held[0].vouch();
        let next = budget.connection().held(address(101), true);
        next.take(OWN + PER_ADDRESS).unwrap();
        drop((held, late, next));
        assert_eq!(budget.0.lock().strangers, 0);
    }

    #[test]
    fn an_answer_that_is_made_is_held_and_bars_what_comes_next() {
        let budget = Budget::new(PER_ADDRESS);
        let answer = budget.connection().held(ONE, false);
        answer.owe(OWN + PER_ADDRESS + 1);
        let next = budget.connection().held(ONE, false);
        assert_eq!(next.take(OWN + 1), Err(UsedUp));
        drop(answer);
        next.take(OWN + 1).unwrap();
    }
}
