//! Modules that all nodes of a store serve alike.
//!
//! A change of a slot has a number, counted over all slots. A version is first proposed: each node checks it and says
//! whether it could serve it. Then the node that proposed it settles the change, for all nodes or for none. With
//! [`TRIAL_CAUSE`] a version does not become the slot's active one by that: all nodes can serve it, and another change
//! says how it is on trial.

use kassette_domain::audit::Audited;
use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;

use crate::StoreFuture;

/// Versions of a slot that are kept, with their bytes: an attempt stays with the one that started it.
pub const KEPT_VERSIONS: usize = 8;
/// What brings a version that is to go on trial.
pub const TRIAL_CAUSE: &str = "candidate";

/// What a change does to a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// Another version serves, or is there for a trial.
    Version {
        /// Of its bytes.
        digest: Digest,
        /// What brought it: one lower-case word.
        cause: String,
    },
    /// Nothing new is routed to it, or again.
    Disabled(bool),
    /// Which version is on trial, and how; none: none is any more.
    Candidate(Option<Candidate>),
    /// It is taken away.
    Removed,
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStage {
    /// The nodes check it.
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
    /// How far it has come.
    pub stage: SlotStage,
    /// When it was proposed, or made.
    pub at: Time,
}

/// A version that is proposed.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub slot: Slot,
    /// The module.
    pub bytes: Vec<u8>,
    /// What brings it: one lower-case word.
    pub cause: String,
}

/// Modules of all nodes.
pub trait SharedModules: Send + Sync {
    /// Whether several nodes may serve the store, so that what serves in a slot is said here and not by a node's
    /// plugin folder alone.
    fn shares_modules(&self) -> bool;
    /// Proposes a version; the change's number, or none while another is proposed by a node that lives.
    fn propose_version(&self, proposal: Proposal, now: Time) -> StoreFuture<'_, Option<u64>>;
    /// Settles a proposed version with its audit line; the change has another number from then on. None where it is
    /// not proposed any more: another node took this one for dead.
    fn settle_version(
        &self,
        number: u64,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Option<u64>>;
    /// Takes a proposal back.
    fn withdraw_version(&self, number: u64) -> StoreFuture<'_, ()>;
    /// Switches a slot, says what is on trial in it, or takes it away with what was counted there; the change's
    /// number.
    fn change_slot(
        &self,
        slot: Slot,
        content: SlotContent,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, u64>;
    /// Settled changes with a higher number, and what is proposed, in order of their numbers: of each slot the last
    /// [`KEPT_VERSIONS`] versions that served, as many that were there for a trial, its last switch, and what is on
    /// trial.
    fn slot_changes(&self, after: u64) -> StoreFuture<'_, Vec<SlotChange>>;
    /// The bytes of a version that is kept or proposed.
    fn module_bytes(&self, digest: Digest) -> StoreFuture<'_, Option<Vec<u8>>>;
}
