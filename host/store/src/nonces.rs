//! Nonces of resellers' signed requests.

use kassette_domain::id::ResellerId;
use kassette_domain::signing::Nonce;
use kassette_domain::time::Time;

use crate::StoreFuture;

/// A nonce that a request wants for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Whose request it is: nonces are a space of their own for each reseller.
    pub reseller: ResellerId,
    pub nonce: Nonce,
    /// From when on it is free again.
    pub until: Time,
    /// Most nonces that this reseller may have taken at once.
    pub at_most: usize,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is this request's, and no other's until then.
    Fresh,
    /// Another request has it.
    Used,
    /// The reseller has as many taken as it may; nothing was written.
    Full {
        /// When the next of any reseller's becomes free.
        next: Time,
    },
}

/// Nonces that are taken.
pub trait Nonces: Send + Sync {
    /// Takes a nonce: of all who ask for it, at any concurrency, before and after a crash, exactly one
    /// hears `Fresh` until its time has passed. What is free by the time of one request is forgotten; one
    /// that asks at an earlier time hears [`crate::Fault::Unavailable`] for as long as what was forgotten
    /// would still be taken, so that a clock that goes ahead and comes back frees nothing early.
    fn reserve_nonce(&self, reservation: Reservation, now: Time) -> StoreFuture<'_, Reserved>;
}
