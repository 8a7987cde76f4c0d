//! Simulated payment vendors: books, payer page, faults.
//!
//! A simulator is a real HTTP server on the other side of a socket. It speaks a vendor's own
//! protocol, keeps books that survive a kill, shows the payer a page, sends signed callbacks and
//! misbehaves on demand, so that the gateway meets everything a real vendor can do to it.
//!
//! Each account has an API listener of its own (so that its port can really be closed); the
//! payer pages of all accounts share one listener. A vendor is one module beside `sandbox`
//! that implements the trait of `vendor`; books, payer page, callbacks and faults are shared.
//!
//! ```text
//! listener (one per account) ─ misbehave (faults) ─ vendor's routes ─ account ─ books ─ journal
//! payer (shared listener) ───────────────────────────────────────────────┘  └─ delivery (callbacks)
//! ```
//!
//! Some vendors only take in what they are asked for and do it a moment later: `capture` decides when,
//! and `delivery` does it in time. What happens to payments that were paid is in `refund` and, for what
//! people at the vendor and payers' banks do, in `afterwards`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod account;
mod adyen;
mod afterwards;
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

pub use books::{BookEntry, BookRefund};
pub use config::{Environment, Profile, SimAccount, SimClock, SimConfig, SimError};
pub use fault::{Fault, UnknownFault};
pub use refund::RefundState;
pub use session::State;
pub use sim::{SignedCallback, Sim, modules};
