//! Runs a module without a server, for its author's tools and tests.

use std::fmt;
use std::sync::Arc;

use kassette_domain::id::{Digest, Slot};
use wasmtime::component::Component;

use crate::config::RuntimeConfig;
use crate::error::{LoadError, RuntimeError};
use crate::host::Host;
use crate::limits::{CallLimits, ModuleClass, PoolSizes};
use crate::load::{self, Module};
use crate::outgoing::Outgoing;

/// Number of calls at a time. A tool calls sequentially.
const POOL: PoolSizes = PoolSizes {
    methods: 4,
    providers: 4,
};

/// Opens modules with a server's checks and limits, without a slot.
pub struct Workbench {
    host: Arc<Host>,
}

/// A module that a server would accept.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The slot named in its description.
    pub slot: Slot,
    /// Digest of the module file.
    pub digest: Digest,
    /// Class in a server with default settings.
    pub class: ModuleClass,
    /// Limits of this class.
    pub limits: CallLimits,
    /// Version of the contract that the module was built for.
    pub wit: String,
    /// Full names of its imports.
    pub imports: Vec<String>,
    /// Full names of its exports.
    pub exports: Vec<String>,
    /// Number of linear memories in all its parts.
    pub memories: u32,
    /// Initial size of its largest memory, in bytes.
    pub memory_bytes: u64,
    /// Size of its machine code and data, in bytes.
    pub code_bytes: usize,
    /// The module, ready for calls.
    pub module: Module,
}

impl Workbench {
    /// Uses limits, classes, compiler, cache and clock of the configuration, but not the folders of modules and
    /// versions. Providers send their requests with `outgoing`.
    ///
    /// # Errors The engine cannot be set up.
    pub fn new(mut config: RuntimeConfig, outgoing: impl Outgoing) -> Result<Self, RuntimeError> {
        config.pool = POOL;
        let host = Arc::new(Host::new(config, Arc::new(outgoing))?);
        Ok(Self { host })
    }

    /// Checks, compiles and links a module and reads its description.
    ///
    /// # Errors Reason why a server would refuse it.
    pub fn open(&self, bytes: &[u8]) -> Result<Opened, LoadError> {
        let digest = Digest::hash(bytes);
        let loaded = load::compile_checked(&self.host, &digest, bytes)?;
        let component = loaded.first();
        let name = load::described_slot(&self.host, digest, bytes, component)?;
        let module = load::link(&self.host, &name, digest, bytes, &loaded)?;
        let needs = component.resources_required();
        let (imports, exports) = names(component);
        let code = component.image_range();
        let identity = module.identity();
        Ok(Opened {
            slot: identity.slot.clone(),
            digest,
            class: identity.class,
            limits: identity.limits,
            wit: load::version_of(&exports),
            imports,
            exports,
            memories: needs.as_ref().map_or(0, |needs| needs.num_memories),
            memory_bytes: needs
                .and_then(|needs| needs.max_initial_memory_size)
                .map_or(0, |pages| pages.saturating_mul(64 << 10)),
            code_bytes: (code.end as usize).saturating_sub(code.start as usize),
            module,
        })
    }
}

/// Names of the imports and exports of a component, in its order.
fn names(component: &Component) -> (Vec<String>, Vec<String>) {
    let types = component.component_type();
    let imports = types
        .imports(component.engine())
        .map(|(name, _)| name.to_owned());
    let exports = types
        .exports(component.engine())
        .map(|(name, _)| name.to_owned());
    (imports.collect(), exports.collect())
}

impl fmt::Debug for Workbench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workbench").finish_non_exhaustive()
    }
}
