//! The runtime: modules by slot, loaded from a folder and replaced while they serve.

mod restore;
mod trials;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use kassette_domain::id::{Digest, Slot};
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

/// Versions installed from the folder that the server has not taken yet; more at once than a deployment of every module.
const MOST_UNATTENDED: usize = 1000;

/// Judges a module that was loaded and has not served yet; the error is a sentence for the operator.
pub type Acceptance = Arc<dyn Fn(&Module) -> Result<(), String> + Send + Sync>;

/// Runs modules. One per process; shared as an `Arc`.
pub struct Runtime {
    pub(crate) host: Arc<Host>,
    slots: Slots,
    versions: VersionStore,
    /// What a module is asked before it serves for the first time: from the start on, and later.
    acceptance: [OnceLock<Acceptance>; 2],
    /// One module is compiled at a time: the compiler takes every core it gets.
    loading: Mutex<()>,
    /// Where versions of the plugin folder go that are to serve on several nodes, once there is one.
    folder_installs: OnceLock<mpsc::UnboundedSender<Prepared>>,
    unattended: Mutex<VecDeque<UnattendedInstall>>,
}

/// Held by the thread that loads or activates.
pub(crate) struct LoadingLock<'a>(
    #[expect(dead_code, reason = "held for its drop")] MutexGuard<'a, ()>,
);

/// What became of a module that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Of its bytes; this version is active now.
    pub digest: Digest,
    /// False where it was active already.
    pub changed: bool,
}

/// A version that became active without an operator's call: its file was put into the plugin folder, or
/// the program brought it along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnattendedInstall {
    /// Which of the two.
    pub cause: Cause,
    /// The slot that serves it.
    pub slot: Slot,
    /// Of its file.
    pub digest: Digest,
    /// The version before it.
    pub before: Option<Digest>,
    pub at: Time,
}

/// A version that passed every check and waits to be activated.
#[derive(Debug)]
pub struct Prepared {
    slot: Slot,
    module: Module,
    bytes: Vec<u8>,
    before: Option<Digest>,
    cause: Cause,
}

impl Prepared {
    /// Where it is to serve.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The module.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What brought it.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Of its bytes.
    pub fn digest(&self) -> Digest {
        self.module.identity().digest
    }

    /// The version that was active when this one was prepared.
    pub fn before(&self) -> Option<Digest> {
        self.before
    }

    /// False where it is the active version already.
    pub fn changes(&self) -> bool {
        self.before != Some(self.digest())
    }
}

/// Why the operator cannot go back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    /// There was no version before, or the slot has none at all.
    #[error("there is no version to go back to")]
    Nothing,
    /// The version before is not where it was kept.
    #[error("the version before cannot be read ({0}); upload it instead")]
    Lost(io::ErrorKind),
    /// It was accepted once and is not any more.
    #[error("the version before is refused now: {0}")]
    Refused(#[from] LoadError),
}

/// Why a slot is not taken away.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Its file would fill it again.
    #[error("{0} stands in the plugin folder: delete it first")]
    FileStands(String),
    /// The versions that are kept of it cannot be removed.
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
            VersionStore::open(config.versions_dir.as_deref()).map_err(RuntimeError::Versions)?;
        let histories = versions.histories().map_err(RuntimeError::Versions)?;
        let mut host = Host::new(config, Arc::new(outgoing))?;
        let now = bundled.iter();
        let now = now.map(|(slot, bytes)| (slot.clone(), Digest::of(bytes)));
        // Of those of programs before it versions are kept, for attempts under way and to go back to.
        let before = histories.iter().flat_map(|(slot, history)| {
            let events = history.events.iter();
            let bundled = events.filter(|event| event.cause == Cause::Bundled);
            bundled.map(|event| (slot.clone(), event.digest))
        });
        host.shipped = now.chain(before).collect();
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
        })
    }

    /// The version of a method's module that serves. Take it once and use it throughout a request.
    pub fn method(&self, id: MethodId) -> Option<Arc<MethodModule>> {
        self.slots.method(id)
    }

    /// Methods for which a module was loaded, whether it serves or not, in the order of lists.
    pub fn methods(&self) -> Vec<MethodId> {
        self.slots.methods()
    }

    /// The version of a provider's module that serves, by the second half of its slot.
    pub fn provider(&self, module: &str) -> Option<Arc<ProviderModule>> {
        self.slots.provider(module)
    }

    /// The version that served well before the one that serves: for a call on which that one failed.
    pub fn provider_before(&self, module: &str) -> Option<Arc<ProviderModule>> {
        self.slots.provider_after(module, 1)
    }

    /// A version of a provider's module that is still kept: the one that started an attempt.
    pub fn provider_version(&self, slot: &Slot, digest: &Digest) -> Option<Arc<ProviderModule>> {
        self.slots.provider_version(slot, digest)
    }

    /// Every slot that has ever been offered a module.
    pub fn slots(&self) -> Vec<SlotStatus> {
        self.slots.statuses()
    }

    /// Which versions became active in a slot, the latest first; none where the slot was never
    /// offered a module.
    pub fn history(&self, slot: &Slot) -> Option<Vec<Activation>> {
        self.slots.events(slot)
    }

    /// What became active without an operator's call since the last time, the earliest first.
    pub fn take_unattended(&self) -> Vec<UnattendedInstall> {
        self.unattended.lock().drain(..).collect()
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

    /// Loads a module from the folder and makes it the active one of its slot. Blocks while it
    /// compiles.
    ///
    /// The digest of the active version changes nothing; a version that is still kept is activated
    /// without compiling it again.
    ///
    /// # Errors
    /// Why the module is refused. Then what served goes on serving, the log has one line, and the
    /// slot's status says why.
    pub fn install(&self, slot: &Slot, bytes: &[u8], now: Time) -> Result<Installed, LoadError> {
        self.install_locked(&self.lock_loading(), slot, bytes, now)
    }

    /// Waits until no other thread loads or activates. The folder's thread reads a file under this
    /// lock: what was read before an upload would undo the upload.
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
        let digest = Digest::of(bytes);
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

    /// From now on a file that is put into the plugin folder is checked and handed over, and does not serve by
    /// itself. The first call counts.
    pub fn hand_over_folder_installs(&self) -> mpsc::UnboundedReceiver<Prepared> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let _ = self.folder_installs.set(sender);
        receiver
    }

    /// The active version of a slot.
    pub fn active(&self, slot: &Slot) -> Option<Digest> {
        self.slots.active(slot)
    }

    /// The version that was active before that.
    pub fn previous(&self, slot: &Slot) -> Option<Digest> {
        self.slots.previous(slot)
    }

    /// Whether the plugin folder has this very version.
    pub fn stands_in_folder(&self, prepared: &Prepared) -> bool {
        let path = self
            .config()
            .plugin_dir
            .join(format!("{}.wasm", prepared.slot));
        holds(&path, &prepared.bytes)
    }

    /// Another node does not take a version of this one's plugin folder: noted as a refusal of its own.
    pub fn note_refusal(&self, slot: &Slot, why: String) {
        self.refuse(slot, &LoadError::NotAccepted(why));
    }

    /// Whether a version is kept, loaded or not.
    pub fn is_kept(&self, slot: &Slot, digest: &Digest) -> bool {
        self.slots.is_kept(slot, digest)
    }

    /// Keeps a version that was active before the active one, for attempts that stay with it. Blocks while it
    /// compiles.
    ///
    /// # Errors
    /// Why the module is refused.
    pub fn keep(&self, slot: &Slot, bytes: &[u8], now: Time) -> Result<(), LoadError> {
        let _lock = self.loading.lock();
        let digest = Digest::of(bytes);
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

    /// Checks a version without activating it. Blocks while it compiles.
    ///
    /// # Errors
    /// Why the module is refused; the slot's status says it too.
    pub fn prepare(
        &self,
        slot: &Slot,
        bytes: Vec<u8>,
        cause: Cause,
    ) -> Result<Prepared, LoadError> {
        let _lock = self.loading.lock();
        let module = self.load(slot, Digest::of(&bytes), &bytes)?;
        Ok(Prepared {
            slot: slot.clone(),
            module,
            bytes,
            before: self.slots.active(slot),
            cause,
        })
    }

    /// The same for the version that was active before the active one.
    ///
    /// # Errors
    /// Where there is none, or it cannot be had any more.
    pub fn prepare_rollback(&self, slot: &Slot) -> Result<Prepared, RollbackError> {
        let digest = self.slots.previous(slot).ok_or(RollbackError::Nothing)?;
        self.prepare_kept(slot, digest, Cause::Rollback)
    }

    /// The same for a version that is kept.
    ///
    /// # Errors
    /// Where it cannot be had any more.
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

    /// Writes a prepared version into the plugin folder, so that a restart serves the same, and
    /// activates it. Of uploads and files in the folder the latest wins.
    ///
    /// # Errors
    /// Where the folder cannot be written; then nothing changes.
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
            // Readable for others, as a module that a deployment puts there.
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

    /// Opens a module beside the one that serves, with the checks of an upload: to ask it, never to
    /// activate it. Nothing of it reaches the slot's status, metrics, the log or the cache of answers. Blocks
    /// while it compiles.
    ///
    /// # Errors
    /// Why an upload would be refused.
    pub fn open_trial(&self, slot: &Slot, bytes: &[u8]) -> Result<Module, LoadError> {
        let _lock = self.loading.lock();
        // Machine code of the one that was tried before stays no longer.
        self.clean_cache();
        let module = load::load_trial(&self.host, slot, Digest::of(bytes), bytes)?;
        self.judge(&module).map_err(LoadError::NotAccepted)?;
        Ok(module)
    }

    /// The same of the version that is active, which is not checked again.
    ///
    /// # Errors
    /// Where the slot has none, or it cannot be had any more.
    pub fn open_active(&self, slot: &Slot) -> Result<Module, RollbackError> {
        let _lock = self.loading.lock();
        let digest = self.slots.active(slot).ok_or(RollbackError::Nothing)?;
        let bytes = self.versions.get(slot, &digest);
        let bytes = bytes.map_err(|error| RollbackError::Lost(error.kind()))?;
        Ok(load::load_trial(&self.host, slot, digest, &bytes)?)
    }

    /// Whether nothing new is to be routed to a slot. Its modules go on for what is under way.
    pub fn is_disabled(&self, slot: &Slot) -> bool {
        self.slots.is_disabled(slot)
    }

    /// Switches a slot off or on for what is new, over restarts too and whatever module is put into it.
    ///
    /// # Errors
    /// Where that cannot be written down; then nothing changes.
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

    /// Takes a slot away with all its versions, where no file of it stands in the plugin folder.
    ///
    /// # Errors
    /// See [`RemoveError`]; then it serves as before.
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

    /// The same with its file.
    ///
    /// # Errors
    /// As [`Runtime::remove_slot`], or that of the file.
    pub fn remove_slot_and_file(&self, slot: &Slot) -> Result<(), RemoveError> {
        let path = self.config().plugin_dir.join(format!("{slot}.wasm"));
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RemoveError::Versions(error.kind()))
            }
            _ => self.remove_slot(slot),
        }
    }

    /// Whether a slot's file is gone from the plugin folder, which is looked at again when it is taken away.
    ///
    /// # Errors
    /// [`RemoveError::FileStands`]
    pub fn check_file_gone(&self, slot: &Slot) -> Result<(), RemoveError> {
        let file = format!("{slot}.wasm");
        let path = self.config().plugin_dir.join(&file);
        match path.symlink_metadata() {
            Ok(_) => Err(RemoveError::FileStands(file)),
            Err(_) => Ok(()),
        }
    }

    /// Has `acceptance` judge every module from now on that is to serve for the first time, after the one
    /// that the start was given. The first call counts.
    pub fn accept_by(&self, acceptance: Acceptance) {
        let [_, later] = &self.acceptance;
        let _ = later.set(acceptance);
    }

    /// A version that is kept, or one made of these bytes; a refusal is noted.
    fn load(&self, slot: &Slot, digest: Digest, bytes: &[u8]) -> Result<Module, LoadError> {
        if let Some(module) = self.slots.kept(slot, &digest) {
            return Ok(module);
        }
        let loaded = load::load(&self.host, slot, digest, bytes).and_then(|module| {
            // What served before the last start is not judged again: payments wait for it.
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

    /// The active version was offered again by an operator.
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

    /// Keeps a version and makes it the active one.
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
            // At once: an operator who sees the version serve finds it counted, however slow the disk is.
            counter!("kassette_plugin_swaps_total", "slot" => slot.as_str().to_owned())
                .increment(1);
        }
        // What cannot be written down serves all the same: a full disk must not hold a fix back.
        if let Err(error) = kept.and_then(|()| self.versions.save(slot, &self.slots.history(slot)))
        {
            tracing::error!(
                plugin.slot = %slot, plugin.digest = short(&digest),
                "version {} of {slot} serves, but is not kept over a restart: {error}", short(&digest),
            );
        }
        // What several nodes serve has a line of its own.
        let is_alone = self.folder_installs.get().is_none();
        if activated.new && is_alone && matches!(cause, Cause::Folder | Cause::Bundled) {
            self.note_unattended(UnattendedInstall {
                cause,
                slot: slot.clone(),
                digest,
                before: activated.before,
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

    /// Removes compiled modules that no version needs which is kept.
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
