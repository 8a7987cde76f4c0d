//! Slots and their versions: a snapshot that requests read, and the books behind it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::load::Module;
use crate::method::MethodModule;
use crate::provider::ProviderModule;
use crate::status::{ActiveVersion, PreviousVersion, SlotState, SlotStatus};
use crate::v0_1::VERSION;

/// Versions kept per slot, the active one included: for going back, and for attempts that stay with
/// the module that started them. Each holds a few hundred kilobytes of code.
const KEPT: usize = 8;

/// What a request sees: one immutable snapshot, used throughout.
#[derive(Default)]
struct Table {
    methods: BTreeMap<MethodId, Arc<MethodModule>>,
    providers: BTreeMap<String, Arc<ProviderModule>>,
    versions: HashMap<(Slot, Digest), Arc<ProviderModule>>,
}

/// The books of one slot.
#[derive(Default)]
struct Record {
    /// The active version first, then those that were, the latest first.
    versions: VecDeque<Kept>,
    last_error: Option<String>,
}

struct Kept {
    module: Module,
    since: Time,
}

/// All slots.
pub(crate) struct Slots {
    table: ArcSwap<Table>,
    records: Mutex<BTreeMap<Slot, Record>>,
    /// Raised after every file or upload that was dealt with, accepted or not.
    generation: watch::Sender<u64>,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            table: ArcSwap::default(),
            records: Mutex::default(),
            generation: watch::Sender::new(0),
        }
    }

    pub(crate) fn method(&self, id: MethodId) -> Option<Arc<MethodModule>> {
        self.table.load().methods.get(&id).cloned()
    }

    pub(crate) fn provider(&self, module: &str) -> Option<Arc<ProviderModule>> {
        self.table.load().providers.get(module).cloned()
    }

    pub(crate) fn provider_version(
        &self,
        slot: &Slot,
        digest: &Digest,
    ) -> Option<Arc<ProviderModule>> {
        self.table
            .load()
            .versions
            .get(&(slot.clone(), *digest))
            .cloned()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The digest of the active version.
    pub(crate) fn active(&self, slot: &Slot) -> Option<Digest> {
        self.records
            .lock()
            .get(slot)?
            .versions
            .front()
            .map(|kept| kept.module.digest())
    }

    /// A version that is kept.
    pub(crate) fn kept(&self, slot: &Slot, digest: &Digest) -> Option<Module> {
        let records = self.records.lock();
        let mut versions = records.get(slot)?.versions.iter();
        versions
            .find(|kept| kept.module.digest() == *digest)
            .map(|kept| kept.module.clone())
    }

    /// Every version that is kept: the active ones first, then those before them, and so on.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        let records = self.records.lock();
        let at = |age: usize| {
            let kept = records
                .values()
                .filter_map(move |record| record.versions.get(age));
            kept.map(|kept| kept.module.digest())
        };
        (0..KEPT).flat_map(at).collect()
    }

    /// Makes a version the active one; calls under way finish on theirs. Tells whether the oldest
    /// one made room for it.
    pub(crate) fn activate(&self, slot: &Slot, module: Module, now: Time) -> bool {
        let mut records = self.records.lock();
        let record = records.entry(slot.clone()).or_default();
        record
            .versions
            .retain(|kept| kept.module.digest() != module.digest());
        record.versions.push_front(Kept { module, since: now });
        let forgotten = record.versions.len() > KEPT;
        record.versions.truncate(KEPT);
        record.last_error = None;
        self.table.store(Arc::new(Table::of(&records)));
        drop(records);
        self.raise();
        forgotten
    }

    /// The active version was offered again: whatever was wrong before is over.
    pub(crate) fn confirm(&self, slot: &Slot) {
        if let Some(record) = self.records.lock().get_mut(slot) {
            record.last_error = None;
        }
        self.raise();
    }

    /// Something was refused; what serves goes on serving.
    pub(crate) fn refuse(&self, slot: &Slot, why: String) {
        self.records
            .lock()
            .entry(slot.clone())
            .or_default()
            .last_error = Some(why);
        self.raise();
    }

    pub(crate) fn statuses(&self) -> Vec<SlotStatus> {
        self.records
            .lock()
            .iter()
            .map(|(slot, record)| record.status(slot))
            .collect()
    }

    fn raise(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Table {
    fn of(records: &BTreeMap<Slot, Record>) -> Self {
        let mut table = Self::default();
        for (slot, record) in records {
            for (age, kept) in record.versions.iter().enumerate() {
                match &kept.module {
                    Module::Method(module) if age == 0 => {
                        table
                            .methods
                            .insert(module.description().id, Arc::clone(module));
                    }
                    Module::Method(_) => {}
                    Module::Provider(module) => {
                        if age == 0 {
                            table
                                .providers
                                .insert(slot.name().to_owned(), Arc::clone(module));
                        }
                        let key = (slot.clone(), module.digest());
                        table.versions.insert(key, Arc::clone(module));
                    }
                }
            }
        }
        table
    }
}

impl Record {
    fn status(&self, slot: &Slot) -> SlotStatus {
        let active = self.versions.front();
        SlotStatus {
            slot: slot.clone(),
            kind: slot.kind(),
            state: if active.is_some() {
                SlotState::Serving
            } else {
                SlotState::Failed
            },
            active: active.map(Kept::active),
            previous: self.versions.get(1).map(|kept| PreviousVersion {
                digest: kept.module.digest(),
                since: kept.since,
            }),
            last_error: self.last_error.clone(),
        }
    }
}

impl Kept {
    fn active(&self) -> ActiveVersion {
        let (name, version, class) = match &self.module {
            Module::Method(module) => {
                let description = module.description();
                (&description.label, &description.version, module.class())
            }
            Module::Provider(module) => {
                let description = module.description();
                (&description.label, &description.version, module.class())
            }
        };
        ActiveVersion {
            digest: self.module.digest(),
            name: name.clone(),
            version: version.clone(),
            wit: VERSION.to_owned(),
            class,
            since: self.since,
        }
    }
}
