//! Webhook deliveries under load: many receivers, 30 % of them hostile, and a gateway that is killed several
//! times.
//!
//! Environment variables set the size: `KASSETTE_WEBHOOK_EVENTS` (20,000 in the long form of `.ci/run`, 2,000
//! otherwise), `KASSETTE_WEBHOOK_PROBES` (events whose delays are measured) and `KASSETTE_WEBHOOK_SILENT` (silent
//! receivers during the measurement). Delays are printed; assertions use limits that a slow machine meets too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    clippy::allow_attributes
)]

#[path = "../e2e/harness.rs"]
mod harness;
#[path = "../e2e/receiver.rs"]
mod receiver;

mod crowd;
mod fairness;
mod kills;
