//! The start: modules contained in the program, and versions from before the last stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use kassette_domain::id::{Digest, Slot};

use super::{Runtime, Unattended, UnattendedInstall};
use crate::error::{LoadError, RuntimeError, short};
use crate::history::Cause;
use crate::load;

/// Logs that a kept version of running attempts is refused now, for example because its slot requires a signature.
/// The active version continues the attempts.
fn unloaded(slot: &Slot, digest: &Digest, refused: &LoadError) {
    tracing::warn!(plugin.slot = %slot, plugin.digest = short(digest),
        "version {} of {slot}, which is kept for attempts under way, is refused now: {refused}", short(digest));
}

impl Runtime {
    /// Activates modules contained in the program, in slots that never had a file or upload, or whose active
    /// version also came with a program.
    pub(crate) fn install_bundled(&self, mut bundled: BTreeMap<Slot, Vec<u8>>) {
        bundled.retain(|slot, _| self.slots.takes_bundled(slot));
        load::precompile(&self.host, bundled.iter());
        let _lock = self.loading.lock();
        for (slot, bytes) in &bundled {
            // A refusal has been logged and recorded.
            if let Ok(module) = self.load(slot, Digest::hash(bytes), bytes) {
                let now = (self.config().clock)();
                self.make_active(slot, module, bytes, Cause::Bundled, now);
            }
        }
    }

    /// Activates the version named in the audit log, in slots whose history was set aside at this start.
    pub(crate) fn restore_audited(&self) {
        let Some(config) = &self.config().versions else {
            return;
        };
        let _lock = self.loading.lock();
        for slot in &self.set_aside {
            let Some(digest) = config.audited.get(slot) else {
                continue;
            };
            if let Ok(bytes) = self.versions.get(slot, digest)
                && let Ok(module) = self.load(slot, *digest, &bytes)
            {
                let now = (self.config().clock)();
                self.make_active(slot, module, &bytes, Cause::Kept, now);
            }
        }
    }

    /// Records for the audit log the slots whose history was set aside at this start, with the version that
    /// serves.
    pub(crate) fn note_set_aside(&self) {
        for slot in &self.set_aside {
            self.note_unattended(UnattendedInstall {
                what: Unattended::SetAside {
                    serving: self.slots.active(slot),
                },
                slot: slot.clone(),
                at: (self.config().clock)(),
            });
        }
    }

    /// Activates the last good version of slots whose file is missing or refused.
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

    /// Loads the other kept versions: immediately if they are compiled, because running attempts may need them,
    /// and otherwise in the background.
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
