//! The runtime: modules by slot, loaded from a folder and replaced while they serve.

mod restore;
mod trials;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use kassette_domain::id::{Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use metrics::counter;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, watch};

use crate::config::RuntimeConfig;
use crate::error::{LoadError, RuntimeError, short};
use crate::history::{Activation, Cause, History, VersionStore};
use crate::host::Host;
use crate::load::{self, Module};
use crate::method::MethodModule;
use crate::module_file::{holds, is_refused};
use crate::outgoing::Outgoing;
use crate::provider::ProviderModule;
use crate::slots::Slots;
use crate::status::SlotStatus;

/// Maximum number of installations that the server has not taken yet: more than a deployment of all modules.
const MOST_UNATTENDED: usize = 1000;

/// Checks a loaded module before it serves for the first time. The error is a message for the operator.
pub type Acceptance = Arc<dyn Fn(&Module) -> Result<(), String> + Send + Sync>;

/// Runs modules. One per process, shared as an `Arc`.
pub struct Runtime {
    pub(crate) host: Arc<Host>,
    slots: Slots,
    versions: VersionStore,
    /// Checks of a module before it serves for the first time: one from the start, one set later.
    acceptance: [OnceLock<Acceptance>; 2],
    /// Allows one compilation at a time, because a compiler uses all cores that it gets.
    loading: Mutex<()>,
    /// Receiver of versions from the plugin folder that several nodes will serve, once set.
    folder_installs: OnceLock<mpsc::UnboundedSender<Prepared>>,
    unattended: Mutex<VecDeque<UnattendedInstall>>,
    /// Slots whose history was set aside at this start.
    set_aside: BTreeSet<Slot>,
}

/// Held by the thread that loads or activates a module.
pub(crate) struct LoadingLock<'a>(
    #[expect(dead_code, reason = "held for its drop")] MutexGuard<'a, ()>,
);

/// Outcome of installing a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Digest of the module.
    pub digest: Digest,
    /// Whether this call has activated the version. False if it was active already, or was handed over (see
    /// [`Runtime::hand_over_folder_installs`]).
    pub changed: bool,
}

/// An event in a slot that no operator's call caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnattendedInstall {
    pub what: Unattended,
    pub slot: Slot,
    pub at: Time,
}

/// Kind of an [`UnattendedInstall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattended {
    /// A version became active from the plugin folder, or because the program contains it.
    Installed {
        /// [`Cause::Folder`] or [`Cause::Bundled`].
        cause: Cause,
        /// Digest of the module file.
        digest: Digest,
        /// The version that was active before.
        before: Option<Digest>,
    },
    /// The history of the slot was not authentic and was set aside.
    SetAside {
        /// The version that serves instead. `None` if no version serves.
        serving: Option<Digest>,
    },
}

/// A version that passed every check and can be activated.
#[derive(Debug)]
pub struct Prepared {
    slot: Slot,
    module: Module,
    bytes: Vec<u8>,
    before: Option<Digest>,
    cause: Cause,
}

impl Prepared {
    /// The slot that the version is for.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Content of the module file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reason for the activation.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Digest of the module file.
    pub fn digest(&self) -> Digest {
        self.module.identity().digest
    }

    /// The version that was active when this one was prepared.
    pub fn before(&self) -> Option<Digest> {
        self.before
    }

    /// Whether activation would change the active version.
    pub fn changes(&self) -> bool {
        self.before != Some(self.digest())
    }
}

/// Reason why a kept version cannot be used again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    /// The slot has no such version.
    #[error("there is no version to go back to")]
    Nothing,
    /// The file of the version is lost or damaged.
    #[error("the version before cannot be read ({0}); upload it instead")]
    Lost(io::ErrorKind),
    /// The version was accepted before, but is refused now.
    #[error("the version before is refused now: {0}")]
    Refused(#[from] LoadError),
}

/// Reason why a slot is not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The slot's file in the plugin folder would fill it again.
    #[error("{0} stands in the plugin folder: delete it first")]
    FileStands(String),
    /// The kept versions, or the file, cannot be deleted.
    #[error("its versions cannot be removed ({0})")]
    Versions(io::ErrorKind),
}

impl Runtime {
    pub(crate) fn new(
        config: RuntimeConfig,
        outgoing: impl Outgoing,
        acceptance: Option<Acceptance>,
        bundled: &BTreeMap<Slot, Vec<u8>>,
    ) -> Result<Self, RuntimeError> {
        let versions =
            VersionStore::open(config.versions.as_ref()).map_err(RuntimeError::Versions)?;
        let histories = versions.histories().map_err(RuntimeError::Versions)?;
        let is_new = |history: &History| history.set_aside && history.versions.is_empty();
        let set_aside = histories.iter().filter(|(_, history)| is_new(history));
        let set_aside = set_aside.map(|(slot, _)| slot.clone()).collect();
        let mut host = Host::new(config, Arc::new(outgoing))?;
        let shipped = bundled.iter();
        let shipped = shipped.map(|(slot, bytes)| (slot.clone(), Digest::hash(bytes)));
        host.shipped = shipped.collect();
        Ok(Self {
            host: Arc::new(host),
            slots: Slots::new(histories),
            versions,
            acceptance: [
                acceptance.map_or_else(OnceLock::new, OnceLock::from),
                OnceLock::new(),
            ],
            loading: Mutex::new(()),
            folder_installs: OnceLock::new(),
            unattended: Mutex::default(),
            set_aside,
        })
    }

    /// The version of a method module that serves live payments.
    pub fn method(&self, id: MethodId) -> Option<Arc<MethodModule>> {
        self.method_in(id, Environment::Live)
    }

    /// The version of a method module that serves in an environment. Call this once per request and use the result
    /// throughout.
    pub fn method_in(&self, id: MethodId, environment: Environment) -> Option<Arc<MethodModule>> {
        self.slots.method(id, environment)
    }

    /// Methods that have a loaded module, even if it does not serve, in display order.
    pub fn methods(&self) -> Vec<MethodId> {
        self.slots.methods()
    }

    /// The version of a provider module that serves live payments. `module` is the second half of its slot's name.
    pub fn provider(&self, module: &str) -> Option<Arc<ProviderModule>> {
        self.provider_in(module, Environment::Live)
    }

    /// The version of a provider module that serves in an environment.
    pub fn provider_in(
        &self,
        module: &str,
        environment: Environment,
    ) -> Option<Arc<ProviderModule>> {
        self.slots.provider(module, environment)
    }

    /// The last good version before the one that serves, to repeat a call that failed.
    pub fn provider_before(
        &self,
        module: &str,
        environment: Environment,
    ) -> Option<Arc<ProviderModule>> {
        self.slots.provider_after(module, environment, 1)
    }

    /// A kept version of a provider module, for the attempts that it started.
    pub fn provider_version(&self, slot: &Slot, digest: &Digest) -> Option<Arc<ProviderModule>> {
        self.slots.provider_version(slot, digest)
    }

    /// Status of every slot that has ever been offered a module.
    pub fn slots(&self) -> Vec<SlotStatus> {
        self.slots.statuses()
    }

    /// Activations in a slot, the most recent first. `None` if the slot was never offered a module.
    pub fn history(&self, slot: &Slot) -> Option<Vec<Activation>> {
        self.slots.events(slot)
    }

    /// Removes and returns the events that no operator's call caused, the earliest first.
    pub fn take_unattended(&self) -> Vec<UnattendedInstall> {
        self.unattended.lock().drain(..).collect()
    }

    /// Slots whose history was not authentic, and for which no operator has decided since which version serves.
    pub fn set_aside(&self) -> Vec<Slot> {
        self.slots.set_aside()
    }

    /// Whether the start skips a file of the plugin folder: the slot's history was set aside, and a kept version
    /// takes precedence over the file.
    pub(crate) fn skips_file_at_start(&self, slot: &Slot) -> bool {
        let history = self.slots.history(slot);
        let last = history.activated();
        history.set_aside && last.is_some_and(|event| event.cause == Cause::Kept)
    }

    /// Notifies after each processed file or upload, accepted or not.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.slots.changes()
    }

    /// Waits until a version is active in a slot.
    pub async fn wait_for(&self, slot: &Slot, digest: &Digest) {
        let mut changes = self.changes();
        // The sender lives as long as `self`, so waiting cannot fail.
        while self.slots.active(slot) != Some(*digest) && changes.changed().await.is_ok() {}
    }

    /// Loads a module from the folder and activates it in its slot. Blocks during compilation.
    ///
    /// Does nothing if the version is already active. A kept version is activated without compiling it again.
    ///
    /// # Errors Reason why the module is refused. The active version continues to serve, the log has one line, and
    /// the slot's status has the reason.
    pub fn install(&self, slot: &Slot, bytes: &[u8], now: Time) -> Result<Installed, LoadError> {
        self.install_locked(&self.lock_loading(), slot, bytes, now)
    }

    /// Waits until no other thread loads or activates a module. The folder's thread reads files under this lock:
    /// otherwise, an old file read before an upload could replace the upload.
    pub(crate) fn lock_loading(&self) -> LoadingLock<'_> {
        LoadingLock(self.loading.lock())
    }

    pub(crate) fn install_locked(
        &self,
        _: &LoadingLock<'_>,
        slot: &Slot,
        bytes: &[u8],
        now: Time,
    ) -> Result<Installed, LoadError> {
        let digest = Digest::hash(bytes);
        if self.slots.active(slot) == Some(digest) {
            self.confirm(slot, Cause::Folder);
            return Ok(Installed {
                digest,
                changed: false,
            });
        }
        if self.slots.is_pinned(slot) {
            self.refuse(slot, &LoadError::Pinned);
            return Err(LoadError::Pinned);
        }
        let module = self.load(slot, digest, bytes)?;
        let Some(installs) = self.folder_installs.get() else {
            return Ok(self.make_active(slot, module, bytes, Cause::Folder, now));
        };
        // The receiver lives as long as the gateway.
        let _ = installs.send(Prepared {
            slot: slot.clone(),
            module,
            bytes: bytes.to_vec(),
            before: self.slots.active(slot),
            cause: Cause::Folder,
        });
        Ok(Installed {
            digest,
            changed: false,
        })
    }

    /// From now on, files in the plugin folder are checked and sent to the returned receiver instead of being
    /// activated. Only the first call has an effect.
    pub fn hand_over_folder_installs(&self) -> mpsc::UnboundedReceiver<Prepared> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let _ = self.folder_installs.set(sender);
        receiver
    }

    /// The active version of a slot.
    pub fn active(&self, slot: &Slot) -> Option<Digest> {
        self.slots.active(slot)
    }

    /// The version that was active before the active one.
    pub fn previous(&self, slot: &Slot) -> Option<Digest> {
        self.slots.previous(slot)
    }

    /// Whether the plugin folder contains this version.
    pub fn stands_in_folder(&self, prepared: &Prepared) -> bool {
        let path = self
            .config()
            .plugin_dir
            .join(format!("{}.wasm", prepared.slot));
        holds(&path, &prepared.bytes)
    }

    /// Records that another node has refused a version of this node's plugin folder.
    pub fn note_refusal(&self, slot: &Slot, why: String) {
        self.refuse(slot, &LoadError::NotAccepted(why));
    }

    /// The kept version of a slot whose digest starts with a text. `None` if no version or more than one matches.
    pub fn kept_version(&self, slot: &Slot, begin: &str) -> Option<Digest> {
        self.slots.kept_version(slot, begin)
    }

    /// Whether a version is kept, loaded or not.
    pub fn is_kept(&self, slot: &Slot, digest: &Digest) -> bool {
        self.slots.is_kept(slot, digest)
    }

    /// Keeps a version that was active before the active one, for attempts that use it. Blocks during compilation.
    ///
    /// # Errors Reason why the module is refused.
    pub fn keep(&self, slot: &Slot, bytes: &[u8], now: Time) -> Result<(), LoadError> {
        let _lock = self.loading.lock();
        let digest = Digest::hash(bytes);
        if self.slots.is_kept(slot, &digest) {
            return Ok(());
        }
        let module = load::load(&self.host, slot, digest, bytes)?;
        let kept = self.versions.put(slot, &digest, bytes);
        self.slots.keep(slot, module, now);
        let saved = kept.and_then(|()| self.versions.save(slot, &self.slots.history(slot)));
        if let Err(error) = saved {
            tracing::error!(
                plugin.slot = %slot, plugin.digest = short(&digest),
                "version {} of {slot} is not kept over a restart: {error}", short(&digest),
            );
        }
        Ok(())
    }

    /// Checks a version without activating it. Blocks during compilation.
    ///
    /// # Errors Reason why the module is refused, which the slot's status shows too.
    pub fn prepare(
        &self,
        slot: &Slot,
        bytes: Vec<u8>,
        cause: Cause,
    ) -> Result<Prepared, LoadError> {
        let _lock = self.loading.lock();
        let module = self.load(slot, Digest::hash(&bytes), &bytes)?;
        Ok(Prepared {
            slot: slot.clone(),
            module,
            bytes,
            before: self.slots.active(slot),
            cause,
        })
    }

    /// Like [`Runtime::prepare`], for the version that was active before the active one.
    ///
    /// # Errors The version does not exist or cannot be loaded any longer.
    pub fn prepare_rollback(&self, slot: &Slot) -> Result<Prepared, RollbackError> {
        let digest = self.slots.previous(slot).ok_or(RollbackError::Nothing)?;
        self.prepare_kept(slot, digest, Cause::Rollback)
    }

    /// Like [`Runtime::prepare`], for a kept version.
    ///
    /// # Errors The version cannot be loaded any longer.
    pub fn prepare_kept(
        &self,
        slot: &Slot,
        digest: Digest,
        cause: Cause,
    ) -> Result<Prepared, RollbackError> {
        let _lock = self.loading.lock();
        let lost = |error: io::Error| RollbackError::Lost(error.kind());
        let bytes = self.versions.get(slot, &digest).map_err(lost)?;
        let module = self.load(slot, digest, &bytes)?;
        Ok(Prepared {
            slot: slot.clone(),
            module,
            bytes,
            before: self.slots.active(slot),
            cause,
        })
    }

    /// Writes a prepared version to the plugin folder, so that a restart serves it too, and activates it. The
    /// later of an upload and a file in the folder wins.
    ///
    /// # Errors The file cannot be written. The version is not activated then.
    pub fn activate(&self, prepared: Prepared, now: Time) -> io::Result<Installed> {
        let _lock = self.loading.lock();
        let Prepared {
            slot,
            module,
            bytes,
            cause,
            ..
        } = prepared;
        let path = self.config().plugin_dir.join(format!("{slot}.wasm"));
        if is_refused(self.config(), &path) || !holds(&path, &bytes) {
            // Readable for others, like a module that a deployment installs.
            kassette_files::write(&path, 0o644, &bytes)?;
        }
        if self.slots.active(&slot) == Some(module.identity().digest) {
            self.confirm(&slot, cause);
            return Ok(Installed {
                digest: module.identity().digest,
                changed: false,
            });
        }
        Ok(self.make_active(&slot, module, &bytes, cause, now))
    }

    /// Loads a module for a trial, with the checks of an upload. It can be called but never activated, and does
    /// not appear in the slot's status, metrics, log or answer cache. Blocks during compilation.
    ///
    /// # Errors Reason why an upload would be refused.
    pub fn open_trial(&self, slot: &Slot, bytes: &[u8]) -> Result<Module, LoadError> {
        let _lock = self.loading.lock();
        // Removes the machine code of the previous trial.
        self.clean_cache();
        let module = load::load_trial(&self.host, slot, Digest::hash(bytes), bytes)?;
        self.judge(&module).map_err(LoadError::NotAccepted)?;
        Ok(module)
    }

    /// Like [`Runtime::open_trial`], for the active version, which is not checked again.
    ///
    /// # Errors The slot does not have an active version, or its file cannot be loaded any longer.
    pub fn open_active(&self, slot: &Slot) -> Result<Module, RollbackError> {
        let _lock = self.loading.lock();
        let digest = self.slots.active(slot).ok_or(RollbackError::Nothing)?;
        let bytes = self.versions.get(slot, &digest);
        let bytes = bytes.map_err(|error| RollbackError::Lost(error.kind()))?;
        Ok(load::load_trial(&self.host, slot, digest, &bytes)?)
    }

    /// Whether the slot gets no new payments. Its modules still serve running attempts.
    pub fn is_disabled(&self, slot: &Slot) -> bool {
        self.slots.is_disabled(slot)
    }

    /// Disables or enables a slot for new payments. Persists over restarts and other modules in the slot.
    ///
    /// # Errors The history cannot be saved. The running gateway does not change then.
    pub fn set_disabled(&self, slot: &Slot, disabled: bool) -> io::Result<()> {
        let _lock = self.loading.lock();
        let history = self.slots.history(slot);
        self.versions.save(
            slot,
            &History {
                disabled,
                ..history
            },
        )?;
        self.slots.set_disabled(slot, disabled);
        let state = if disabled { "off" } else { "on" };
        tracing::info!(plugin.slot = %slot, "{slot} is switched {state} for new payments");
        Ok(())
    }

    /// Removes a slot with all its versions, unless the plugin folder has a file for it.
    ///
    /// # Errors See [`RemoveError`]. The slot then serves as before.
    pub fn remove_slot(&self, slot: &Slot) -> Result<(), RemoveError> {
        let _lock = self.loading.lock();
        self.check_file_gone(slot)?;
        let removed = self.versions.remove(slot);
        removed.map_err(|error| RemoveError::Versions(error.kind()))?;
        self.slots.remove(slot);
        self.clean_cache();
        tracing::info!(plugin.slot = %slot, "{slot} was taken away");
        Ok(())
    }

    /// Like [`Runtime::remove_slot`], but deletes the file too.
    ///
    /// # Errors Like [`Runtime::remove_slot`], or the file cannot be deleted.
    pub fn remove_slot_and_file(&self, slot: &Slot) -> Result<(), RemoveError> {
        let path = self.config().plugin_dir.join(format!("{slot}.wasm"));
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RemoveError::Versions(error.kind()))
            }
            _ => self.remove_slot(slot),
        }
    }

    /// Checks that the plugin folder has no file for a slot. [`Runtime::remove_slot`] checks this again.
    ///
    /// # Errors [`RemoveError::FileStands`]
    pub fn check_file_gone(&self, slot: &Slot) -> Result<(), RemoveError> {
        let file = format!("{slot}.wasm");
        let path = self.config().plugin_dir.join(&file);
        match path.symlink_metadata() {
            Ok(_) => Err(RemoveError::FileStands(file)),
            Err(_) => Ok(()),
        }
    }

    /// From now on, `acceptance` checks every module before it serves for the first time, after the check given to
    /// the start. Only the first call has an effect.
    pub fn accept_by(&self, acceptance: Acceptance) {
        let [_, later] = &self.acceptance;
        let _ = later.set(acceptance);
    }

    /// Returns a kept version, or loads these bytes. Records a refusal.
    fn load(&self, slot: &Slot, digest: Digest, bytes: &[u8]) -> Result<Module, LoadError> {
        if let Some(module) = self.slots.kept(slot, &digest) {
            return Ok(module);
        }
        let loaded = load::load(&self.host, slot, digest, bytes).and_then(|module| {
            // Versions from before the last start are not checked again, because payments depend on them.
            if !self.slots.is_kept(slot, &digest) {
                self.judge(&module).map_err(LoadError::NotAccepted)?;
            }
            Ok(module)
        });
        loaded.inspect_err(|error| self.refuse(slot, error))
    }

    fn judge(&self, module: &Module) -> Result<(), String> {
        let mut judges = self.acceptance.iter().filter_map(OnceLock::get);
        judges.try_for_each(|judge| judge(module))
    }

    /// Records that an operator offered the active version again.
    fn confirm(&self, slot: &Slot, cause: Cause) {
        if self.slots.confirm(slot, cause)
            && let Err(error) = self.versions.save(slot, &self.slots.history(slot))
        {
            tracing::error!(
                plugin.slot = %slot,
                "it cannot be written down that {slot} is the operator's now: {error}",
            );
        }
    }

    fn make_active(
        &self,
        slot: &Slot,
        module: Module,
        bytes: &[u8],
        cause: Cause,
        now: Time,
    ) -> Installed {
        let digest = module.identity().digest;
        let kept = self.versions.put(slot, &digest, bytes);
        let activated = self.slots.activate(slot, module, cause, now);
        if activated.new {
            // Count before writing to disk: an operator who sees the version serve must find it counted.
            counter!("kassette_plugin_swaps_total", "slot" => slot.as_str().to_owned())
                .increment(1);
        }
        // The version serves even if it cannot be saved: a full disk must not prevent a fix.
        if let Err(error) = kept.and_then(|()| self.versions.save(slot, &self.slots.history(slot)))
        {
            tracing::error!(
                plugin.slot = %slot, plugin.digest = short(&digest),
                "version {} of {slot} serves, but is not kept over a restart: {error}", short(&digest),
            );
        }
        // Versions that several nodes serve are recorded elsewhere.
        let is_alone = self.folder_installs.get().is_none();
        if activated.new && is_alone && matches!(cause, Cause::Folder | Cause::Bundled) {
            self.note_unattended(UnattendedInstall {
                what: Unattended::Installed {
                    cause,
                    digest,
                    before: activated.before,
                },
                slot: slot.clone(),
                at: now,
            });
        }
        if activated.forgotten {
            self.clean_cache();
        }
        tracing::info!(
            plugin.slot = %slot, plugin.digest = short(&digest), plugin.cause = cause.as_str(),
            "{slot} now serves {}", short(&digest),
        );
        Installed {
            digest,
            changed: activated.new,
        }
    }

    fn note_unattended(&self, install: UnattendedInstall) {
        let mut waiting = self.unattended.lock();
        if waiting.len() == MOST_UNATTENDED {
            waiting.pop_front();
        }
        waiting.push_back(install);
        drop(waiting);
        self.slots.notify();
    }

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

    /// Clears the refusal of a slot's file that no longer exists.
    pub(crate) fn forget_refusal(&self, slot: &Slot) {
        self.slots.forget_refusal(slot);
    }

    /// Removes compiled modules that no kept version needs.
    pub(crate) fn clean_cache(&self) {
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
