//! Every provider module through the real binary: payers, callbacks, refunds and failures, each checked against
//! the simulator's books and the payment in the admin API.
//!
//! Most tests run for each module that `dev` configures, so a new module is tested by all of them. `table` lists
//! the features that a provider lacks, with the reason; the tests then assert the alternative.
//! `KASSETTE_MODULES=stripe,mollie` runs only these modules.
//!
//! | file | holds |
//! |---|---|
//! | `paying` | approve, decline, review, pending, capture, questions |
//! | `ending` | expiry, an operator's cancel, another method chosen |
//! | `news` | callbacks that are lost, late, repeated, forged, replayed, misdirected or in the wrong order |
//! | `money` | wrong amounts, money after the end, refunds, disputes, the work list and its commands |
//! | `refunds` | refunds through our API: full, partial, with lost responses and failures |
//! | `prompt` | time from a provider's callback to the paid order |
//! | `replayed` | recorded calls of each module, replayed |
//! | `payloads` | payloads of the real providers, replayed |
//! | `restored` | payments that a store restored from a backup does not contain |
//! | `fallback` | thousands of payments while the first account fails in every way and the gateway is killed |
//! | `books` | random payments with everything that moves money, and the ledger against the books |
//! | `world`, `visit`, `tap`, `table` | server and shops; a payer's steps; a callback proxy; missing features |
//!
//! `KASSETTE_FALLBACK_PAYMENTS` and `KASSETTE_BOOKS_PAYMENTS` set the numbers of payments of these tests, and
//! `KASSETTE_PROMPT_PAYMENTS` the number per module in `prompt`.
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
#[path = "../crash/seeded_random.rs"]
mod seeded_random;
#[path = "../e2e/steps.rs"]
mod steps;

mod books;
mod ending;
mod fallback;
mod money;
mod news;
mod paying;
mod payloads;
mod prompt;
mod refunds;
mod replayed;
mod restored;
mod table;
mod tap;
mod visit;
mod world;
