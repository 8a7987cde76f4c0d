//! Settings of the runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::Slot;
use kassette_domain::time::Time;

use crate::artifacts::CacheConfig;
use crate::compile::Compiler;
use crate::history::VersionsConfig;
use crate::limits::{Limits, ModuleClass, PoolSizes};
use crate::quarantine::QuarantineRules;
use crate::signature::SlotKey;

/// Returns the current time. Injected, so that tests and development can change it.
pub type TimeSource = Arc<dyn Fn() -> Time + Send + Sync>;

/// Settings for [`Runtime::start`](crate::Runtime::start).
#[derive(Clone)]
pub struct RuntimeConfig {
    /// Folder of the `<slot>.wasm` files, which are loaded and watched.
    pub plugin_dir: PathBuf,
    /// Whether to refuse a file that its group or others may write: a module decides where money goes.
    pub refuse_shared: bool,
    /// Keys that must have signed the files of their slots before they are compiled. A slot without a key accepts
    /// any file.
    pub signing_keys: Vec<SlotKey>,
    pub limits: Limits,
    /// Maximum number of calls at the same time.
    pub pool: PoolSizes,
    /// Classes that the operator has set. Other modules are classified by their size.
    pub classes: BTreeMap<Slot, ModuleClass>,
    /// Maximum time for one request of a provider module.
    pub request_deadline: Duration,
    /// Cache of compiled modules. `None`: every start compiles all modules.
    pub cache: Option<CacheConfig>,
    pub compiler: Compiler,
    /// Conditions for quarantining a version that keeps failing.
    pub quarantine_rules: QuarantineRules,
    /// Storage of each slot's versions, so that running attempts, rollbacks and the last good version survive a
    /// restart. `None`: they are kept only in memory.
    pub versions: Option<VersionsConfig>,
    /// Size of the cache for answers of methods, in bytes. 0: every question is a call. See
    /// [`crate::MethodModule::rank`].
    pub answer_cache_bytes: usize,
    /// Time that is shown to operators.
    pub clock: TimeSource,
}

impl RuntimeConfig {
    /// Default settings for a folder of modules.
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
            versions: None,
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
            .field("versions", &self.versions)
            .field("answer_cache_bytes", &self.answer_cache_bytes)
            .finish_non_exhaustive()
    }
}
