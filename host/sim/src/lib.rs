//! Simulated payment providers: books, payer page, faults.
//!
//! A simulator is a real HTTP server on the other side of a socket. It uses a provider's own protocol, has books
//! that survive a kill, shows the payer a page, sends signed callbacks and fails on demand, so that the gateway
//! meets all behaviors of a real provider.
//!
//! Each account has its own API listener (so that its port can really be closed); the payer pages of all accounts
//! share one listener. A provider is one module next to `sandbox` that implements the trait of `vendor`; books,
//! payer page, callbacks and faults are shared.
//!
//! ```text
//! listener (one per account) ─ misbehave (faults) ─ vendor's routes ─ account ─ books ─ journal
//! payer (shared listener) ───────────────────────────────────────────────┘  └─ delivery (callbacks)
//! ```
//!
//! Some providers only accept a request and execute it a moment later: `capture` determines the time, and
//! `delivery` executes it then. Events of paid payments are in `refund` and, if operators at the provider or
//! payers' banks cause them, in `afterwards`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod account;
mod adyen;
mod afterwards;
mod amounts;
mod books;
mod btcpay;
mod callback;
mod capture;
mod config;
mod dashboard;
mod delivery;
mod fault;
mod http;
mod ids;
mod journal;
mod listener;
mod misbehave;
mod mollie;
mod money;
mod noise;
mod payer;
mod paypal;
mod paysafe;
mod razorpay;
mod record;
mod refund;
mod revolut;
mod rfc3339;
mod sandbox;
mod session;
mod sim;
mod stripe;
mod vendor;

pub use books::{BookEntry, BookMovement, BookRefund};
pub use config::{Environment, Profile, SimAccount, SimClock, SimConfig, SimError};
pub use fault::{Fault, UnknownFault};
pub use refund::RefundState;
pub use session::State;
pub use sim::{SignedCallback, Sim, modules};
