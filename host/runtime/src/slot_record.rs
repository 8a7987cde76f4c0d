//! The record of a slot: its versions, events and status.

use std::collections::VecDeque;

use kassette_domain::candidate::{Canary, Candidate, Counted};
use kassette_domain::id::{Digest, Slot, SlotKind};
use kassette_domain::key::Environment;
use kassette_domain::time::Time;

use crate::history::{Activation, Cause, History, MAX_EVENTS, SavedVersion, TrialResult};
use crate::load::Module;
use crate::status::{ActiveVersion, PreviousVersion, SlotState, SlotStatus};
use crate::v0_2::VERSION;

/// Maximum number of versions kept per slot, including the active one: for rollbacks, and for attempts that use
/// the version that started them. Each has a few hundred kilobytes of code.
pub(crate) const MAX_VERSIONS: usize = 8;
/// Maximum number of versions kept in addition after their trials, for attempts that they started.
pub(crate) const MAX_RETIRED: usize = 4;

#[derive(Default)]
pub(crate) struct SlotRecord {
    /// The active version, then earlier ones, the most recent first.
    pub(crate) versions: VecDeque<KeptVersion>,
    /// The most recent event first.
    pub(crate) events: VecDeque<Activation>,
    pub(crate) last_error: Option<String>,
    /// Whether the slot gets no new payments.
    pub(crate) disabled: bool,
    /// See [`History`].
    pub(crate) bundled: bool,
    /// See [`History`].
    pub(crate) pinned: bool,
    pub(crate) candidate: Option<StagedVersion>,
    /// Versions that were on trial and may have started attempts. The most recent first.
    pub(crate) retired: VecDeque<KeptVersion>,
    /// See [`History`].
    pub(crate) set_aside: bool,
}

/// Error in the status of a slot whose history was set aside.
const SET_ASIDE: &str = "its history was not authentic and is set aside: check which version serves, and upload, pin or roll back to the right one";

pub(crate) struct StagedVersion {
    pub(crate) candidate: Candidate,
    /// Number of its faults when its current phase, canary or shadow, started.
    pub(crate) faults_before: u64,
    /// Newest counts of its trial. Not kept over a restart.
    pub(crate) counted: Option<Counted>,
    /// `None` if it is only on disk since before the last start.
    pub(crate) module: Option<Module>,
}

pub(crate) struct KeptVersion {
    pub(crate) digest: Digest,
    pub(crate) since: Time,
    /// `None` if it is only on disk since before the last start.
    pub(crate) module: Option<Module>,
}

impl SlotRecord {
    pub(crate) fn from_history(history: History) -> Self {
        let kept = |saved: SavedVersion| KeptVersion {
            digest: saved.digest,
            since: saved.since,
            module: None,
        };
        let (versions, retired) = (history.versions.into_iter(), history.retired.into_iter());
        Self {
            versions: versions.take(MAX_VERSIONS).map(kept).collect(),
            retired: retired.take(MAX_RETIRED).map(kept).collect(),
            candidate: history.candidate.map(|candidate| StagedVersion {
                candidate,
                faults_before: 0,
                counted: None,
                module: None,
            }),
            pinned: history.pinned,
            events: history.events.into_iter().take(MAX_EVENTS).collect(),
            last_error: None,
            disabled: history.disabled,
            bundled: history.bundled,
            set_aside: history.set_aside,
        }
    }

    pub(crate) fn history(&self) -> History {
        let saved = |kept: &KeptVersion| SavedVersion {
            digest: kept.digest,
            since: kept.since,
        };
        History {
            versions: self.versions.iter().map(saved).collect(),
            events: self.events.iter().cloned().collect(),
            disabled: self.disabled,
            bundled: self.bundled,
            pinned: self.pinned,
            candidate: self
                .candidate
                .as_ref()
                .map(|staged| staged.candidate.clone()),
            retired: self.retired.iter().map(saved).collect(),
            set_aside: self.set_aside,
        }
    }

    /// Whether the record has nothing to report.
    pub(crate) fn is_blank(&self) -> bool {
        let has_versions = self.digests().next().is_some();
        let is_set = self.disabled || self.pinned || self.last_error.is_some();
        !has_versions && self.events.is_empty() && !is_set
    }

    /// All versions that have a file.
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        let kept = self.versions.iter().chain(&self.retired);
        let staged = self.candidate.iter().map(|staged| staged.candidate.digest);
        kept.map(|kept| kept.digest).chain(staged)
    }

    /// Makes the active version the operator's choice and clears the last error. Returns whether the history must
    /// be saved.
    pub(crate) fn own(&mut self, cause: Cause) -> bool {
        // While the slot is pinned, a different file in the plugin folder is refused.
        let pinned = cause == Cause::Pin || (self.pinned && cause == Cause::Folder);
        // A file in the plugin folder does not decide about a history that was set aside.
        let set_aside = self.set_aside && cause == Cause::Folder;
        let is_new = self.bundled || self.pinned != pinned || self.set_aside != set_aside;
        (self.bundled, self.pinned, self.set_aside) = (false, pinned, set_aside);
        self.last_error = None;
        is_new
    }

    /// Ends the trial. The candidate finishes the attempts that it may have started.
    pub(crate) fn retire(&mut self, slot: &Slot, now: Time) {
        let Some(staged) = self.candidate.take() else {
            return;
        };
        let trial = Some(staged.result());
        let (digest, module) = (staged.candidate.digest, staged.module);
        let (name, version) = module.as_ref().map(Module::names).unwrap_or_default();
        self.push(Activation {
            number: 0,
            at: now,
            digest,
            name: name.to_owned(),
            version: version.to_owned(),
            cause: Cause::Ended,
            trial,
        });
        if slot.kind() == SlotKind::Provider {
            self.retired.retain(|kept| kept.digest != digest);
            self.retired.push_front(KeptVersion {
                digest,
                since: now,
                module,
            });
            self.retired.truncate(MAX_RETIRED);
        }
    }

    /// Adds an event under the next number.
    pub(crate) fn push(&mut self, event: Activation) {
        let number = self.events.front().map_or(1, |event| event.number + 1);
        self.events.push_front(Activation { number, ..event });
        self.events.truncate(MAX_EVENTS);
    }

    pub(crate) fn active(&self) -> Option<&KeptVersion> {
        self.versions.front().filter(|kept| kept.module.is_some())
    }

    /// Sets for each loaded version whether an earlier one could replace it.
    pub(crate) fn note_replaceable(&self) {
        let loaded = self.versions.iter().filter_map(|kept| kept.module.as_ref());
        let mut is_replaceable = false;
        for module in loaded.rev() {
            module.identity().quarantine.set_replaceable(is_replaceable);
            is_replaceable = true;
        }
    }

    pub(crate) fn status(&self, slot: &Slot) -> SlotStatus {
        let active = self.active();
        // The end of a quarantine in live, or else in test.
        let quarantined = |kept: &KeptVersion| {
            let identity = kept.module.as_ref()?.identity();
            let mut environments = [Environment::Live, Environment::Test].into_iter();
            environments.find_map(|environment| identity.quarantined_until(environment))
        };
        let quarantined_until = active.and_then(quarantined);
        let loaded = self.versions.iter().filter(|kept| kept.module.is_some());
        let mut fit = loaded.filter(|kept| quarantined(kept).is_none());
        SlotStatus {
            slot: slot.clone(),
            kind: slot.kind(),
            state: match (active, quarantined_until) {
                _ if self.disabled => SlotState::Disabled,
                (None, _) => SlotState::Failed,
                (Some(_), Some(_)) => SlotState::Quarantined,
                (Some(_), None) => SlotState::Serving,
            },
            active: active.and_then(KeptVersion::active),
            serving: active.and_then(|_| fit.next()).map(|kept| kept.digest),
            quarantined_until,
            previous: self.versions.get(1).map(|kept| PreviousVersion {
                digest: kept.digest,
                since: kept.since,
            }),
            candidate: self
                .candidate
                .as_ref()
                .map(|staged| staged.candidate.clone()),
            pinned: self.pinned,
            last_error: match self.set_aside {
                true => Some(SET_ASIDE.to_owned()),
                false => self.last_error.clone(),
            },
            set_aside: self.set_aside,
        }
    }
}

impl StagedVersion {
    pub(crate) fn result(&self) -> TrialResult {
        TrialResult {
            since: self.candidate.since,
            share: self.candidate.canary.as_ref().map(Canary::percent),
            counted: self.counted.clone(),
        }
    }
}

impl KeptVersion {
    fn active(&self) -> Option<ActiveVersion> {
        let module = self.module.as_ref()?;
        let (name, version) = module.names();
        Some(ActiveVersion {
            digest: self.digest,
            name: name.to_owned(),
            version: version.to_owned(),
            wit: VERSION.to_owned(),
            class: module.identity().class,
            since: self.since,
        })
    }
}

impl Module {
    /// Label and version in the module's description.
    fn names(&self) -> (&str, &str) {
        match self {
            Self::Method(module) => {
                let description = module.description();
                (&description.label, &description.version)
            }
            Self::Provider(module) => {
                let description = module.description();
                (&description.label, &description.version)
            }
        }
    }

    pub(crate) fn event(&self, cause: Cause, at: Time, trial: Option<TrialResult>) -> Activation {
        let (name, version) = self.names();
        Activation {
            number: 0,
            at,
            digest: self.identity().digest,
            name: name.to_owned(),
            version: version.to_owned(),
            cause,
            trial,
        }
    }
}
