//! The start of the runtime: loads the folder and watches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kassette_domain::id::Slot;

use crate::config::RuntimeConfig;
use crate::error::RuntimeError;
use crate::folder;
use crate::outgoing::Outgoing;
use crate::runtime::{Acceptance, Runtime};

impl Runtime {
    /// Sets up the engine, loads every `<slot>.wasm` of the folder and watches it from then on.
    ///
    /// Blocks while modules compile. A refused module does not stop the start: the log and [`Runtime::slots`] show
    /// the refusal, and the version from before the last stop serves. That version also serves if the file is
    /// missing.
    ///
    /// # Errors The engine cannot be set up, or a folder cannot be read.
    pub fn start(
        config: RuntimeConfig,
        outgoing: impl Outgoing,
    ) -> Result<Arc<Self>, RuntimeError> {
        Self::start_with(config, outgoing, None, BTreeMap::new())
    }

    /// Like [`Runtime::start`], with an optional check and modules contained in the program. `acceptance` checks
    /// every module, at the start or later, before it serves for the first time. Contained modules serve in slots
    /// that never had a file or upload, until another program contains a newer one.
    ///
    /// # Errors Like [`Runtime::start`].
    pub fn start_with(
        config: RuntimeConfig,
        outgoing: impl Outgoing,
        acceptance: Option<Acceptance>,
        bundled: BTreeMap<Slot, Vec<u8>>,
    ) -> Result<Arc<Self>, RuntimeError> {
        let runtime = Arc::new(Self::new(config, outgoing, acceptance, &bundled)?);
        runtime.host.config.compiler.warm_up();
        // Watch before reading, so that no change is missed.
        let watch = folder::watch(&runtime.host.config.plugin_dir)?;
        runtime.restore_audited();
        let watch = watch.load_all(&runtime)?;
        runtime.install_bundled(bundled);
        // Drop modules that were compiled but not loaded.
        runtime.host.precompiled.lock().clear();
        runtime.resume();
        runtime.note_set_aside();
        runtime.clean_cache();
        watch.spawn(Arc::downgrade(&runtime))?;
        Self::load_rest(&runtime)?;
        Ok(runtime)
    }
}
