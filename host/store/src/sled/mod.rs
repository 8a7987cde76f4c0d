//! The embedded store, on `kassette-engine`. Each kind of record has a folder with its operations, its reads
//! and the checks of its rows.
//!
//! | module | contents |
//! |---|---|
//! | `payments` | payments with their attempts, timers, timelines, pending callbacks, the work list |
//! | `webhooks` | endpoints, and the delivery of events |
//! | `merchants` | merchants, API keys, operators, account switches |
//! | `resellers` | resellers, invitations, delegations, consent codes |
//! | `connect` | connect codes and exchanges |
//! | `movements` | the ledger |
//! | `nonces`, `audit` | nonces of signed requests; the audit log |
//! | `routing_log` | routing decisions for replay |
//! | `trials` | counts of versions on trial |
//! | `retention`, `upkeep`, `cluster` | deletion of expired data; `Upkeep`; `Cluster` |
//! | `mark` | the mark of a moved store, which must not be served |
//! | `store`, `open`, `start` | the store on its engine; its folder and key; starting |
//! | `memory` | data in memory: the payment index, nonces, leases, cached payments |
//! | `lists` | pages of lists |
//! | `verifier` | verification of a whole store |
//! | `maintenance` | backup, restore, verification, compaction, change of the master key |

mod audit;
mod cluster;
mod connect;
mod lists;
pub mod maintenance;
pub(crate) mod mark;
pub(crate) mod memory;
mod merchants;
mod modules;
mod movements;
mod nonces;
pub(crate) mod open;
pub(crate) mod payments;
mod resellers;
mod retention;
mod routing_log;
mod start;
mod store;
mod trials;
mod upkeep;
pub(crate) mod verifier;
pub(crate) mod webhooks;

#[cfg(test)]
mod tests;

pub use crate::rows::seal::{MasterKey, NotAMasterKey};
pub use open::{OpenError, OpenOptions};
pub use store::SledStore;

pub use kassette_engine::{Counters, Took};
