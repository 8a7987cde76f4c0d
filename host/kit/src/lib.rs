//! Runs a module outside of a server, as a server would.
//!
//! For the author of a module. [`Harness`] opens a component file with a server's own checks and
//! calls it under production limits, each call in a fresh instance, each answer judged:
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
//! [`check`] asks what every module is asked before it is shipped; `kassette plugin check` does the
//! same. Unit tests of a module in Rust need none of this: `kassette_plugin::testing` runs them
//! natively and in microseconds.

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
