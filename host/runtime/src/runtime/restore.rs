//! The start: modules that the program brings along, and versions from before the last stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use kassette_domain::id::{Digest, Slot};

use super::Runtime;
use crate::error::{LoadError, RuntimeError, short};
use crate::history::Cause;
use crate::load;

/// A version that is kept for attempts under way and is refused now, as where slots get a key: the active version goes
/// on with them.
fn unloaded(slot: &Slot, digest: &Digest, refused: &LoadError) {
    tracing::warn!(plugin.slot = %slot, plugin.digest = short(digest),
        "version {} of {slot}, which is kept for attempts under way, is refused now: {refused}", short(digest));
}

impl Runtime {
    /// Lets the program's own modules serve where no file or upload ever stood, or where the version
    /// before came with the program too.
    pub(crate) fn install_bundled(&self, mut bundled: BTreeMap<Slot, Vec<u8>>) {
        bundled.retain(|slot, _| self.slots.takes_bundled(slot));
        load::precompile(&self.host, bundled.iter());
        let _lock = self.loading.lock();
        for (slot, bytes) in &bundled {
            // A refusal has been logged and noted.
            if let Ok(module) = self.load(slot, Digest::of(bytes), bytes) {
                let now = (self.config().clock)();
                self.make_active(slot, module, bytes, Cause::Bundled, now);
            }
        }
    }

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
                Some(Err(refused)) => unloaded(&slot, &digest, &refused),
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
                    match load::load(&runtime.host, &slot, digest, &bytes) {
                        Ok(module) => runtime.slots.set_loaded(&slot, &digest, module),
                        Err(refused) => unloaded(&slot, &digest, &refused),
                    }
                }
            })?;
        Ok(())
    }
}
