//! What an operator decides about the runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::Slot;
use kassette_domain::time::Time;

use crate::artifacts::CacheConfig;
use crate::compile::Compiler;
use crate::limits::{Limits, ModuleClass, PoolSizes};
use crate::quarantine::QuarantineRules;
use crate::signature::SlotKey;

/// Tells the time; injected, so that tests and development can move it.
pub type TimeSource = Arc<dyn Fn() -> Time + Send + Sync>;

/// Everything [`Runtime::start`](crate::Runtime::start) needs to know.
#[derive(Clone)]
pub struct RuntimeConfig {
    /// Where `<slot>.wasm` files are loaded from and watched.
    pub plugin_dir: PathBuf,
    /// Whether a file there is refused that its group or others may write: who can write a module
    /// decides where money goes.
    pub refuse_shared: bool,
    /// Whose signature files need before they are compiled, by their slots; a slot that none is for takes any file.
    pub signing_keys: Vec<SlotKey>,
    pub limits: Limits,
    /// Calls at the same time.
    pub pool: PoolSizes,
    /// Classes that the operator fixed; other modules are judged by their size.
    pub classes: BTreeMap<Slot, ModuleClass>,
    /// Longest that one request of a provider's module may take.
    pub request_deadline: Duration,
    /// Where compiled modules are kept between starts; none: every start compiles all of them.
    pub cache: Option<CacheConfig>,
    pub compiler: Compiler,
    /// When a version that keeps failing is quarantined.
    pub quarantine_rules: QuarantineRules,
    /// Where the versions of each slot are kept, so that attempts under way, going back and the last
    /// good version outlive a restart; none: they last as long as the process.
    pub versions_dir: Option<PathBuf>,
    /// Bytes of memory for answers of methods to questions that were asked before; 0: every question
    /// is a call. See [`crate::MethodModule::rank`].
    pub answer_cache_bytes: usize,
    /// The time, for what is shown to operators.
    pub clock: TimeSource,
}

impl RuntimeConfig {
    /// The defaults for a folder of modules.
    pub fn new(plugin_dir: impl Into<PathBuf>, clock: TimeSource) -> Self {
        Self {
            plugin_dir: plugin_dir.into(),
            refuse_shared: false,
            signing_keys: Vec::new(),
            limits: Limits::default(),
            pool: PoolSizes::default(),
            classes: BTreeMap::new(),
            request_deadline: Duration::from_secs(10),
            cache: None,
            compiler: Compiler::InProcess,
            quarantine_rules: QuarantineRules::default(),
            versions_dir: None,
            answer_cache_bytes: 0,
            clock,
        }
    }
}

impl fmt::Debug for RuntimeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeConfig")
            .field("plugin_dir", &self.plugin_dir)
            .field("refuse_shared", &self.refuse_shared)
            .field("signing_keys", &self.signing_keys)
            .field("limits", &self.limits)
            .field("pool", &self.pool)
            .field("classes", &self.classes)
            .field("request_deadline", &self.request_deadline)
            .field("cache", &self.cache)
            .field("compiler", &self.compiler)
            .field("quarantine_rules", &self.quarantine_rules)
            .field("versions_dir", &self.versions_dir)
            .field("answer_cache_bytes", &self.answer_cache_bytes)
            .finish_non_exhaustive()
    }
}
