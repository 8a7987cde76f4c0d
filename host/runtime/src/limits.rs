//! How much a module may use: its class, a call's limits, calls at the same time.

use std::time::Duration;

/// Largest module, in bytes; a Python guest has 18 MiB.
pub const MAX_MODULE_BYTES: usize = 32 << 20;

/// How generous the limits of a module are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleClass {
    /// Compiled ahead of time from a language without a runtime: Rust, C.
    Native,
    /// Carries an interpreter along: JavaScript, Python.
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

    /// The class of a module that no setting names: interpreters are never small, and our own
    /// guests are below 60 kB.
    pub(crate) const fn guess(bytes: usize) -> Self {
        const INTERPRETER_AT_LEAST: usize = 512 * 1024;
        if bytes < INTERPRETER_AT_LEAST {
            Self::Native
        } else {
            Self::Interpreted
        }
    }
}

/// What one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// CPU time between two waits for the host; a call is stopped between this and about twice it.
    pub cpu: Duration,
    /// Bytes of linear memory, all memories of the module together.
    pub memory: usize,
    /// Wall-clock time of a provider's call, its waits included. Methods never wait.
    pub wall: Duration,
}

/// The limits of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of [`ModuleClass::Native`].
    pub native: CallLimits,
    /// Of [`ModuleClass::Interpreted`].
    pub interpreted: CallLimits,
}

impl Limits {
    /// The limits of one class.
    pub const fn of(&self, class: ModuleClass) -> CallLimits {
        match class {
            ModuleClass::Native => self.native,
            ModuleClass::Interpreted => self.interpreted,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // A start may take 15 s (the decision on "start"); a call must end before that.
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

/// How many calls run at the same time. Each reserves address space, not memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// Of methods. They never wait, so more than there are cores is hardly ever used. Small modules are
    /// called in up to four shards, each with its share of them.
    pub methods: u32,
    /// Of providers. They wait for vendors; the gateway shares the calls out by kind, environment and
    /// account, and what it leaves is for health probes.
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
