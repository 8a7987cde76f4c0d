//! What is counted of versions on trial, over all nodes and restarts.

use kassette_domain::candidate::Counts;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;

use crate::StoreFuture;

/// A version on trial: the same one that is tried again later is another trial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trial {
    pub slot: Slot,
    /// Of its file.
    pub digest: Digest,
    pub since: Time,
}

/// Counts of trials; each slot keeps those of its latest.
pub trait Trials: Send + Sync {
    /// Adds what was counted of each cohort, by its key, and gives the sums by cohort, the smallest key first. Nothing
    /// to add reads them. A trial that began earlier than the one that the slot keeps is over: nothing is added, and
    /// nothing is given. One that began later takes its place with the first that is added. Where adding fails, it may
    /// have been done all the same: what is added again may count twice.
    fn count_trial(
        &self,
        trial: Trial,
        counted: Vec<(u8, Counts)>,
    ) -> StoreFuture<'_, Vec<(u8, Counts)>>;
}
