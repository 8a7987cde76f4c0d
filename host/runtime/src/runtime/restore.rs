//! The start: versions from before the last stop.

use std::sync::Arc;

use super::Runtime;
use crate::error::{RuntimeError, short};
use crate::history::Cause;
use crate::load;

impl Runtime {
    /// Lets the last good version serve in slots whose file is gone or refused.
    pub(crate) fn resume(&self) {
        let _lock = self.loading.lock();
        for slot in self.slots.idle() {
            let versions = self.slots.history(&slot).versions;
            let first = versions.iter().find_map(|line| {
                let bytes = self.versions.get(&slot, &line.digest).ok()?;
                let module = load::load(&self.host, &slot, line.digest, &bytes).ok()?;
                Some((module, bytes))
            });
            if let Some((module, bytes)) = first {
                tracing::warn!(
                    plugin.slot = %slot,
                    "the plugin folder has no file of {slot} that works; the last good version serves",
                );
                let now = (self.config().clock)();
                self.make_active(&slot, module, &bytes, Cause::Kept, now);
            }
        }
    }

    /// Loads the other versions that are kept: at once where they were compiled before, since
    /// attempts under way may need them, else in the background.
    pub(crate) fn load_rest(runtime: &Arc<Self>) -> Result<(), RuntimeError> {
        let mut rest = Vec::new();
        for (slot, digest) in runtime.slots.unloaded() {
            let Ok(bytes) = runtime.versions.get(&slot, &digest) else {
                tracing::warn!(plugin.slot = %slot, plugin.digest = short(&digest),
                    "version {} of {slot} is not where it was kept", short(&digest));
                continue;
            };
            match load::load_precompiled(&runtime.host, &slot, digest, &bytes) {
                Some(Ok(module)) => runtime.slots.set_loaded(&slot, &digest, module),
                Some(Err(_)) => {}
                None => rest.push((slot, digest, bytes)),
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        let runtime = Arc::downgrade(runtime);
        std::thread::Builder::new()
            .name("plugin-keeper".into())
            .spawn(move || {
                for (slot, digest, bytes) in rest {
                    let Some(runtime) = runtime.upgrade() else {
                        return;
                    };
                    let _lock = runtime.loading.lock();
                    if let Ok(module) = load::load(&runtime.host, &slot, digest, &bytes) {
                        runtime.slots.set_loaded(&slot, &digest, module);
                    }
                }
            })?;
        Ok(())
    }
}
