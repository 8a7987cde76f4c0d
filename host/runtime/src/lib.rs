//! Runs WebAssembly modules: engine, deadlines, slots, hot swap.
//!
//! Only this crate uses wasmtime. Its API uses the terms of the domain: a [`MethodModule`] ranks accounts; a
//! [`ProviderModule`] starts payments, reads callbacks and queries; [`Runtime`] holds the active versions and
//! replaces them during calls. Modules are not trusted. Every call gets a new instance and limits on CPU time,
//! memory and sizes. Every answer is checked. The host itself records which requests were sent. Secrets are
//! written into requests and redacted in responses, never shown to a module. If anything fails, the call has no
//! answer, and its action does not happen.
//!
//! The generated bindings contain `unsafe` code, so the crate cannot forbid it. The crate itself has two such
//! places: loading machine code that this host compiled (`artifacts/code.rs`), and calling a function whose type
//! was compared once for all instances (`v0_2/routing.rs`).
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
mod contact;
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

// Unit tests use the hand-written modules of the integration tests, which refer to this crate by name.
#[cfg(test)]
extern crate self as kassette_runtime;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
#[expect(unreachable_pub, reason = "it is the integration tests' module")]
mod support;

pub use access::{AccountAccess, RecordedCall, Recorder, Recording, SecretEntry};
pub use artifacts::{CacheConfig, MacKey};
pub use compile::{ChildError, CompileLimits, Compiler, CompilerChild, compile_as_child};
pub use config::{RuntimeConfig, TimeSource};
pub use contact::Contact;
pub use engine::INTERPRETED_AT_ONCE;
pub use error::{CallError, LoadError, RuntimeError};
pub use guest::log::LINES_PER_SECOND as MODULE_LINES_PER_SECOND;
pub use history::{Activation, Cause, TrialResult, VersionsConfig};
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
pub use redact::MIN_SECRET as REDACTED_LEAST;
pub use response_cache::{
    MAX_KNOWN as CACHED_REQUESTS, MAX_STRANGERS as CACHED_REQUESTS_OF_STRANGERS,
};
pub use runtime::{
    Acceptance, Installed, Prepared, RemoveError, RollbackError, Runtime, Unattended,
    UnattendedInstall,
};
pub use sampled::Sampled;
pub use signature::{KeyError, PublicKey, SecretKey, SignatureError, SlotKey, SlotPattern, sign};
pub use slots::Staged;
pub use status::{ActiveVersion, PreviousVersion, SlotState, SlotStatus};
pub use tokens::TokenStore;
pub use workbench::{Opened, Workbench};
