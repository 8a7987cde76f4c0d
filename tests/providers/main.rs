//! Every provider module through the real binary: its payer, its callbacks, its refunds, its failures,
//! each judged by the simulator's books and by the payment as operators see it.
//!
//! The tests are tables over the modules that `dev` configures: a module that is added is tried in all
//! of them at once. What a vendor does not have stands with its reason in `table`, and the test shows
//! what holds instead. `KASSETTE_MODULES=stripe,mollie` tries these alone.
//!
//! | file | holds |
//! |---|---|
//! | `paying` | approve, decline, review, pending, capture, questions |
//! | `ending` | expiry, an operator's cancel, another method chosen |
//! | `news` | callbacks lost, late, twice, forged, replayed, misdirected, in the wrong order |
//! | `money` | wrong amounts, money after the end, refunds, disputes, the work list and its commands |
//! | `refunds` | money given back through our API: all of it, parts, lost answers, failures |
//! | `prompt` | how soon after a vendor's notice a payment is a paid order |
//! | `replayed` | recorded calls of each module, made again |
//! | `restored` | payments of which a store that was restored from a backup knows nothing |
//! | `fallback` | thousands of payments while the first in rank fails in every way and the gateway is killed |
//! | `world`, `visit`, `tap`, `table` | the server with its shops; a payer's way; a wiretap on callbacks; what vendors lack |
//!
//! `KASSETTE_FALLBACK_PAYMENTS` says how many payments `fallback` starts, `KASSETTE_PROMPT_PAYMENTS` how many
//! of each module `prompt` does.
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
#[path = "../e2e/receiver.rs"]
mod receiver;
#[path = "../e2e/steps.rs"]
mod steps;

mod ending;
mod fallback;
mod money;
mod news;
mod paying;
mod prompt;
mod refunds;
mod replayed;
mod restored;
mod table;
mod tap;
mod visit;
mod world;
