//! Runs WebAssembly modules: engine, deadlines, slots, hot swap.
//!
//! The only crate that names wasmtime. It speaks the domain's words: a [`MethodModule`] ranks, a
//! [`ProviderModule`] starts, reads callbacks, queries; [`Runtime`] holds the versions that serve
//! and replaces them while calls are under way. A module is never trusted: every call has a fresh
//! instance and limits of CPU time, memory and size; every answer is checked; what left this host
//! is known to the host itself; a secret is written into requests and redacted in answers, never
//! shown. Where anything fails there is no answer, and what is not answered does not happen.
//!
//! The generated bindings contain `unsafe` code, so the crate cannot forbid it. Its own are two
//! places: the loading of machine code that this host compiled (`artifacts/code.rs`), and the call
//! of a function whose type was compared once for all instances (`v0_2/routing.rs`).
#![deny(unsafe_code)]
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

mod access;
mod answer_cache;
mod artifacts;
mod compile;
mod concurrency_limit;
mod config;
mod engine;
mod error;
#[cfg(test)]
mod fixtures;
mod folder;
mod guest;
mod history;
mod host;
mod limits;
mod links;
mod load;
mod meter;
mod method;
mod module_file;
mod outcome;
mod outgoing;
mod provider;
mod quarantine;
mod redact;
mod response_cache;
mod runtime;
mod sampled;
mod shards;
mod signature;
mod slot_record;
mod slots;
mod start;
mod status;
mod text;
mod ticks;
mod tokens;
mod v0_2;
mod workbench;

// Unit tests have the hand-written modules of the others, which know this crate by its name.
#[cfg(test)]
extern crate self as kassette_runtime;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
#[expect(unreachable_pub, reason = "it is the integration tests' module")]
mod support;

pub use access::{AccountAccess, RecordedCall, Recorder, Recording, SecretEntry};
pub use artifacts::{CacheConfig, CacheKey};
pub use compile::{ChildError, CompileLimits, Compiler, CompilerChild, compile_as_child};
pub use config::{RuntimeConfig, TimeSource};
pub use engine::INTERPRETED_AT_ONCE;
pub use error::{CallError, LoadError, RuntimeError};
pub use guest::log::LINES_PER_SECOND as MODULE_LINES_PER_SECOND;
pub use history::{Activation, Cause};
pub use host::MAX_WAIT as PERMIT_WAIT;
pub use kassette_http::{HostList, HostPattern, NotAHost};
pub use limits::{CallLimits, Limits, MAX_MODULE_BYTES, ModuleClass, PoolSizes};
pub use load::Module as OpenedModule;
pub use method::MethodModule;
#[doc(hidden)]
pub use method::Reused;
pub use outcome::StartOutcome;
pub use outgoing::{Outgoing, Sending};
pub use provider::ProviderModule;
pub use quarantine::QuarantineRules;
pub use response_cache::{
    MAX_KNOWN as CACHED_REQUESTS, MAX_STRANGERS as CACHED_REQUESTS_OF_STRANGERS,
};
pub use runtime::{
    Acceptance, Installed, Prepared, RemoveError, RollbackError, Runtime, UnattendedInstall,
};
pub use sampled::Sampled;
pub use signature::{KeyError, PublicKey, SecretKey, SignatureError, SlotKey, SlotPattern, sign};
pub use slots::Staged;
pub use status::{ActiveVersion, PreviousVersion, SlotState, SlotStatus};
pub use tokens::TokenStore;
pub use workbench::{Opened, Workbench};
