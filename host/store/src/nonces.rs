//! Nonces of resellers' signed requests.

use kassette_domain::id::ResellerId;
use kassette_domain::signing::Nonce;
use kassette_domain::time::Time;

use crate::StoreFuture;

/// A request's reservation of a nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The reseller of the request. Each reseller has a separate space of nonces.
    pub reseller: ResellerId,
    pub nonce: Nonce,
    /// Time at which the nonce is free again.
    pub until: Time,
    /// Maximum number of nonces that this reseller may have in use.
    pub at_most: usize,
}

/// Result of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Reserved for this request until its time.
    Fresh,
    /// Another request has used it.
    Used,
    /// The reseller has reached its limit. Nothing was written.
    Full {
        /// Time at which the next nonce of any reseller becomes free.
        next: Time,
    },
}

/// Nonces in use.
pub trait Nonces: Send + Sync {
    /// Reserves a nonce. Of all requests with the same nonce, at any concurrency, before and after a crash,
    /// exactly one gets `Fresh` until the nonce expires. Nonces that have expired at the time of one request
    /// are deleted. A request with an earlier time gets [`crate::Fault::Unavailable`] while deleted nonces
    /// would still be in use at that time, so that a clock that was ahead and is set back frees no nonce
    /// early.
    fn reserve_nonce(&self, reservation: Reservation, now: Time) -> StoreFuture<'_, Reserved>;
}
