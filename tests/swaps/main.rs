//! Modules under load: replaced every 50 ms while payments flow, and called on a machine that has
//! other work to do.
//!
//! How long each takes is set by the environment: `KASSETTE_SWAPS_SECONDS` and
//! `KASSETTE_BUSY_SECONDS` (30 and 60 in the long form of `.ci/run`, fewer without; swaps 600 by hand).
//! Rates and memory are printed; what is asserted holds on a slow machine too.
//!
//! | file | holds |
//! |---|---|
//! | `swaps` | two versions that answer differently, in turn, under load |
//! | `busy` | four busy loops beside the gateway |
//! | `versions` | the two versions, and what each must answer |
//! | `traffic` | who asks, and the metrics and memory of who is asked |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    clippy::allow_attributes
)]

#[path = "../e2e/browser.rs"]
mod browser;
#[path = "../e2e/harness.rs"]
mod harness;
#[path = "../e2e/steps.rs"]
mod steps;
#[path = "../../host/runtime/tests/support/mod.rs"]
mod support;

mod busy;
mod swaps;
mod traffic;
mod versions;

use std::time::Duration;

use tokio::sync::Mutex;

/// A rate that no machine's load can meet: a 429 would say nothing about modules.
const NO_LIMIT: u32 = 1_000_000;

/// Both tests want the machine for themselves.
static ALONE: Mutex<()> = Mutex::const_new(());

/// How long a test goes on.
fn length(variable: &str, usual: u64) -> Duration {
    let set = std::env::var(variable).ok();
    Duration::from_secs(set.map_or(usual, |set| set.parse().unwrap()))
}
