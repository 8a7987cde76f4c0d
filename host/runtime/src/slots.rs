//! Slots and their versions: a snapshot that requests read, made of the records behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::history::{Activation, Cause, History, MAX_EVENTS};
use crate::load::Module;
use crate::method::MethodModule;
use crate::provider::ProviderModule;
use crate::slot_record::{KeptVersion, MAX_VERSIONS, SlotRecord, StagedVersion};
use crate::status::SlotStatus;

/// What a request sees: one immutable snapshot, used throughout. Every list has the active version
/// first, then those before it.
#[derive(Default)]
struct Snapshot {
    methods: BTreeMap<MethodId, Vec<Arc<MethodModule>>>,
    providers: BTreeMap<String, Vec<Arc<ProviderModule>>>,
    /// Slots that nothing new is routed to.
    disabled: BTreeSet<Slot>,
    /// Versions on trial that are loaded.
    staged: BTreeMap<Slot, Arc<Staged>>,
    /// Those that were, and may have begun attempts.
    retired: Vec<Arc<ProviderModule>>,
}

/// A version on trial.
#[derive(Debug)]
pub struct Staged {
    /// How it is tried.
    pub candidate: Arc<Candidate>,
    pub module: Module,
    faults_before: u64,
}

impl Staged {
    /// How often it has failed for its own fault since its canary, or its time in the shadow, began.
    pub fn faults(&self) -> u64 {
        self.module.faults() - self.faults_before
    }
}

/// What became of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activated {
    /// False where this version was the active one before the last start.
    pub(crate) new: bool,
    pub(crate) before: Option<Digest>,
    /// Whether the oldest version made room for it.
    pub(crate) forgotten: bool,
}

pub(crate) struct Slots {
    snapshot: ArcSwap<Snapshot>,
    records: Mutex<BTreeMap<Slot, SlotRecord>>,
    /// Raised after every file or upload that was dealt with, accepted or not.
    generation: watch::Sender<u64>,
}

impl Slots {
    pub(crate) fn new(histories: Vec<(Slot, History)>) -> Self {
        let records = histories
            .into_iter()
            .map(|(slot, history)| (slot, SlotRecord::of(history)));
        let records = records.collect();
        Self {
            snapshot: ArcSwap::from_pointee(Snapshot::of(&records)),
            records: Mutex::new(records),
            generation: watch::Sender::new(0),
        }
    }

    /// The version of a method that serves: the active one, or while that is quarantined the last one
    /// that is not.
    pub(crate) fn method(&self, id: MethodId) -> Option<Arc<MethodModule>> {
        let snapshot = self.snapshot.load();
        let mut versions = snapshot.methods.get(&id)?.iter();
        versions
            .find(|module| module.identity().quarantined_until().is_none())
            .cloned()
    }

    /// Methods for which a module was loaded, quarantined or not: those of the specification in its order,
    /// then the others.
    pub(crate) fn methods(&self) -> Vec<MethodId> {
        self.snapshot.load().methods.keys().copied().collect()
    }

    /// The same of a provider.
    pub(crate) fn provider(&self, module: &str) -> Option<Arc<ProviderModule>> {
        self.provider_after(module, 0)
    }

    /// The one that would serve if `skipped` more were quarantined.
    pub(crate) fn provider_after(
        &self,
        module: &str,
        skipped: usize,
    ) -> Option<Arc<ProviderModule>> {
        let snapshot = self.snapshot.load();
        let versions = snapshot.providers.get(module)?.iter();
        versions
            .filter(|module| module.identity().quarantined_until().is_none())
            .nth(skipped)
            .cloned()
    }

    /// A version that is kept, quarantined or not.
    pub(crate) fn provider_version(
        &self,
        slot: &Slot,
        digest: &Digest,
    ) -> Option<Arc<ProviderModule>> {
        let snapshot = self.snapshot.load();
        let is_it =
            |module: &&Arc<ProviderModule>| module.slot() == slot && module.digest() == *digest;
        let served = snapshot.providers.get(slot.name()).into_iter().flatten();
        let mut versions = served.chain(&snapshot.retired);
        if let Some(module) = versions.find(is_it) {
            return Some(Arc::clone(module));
        }
        match &snapshot.staged.get(slot)?.module {
            Module::Provider(module) => Some(module).filter(is_it).cloned(),
            Module::Method(_) => None,
        }
    }

    /// The version on trial, once it is loaded.
    pub(crate) fn staged(&self, slot: &Slot) -> Option<Arc<Staged>> {
        self.snapshot.load().staged.get(slot).cloned()
    }

    /// The same of a method.
    pub(crate) fn staged_method(&self, method: MethodId) -> Option<Arc<Staged>> {
        let snapshot = self.snapshot.load();
        let mut all = snapshot.staged.values();
        let is_it = |staged: &&Arc<Staged>| match &staged.module {
            Module::Method(module) => module.description().id == method,
            Module::Provider(_) => false,
        };
        all.find(is_it).cloned()
    }

    /// Whether any is loaded.
    pub(crate) fn has_staged(&self) -> bool {
        !self.snapshot.load().staged.is_empty()
    }

    /// Every such version.
    pub(crate) fn all_staged(&self) -> Vec<(Slot, Arc<Staged>)> {
        let snapshot = self.snapshot.load();
        let all = snapshot.staged.iter();
        all.map(|(slot, staged)| (slot.clone(), Arc::clone(staged)))
            .collect()
    }

    /// Puts a version on trial, in the place of the one that is.
    pub(crate) fn stage(&self, slot: &Slot, candidate: Candidate, module: Module, now: Time) {
        let mut records = self.records.lock();
        let record = records.entry(slot.clone()).or_default();
        let before = record.candidate.as_ref();
        let is_same = before.is_some_and(|staged| staged.candidate.digest == candidate.digest);
        if before.is_some() && !is_same {
            record.retire(slot, now);
        }
        // What it did in the shadow decided nothing, and is no fault of its canary.
        let goes_on = |staged: &&StagedVersion| staged.candidate.since == candidate.since;
        let before = record.candidate.as_ref().filter(goes_on);
        record.candidate = Some(StagedVersion {
            faults_before: before.map_or_else(|| module.faults(), |staged| staged.faults_before),
            candidate,
            module: Some(module),
        });
        record.last_error = None;
        self.publish(records);
    }

    /// Ends the trial.
    pub(crate) fn retire(&self, slot: &Slot, why: Option<String>, now: Time) {
        let mut records = self.records.lock();
        if let Some(record) = records.get_mut(slot) {
            record.retire(slot, now);
            record.last_error = why.or_else(|| record.last_error.take());
        }
        self.publish(records);
    }

    /// Whether what is put into the plugin folder leaves the active version in its place.
    pub(crate) fn is_pinned(&self, slot: &Slot) -> bool {
        let records = self.records.lock();
        records.get(slot).is_some_and(|record| record.pinned)
    }

    fn publish(&self, records: MutexGuard<'_, BTreeMap<Slot, SlotRecord>>) {
        self.snapshot.store(Arc::new(Snapshot::of(&records)));
        drop(records);
        self.notify();
    }

    /// Whether nothing new is routed to a slot.
    pub(crate) fn is_disabled(&self, slot: &Slot) -> bool {
        self.snapshot.load().disabled.contains(slot)
    }

    /// Switches a slot off or on for what is new.
    pub(crate) fn set_disabled(&self, slot: &Slot, disabled: bool) {
        let mut records = self.records.lock();
        records.entry(slot.clone()).or_default().disabled = disabled;
        self.publish(records);
    }

    /// Forgets a slot; calls under way finish.
    pub(crate) fn remove(&self, slot: &Slot) {
        let mut records = self.records.lock();
        records.remove(slot);
        self.publish(records);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    pub(crate) fn active(&self, slot: &Slot) -> Option<Digest> {
        self.records
            .lock()
            .get(slot)?
            .active()
            .map(|kept| kept.digest)
    }

    pub(crate) fn previous(&self, slot: &Slot) -> Option<Digest> {
        let records = self.records.lock();
        records.get(slot)?.versions.get(1).map(|kept| kept.digest)
    }

    /// A version that is kept and loaded.
    pub(crate) fn kept(&self, slot: &Slot, digest: &Digest) -> Option<Module> {
        let records = self.records.lock();
        let record = records.get(slot)?;
        let mut versions = record.versions.iter().chain(&record.retired);
        if let Some(kept) = versions.find(|kept| kept.digest == *digest) {
            return kept.module.clone();
        }
        let staged = record.candidate.as_ref()?;
        let module = staged.module.clone();
        module.filter(|_| staged.candidate.digest == *digest)
    }

    /// Whether a version is kept, loaded or not.
    pub(crate) fn is_kept(&self, slot: &Slot, digest: &Digest) -> bool {
        let records = self.records.lock();
        let record = records.get(slot);
        record.is_some_and(|record| record.digests().any(|kept| kept == *digest))
    }

    /// Every version that is kept: the active ones first, then those before them, and so on.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        let records = self.records.lock();
        let at = |age: usize| {
            let kept = records
                .values()
                .filter_map(move |record| record.versions.get(age));
            kept.map(|kept| kept.digest)
        };
        let on_trial = records
            .values()
            .filter_map(|record| record.candidate.as_ref());
        let retired = records.values().flat_map(|record| &record.retired);
        (0..MAX_VERSIONS)
            .flat_map(at)
            .chain(on_trial.map(|staged| staged.candidate.digest))
            .chain(retired.map(|kept| kept.digest))
            .collect()
    }

    /// Versions that are only on disk so far; of each slot the latest first.
    pub(crate) fn unloaded(&self) -> Vec<(Slot, Digest)> {
        let records = self.records.lock();
        let mut unloaded = Vec::new();
        for (slot, record) in records.iter() {
            let kept = record.versions.iter().chain(&record.retired);
            let kept = kept.filter(|kept| kept.module.is_none());
            unloaded.extend(kept.map(|kept| (slot.clone(), kept.digest)));
            let staged = record
                .candidate
                .iter()
                .filter(|staged| staged.module.is_none());
            unloaded.extend(staged.map(|staged| (slot.clone(), staged.candidate.digest)));
        }
        unloaded
    }

    /// Slots that have versions, but none that serves.
    pub(crate) fn idle(&self) -> Vec<Slot> {
        let records = self.records.lock();
        let idle = records
            .iter()
            .filter(|(_, record)| record.active().is_none() && !record.versions.is_empty());
        idle.map(|(slot, _)| slot.clone()).collect()
    }

    /// Whether the program's own module is to serve in a slot: where no file or upload ever stood, or the
    /// program before brought the active version along. A file that was loaded goes before it.
    pub(crate) fn takes_bundled(&self, slot: &Slot) -> bool {
        let records = self.records.lock();
        let record = records.get(slot);
        record.is_none_or(|record| {
            // A file that was refused stands there all the same.
            let nothing_stood = record.versions.is_empty() && record.last_error.is_none();
            nothing_stood || (record.bundled && record.active().is_none())
        })
    }

    /// A kept version was loaded from disk.
    pub(crate) fn set_loaded(&self, slot: &Slot, digest: &Digest, module: Module) {
        let mut records = self.records.lock();
        let Some(record) = records.get_mut(slot) else {
            return;
        };
        for kept in record.versions.iter_mut().chain(&mut record.retired) {
            if kept.digest == *digest {
                kept.module = Some(module.clone());
            }
        }
        if let Some(staged) = &mut record.candidate
            && staged.candidate.digest == *digest
        {
            staged.module = Some(module);
        }
        self.publish(records);
    }

    /// Keeps a version behind all others.
    pub(crate) fn keep(&self, slot: &Slot, module: Module, now: Time) {
        let mut records = self.records.lock();
        let record = records.entry(slot.clone()).or_default();
        record.versions.push_back(KeptVersion {
            digest: module.identity().digest,
            since: now,
            module: Some(module),
        });
        record.versions.truncate(MAX_VERSIONS);
        self.publish(records);
    }

    /// Makes a version the active one; calls under way finish on theirs.
    pub(crate) fn activate(
        &self,
        slot: &Slot,
        module: Module,
        cause: Cause,
        now: Time,
    ) -> Activated {
        let digest = module.identity().digest;
        module.identity().quarantine.lift();
        let mut records = self.records.lock();
        let record = records.entry(slot.clone()).or_default();
        let before = record.versions.front().map(|kept| kept.digest);
        let new = before != Some(digest);
        let mut since = now;
        if new {
            // It was tried beside the version that this one follows.
            match record.candidate.as_ref() {
                Some(staged) if staged.candidate.digest == digest => record.candidate = None,
                _ => record.retire(slot, now),
            }
            let number = record.events.front().map_or(1, |event| event.number + 1);
            record.events.push_front(module.event(number, cause, now));
            record.events.truncate(MAX_EVENTS);
        } else if let Some(kept) = record.versions.front() {
            since = kept.since;
        }
        record.versions.retain(|kept| kept.digest != digest);
        record.retired.retain(|kept| kept.digest != digest);
        record.versions.push_front(KeptVersion {
            digest,
            since,
            module: Some(module),
        });
        let forgotten = record.versions.len() > MAX_VERSIONS;
        record.versions.truncate(MAX_VERSIONS);
        match cause {
            Cause::Kept => {}
            // A file that was refused before is refused still.
            Cause::Bundled => record.bundled = true,
            Cause::Folder
            | Cause::Upload
            | Cause::Candidate
            | Cause::Promote
            | Cause::Pin
            | Cause::Rollback => {
                record.own(cause);
            }
        }
        self.publish(records);
        Activated {
            new,
            before,
            forgotten,
        }
    }

    /// The active version was offered again: whatever was wrong before is over, and it is the operator's
    /// from now on. Tells whether that has to be written down.
    pub(crate) fn confirm(&self, slot: &Slot, cause: Cause) -> bool {
        let mut is_new = false;
        if let Some(record) = self.records.lock().get_mut(slot) {
            is_new = record.own(cause);
        }
        self.notify();
        is_new
    }

    /// Something was refused; what serves goes on serving.
    pub(crate) fn refuse(&self, slot: &Slot, why: String) {
        self.records
            .lock()
            .entry(slot.clone())
            .or_default()
            .last_error = Some(why);
        self.notify();
    }

    pub(crate) fn statuses(&self) -> Vec<SlotStatus> {
        self.records
            .lock()
            .iter()
            .map(|(slot, record)| record.status(slot))
            .collect()
    }

    /// What happened in a slot, the latest first; none where it was never offered a module.
    pub(crate) fn events(&self, slot: &Slot) -> Option<Vec<Activation>> {
        let records = self.records.lock();
        Some(records.get(slot)?.events.iter().cloned().collect())
    }

    /// What the version store keeps about a slot.
    pub(crate) fn history(&self, slot: &Slot) -> History {
        let records = self.records.lock();
        records
            .get(slot)
            .map(SlotRecord::history)
            .unwrap_or_default()
    }

    /// Something was dealt with: those that wait look again.
    pub(crate) fn notify(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Snapshot {
    fn of(records: &BTreeMap<Slot, SlotRecord>) -> Self {
        let mut snapshot = Self::default();
        for (slot, record) in records {
            if record.disabled {
                snapshot.disabled.insert(slot.clone());
            }
            let retired = record
                .retired
                .iter()
                .filter_map(|kept| kept.module.as_ref());
            snapshot
                .retired
                .extend(retired.filter_map(|module| match module {
                    Module::Provider(module) => Some(Arc::clone(module)),
                    Module::Method(_) => None,
                }));
            if let Some(StagedVersion {
                candidate,
                faults_before,
                module: Some(module),
            }) = &record.candidate
            {
                let staged = Staged {
                    candidate: Arc::new(candidate.clone()),
                    module: module.clone(),
                    faults_before: *faults_before,
                };
                snapshot.staged.insert(slot.clone(), Arc::new(staged));
            }
            // Nothing serves in a slot whose active version is not loaded, not even an older one.
            if record.active().is_none() {
                continue;
            }
            for module in record
                .versions
                .iter()
                .filter_map(|kept| kept.module.as_ref())
            {
                match module {
                    Module::Method(module) => {
                        let versions = snapshot.methods.entry(module.description().id);
                        versions.or_default().push(Arc::clone(module));
                    }
                    Module::Provider(module) => {
                        let versions = snapshot.providers.entry(slot.name().to_owned());
                        versions.or_default().push(Arc::clone(module));
                    }
                }
            }
        }
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kassette_http::{Client, Guard};

    use super::*;
    use crate::history::SavedVersion;
    use crate::status::SlotState;
    use crate::support::{Method, NOW, slot};
    use crate::{OpenedModule, RuntimeConfig, Workbench};

    fn module(reason: &str) -> Module {
        let config = RuntimeConfig::new("", Arc::new(|| NOW));
        let client = Client::new(Guard::default());
        let workbench = Workbench::new(config, client).unwrap();
        let bytes = Method::saying(&[("a", Ok(reason))]).build();
        match workbench.open(&bytes).unwrap().module {
            OpenedModule::Method(module) => Module::Method(module),
            OpenedModule::Provider(_) => panic!("it is a method"),
        }
    }

    /// After a start the versions that are kept are loaded one by one, the active one not always first.
    #[test]
    fn an_older_version_does_not_serve_while_the_active_one_is_not_loaded() {
        let (active, older) = (module("active"), module("older"));
        let digest = |module: &Module| module.identity().digest;
        let saved = |module: &Module| SavedVersion {
            digest: digest(module),
            since: NOW,
        };
        let history = History {
            versions: vec![saved(&active), saved(&older)],
            events: vec![],
            ..History::default()
        };
        let ideal = slot("method.ideal");
        let slots = Slots::new(vec![(ideal.clone(), history)]);
        let serving = || slots.method(MethodId::Ideal).map(|module| module.digest());
        let (first, second) = (digest(&active), digest(&older));
        slots.set_loaded(&ideal, &second, older);
        assert_eq!(serving(), None);
        slots.set_loaded(&ideal, &first, active);
        assert_eq!(serving(), Some(first));
    }

    #[test]
    fn a_slot_that_is_switched_off_stays_so_whatever_module_comes() {
        let ideal = slot("method.ideal");
        let history = History {
            disabled: true,
            ..History::default()
        };
        let slots = Slots::new(vec![(ideal.clone(), history)]);
        let state = || slots.statuses()[0].state;
        assert!(slots.is_disabled(&ideal) && state() == SlotState::Disabled);
        slots.activate(&ideal, module("new"), Cause::Folder, NOW);
        assert!(slots.is_disabled(&ideal) && state() == SlotState::Disabled);
        assert!(slots.history(&ideal).disabled);
        // What is under way is served all the same.
        assert!(slots.method(MethodId::Ideal).is_some());
        slots.set_disabled(&ideal, false);
        assert!(!slots.is_disabled(&ideal) && state() == SlotState::Serving);
        slots.remove(&ideal);
        assert!(slots.statuses().is_empty() && slots.method(MethodId::Ideal).is_none());
    }
}
