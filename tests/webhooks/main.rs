//! Deliveries under load: many receivers, a third of them hostile, a gateway that is killed on the way.
//!
//! The size is set by the environment: `KASSETTE_WEBHOOK_EVENTS` (20,000 in the long form of `.ci/run`,
//! less without), and `KASSETTE_WEBHOOK_PROBES` for the events whose delays are compared beside so many silent receivers
//! as `KASSETTE_WEBHOOK_SILENT` says.
//! Delays are printed, with the conditions; only what no slow machine can explain is asserted.
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
