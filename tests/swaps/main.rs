//! Modules under load: replaced every 50 ms while payments run, and called on a busy machine.
//!
//! The environment variables `KASSETTE_SWAPS_SECONDS` and `KASSETTE_BUSY_SECONDS` set the duration of the tests
//! (30 and 60 in the long form of `.ci/run`, 8 and 10 in the short one, 600 for swaps by hand). Rates and memory
//! are printed; the assertions also hold on a slow machine.
//!
//! | file | contents |
//! |---|---|
//! | `swaps` | two versions that respond differently, swapped under load |
//! | `busy` | four busy loops next to the gateway |
//! | `versions` | the two kinds of versions and their responses |
//! | `traffic` | callers, and the gateway's metrics and memory |
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

/// A rate limit that no load can reach, because status 429 would say nothing about modules.
const NO_LIMIT: u32 = 1_000_000;

/// Held by each test, because both need the machine to themselves.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Duration of a test: the environment variable, or the default, in seconds.
fn length(variable: &str, usual: u64) -> Duration {
    let set = std::env::var(variable).ok();
    Duration::from_secs(set.map_or(usual, |set| set.parse().unwrap()))
}
