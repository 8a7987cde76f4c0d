//! Runs a module like a server, but without one.
//!
//! For authors of modules. [`Harness`] opens a component file with a server's checks and calls it with production
//! limits. Each call gets a new instance, and each response is validated:
//!
//! ```no_run
//! use kassette_kit::{Harness, question};
//!
//! let harness = Harness::new()?;
//! let interac = harness.method("target/method.interac.wasm")?;
//! let answer = interac.rank(&question("CAD", Some("49.90"), &["a", "b"]))?;
//! assert!(answer.is_ok_and(|verdicts| verdicts.len() == 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`check`] runs the checks that every module has to pass before it is shipped, like `kassette plugin check`.
//! Unit tests of a module in Rust do not need this crate: `kassette_plugin::testing` runs them natively, in
//! microseconds.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "a test that cannot go on fails"
    )
)]

mod account;
mod check;
mod facts;
mod harness;
mod question;

pub use account::{account, attempt};
pub use check::{Check, CheckReport, accept, check};
pub use facts::{Facts, Needed, Served};
pub use harness::{Harness, NoNetwork, OpenError};
pub use kassette_domain::routing::{
    AccountCandidate, Availability, Context, Ground, Health, RoutingRefusal, Verdict,
};
pub use kassette_runtime::{
    CallError, LoadError, MethodModule, ModuleClass, Opened, OpenedModule, Outgoing,
    ProviderModule, RuntimeError,
};
pub use question::{candidate, question};
