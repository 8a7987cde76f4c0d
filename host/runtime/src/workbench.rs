//! A module on its own, without a server around it: for the tools and tests of its author.

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

/// Calls at the same time; a tool makes one after the other.
const POOL: PoolSizes = PoolSizes {
    methods: 4,
    providers: 4,
};

/// Opens modules as a server would, with the same checks and limits, into no slot.
pub struct Workbench {
    host: Arc<Host>,
}

/// A module that a server would accept.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The slot that it describes itself for.
    pub slot: Slot,
    /// Of its file.
    pub digest: Digest,
    /// Which limits it would have in a server without settings of its own.
    pub class: ModuleClass,
    /// These limits.
    pub limits: CallLimits,
    /// Version of the contract that it was built for.
    pub wit: String,
    /// Full names of what it imports.
    pub imports: Vec<String>,
    /// Full names of what it exports.
    pub exports: Vec<String>,
    /// Linear memories, of all its parts.
    pub memories: u32,
    /// Bytes that its largest memory begins with.
    pub memory_bytes: u64,
    /// Size of its machine code and data, in bytes.
    pub code_bytes: usize,
    /// What can be called.
    pub module: Module,
}

impl Workbench {
    /// Takes limits, classes, compiler and clock from a configuration; its folders are not used.
    /// Requests of providers go `outgoing`.
    ///
    /// # Errors
    /// Where the engine cannot be set up.
    pub fn new(mut config: RuntimeConfig, outgoing: impl Outgoing) -> Result<Self, RuntimeError> {
        config.pool = POOL;
        let host = Arc::new(Host::new(config, Arc::new(outgoing))?);
        Ok(Self { host })
    }

    /// Checks, compiles, links and describes a module.
    ///
    /// # Errors
    /// Why a server would refuse it.
    pub fn open(&self, bytes: &[u8]) -> Result<Opened, LoadError> {
        let digest = Digest::of(bytes);
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

/// What a component imports and exports, in its order.
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
