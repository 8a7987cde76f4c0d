//! The record of a slot: its versions, what happened, what operators are told of it.

use std::collections::VecDeque;

use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;

use crate::history::{Cause, Event, History, MAX_EVENTS, SavedVersion};
use crate::load::Module;
use crate::status::{ActiveVersion, PreviousVersion, SlotState, SlotStatus};
use crate::v0_2::VERSION;

/// Versions kept per slot, the active one included: for going back, and for attempts that stay with
/// the module that started them. Each holds a few hundred kilobytes of code.
pub(crate) const MAX_VERSIONS: usize = 8;

#[derive(Default)]
pub(crate) struct SlotRecord {
    /// The active version first, then those that were, the latest first.
    pub(crate) versions: VecDeque<KeptVersion>,
    /// The latest first.
    pub(crate) events: VecDeque<Event>,
    pub(crate) last_error: Option<String>,
    /// Nothing new is routed to it.
    pub(crate) disabled: bool,
    /// As in [`History`].
    pub(crate) bundled: bool,
}

pub(crate) struct KeptVersion {
    pub(crate) digest: Digest,
    pub(crate) since: Time,
    /// None where it is only on disk so far, from before the last start.
    pub(crate) module: Option<Module>,
}

impl SlotRecord {
    pub(crate) fn of(history: History) -> Self {
        let versions = history
            .versions
            .into_iter()
            .take(MAX_VERSIONS)
            .map(|saved| KeptVersion {
                digest: saved.digest,
                since: saved.since,
                module: None,
            });
        Self {
            versions: versions.collect(),
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

    pub(crate) fn event(&self, number: u64, cause: Cause, at: Time) -> Event {
        let (name, version) = self.names();
        Event {
            number,
            at,
            digest: self.identity().digest,
            name: name.to_owned(),
            version: version.to_owned(),
            cause,
        }
    }
}
