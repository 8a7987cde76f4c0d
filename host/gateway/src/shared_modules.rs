//! Modules that all nodes serve in the same version.
//!
//! The node that receives a version checks it and proposes it. Every other node checks it too and announces
//! whether it can serve it. When all live nodes have agreed, the proposing node settles the version, every
//! node activates it, and the proposing node answers. If one node refuses, no node serves the version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::{Audited, PLUGIN_FOLDER};
use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_runtime::{Cause, Prepared, Runtime};
use kassette_store::{
    Fault, ModulesInfo, NodeStatus, Proposal, SlotChange, SlotContent, SlotStage,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{MutexGuard, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Gateway;

/// Interval at which the version number of changes, which is in memory, is read.
const LOOK: Duration = Duration::from_millis(50);
/// Interval at which the changes are read even if the number stays the same, so that failed changes are tried
/// again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Interval at which the announcements of other nodes are read. Each announces twice a second.
const ASK: Duration = Duration::from_millis(100);
/// Time limit for nodes to check a version. Compiling takes some seconds, and all nodes start it together.
const CHECKING: Duration = Duration::from_secs(120);
/// Maximum time that a change waits for the other nodes to follow it.
const FOLLOWING: Duration = Duration::from_secs(2);
/// Maximum number of tries to withdraw a proposal: one hour.
const WITHDRAWALS: u32 = 720;
/// Maximum time that a proposal waits for its turn.
const TURN: Duration = Duration::from_secs(60);

/// Reason why a version serves on no node.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// A node cannot serve it.
    #[error("node {node} refuses it: {why}")]
    Refused { node: String, why: String },
    /// A node has not announced in time whether it can serve it.
    #[error("node {0} has not checked it in time; nothing was changed")]
    Late(String),
    /// Another version is being proposed, or this proposal lapsed because the nodes took this node for dead.
    #[error("another version was proposed meanwhile; nothing was changed, try again")]
    Busy,
    #[error(transparent)]
    Store(#[from] Fault),
}

#[derive(Clone, Copy, PartialEq)]
enum VersionOrigin {
    Call,
    /// The plugin folder. The version is wanted while its file is there.
    Folder,
    /// The plugin folder at the start.
    Start,
}

/// This node's state of the modules that all nodes share.
#[derive(Default)]
pub(crate) struct SharedModulesState {
    /// Allows this node one proposal at a time.
    turn: tokio::sync::Mutex<()>,
    following: tokio::sync::Mutex<Following>,
    /// Versions that are installed through this node's plugin folder.
    folder_installs: Mutex<Option<mpsc::UnboundedReceiver<Prepared>>>,
    /// Versions in its plugin folder that were, at the start, newer than those that all nodes serve.
    newer: Mutex<Vec<(Slot, Digest)>>,
    /// Time since which this node has been behind with changes.
    behind_since: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Following {
    announced: ModulesInfo,
    /// Proposed versions that passed the check, by digest.
    checked: BTreeMap<Digest, Prepared>,
}

impl Gateway {
    /// Installs the versions that all nodes serve, before this node serves too. [`Gateway::follow_modules`]
    /// proposes newer versions in its own plugin folder.
    ///
    /// # Errors
    /// The store's.
    pub async fn join_modules(&self) -> Result<(), Fault> {
        let Some(runtime) = self.shared_runtime() else {
            return Ok(());
        };
        let installs = runtime.hand_over_folder_installs();
        let shared = &self.inner.shared_modules;
        shared.folder_installs.lock().replace(installs);
        let changes = self.store().slot_changes(0).await?;
        let mut newest: BTreeMap<Slot, Digest> = BTreeMap::new();
        for change in &changes {
            if let Some(digest) = settled_version(change) {
                newest.insert(change.slot.clone(), digest);
            }
        }
        for (slot, digest) in &newest {
            let active = runtime.active(slot);
            let is_newer_here = active != Some(*digest) && runtime.previous(slot) == Some(*digest);
            if let Some(active) = active.filter(|_| is_newer_here) {
                self.inner
                    .shared_modules
                    .newer
                    .lock()
                    .push((slot.clone(), active));
            }
        }
        self.follow(&runtime).await.map(drop)
    }

    /// How long this node has been behind with changes of modules. `None` if it has followed all.
    pub fn modules_behind(&self) -> Option<Duration> {
        let since = *self.inner.shared_modules.behind_since.lock();
        since.map(|since| since.elapsed())
    }

    fn note_followed(&self, followed: bool) {
        let mut behind_since = self.inner.shared_modules.behind_since.lock();
        *behind_since = match followed {
            true => None,
            false => behind_since.or_else(|| Some(Instant::now())),
        };
    }

    /// Follows changes of modules and proposes modules put into this node's plugin folder, until `ending` is
    /// cancelled.
    pub async fn follow_modules(&self, ending: CancellationToken) {
        let Some(runtime) = self.shared_runtime() else {
            return;
        };
        let proposing = async {
            let installs = self.inner.shared_modules.folder_installs.lock().take();
            let newer = std::mem::take(&mut *self.inner.shared_modules.newer.lock());
            for (slot, digest) in newer {
                if let Some(prepared) = self.kept(&runtime, slot, digest).await {
                    self.propose_folder_install(&runtime, prepared, VersionOrigin::Start)
                        .await;
                }
            }
            let Some(mut installs) = installs else { return };
            while let Some(prepared) = installs.recv().await {
                self.propose_folder_install(&runtime, prepared, VersionOrigin::Folder)
                    .await;
            }
        };
        let following = async {
            loop {
                let version = self.store().directory_version();
                match self.follow(&runtime).await {
                    Ok(followed) => self.note_followed(followed),
                    // If the store cannot be read, its own readiness check reports that.
                    Err(fault) => {
                        tracing::warn!(error = %fault, "changes of modules are not followed yet");
                    }
                }
                let again = Instant::now() + LOOK_AGAIN;
                while self.store().directory_version() == version && Instant::now() < again {
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        tokio::select! {
            () = ending.cancelled() => {}
            ((), ()) = async { tokio::join!(proposing, following) } => {}
        }
    }

    /// Makes a version serve on all nodes or on none. Continues if the caller goes away; no other node can
    /// propose in the meantime. The audit line is written if the version serves.
    ///
    /// # Errors
    /// See [`ShareError`].
    pub async fn share_version(&self, prepared: Prepared, line: Audited) -> Result<(), ShareError> {
        let gateway = self.clone();
        let shared = self.run_to_end(async move {
            let proposed = gateway.propose(prepared, VersionOrigin::Call).await?;
            match proposed {
                Some((number, _turn)) => gateway.settled(number, line).await,
                None => Ok(()),
            }
        });
        shared.await?
    }

    /// Proposes a version when it is this node's turn. Returns the number of the proposal, or `None` if it is
    /// no longer wanted.
    async fn propose(
        &self,
        prepared: Prepared,
        origin: VersionOrigin,
    ) -> Result<Option<(u64, MutexGuard<'_, ()>)>, ShareError> {
        let turn = self.inner.shared_modules.turn.lock().await;
        let until = Instant::now() + TURN;
        while self.is_wanted(&prepared, origin).await? {
            // Held, so that this node's own check of the proposal finds the version in `checked`.
            let mut following = self.inner.shared_modules.following.lock().await;
            let proposal = Proposal {
                slot: prepared.slot().clone(),
                bytes: prepared.bytes().to_vec(),
                cause: prepared.cause().as_str().to_owned(),
            };
            let proposed = self.store().propose_version(proposal, self.now());
            if let Some(number) = proposed.await? {
                let (slot, digest) = (prepared.slot().clone(), prepared.digest());
                following.checked.insert(digest, prepared);
                drop(following);
                // Another node may have settled the same version since the check above. While this proposal
                // exists, none can.
                let is_served = self.is_served(&slot, digest, origin).await;
                if matches!(is_served, Ok(false)) {
                    return Ok(Some((number, turn)));
                }
                self.withdraw(number).await;
                is_served?;
                return Ok(None);
            }
            drop(following);
            if Instant::now() > until {
                return Err(ShareError::Busy);
            }
            tokio::time::sleep(ASK).await;
        }
        Ok(None)
    }

    /// Settles a proposal of this node when all other nodes agree. Otherwise withdraws it.
    async fn settled(&self, number: u64, line: Audited) -> Result<(), ShareError> {
        let settled = async {
            self.agreed(number).await?;
            let settled = self.store().settle_version(number, Some(line), self.now());
            settled.await?.ok_or(ShareError::Busy)
        };
        match settled.await {
            Ok(settled) => Ok(self.followed_by_all(settled).await?),
            Err(error) => {
                self.withdraw(number).await;
                Err(error)
            }
        }
    }

    /// Withdraws a proposal that is not settled. No other node can propose while it exists, so if the store
    /// fails, the withdrawal is repeated in the background.
    async fn withdraw(&self, number: u64) {
        let Err(fault) = self.store().withdraw_version(number).await else {
            return;
        };
        tracing::warn!(error = %fault, "a proposed version is not taken back yet");
        let gateway = self.clone();
        tokio::spawn(async move {
            for _ in 0..WITHDRAWALS {
                tokio::time::sleep(LOOK_AGAIN).await;
                if gateway.store().withdraw_version(number).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Returns the version that all nodes served before the current one, after a check.
    ///
    /// # Errors
    /// The store's. The inner error says why there is none or why it was refused.
    pub async fn version_before(&self, slot: &Slot) -> Result<Result<Prepared, String>, Fault> {
        let nothing = || Ok(Err("there is no version to go back to".to_owned()));
        let Some(runtime) = self.shared_runtime() else {
            return nothing();
        };
        let changes = self.store().slot_changes(0).await?;
        let of_slot = changes.iter().filter(|change| change.slot == *slot);
        let mut versions = of_slot.filter_map(settled_version);
        let active = runtime.active(slot);
        let Some(before) = versions.rfind(|digest| Some(*digest) != active) else {
            // The version in the folders from before the first shared change.
            let (checking, slot) = (Arc::clone(&runtime), slot.clone());
            let prepared = tokio::task::spawn_blocking(move || checking.prepare_rollback(&slot));
            let prepared = prepared.await.map_err(|_| Fault::Stopping)?;
            return Ok(prepared.map_err(|error| error.to_string()));
        };
        let cause = Cause::Rollback.as_str();
        self.fetched(&runtime, slot, before, cause).await
    }

    /// Switches a slot on or off on all nodes, or removes it.
    ///
    /// # Errors
    /// The store's.
    pub async fn share_change(
        &self,
        slot: Slot,
        content: SlotContent,
        line: Audited,
    ) -> Result<(), Fault> {
        let changed = self.store().change_slot(slot, content, line, self.now());
        let number = changed.await?;
        self.followed_by_all(number).await
    }

    fn shared_runtime(&self) -> Option<Arc<Runtime>> {
        let runtime = self.runtime().cloned();
        runtime.filter(|_| self.store().shares_modules())
    }

    /// Waits until every other live node has accepted a proposal.
    async fn agreed(&self, number: u64) -> Result<(), ShareError> {
        let until = Instant::now() + CHECKING;
        loop {
            let nodes = self.store().nodes().await?;
            let others = || nodes.iter().filter(|node| !node.is_self);
            let refuses = |node: &NodeStatus| {
                let why = node.modules.refusal.clone();
                why.filter(|_| node.modules.checked == number)
            };
            if let Some((node, why)) = others().find_map(|node| Some((node, refuses(node)?))) {
                let node = node.name.clone();
                return Err(ShareError::Refused { node, why });
            }
            let Some(waiting) = others().find(|node| node.modules.checked < number) else {
                return Ok(());
            };
            if Instant::now() > until {
                return Err(ShareError::Late(waiting.name.clone()));
            }
            tokio::time::sleep(ASK).await;
        }
    }

    /// Follows a change on this node and waits for the other nodes. A node that is too slow follows later,
    /// because the change is settled.
    async fn followed_by_all(&self, number: u64) -> Result<(), Fault> {
        if let Some(runtime) = self.shared_runtime() {
            self.follow(&runtime).await?;
        }
        let all = async {
            loop {
                let nodes = self.store().nodes().await?;
                let mut others = nodes.iter().filter(|node| !node.is_self);
                if others.all(|node| node.modules.followed >= number) {
                    return Ok(());
                }
                tokio::time::sleep(ASK).await;
            }
        };
        match tokio::time::timeout(FOLLOWING, all).await {
            Ok(followed) => followed,
            Err(_) => {
                tracing::warn!("a node has not followed a change of modules in time");
                Ok(())
            }
        }
    }

    /// Checks proposals and follows settled changes that this node has not processed yet. False if it could
    /// not follow all of them.
    async fn follow(&self, runtime: &Arc<Runtime>) -> Result<bool, Fault> {
        let mut following = self.inner.shared_modules.following.lock().await;
        let since = following.announced.followed;
        let changes = self.store().slot_changes(since).await?;
        let proposed = |change: &SlotChange| change.stage == SlotStage::Proposed;
        for change in changes.iter().filter(|change| proposed(change)) {
            self.check(runtime, &mut following, change).await?;
        }
        let settled = || changes.iter().filter(|change| !proposed(change));
        // Versions that a later one replaced are only stored. Of trials, the last one counts, unless a
        // version was settled after it.
        let is_over = |change: &&SlotChange| {
            let later = settled().filter(|later| later.number > change.number);
            let mut later = later.filter(|later| later.slot == change.slot);
            match settled_version(change) {
                Some(_) => later.any(|later| settled_version(later).is_some()),
                None if is_of_trial(change) => {
                    later.any(|later| settled_version(later).is_some() || is_of_trial(later))
                }
                None => false,
            }
        };
        for change in settled().filter(|change| !is_over(change)) {
            if let Err(why) = self.apply(runtime, &mut following, change).await? {
                tracing::error!(
                    plugin.slot = %change.slot,
                    "a change of {} that all nodes follow is not followed here yet: {why}", change.slot
                );
                return Ok(false);
            }
        }
        let over: Vec<_> = settled().filter(is_over).collect();
        for change in over.into_iter().rev() {
            // A node that restarts has most of them already.
            let digest =
                settled_version(change).filter(|digest| !runtime.is_kept(&change.slot, digest));
            let Some(digest) = digest else { continue };
            let Some(bytes) = self.store().module_bytes(digest).await? else {
                continue;
            };
            let (keeping, slot, now) = (Arc::clone(runtime), change.slot.clone(), self.now());
            if let Err(why) = blocking(move || keeping.keep(&slot, &bytes, now)).await? {
                tracing::warn!(plugin.slot = %change.slot, "an earlier version is not kept: {why}");
            }
        }
        if let Some(last) = settled().next_back() {
            following.announced.followed = last.number;
            self.store().announce_modules(following.announced.clone());
        }
        if !changes.iter().any(proposed) {
            following.checked.clear();
        }
        Ok(true)
    }

    /// Announces whether this node can serve a proposed version.
    async fn check(
        &self,
        runtime: &Arc<Runtime>,
        following: &mut Following,
        change: &SlotChange,
    ) -> Result<(), Fault> {
        let SlotContent::Version { digest, cause } = &change.content else {
            return Ok(());
        };
        if following.announced.checked >= change.number {
            return Ok(());
        }
        let refusal = match following.checked.contains_key(digest) {
            true => None,
            false => match self.fetched(runtime, &change.slot, *digest, cause).await? {
                Ok(prepared) => {
                    following.checked.insert(*digest, prepared);
                    None
                }
                Err(why) => Some(why),
            },
        };
        (following.announced.checked, following.announced.refusal) = (change.number, refusal);
        self.store().announce_modules(following.announced.clone());
        Ok(())
    }

    /// Applies a settled change on this node.
    async fn apply(
        &self,
        runtime: &Arc<Runtime>,
        following: &mut Following,
        change: &SlotChange,
    ) -> Result<Result<(), String>, Fault> {
        // The time comes from the change, so that it is the same on every node.
        let (changing, slot, at) = (Arc::clone(runtime), change.slot.clone(), change.at);
        self.note_figures(&slot).await;
        match &change.content {
            SlotContent::Disabled(disabled) => {
                let disabled = *disabled;
                if runtime.is_disabled(&slot) == disabled {
                    return Ok(Ok(()));
                }
                blocking(move || changing.set_disabled(&slot, disabled)).await
            }
            SlotContent::Removed => {
                if runtime.history(&slot).is_none() {
                    return Ok(Ok(()));
                }
                blocking(move || changing.remove_slot_and_file(&slot)).await
            }
            SlotContent::Candidate(None) => {
                if runtime.candidate(&slot).is_none() {
                    return Ok(Ok(()));
                }
                blocking(move || changing.end_trial(&slot, None, at)).await
            }
            SlotContent::Candidate(Some(candidate)) => {
                let candidate = candidate.clone();
                if runtime.candidate(&slot).as_ref() == Some(&candidate) {
                    return Ok(Ok(()));
                }
                let is_staged = runtime.staged(&slot);
                if is_staged.is_some_and(|staged| staged.candidate.digest == candidate.digest) {
                    return blocking(move || changing.restage(&slot, candidate, at)).await;
                }
                // This node was not running when the version was put on trial.
                let cause = Cause::Candidate.as_str();
                match self
                    .fetched(runtime, &slot, candidate.digest, cause)
                    .await?
                {
                    Ok(prepared) => blocking(move || changing.stage(prepared, candidate, at)).await,
                    Err(why) => Ok(Err(why)),
                }
            }
            SlotContent::Version { digest, cause } => {
                let is_trial = is_trial(cause);
                let known = match is_trial {
                    true => runtime.candidate(&slot).map(|candidate| candidate.digest),
                    false => runtime.active(&slot),
                };
                let is_pinned = *cause == Cause::Pin.as_str();
                let stays = is_trial || runtime.is_pinned(&slot) == is_pinned;
                if known == Some(*digest) && stays {
                    return Ok(Ok(()));
                }
                let prepared = match following.checked.remove(digest) {
                    Some(prepared) => Ok(prepared),
                    None => self.fetched(runtime, &slot, *digest, cause).await?,
                };
                let candidate = Candidate {
                    digest: *digest,
                    since: at,
                    canary: None,
                };
                match prepared {
                    Ok(prepared) if is_trial => {
                        blocking(move || changing.stage(prepared, candidate, at)).await
                    }
                    Ok(prepared) => blocking(move || changing.activate(prepared, at)).await,
                    Err(why) => Ok(Err(why)),
                }
            }
        }
    }

    /// Returns a version from the store after a check on this node, or the reason why it is refused.
    async fn fetched(
        &self,
        runtime: &Arc<Runtime>,
        slot: &Slot,
        digest: Digest,
        cause: &str,
    ) -> Result<Result<Prepared, String>, Fault> {
        let Some(bytes) = self.store().module_bytes(digest).await? else {
            return Ok(Err(format!("the store has no module {digest}")));
        };
        let Some(cause) = Cause::of_shared(cause) else {
            return Ok(Err(format!(
                "the store gives it the cause {cause:?}, which no node shares"
            )));
        };
        let (checking, slot) = (Arc::clone(runtime), slot.clone());
        let prepared = tokio::task::spawn_blocking(move || checking.prepare(&slot, bytes, cause));
        let prepared = prepared.await.map_err(|_| Fault::Stopping)?;
        Ok(prepared.map_err(|refused| refused.to_string()))
    }

    /// Returns a version that this node has stored, after a new check. `None` if it is missing or fails the
    /// check.
    async fn kept(&self, runtime: &Arc<Runtime>, slot: Slot, digest: Digest) -> Option<Prepared> {
        let checking = Arc::clone(runtime);
        let prepared = tokio::task::spawn_blocking(move || {
            checking.prepare_kept(&slot, digest, Cause::Folder)
        });
        prepared.await.ok()?.ok()
    }

    /// Whether a version must still be proposed. Nodes may share a plugin folder: versions that another node
    /// wrote there while following a change, or proposed itself, are not proposed again.
    async fn is_wanted(&self, prepared: &Prepared, origin: VersionOrigin) -> Result<bool, Fault> {
        let (slot, digest) = (prepared.slot(), prepared.digest());
        let is_served = self.is_served(slot, digest, origin).await?;
        let stands = |runtime: Arc<Runtime>| runtime.stands_in_folder(prepared);
        let is_gone = origin == VersionOrigin::Folder && !self.shared_runtime().is_none_or(stands);
        Ok(!is_served && !is_gone)
    }

    /// Whether all nodes already serve a version, as far as this node knows. Always false for an operator's
    /// request, which is performed again.
    async fn is_served(
        &self,
        slot: &Slot,
        digest: Digest,
        origin: VersionOrigin,
    ) -> Result<bool, Fault> {
        let Some(runtime) = self
            .shared_runtime()
            .filter(|_| origin != VersionOrigin::Call)
        else {
            return Ok(false);
        };
        self.follow(&runtime).await?;
        Ok(runtime.active(slot) == Some(digest))
    }

    /// Proposes a version from this node's plugin folder.
    async fn propose_folder_install(
        &self,
        runtime: &Arc<Runtime>,
        prepared: Prepared,
        origin: VersionOrigin,
    ) {
        let (slot, digest) = (prepared.slot().clone(), prepared.digest());
        let version = |digest: Digest| json!({ "digest": digest.to_string() }).to_string();
        let shared = match self.propose(prepared, origin).await {
            Ok(None) => return,
            Ok(Some((number, _turn))) => {
                let line = Audited {
                    operator: PLUGIN_FOLDER.into(),
                    operator_id: None,
                    actor: PLUGIN_FOLDER.into(),
                    reason: None,
                    action: "plugin.drop".into(),
                    object: format!("plugin/{slot}"),
                    before: runtime.active(&slot).map(version),
                    after: Some(version(digest)),
                };
                self.settled(number, line).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = shared {
            runtime.note_refusal(&slot, error.to_string());
        }
    }
}

/// The version that all nodes serve because of a change. `None` for other changes, and for proposals.
fn settled_version(change: &SlotChange) -> Option<Digest> {
    match (change.stage, &change.content) {
        (SlotStage::Settled, SlotContent::Version { digest, cause }) if !is_trial(cause) => {
            Some(*digest)
        }
        _ => None,
    }
}

/// Whether a version is proposed for a trial.
fn is_trial(cause: &str) -> bool {
    cause == Cause::Candidate.as_str()
}

/// Whether a change concerns a trial.
fn is_of_trial(change: &SlotChange) -> bool {
    match &change.content {
        SlotContent::Candidate(_) => true,
        SlotContent::Version { cause, .. } => is_trial(cause),
        SlotContent::Disabled(_) | SlotContent::Removed => false,
    }
}

/// Runs work that compiles or writes files on the blocking thread pool.
async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Result<(), String>, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| Fault::Stopping)?;
    Ok(done.map(drop).map_err(|error| error.to_string()))
}
