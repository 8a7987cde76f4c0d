//! The embedded store: sled 0.34 behind one writing thread.
//!
//! | file | holds |
//! |---|---|
//! | `open`, `durable` | opening, and what makes a write survive a crash of the machine |
//! | `tail`, `segment` | where sled's log ends, so that no cut at a start costs any of it; how it is written |
//! | `engine`, `flush_watchdog` | the open database, and how the store goes on after a disk that failed |
//! | `applier`, `operation`, `inbox`, `stats` | the writing thread: groups of operations, one write and one sync each |
//! | `journal`, `checkpoint`, `waiting` | the log that makes a group durable; the database behind it; callers |
//! | `payment_index`, `payment_index_rows` | every payment in memory, by what it is found, and the rows of that |
//! | `payment_cache` | payments as they were last read |
//! | `memtable` | rows as they are on the disk: the database, and above it what the log alone has |
//! | `source`, `span` | where rows are read, and ranges of keys |
//! | `rows`, `view` | rows as an operation sees them, and as a read from outside does |
//! | `schema`, `records`, `seal`, `stored` | where a row stands, how it is written, what is sealed |
//! | `aggregates`, `create`, `step`, `pending_callbacks`, `timers`, `works`, `audits`, `retention` | operations on payments |
//! | `directory`, `api_keys`, `operators` | operations on merchants, keys, operators |
//! | `connects` | connect codes and exchanges |
//! | `nonces`, `taken_nonces` | nonces of signed requests that are taken |
//! | `resellers`, `invitations`, `invitation_rows`, `delegations`, `consent_codes` | resellers, and what merchants grant them |
//! | `outbox`, `endpoints`, `roster`, `deliver`, `claims` | events on their way to webhooks |
//! | `payments`, `search`, `deliveries`, `reselling`, `lists`, `store`, `upkeep` | the traits |
//! | `commit_stream`, `maintenance` | backups, restoring, verifying, compacting, another master key |

mod aggregates;
mod api_keys;
mod applier;
mod audits;
mod checkpoint;
mod claims;
mod commit_stream;
mod connects;
mod consent_codes;
mod create;
mod delegations;
mod deliver;
mod deliveries;
mod directory;
mod durable;
mod endpoints;
mod engine;
mod flush_watchdog;
mod inbox;
mod invitation_rows;
mod invitations;
mod journal;
mod lists;
pub mod maintenance;
mod memtable;
mod nonces;
mod open;
mod operation;
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
mod rows;
mod schema;
mod seal;
mod search;
mod segment;
mod source;
mod span;
mod stats;
mod step;
mod store;
mod stored;
mod tail;
mod taken_nonces;
mod timers;
mod upkeep;
mod view;
mod waiting;
mod works;

#[cfg(test)]
mod tests;

pub use open::{OpenError, OpenOptions};
pub use seal::{MasterKey, NotAMasterKey};
#[cfg(any(test, feature = "suite"))]
pub use stats::Took;
pub use store::{Counters, SledStore};

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
