//! Slots and their versions: records, and a snapshot of them that requests read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kassette_domain::candidate::{Candidate, Counted};
use kassette_domain::id::{Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::history::{Activation, Cause, History};
use crate::load::Module;
use crate::method::MethodModule;
use crate::provider::ProviderModule;
use crate::slot_record::{KeptVersion, MAX_VERSIONS, SlotRecord, StagedVersion};
use crate::status::SlotStatus;

/// An immutable snapshot. A request uses one throughout. Lists have the active version first, then earlier ones.
#[derive(Default)]
struct Snapshot {
    methods: BTreeMap<MethodId, Vec<Arc<MethodModule>>>,
    providers: BTreeMap<String, Vec<Arc<ProviderModule>>>,
    /// Slots that get no new payments.
    disabled: BTreeSet<Slot>,
    /// Loaded versions on trial.
    staged: BTreeMap<Slot, Arc<Staged>>,
    /// Versions that were on trial and may have started attempts.
    retired: Vec<Arc<ProviderModule>>,
}

/// A version on trial.
#[derive(Debug)]
pub struct Staged {
    /// Settings of the trial.
    pub candidate: Arc<Candidate>,
    pub module: Module,
    faults_before: u64,
}

impl Staged {
    /// Number of failures that the module caused since its current phase, canary or shadow, started.
    pub fn faults(&self) -> u64 {
        self.module.faults() - self.faults_before
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activated {
    /// Whether another version was active before. False if this one was, also before the last start.
    pub(crate) new: bool,
    pub(crate) before: Option<Digest>,
    /// Whether the oldest version was dropped.
    pub(crate) forgotten: bool,
}

pub(crate) struct Slots {
    snapshot: ArcSwap<Snapshot>,
    records: Mutex<BTreeMap<Slot, SlotRecord>>,
    /// Incremented after each processed file or upload, accepted or not.
    generation: watch::Sender<u64>,
}

impl Slots {
    pub(crate) fn new(histories: Vec<(Slot, History)>) -> Self {
        let records = histories
            .into_iter()
            .map(|(slot, history)| (slot, SlotRecord::from_history(history)));
        let records = records.collect();
        Self {
            snapshot: ArcSwap::from_pointee(Snapshot::new(&records)),
            records: Mutex::new(records),
            generation: watch::Sender::new(0),
        }
    }

    /// The version of a method that serves in an environment: the active one, or the most recent earlier one that
    /// is not quarantined there.
    pub(crate) fn method(
        &self,
        id: MethodId,
        environment: Environment,
    ) -> Option<Arc<MethodModule>> {
        let snapshot = self.snapshot.load();
        let mut versions = snapshot.methods.get(&id)?.iter();
        versions
            .find(|module| module.identity().is_fit(environment))
            .cloned()
    }

    /// Methods with a loaded module, quarantined or not: those of the specification in its order, then others.
    pub(crate) fn methods(&self) -> Vec<MethodId> {
        self.snapshot.load().methods.keys().copied().collect()
    }

    /// Like [`Self::method`], for a provider.
    pub(crate) fn provider(
        &self,
        module: &str,
        environment: Environment,
    ) -> Option<Arc<ProviderModule>> {
        self.provider_after(module, environment, 0)
    }

    /// The version that would serve if the first `skipped` usable versions could not.
    pub(crate) fn provider_after(
        &self,
        module: &str,
        environment: Environment,
        skipped: usize,
    ) -> Option<Arc<ProviderModule>> {
        let snapshot = self.snapshot.load();
        let versions = snapshot.providers.get(module)?.iter();
        versions
            .filter(|module| module.identity().is_fit(environment))
            .nth(skipped)
            .cloned()
    }

    /// A kept version, quarantined or not.
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

    /// The version on trial, if it is loaded.
    pub(crate) fn staged(&self, slot: &Slot) -> Option<Arc<Staged>> {
        self.snapshot.load().staged.get(slot).cloned()
    }

    /// Like [`Self::staged`], for a method.
    pub(crate) fn staged_method(&self, method: MethodId) -> Option<Arc<Staged>> {
        let snapshot = self.snapshot.load();
        let mut all = snapshot.staged.values();
        let is_it = |staged: &&Arc<Staged>| match &staged.module {
            Module::Method(module) => module.description().id == method,
            Module::Provider(_) => false,
        };
        all.find(is_it).cloned()
    }

    pub(crate) fn has_staged(&self) -> bool {
        !self.snapshot.load().staged.is_empty()
    }

    /// All loaded versions on trial.
    pub(crate) fn all_staged(&self) -> Vec<(Slot, Arc<Staged>)> {
        let snapshot = self.snapshot.load();
        let all = snapshot.staged.iter();
        all.map(|(slot, staged)| (slot.clone(), Arc::clone(staged)))
            .collect()
    }

    /// Starts a trial, which replaces the current one.
    pub(crate) fn stage(&self, slot: &Slot, candidate: Candidate, module: Module, now: Time) {
        let mut records = self.records.lock();
        let record = records.entry(slot.clone()).or_default();
        let before = record.candidate.as_ref();
        let is_same = before.is_some_and(|staged| staged.candidate.digest == candidate.digest);
        if before.is_some() && !is_same {
            record.retire(slot, now);
        }
        // Faults of the shadow phase had no effect and do not count for the canary.
        let goes_on = |staged: &&StagedVersion| staged.candidate.since == candidate.since;
        let before = record.candidate.as_ref().filter(goes_on);
        record.candidate = Some(StagedVersion {
            faults_before: before.map_or_else(|| module.faults(), |staged| staged.faults_before),
            counted: before.and_then(|staged| staged.counted.clone()),
            candidate,
            module: Some(module),
        });
        record.last_error = None;
        self.publish(records);
    }

    /// Stores the newest counts of a trial, for the event that ends it.
    pub(crate) fn note_counted(&self, slot: &Slot, candidate: &Candidate, counted: Counted) {
        let mut records = self.records.lock();
        let staged = records.get_mut(slot);
        if let Some(staged) = staged.and_then(|record| record.candidate.as_mut())
            && staged.candidate.digest == candidate.digest
            && staged.candidate.since == candidate.since
        {
            staged.counted = Some(counted);
        }
    }

    /// Ends the trial. `why` becomes the last error.
    pub(crate) fn retire(&self, slot: &Slot, why: Option<String>, now: Time) {
        let mut records = self.records.lock();
        if let Some(record) = records.get_mut(slot) {
            record.retire(slot, now);
            record.last_error = why.or_else(|| record.last_error.take());
        }
        self.publish(records);
    }

    /// Whether files in the plugin folder do not replace the active version.
    pub(crate) fn is_pinned(&self, slot: &Slot) -> bool {
        let records = self.records.lock();
        records.get(slot).is_some_and(|record| record.pinned)
    }

    fn publish(&self, records: MutexGuard<'_, BTreeMap<Slot, SlotRecord>>) {
        self.snapshot.store(Arc::new(Snapshot::new(&records)));
        drop(records);
        self.notify();
    }

    pub(crate) fn is_disabled(&self, slot: &Slot) -> bool {
        self.snapshot.load().disabled.contains(slot)
    }

    pub(crate) fn set_disabled(&self, slot: &Slot, disabled: bool) {
        let mut records = self.records.lock();
        records.entry(slot.clone()).or_default().disabled = disabled;
        self.publish(records);
    }

    /// Removes a slot. Running calls continue.
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

    /// A kept version that is loaded.
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

    /// The kept version whose digest starts with a text. `None` if no version or more than one matches.
    pub(crate) fn kept_version(&self, slot: &Slot, begin: &str) -> Option<Digest> {
        let records = self.records.lock();
        let kept = records.get(slot)?.digests();
        let mut found = kept.filter(|digest| digest.to_string().starts_with(begin));
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// All kept versions: the active ones first, then the previous one of each slot, and so on.
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

    /// Versions that are only on disk. For each slot the most recent first.
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

    /// Slots that have versions, but no active one.
    pub(crate) fn idle(&self) -> Vec<Slot> {
        let records = self.records.lock();
        let idle = records
            .iter()
            .filter(|(_, record)| record.active().is_none() && !record.versions.is_empty());
        idle.map(|(slot, _)| slot.clone()).collect()
    }

    pub(crate) fn set_aside(&self) -> Vec<Slot> {
        let records = self.records.lock();
        let set_aside = records.iter().filter(|(_, record)| record.set_aside);
        set_aside.map(|(slot, _)| slot.clone()).collect()
    }

    /// Whether the module contained in the program serves in a slot: if the slot never had a file or upload, or if
    /// its last version came with a program. A loaded file takes precedence.
    pub(crate) fn takes_bundled(&self, slot: &Slot) -> bool {
        let records = self.records.lock();
        let record = records.get(slot);
        record.is_none_or(|record| {
            // A refused file still exists. It only blocks the program's module if the history was not set aside.
            let is_refused = record.last_error.is_some() && !record.set_aside;
            let nothing_stood = record.versions.is_empty() && !is_refused;
            nothing_stood || (record.bundled && record.active().is_none())
        })
    }

    /// Records that a kept version was loaded from disk.
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

    /// Adds a version as the oldest one.
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

    /// Activates a version. Running calls finish on their version.
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
            // The trial compared the candidate with the version that is replaced.
            let its = |staged: &mut StagedVersion| staged.candidate.digest == digest;
            let promoted = record.candidate.take_if(its);
            record.retire(slot, now);
            let trial = promoted.map(|staged| staged.result());
            record.push(module.event(cause, now, trial));
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
            Cause::Kept | Cause::Ended => {}
            // A file that was refused before remains refused.
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

    /// Records that the active version was offered again, which clears the last error and makes it the operator's
    /// choice. Returns whether the history must be saved.
    pub(crate) fn confirm(&self, slot: &Slot, cause: Cause) -> bool {
        let mut is_new = false;
        if let Some(record) = self.records.lock().get_mut(slot) {
            is_new = record.own(cause);
        }
        self.notify();
        is_new
    }

    /// Records a refusal. The active version continues to serve.
    pub(crate) fn refuse(&self, slot: &Slot, why: String) {
        self.records
            .lock()
            .entry(slot.clone())
            .or_default()
            .last_error = Some(why);
        self.notify();
    }

    /// Clears the refusal of a file that no longer exists. Removes the slot if it has nothing else.
    pub(crate) fn forget_refusal(&self, slot: &Slot) {
        let mut records = self.records.lock();
        if let Some(record) = records.get_mut(slot) {
            record.last_error = None;
            if record.is_blank() {
                records.remove(slot);
            }
        }
        drop(records);
        self.notify();
    }

    pub(crate) fn statuses(&self) -> Vec<SlotStatus> {
        self.records
            .lock()
            .iter()
            .map(|(slot, record)| record.status(slot))
            .collect()
    }

    /// Events of a slot, the most recent first. `None` if the slot was never offered a module.
    pub(crate) fn events(&self, slot: &Slot) -> Option<Vec<Activation>> {
        let records = self.records.lock();
        Some(records.get(slot)?.events.iter().cloned().collect())
    }

    pub(crate) fn history(&self, slot: &Slot) -> History {
        let records = self.records.lock();
        records
            .get(slot)
            .map(SlotRecord::history)
            .unwrap_or_default()
    }

    /// Wakes tasks that wait for a change.
    pub(crate) fn notify(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Snapshot {
    fn new(records: &BTreeMap<Slot, SlotRecord>) -> Self {
        let mut snapshot = Self::default();
        for (slot, record) in records {
            record.note_replaceable();
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
                ..
            }) = &record.candidate
            {
                let staged = Staged {
                    candidate: Arc::new(candidate.clone()),
                    module: module.clone(),
                    faults_before: *faults_before,
                };
                snapshot.staged.insert(slot.clone(), Arc::new(staged));
            }
            // Without a loaded active version, not even an earlier version serves.
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

    /// After a start, kept versions are loaded one by one, and the active one is not always first.
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
        let serving = || {
            slots
                .method(MethodId::Ideal, Environment::Live)
                .map(|module| module.digest())
        };
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
        // Running attempts are still served.
        assert!(slots.method(MethodId::Ideal, Environment::Live).is_some());
        slots.set_disabled(&ideal, false);
        assert!(!slots.is_disabled(&ideal) && state() == SlotState::Serving);
        slots.remove(&ideal);
        assert!(slots.statuses().is_empty());
        assert!(slots.method(MethodId::Ideal, Environment::Live).is_none());
    }
}
