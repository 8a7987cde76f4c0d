//! The record of a slot: its versions, what happened, what operators are told of it.

use std::collections::VecDeque;

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot, SlotKind};
use kassette_domain::time::Time;

use crate::history::{Activation, Cause, History, MAX_EVENTS, SavedVersion};
use crate::load::Module;
use crate::status::{ActiveVersion, PreviousVersion, SlotState, SlotStatus};
use crate::v0_2::VERSION;

/// Versions kept per slot, the active one included: for going back, and for attempts that stay with
/// the module that started them. Each holds a few hundred kilobytes of code.
pub(crate) const MAX_VERSIONS: usize = 8;
/// Versions kept beside them that were on trial: attempts that they began stay with them.
pub(crate) const MAX_RETIRED: usize = 4;

#[derive(Default)]
pub(crate) struct SlotRecord {
    /// The active version first, then those that were, the latest first.
    pub(crate) versions: VecDeque<KeptVersion>,
    /// The latest first.
    pub(crate) events: VecDeque<Activation>,
    pub(crate) last_error: Option<String>,
    /// Nothing new is routed to it.
    pub(crate) disabled: bool,
    /// As in [`History`].
    pub(crate) bundled: bool,
    /// The same.
    pub(crate) pinned: bool,
    pub(crate) candidate: Option<StagedVersion>,
    /// Versions that were, and may have begun attempts; the latest first.
    pub(crate) retired: VecDeque<KeptVersion>,
}

/// The version on trial.
pub(crate) struct StagedVersion {
    pub(crate) candidate: Candidate,
    /// How often it had failed when its canary, or its time in the shadow, began.
    pub(crate) faults_before: u64,
    /// None where it is only on disk so far, from before the last start.
    pub(crate) module: Option<Module>,
}

pub(crate) struct KeptVersion {
    pub(crate) digest: Digest,
    pub(crate) since: Time,
    /// None where it is only on disk so far, from before the last start.
    pub(crate) module: Option<Module>,
}

impl SlotRecord {
    pub(crate) fn of(history: History) -> Self {
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
                module: None,
            }),
            pinned: history.pinned,
            events: history.events.into_iter().take(MAX_EVENTS).collect(),
            last_error: None,
            disabled: history.disabled,
            bundled: history.bundled,
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
        }
    }

    /// Every version of which there are bytes.
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        let kept = self.versions.iter().chain(&self.retired);
        let staged = self.candidate.iter().map(|staged| staged.candidate.digest);
        kept.map(|kept| kept.digest).chain(staged)
    }

    /// The active version is the operator's from now on, whatever was wrong before. Tells whether that has to be
    /// written down.
    pub(crate) fn own(&mut self, cause: Cause) -> bool {
        // A file of the plugin folder that is another is refused while the slot is pinned.
        let pinned = cause == Cause::Pin || (self.pinned && cause == Cause::Folder);
        let is_new = self.bundled || self.pinned != pinned;
        (self.bundled, self.pinned) = (false, pinned);
        self.last_error = None;
        is_new
    }

    /// Ends the trial. Attempts that the candidate may have begun finish on it.
    pub(crate) fn retire(&mut self, slot: &Slot, now: Time) {
        let Some(StagedVersion {
            candidate, module, ..
        }) = self.candidate.take()
        else {
            return;
        };
        let digest = candidate.digest;
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

    pub(crate) fn active(&self) -> Option<&KeptVersion> {
        self.versions.front().filter(|kept| kept.module.is_some())
    }

    pub(crate) fn status(&self, slot: &Slot) -> SlotStatus {
        let active = self.active();
        let quarantined = |kept: &KeptVersion| {
            kept.module
                .as_ref()
                .and_then(|module| module.identity().quarantined_until())
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
            last_error: self.last_error.clone(),
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
    /// Its label, and its version as it says.
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

    pub(crate) fn event(&self, number: u64, cause: Cause, at: Time) -> Activation {
        let (name, version) = self.names();
        Activation {
            number,
            at,
            digest: self.identity().digest,
            name: name.to_owned(),
            version: version.to_owned(),
            cause,
        }
    }
}
