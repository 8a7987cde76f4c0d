//! Resource limits of a module: its class, the limits of a call, and the number of calls at a time.

use std::time::Duration;

/// Maximum size of a module, in bytes. A Python guest has 18 MiB.
pub const MAX_MODULE_BYTES: usize = 32 << 20;

/// Class of a module, which decides its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleClass {
    /// Compiled ahead of time from a language without a runtime, such as Rust or C.
    Native,
    /// Contains an interpreter, as for JavaScript or Python.
    Interpreted,
}

impl ModuleClass {
    /// `native` or `interpreted`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Interpreted => "interpreted",
        }
    }

    /// The class of a module without a setting. Interpreters are never small; our own guests are far below the
    /// threshold.
    pub(crate) const fn guess(bytes: usize) -> Self {
        const INTERPRETER_AT_LEAST: usize = 512 * 1024;
        if bytes < INTERPRETER_AT_LEAST {
            Self::Native
        } else {
            Self::Interpreted
        }
    }
}

/// Limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// CPU time between two waits for I/O. A call is stopped after one to about two times this.
    pub cpu: Duration,
    /// Total linear memory of the module, in bytes.
    pub memory: usize,
    /// Wall-clock time of a provider's call, including waits. Methods never wait.
    pub wall: Duration,
}

/// Limits of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits of [`ModuleClass::Native`].
    pub native: CallLimits,
    /// Limits of [`ModuleClass::Interpreted`].
    pub interpreted: CallLimits,
}

impl Limits {
    /// Returns the limits of a class.
    pub const fn for_class(&self, class: ModuleClass) -> CallLimits {
        match class {
            ModuleClass::Native => self.native,
            ModuleClass::Interpreted => self.interpreted,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // A start may take 15 s. A call must end before that.
        let wall = Duration::from_secs(14);
        Self {
            native: CallLimits {
                cpu: Duration::from_millis(5),
                memory: 16 << 20,
                wall,
            },
            interpreted: CallLimits {
                cpu: Duration::from_millis(50),
                memory: 64 << 20,
                wall,
            },
        }
    }
}

/// Maximum number of calls at a time. Each reserves address space, not memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// Calls of methods. They never wait, so more than one per core is rarely useful. Small modules are called in
    /// up to four shards, which divide this number.
    pub methods: u32,
    /// Calls of providers, which wait for responses. The gateway divides them by kind, environment and account;
    /// the rest is for health probes.
    pub providers: u32,
}

impl Default for PoolSizes {
    fn default() -> Self {
        Self {
            methods: 64,
            providers: 256,
        }
    }
}
