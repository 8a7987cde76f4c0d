//! Status of slots for operators.

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot, SlotKind};
use kassette_domain::time::Time;

use crate::limits::ModuleClass;

/// A slot in the list of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    pub slot: Slot,
    /// World of its modules.
    pub kind: SlotKind,
    pub state: SlotState,
    /// The active version, quarantined or not.
    pub active: Option<ActiveVersion>,
    /// The version that serves: the active one, or the last good one while that is quarantined.
    pub serving: Option<Digest>,
    /// End of the quarantine of the active version. `None` without one.
    pub quarantined_until: Option<Time>,
    /// The version before the active one, for a rollback.
    pub previous: Option<PreviousVersion>,
    pub candidate: Option<Candidate>,
    /// Whether files in the plugin folder do not replace the active version.
    pub pinned: bool,
    /// Reason for the refusal of the last file or upload. `None` after a version was accepted.
    pub last_error: Option<String>,
    /// Whether its history was not authentic, and no operator has decided since which version serves.
    pub set_aside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// A version is active.
    Serving,
    /// The active version is out of service after repeated faults.
    Quarantined,
    /// No version works.
    Failed,
    /// An operator has disabled new payments. Running attempts continue.
    Disabled,
}

impl SlotState {
    /// Value in the admin API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Quarantined => "benched",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// The active version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveVersion {
    /// Digest of the module file.
    pub digest: Digest,
    /// Label of the module.
    pub name: String,
    /// Version according to the module's description.
    pub version: String,
    /// Version of the contract that the module was built for.
    pub wit: String,
    /// Class, which decides the limits.
    pub class: ModuleClass,
    pub since: Time,
}

/// An earlier version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousVersion {
    /// Digest of the module file.
    pub digest: Digest,
    /// Time at which it became active.
    pub since: Time,
}
