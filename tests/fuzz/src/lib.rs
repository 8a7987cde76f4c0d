//! Fuzzing targets: functions of bytes that panic if a rule is broken.
//!
//! With libFuzzer, `run` calls them with inputs that reach new code. An ordinary test calls them with the inputs
//! found so far (`corpus/`) and with the seeds (`seeds/`).
//!
//! | Target | Code under test |
//! |---|---|
//! | `router` | the public listener's routes: merchants' API, callbacks, pages |
//! | `callback` | the function `callback` of each provider module, with responses of its vendor |
//! | `reseller` | the resellers' routes with valid and invalid signatures |
//! | `sandbox` | the sandbox's payer pages |
//! | `admin` | the admin API with tokens of each operator role |
//! | `answers-stripe` etc. | the function `query` of one provider module, with responses of its vendor |
//! | `configuration` | a configuration folder, as `config check` and `serve` read it |
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
mod answers;
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

/// A target: its name, and the function for each input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 15] = [
    ("router", router::run),
    ("callback", callback::run),
    ("reseller", reseller::run),
    ("sandbox", sandbox::run),
    ("admin", admin::run),
    ("configuration", configuration::run),
    ("answers-adyen", answers::adyen),
    ("answers-btcpay", answers::btcpay),
    ("answers-mollie", answers::mollie),
    ("answers-paypal", answers::paypal),
    ("answers-paysafe", answers::paysafe),
    ("answers-razorpay", answers::razorpay),
    ("answers-revolut", answers::revolut),
    ("answers-sandbox", answers::sandbox),
    ("answers-stripe", answers::stripe),
];

/// Maximum bytes of an input for most targets. Longer inputs cost time and reach no new code.
pub const LONGEST: usize = 4096;
