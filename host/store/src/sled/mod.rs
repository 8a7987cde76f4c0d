//! The embedded store, on `kassette-engine`.
//!
//! | file | holds |
//! |---|---|
//! | `store`, `open` | the store on its engine; opening |
//! | `memory`, `payment_index`, `payment_index_rows` | what stands in memory beside the rows; every payment in memory, by what it is found, and the rows of that |
//! | `payment_cache` | payments as they were last read |
//! | `source` | where rows are read and written |
//! | `schema`, `records`, `seal`, `stored` | where a row stands, how it is written, what is sealed |
//! | `aggregates`, `create`, `step`, `pending_callbacks`, `timers`, `works`, `audits`, `retention` | operations on payments |
//! | `directory`, `api_keys`, `operators` | operations on merchants, keys, operators |
//! | `connects` | connect codes and exchanges |
//! | `nonces`, `taken_nonces` | nonces of signed requests that are taken |
//! | `resellers`, `invitations`, `invitation_rows`, `delegations`, `consent_codes` | resellers, and what merchants grant them |
//! | `outbox`, `endpoints`, `roster`, `deliver`, `claims` | events on their way to webhooks |
//! | `payments`, `search`, `deliveries`, `reselling`, `lists`, `upkeep` | the traits |
//! | `maintenance` | backups, restoring, verifying, compacting, another master key |

mod aggregates;
mod api_keys;
mod audits;
mod claims;
mod connects;
mod consent_codes;
mod create;
mod delegations;
mod deliver;
mod deliveries;
mod directory;
mod endpoints;
mod invitation_rows;
mod invitations;
mod lists;
pub mod maintenance;
mod memory;
mod nonces;
mod open;
mod operators;
mod outbox;
mod payment_cache;
mod payment_index;
mod payment_index_rows;
mod payments;
mod pending_callbacks;
mod records;
mod resellers;
mod reselling;
mod retention;
mod roster;
mod schema;
mod seal;
mod search;
mod source;
mod step;
mod store;
mod stored;
mod taken_nonces;
mod timers;
mod upkeep;
mod works;

#[cfg(test)]
mod tests;

pub use open::{OpenError, OpenOptions};
pub use seal::{MasterKey, NotAMasterKey};
pub use store::SledStore;

pub use kassette_engine::Counters;
#[cfg(any(test, feature = "suite"))]
pub use kassette_engine::Took;

use kassette_domain::key::TokenHash;
use kassette_domain::payment::{Payment, Request};

use payment_index::Fingerprint;

/// What seals and marks.
struct Secrets {
    sealer: seal::Sealer,
    marker: seal::Marker,
}

impl Secrets {
    /// The keyed hash of a request's address.
    fn email_mark(&self, request: &Request) -> Option<[u8; 32]> {
        request.email.as_ref().map(|email| self.marker.email(email))
    }

    /// By what a payment is found.
    fn marks(&self, payment: &Payment) -> [Fingerprint; 3] {
        [
            self.marker.reference(payment.merchant, &payment.origin),
            seal::fingerprint(TokenHash::of(payment.token.expose()).0),
            self.marker.order(payment.order_id.as_str()),
        ]
    }
}
