//! The embedded store, on `kassette-engine`. What a kind of record has, its operations, its reads and what
//! must hold of its rows, stands in one folder.
//!
//! | folder or file | holds |
//! |---|---|
//! | `payments` | payments with their attempts, timers, timelines, pending callbacks, the work list |
//! | `webhooks` | endpoints, and events on their way to them |
//! | `merchants` | merchants, API keys, operators, account switches |
//! | `resellers` | resellers, invitations, delegations, consent codes |
//! | `connect` | connect codes and exchanges |
//! | `nonces`, `audit` | nonces of signed requests; the audit log |
//! | `routing_log` | routing decisions for replay |
//! | `trials` | what is counted of versions on trial |
//! | `retention`, `upkeep`, `cluster` | what is forgotten with time; `Upkeep`; `Cluster` |
//! | `mark` | that nothing may be served from a store that was moved |
//! | `store`, `open`, `start` | the store on its engine; its folder and key; starting |
//! | `memory` | what stands in memory beside the rows: the payment index, nonces, leases, payments as last read |
//! | `lists` | pages of lists |
//! | `verifier` | how a store is read through from end to end |
//! | `maintenance` | backups, restoring, verifying, compacting, another master key |

mod audit;
mod cluster;
mod connect;
mod lists;
pub mod maintenance;
pub(crate) mod mark;
pub(crate) mod memory;
mod merchants;
mod modules;
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
