//! What can go wrong, in three kinds: with a call, with a module that is to be loaded, and with the
//! runtime itself. A guest's own words appear in none of them.

use std::io;
use std::time::Duration;

use kassette_domain::id::{Digest, Slot};
use kassette_domain::routing::Faulty;

use crate::limits::MAX_MODULE_BYTES;
use crate::signature::SignatureError;
use crate::text;

/// Bytes of the engine's words about a module that are shown.
pub(crate) const MESSAGE: usize = 300;

/// Why a call has no answer. Details stand in the log, with slot, digest and function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It used more CPU time than it may.
    #[error("the module ran too long")]
    Deadline,
    /// It, or the vendor that it waited for, took longer than a call may.
    #[error("the module did not answer in time")]
    Timeout,
    /// It wanted more memory than it may.
    #[error("the module used too much memory")]
    Memory,
    /// It called too deep.
    #[error("the module used too much stack")]
    Stack,
    /// It panicked or did something impossible.
    #[error("the module trapped")]
    Trap,
    /// Too many calls are running; nothing was called.
    #[error("too many calls are running")]
    Busy,
    /// Its answer breaks the contract.
    #[error("the module's answer breaks the contract: {0}")]
    BadReply(&'static str),
    /// Its routing breaks one of the host's own rules.
    #[error("the module's routing breaks a rule: {0}")]
    Faulty(Faulty),
}

impl CallError {
    /// One word for metrics and logs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Stack => "stack",
            Self::Trap => "trap",
            Self::Busy => "busy",
            Self::BadReply(_) => "bad-reply",
            Self::Faulty(_) => "faulty",
        }
    }

    /// Whether the module is at fault, as opposed to load or a slow vendor.
    pub const fn blames_module(&self) -> bool {
        !matches!(self, Self::Timeout | Self::Busy)
    }
}

/// Why a module was not activated. Each says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It loads, but must not serve.
    #[error("the module is not accepted: {0}")]
    NotAccepted(String),
    /// The file could not be read.
    #[error("the file cannot be read ({0})")]
    Unreadable(io::ErrorKind),
    /// Others than its owner may write it.
    #[error("the file may be written by group or others; run chmod go-w on it")]
    Shared,
    #[error("the file is larger than {} MiB; build it optimised for size and stripped", MAX_MODULE_BYTES >> 20)]
    TooLarge,
    #[error("the file is not WebAssembly: it does not begin with the bytes of a component")]
    NotWasm,
    /// A core module.
    #[error(
        "the file is a core module, not a component; turn it into one with `kassette plugin build` or `wasm-tools component new`"
    )]
    CoreModule,
    /// Its slot is pinned to another version.
    #[error(
        "the slot is pinned to the version that serves; upload the file with the API, or promote or roll back, to serve another"
    )]
    Pinned,
    /// Its slot takes what is signed by certain keys alone.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Does not validate or compile.
    #[error("the file is not a valid component: {0}")]
    Invalid(String),
    /// Compiling it used, or took, more time than its size allows.
    #[error(
        "compiling the module takes more than {} s; split its largest functions or build it for size", .0.as_secs()
    )]
    CompileTime(Duration),
    /// Compiling it needs more memory than its size allows.
    #[error(
        "compiling the module takes more than {} MiB of memory; split its largest functions or build it for size", .0 >> 20
    )]
    CompileMemory(u64),
    /// The compiler broke down over it.
    #[error(
        "the compiler ended without an answer; the module may be built to break it: build it anew with a current toolchain"
    )]
    CompilerFailed,
    /// There is no compiler.
    #[error(
        "the compiler's process cannot be started ({0}), and nothing is compiled without it; see that the gateway's program can be run and that there is memory"
    )]
    NoCompiler(io::ErrorKind),
    /// Imports something that this host does not offer.
    #[error(
        "the module imports {import}, which this host does not offer to a {world}; it offers {offered}"
    )]
    UnknownImport {
        /// The import's full name.
        import: String,
        /// `method` or `provider`.
        world: &'static str,
        /// What it may import.
        offered: String,
    },
    /// Wants to reach others by itself.
    #[error(
        "the module imports {import}, but a {world} has no network of its own{instead}; build it without sockets and HTTP"
    )]
    Network {
        /// The import's full name.
        import: String,
        /// `method` or `provider`.
        world: &'static str,
        /// What it has in their place, with a comma before it.
        instead: &'static str,
    },
    /// Imports of WASI what its world is not offered.
    #[error("the module imports {import}, but {offer}")]
    Wasi {
        /// The import's full name.
        import: String,
        /// What is offered, and what to do.
        offer: &'static str,
    },
    /// Built for another major version of the contract.
    #[error(
        "the module was built for {name}, this host speaks version {host}; rebuild it against the host's WIT"
    )]
    OtherVersion {
        /// The name with its version.
        name: String,
        /// The version that the host speaks.
        host: &'static str,
    },
    /// Lacks the export that its world demands.
    #[error("the module does not export {export}, which the slot {slot} needs{hint}")]
    MissingExport {
        export: String,
        slot: Slot,
        /// What may have happened.
        hint: &'static str,
    },
    /// Exports what neither world exports.
    #[error(
        "the module exports neither kassette:plugin/routing nor kassette:plugin/payments; build it for the world `method` or `provider`"
    )]
    NoWorld,
    /// Calls itself something that no slot can be called.
    #[error(
        "the module describes itself as {0:?}; an id has at most 40 lower-case letters, digits and underscores"
    )]
    NoSlot(String),
    /// Names fit and types do not.
    #[error("the module's functions do not have the types of the contract: {0}")]
    Types(String),
    /// `describe` failed under production limits.
    #[error("the module's `describe` failed: {0}")]
    Describe(CallError),
    /// Calls itself something else.
    #[error(
        "the module describes itself as {says:?}, but the slot is {slot}; rename the file or fix its id"
    )]
    OtherId {
        /// Its id, printable and cut.
        says: String,
        slot: Slot,
    },
    /// A slot that cannot exist.
    #[error("{0} is not a payment method of this interface")]
    NoSuchMethod(Slot),
}

impl LoadError {
    /// The compiler's words about a module.
    pub(crate) fn invalid(message: &str) -> Self {
        Self::Invalid(text::cut(message, MESSAGE))
    }

    /// A module's types differ from the contract's although the names fit.
    #[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
    pub(crate) fn types(error: wasmtime::Error) -> Self {
        Self::Types(text::cut(&format!("{error:#}"), MESSAGE))
    }
}

/// Why the runtime does not start.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine refuses its settings, or the address space for the pool is not to be had.
    #[error("the WebAssembly engine cannot be set up: {0}")]
    Engine(String),
    /// The folder of modules cannot be read.
    #[error("the plugin folder cannot be read: {0}")]
    Folder(#[from] io::Error),
    /// The folder of kept versions cannot be read or made.
    #[error("the folder of kept module versions cannot be used: {0}")]
    Versions(io::Error),
}

/// A digest short enough for a log line.
pub(crate) fn short(digest: &Digest) -> String {
    let mut text = digest.to_string();
    text.truncate(12);
    text
}
