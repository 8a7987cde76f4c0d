//! The runtime: modules by slot, loaded from a folder and replaced while they serve.

use std::fmt;
use std::sync::Arc;

use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::RuntimeConfig;
use crate::error::{LoadError, RuntimeError, short};
use crate::folder;
use crate::host::Host;
use crate::load;
use crate::method::MethodModule;
use crate::outgoing::Outgoing;
use crate::provider::ProviderModule;
use crate::slots::Slots;
use crate::status::SlotStatus;

/// Runs modules. One per process; shared as an `Arc`.
pub struct Runtime {
    host: Arc<Host>,
    slots: Slots,
    /// One module is compiled at a time: the compiler takes every core it gets.
    loading: Mutex<()>,
    /// Ends the watching when dropped.
    watcher: Mutex<Option<folder::Watcher>>,
}

/// What became of a module that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Of its bytes; this version is active now.
    pub digest: Digest,
    /// False where it was active already.
    pub changed: bool,
}

impl Runtime {
    /// Sets up the engine, loads every `<slot>.wasm` of the folder, and watches it from then on.
    ///
    /// Blocks for as long as the modules take to compile. A module that is refused does not stop
    /// the start: it is logged and stands in [`Runtime::slots`].
    ///
    /// # Errors
    /// Where the engine cannot be set up or the folder cannot be read or watched.
    pub fn start(
        config: RuntimeConfig,
        outgoing: impl Outgoing,
    ) -> Result<Arc<Self>, RuntimeError> {
        let runtime = Arc::new(Self {
            host: Arc::new(Host::new(config, Arc::new(outgoing))?),
            slots: Slots::new(),
            loading: Mutex::new(()),
            watcher: Mutex::new(None),
        });
        // Watched before it is read, so that nothing falls between.
        let watch = folder::watch(&runtime.host.config.plugin_dir)?;
        folder::load_all(&runtime)?;
        runtime.clean_cache();
        let watcher = watch.follow(Arc::downgrade(&runtime))?;
        *runtime.watcher.lock() = Some(watcher);
        Ok(runtime)
    }

    /// The active module of a method. Take it once and use it throughout a request.
    pub fn method(&self, id: MethodId) -> Option<Arc<MethodModule>> {
        self.slots.method(id)
    }

    /// The active module of a provider, by the second half of its slot.
    pub fn provider(&self, module: &str) -> Option<Arc<ProviderModule>> {
        self.slots.provider(module)
    }

    /// A version of a provider's module that is still kept: the one that started an attempt.
    pub fn provider_version(&self, slot: &Slot, digest: &Digest) -> Option<Arc<ProviderModule>> {
        self.slots.provider_version(slot, digest)
    }

    /// Every slot that has ever been offered a module.
    pub fn slots(&self) -> Vec<SlotStatus> {
        self.slots.statuses()
    }

    /// Tells of every file and upload that was dealt with, accepted or not.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.slots.changes()
    }

    /// Waits until a version is active in a slot.
    pub async fn wait_for(&self, slot: &Slot, digest: &Digest) {
        let mut changes = self.changes();
        // The sender lives as long as `self`, so waiting cannot fail.
        while self.slots.active(slot) != Some(*digest) && changes.changed().await.is_ok() {}
    }

    /// Loads a module and makes it the active one of its slot. Blocks while it compiles.
    ///
    /// The digest of the active version changes nothing; a version that is still kept is activated
    /// without compiling it again.
    ///
    /// # Errors
    /// Why the module is refused. Then what served goes on serving, the log has one line, and the
    /// slot's status says why.
    pub fn install(&self, slot: &Slot, bytes: &[u8], now: Time) -> Result<Installed, LoadError> {
        let _one = self.loading.lock();
        let digest = Digest::of(bytes);
        if self.slots.active(slot) == Some(digest) {
            self.slots.confirm(slot);
            return Ok(Installed {
                digest,
                changed: false,
            });
        }
        let module = match self.slots.kept(slot, &digest) {
            Some(module) => Ok(module),
            None => load::load(&self.host, slot, digest, bytes),
        };
        match module {
            Ok(module) => {
                if self.slots.activate(slot, module, now) {
                    self.clean_cache();
                }
                counter!("kassette_plugin_swaps_total", "slot" => slot.as_str().to_owned())
                    .increment(1);
                tracing::info!(
                    plugin.slot = %slot, plugin.digest = short(&digest),
                    "{slot} now serves {}", short(&digest),
                );
                Ok(Installed {
                    digest,
                    changed: true,
                })
            }
            Err(error) => {
                self.refuse(slot, &error);
                Err(error)
            }
        }
    }

    /// Notes that something offered to a slot was refused.
    pub(crate) fn refuse(&self, slot: &Slot, error: &LoadError) {
        self.slots.refuse(slot, error.to_string());
        counter!("kassette_plugin_refusals_total", "slot" => slot.as_str().to_owned()).increment(1);
        let stays = if self.slots.active(slot).is_some() {
            "the version before it goes on serving"
        } else {
            "the slot serves nothing"
        };
        tracing::error!(plugin.slot = %slot, "{slot} was not replaced: {error}; {stays}");
    }

    /// Removes compiled modules that no version needs which is kept.
    fn clean_cache(&self) {
        self.host.artifacts.retain(&self.slots.digests());
    }

    pub(crate) fn config(&self) -> &RuntimeConfig {
        &self.host.config
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("config", self.config())
            .finish_non_exhaustive()
    }
}
