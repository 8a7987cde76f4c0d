//! The start of the runtime: the folder is loaded and then watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use kassette_domain::id::Slot;

use crate::config::RuntimeConfig;
use crate::error::RuntimeError;
use crate::folder;
use crate::outgoing::Outgoing;
use crate::runtime::{Acceptance, Runtime};

impl Runtime {
    /// Sets up the engine, loads every `<slot>.wasm` of the folder, and watches it from then on.
    ///
    /// Blocks for as long as the modules take to compile. A module that is refused does not stop
    /// the start: it is logged and stands in [`Runtime::slots`], and the version that served before
    /// the last stop serves. So it does where its file is gone.
    ///
    /// # Errors
    /// Where the engine cannot be set up or a folder cannot be read.
    pub fn start(
        config: RuntimeConfig,
        outgoing: impl Outgoing,
    ) -> Result<Arc<Self>, RuntimeError> {
        Self::start_with(config, outgoing, None, BTreeMap::new())
    }

    /// The same; a module that is to serve for the first time, at the start or later, is judged by
    /// `acceptance` before, if there is one. Modules that the program brings along serve in slots where no
    /// file or upload ever stood, each until the next program brings another.
    ///
    /// # Errors
    /// As [`Runtime::start`].
    pub fn start_with(
        config: RuntimeConfig,
        outgoing: impl Outgoing,
        acceptance: Option<Acceptance>,
        bundled: BTreeMap<Slot, Vec<u8>>,
    ) -> Result<Arc<Self>, RuntimeError> {
        let runtime = Arc::new(Self::new(config, outgoing, acceptance, &bundled)?);
        runtime.host.config.compiler.warm_up();
        // Watched before it is read, so that nothing falls between.
        let watch = folder::watch(&runtime.host.config.plugin_dir)?;
        let watch = watch.load_all(&runtime)?;
        runtime.install_bundled(bundled);
        // What was compiled and not loaded goes.
        runtime.host.precompiled.lock().clear();
        runtime.resume();
        runtime.clean_cache();
        watch.spawn(Arc::downgrade(&runtime))?;
        Self::load_rest(&runtime)?;
        Ok(runtime)
    }
}
