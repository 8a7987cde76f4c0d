//! What operators see of the slots.

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot, SlotKind};
use kassette_domain::time::Time;

use crate::limits::ModuleClass;

/// One slot, as the list of plugins shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    pub slot: Slot,
    /// The world of its modules.
    pub kind: SlotKind,
    pub state: SlotState,
    /// The version that is meant to serve, quarantined or not.
    pub active: Option<ActiveVersion>,
    /// The version that does serve: the active one, or while that is quarantined the last good one.
    pub serving: Option<Digest>,
    /// When the active version returns, while it is quarantined.
    pub quarantined_until: Option<Time>,
    /// The version that was active before it and can be gone back to.
    pub previous: Option<PreviousVersion>,
    pub candidate: Option<Candidate>,
    /// Whether files of the plugin folder leave the active version in its place.
    pub pinned: bool,
    /// Why the last file or upload was refused; none once one was accepted.
    pub last_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// A version is active.
    Serving,
    /// The active version is held back after repeated faults.
    Quarantined,
    /// There is no version that works.
    Failed,
    /// An operator has switched it off for new payments; what is under way goes on.
    Disabled,
}

impl SlotState {
    /// The word of the admin API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Quarantined => "benched",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// The version that is meant to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveVersion {
    /// Of its file.
    pub digest: Digest,
    /// Its label.
    pub name: String,
    /// As it calls itself.
    pub version: String,
    /// The contract's version it was built for.
    pub wit: String,
    /// Its limits.
    pub class: ModuleClass,
    pub since: Time,
}

/// An earlier version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousVersion {
    /// Of its file.
    pub digest: Digest,
    /// When it had become active.
    pub since: Time,
}
