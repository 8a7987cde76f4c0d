//! Fuzzing targets: functions over bytes that panic where a rule is broken.
//!
//! Under libFuzzer `run` feeds them with what reaches new code; an ordinary test feeds them with what it
//! kept (`corpus/`) and with the examples that it began with (`seeds/`).
//!
//! | Target | Drives |
//! |---|---|
//! | `router` | the public listener's routes: merchants' API, callbacks, pages |
//! | `callback` | the function `callback` of each provider module, with answers of its vendor |
//! | `reseller` | the resellers' routes with signatures right and wrong |
//! | `sandbox` | the sandbox's payer pages |
//! | `admin` | the admin API with an operator's token of each role |
//! | `configuration` | a folder of configuration, as `config check` and `serve` read it |
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::allow_attributes,
    reason = "a panic is how a target says what is wrong"
)]

mod admin;
mod callback;
mod configuration;
pub mod corpus;
mod modules;
mod reseller;
mod router;
mod rules;
mod sandbox;
mod talk;
mod world;

/// A target: its name, and what is done with each input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("router", router::run),
    ("callback", callback::run),
    ("reseller", reseller::run),
    ("sandbox", sandbox::run),
    ("admin", admin::run),
    ("configuration", configuration::run),
];

/// Longest input: more finds nothing new and costs time.
pub const LONGEST: usize = 4096;
