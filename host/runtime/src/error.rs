//! Errors in three kinds: of a call, of a module to load, and of the runtime. None contains text from a guest.

use std::io;
use std::time::Duration;

use kassette_domain::id::{Digest, Slot};
use kassette_domain::routing::Faulty;

use crate::limits::MAX_MODULE_BYTES;
use crate::signature::SignatureError;
use crate::text;

/// Maximum length of the engine's message about a module, in bytes.
pub(crate) const MESSAGE: usize = 300;

/// Reason why a call gave no answer. The log has details, with slot, digest and function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call used too much CPU time.
    #[error("the module ran too long")]
    Deadline,
    /// The call took too long, including the time that it waited for the provider.
    #[error("the module did not answer in time")]
    Timeout,
    /// The module requested too much memory.
    #[error("the module used too much memory")]
    Memory,
    /// The module's call stack was too deep.
    #[error("the module used too much stack")]
    Stack,
    /// The module panicked or executed an invalid operation.
    #[error("the module trapped")]
    Trap,
    /// Too many calls are running. The module was not called.
    #[error("too many calls are running")]
    Busy,
    /// The answer violates the contract.
    #[error("the module's answer breaks the contract: {0}")]
    BadReply(&'static str),
    /// The routing violates a rule of the host.
    #[error("the module's routing breaks a rule: {0}")]
    Faulty(Faulty),
}

impl CallError {
    /// Value of metric labels and log fields.
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

    /// Whether the module answered, and the answer violates a rule.
    pub const fn is_reply(&self) -> bool {
        matches!(self, Self::BadReply(_) | Self::Faulty(_))
    }

    /// Whether the module caused the error, rather than load or a slow provider.
    pub const fn blames_module(&self) -> bool {
        !matches!(self, Self::Timeout | Self::Busy)
    }
}

/// Reason why a module was not activated. Messages say how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The module can be loaded, but an additional check rejected it.
    #[error("the module is not accepted: {0}")]
    NotAccepted(String),
    /// The file could not be read.
    #[error("the file cannot be read ({0})")]
    Unreadable(io::ErrorKind),
    /// The group or others may write the file.
    #[error("the file may be written by group or others; run chmod go-w on it")]
    Shared,
    #[error("the file is larger than {} MiB; build it optimised for size and stripped", MAX_MODULE_BYTES >> 20)]
    TooLarge,
    #[error("the file is not WebAssembly: it does not begin with the bytes of a component")]
    NotWasm,
    /// The file is a core module.
    #[error(
        "the file is a core module, not a component; turn it into one with `kassette plugin build` or `wasm-tools component new`"
    )]
    CoreModule,
    /// The slot is pinned to another version.
    #[error(
        "the slot is pinned to the version that serves; upload the file with the API, or promote or roll back, to serve another"
    )]
    Pinned,
    /// The slot accepts only files signed by certain keys.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The file cannot be validated or compiled.
    #[error("the file is not a valid component: {0}")]
    Invalid(String),
    /// Compiling the module took more CPU or wall-clock time than its size allows.
    #[error(
        "compiling the module takes more than {} s; split its largest functions or build it for size", .0.as_secs()
    )]
    CompileTime(Duration),
    /// Compiling the module needs more memory than its size allows.
    #[error(
        "compiling the module takes more than {} MiB of memory; split its largest functions or build it for size", .0 >> 20
    )]
    CompileMemory(u64),
    /// The compiler crashed.
    #[error(
        "the compiler ended without an answer; the module may be built to break it: build it anew with a current toolchain"
    )]
    CompilerFailed,
    /// The compiler cannot be started.
    #[error(
        "the compiler's process cannot be started ({0}), and nothing is compiled without it; see that the gateway's program can be run and that there is memory"
    )]
    NoCompiler(io::ErrorKind),
    /// The module imports an interface that this host does not offer.
    #[error(
        "the module imports {import}, which this host does not offer to a {world}; it offers {offered}"
    )]
    UnknownImport {
        /// Full name.
        import: String,
        /// `method` or `provider`.
        world: &'static str,
        /// Interfaces that the module may import.
        offered: String,
    },
    /// The module imports network access.
    #[error(
        "the module imports {import}, but a {world} has no network of its own{instead}; build it without sockets and HTTP"
    )]
    Network {
        /// Full name.
        import: String,
        /// `method` or `provider`.
        world: &'static str,
        /// The alternative that the world offers, starting with a comma.
        instead: &'static str,
    },
    /// The module imports a WASI interface that its world does not offer.
    #[error("the module imports {import}, but {offer}")]
    Wasi {
        /// Full name.
        import: String,
        /// The interfaces that are offered, and how to correct the module.
        offer: &'static str,
    },
    /// The module was built for another major version of the contract.
    #[error(
        "the module was built for {name}, this host speaks version {host}; rebuild it against the host's WIT"
    )]
    OtherVersion {
        /// The name with its version.
        name: String,
        /// The version that the host speaks.
        host: &'static str,
    },
    /// The module lacks the export that its world requires.
    #[error("the module does not export {export}, which the slot {slot} needs{hint}")]
    MissingExport {
        export: String,
        slot: Slot,
        /// Possible cause.
        hint: &'static str,
    },
    /// The module has the exports of neither world.
    #[error(
        "the module exports neither kassette:plugin/routing nor kassette:plugin/payments; build it for the world `method` or `provider`"
    )]
    NoWorld,
    /// The module's id is not valid in a slot name.
    #[error(
        "the module describes itself as {0:?}; an id has at most 40 lower-case letters, digits and underscores"
    )]
    NoSlot(String),
    /// Names match the contract, but types do not.
    #[error("the module's functions do not have the types of the contract: {0}")]
    Types(String),
    /// `describe` failed under the limits of production.
    #[error("the module's `describe` failed: {0}")]
    Describe(CallError),
    /// The module's id is not that of the slot.
    #[error(
        "the module describes itself as {says:?}, but the slot is {slot}; rename the file or fix its id"
    )]
    OtherId {
        /// The module's id, shortened and printable.
        says: String,
        slot: Slot,
    },
    /// The slot cannot exist.
    #[error("{0} is not a payment method of this interface")]
    NoSuchMethod(Slot),
}

impl LoadError {
    /// An error with the compiler's message, shortened.
    pub(crate) fn invalid(message: &str) -> Self {
        Self::Invalid(text::cut(message, MESSAGE))
    }

    /// An error for a module whose names match the contract, but not its types.
    #[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
    pub(crate) fn types(error: wasmtime::Error) -> Self {
        Self::Types(text::cut(&format!("{error:#}"), MESSAGE))
    }
}

/// Reason why the runtime does not start.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine rejects its settings, or cannot reserve address space for the pool.
    #[error("the WebAssembly engine cannot be set up: {0}")]
    Engine(String),
    /// The folder of modules cannot be read.
    #[error("the plugin folder cannot be read: {0}")]
    Folder(#[from] io::Error),
    /// The folder of kept versions cannot be read or created.
    #[error("the folder of kept module versions cannot be used: {0}")]
    Versions(io::Error),
}

/// The first 12 digits of a digest, for logs.
pub(crate) fn short(digest: &Digest) -> String {
    let mut text = digest.to_string();
    text.truncate(12);
    text
}
