//! Modules that all nodes of a store serve in the same version.
//!
//! Changes of slots are numbered over all slots. A version is first proposed: each node checks it and
//! announces whether it can serve it. Then the node that proposed it settles the change, for all nodes or for
//! none. With [`TRIAL_CAUSE`] the version does not become active: all nodes can serve it, and another change
//! defines its trial.

use kassette_domain::audit::Audited;
use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;

use crate::StoreFuture;

/// Number of stored versions per slot, because an attempt stays with the version that started it.
pub const KEPT_VERSIONS: usize = 8;
/// Cause of a version for a trial.
pub const TRIAL_CAUSE: &str = "candidate";

/// Effect of a change on a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// Another version is active, or available for a trial.
    Version {
        /// Digest of the module's bytes.
        digest: Digest,
        /// The cause of the change, in lower case.
        cause: String,
    },
    /// The slot is disabled (`true`) or enabled again.
    Disabled(bool),
    /// The version on trial, and how it is tried. `None` ends the trial.
    Candidate(Option<Candidate>),
    /// The slot is removed.
    Removed,
}

/// Stage of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStage {
    /// The nodes are checking it.
    Proposed,
    /// All nodes follow it.
    Settled,
}

/// A change of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotChange {
    pub number: u64,
    pub slot: Slot,
    pub content: SlotContent,
    /// Stage of the change.
    pub stage: SlotStage,
    /// Time of the proposal, or of the change.
    pub at: Time,
}

/// A proposed version.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub slot: Slot,
    /// The module's bytes.
    pub bytes: Vec<u8>,
    /// The cause of the change, in lower case.
    pub cause: String,
}

/// Modules of all nodes.
pub trait SharedModules: Send + Sync {
    /// Whether several nodes may serve the store, so that this trait instead of a node's plugin folder
    /// determines the active versions.
    fn shares_modules(&self) -> bool;
    /// Proposes a version. Returns the change's number, or `None` while another proposal of a live node
    /// exists.
    fn propose_version(&self, proposal: Proposal, now: Time) -> StoreFuture<'_, Option<u64>>;
    /// Settles a proposed version with its audit line. Returns the new number of the change. `None` if the
    /// proposal no longer exists, because another node took this one for dead.
    fn settle_version(
        &self,
        number: u64,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Option<u64>>;
    /// Withdraws a proposal.
    fn withdraw_version(&self, number: u64) -> StoreFuture<'_, ()>;
    /// Enables, disables or removes a slot, or changes its trial. Removal also deletes the counts of its
    /// trial. Returns the change's number.
    fn change_slot(
        &self,
        slot: Slot,
        content: SlotContent,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, u64>;
    /// Settled changes with a higher number, and proposals, in order of their numbers. For each slot these
    /// are the last [`KEPT_VERSIONS`] active versions, as many versions for trials, its last switch, and its
    /// trial.
    fn slot_changes(&self, after: u64) -> StoreFuture<'_, Vec<SlotChange>>;
    /// Bytes of a stored or proposed version.
    fn module_bytes(&self, digest: Digest) -> StoreFuture<'_, Option<Vec<u8>>>;
}
