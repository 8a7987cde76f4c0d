//! Counts of versions on trial, over all nodes and restarts.

use kassette_domain::candidate::Counts;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;

use crate::StoreFuture;

/// A version on trial. A later trial of the same version is another trial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trial {
    pub slot: Slot,
    /// Digest of its file.
    pub digest: Digest,
    pub since: Time,
}

/// Counts of trials. Each slot stores those of its latest trial.
pub trait Trials: Send + Sync {
    /// Adds counts of cohorts, by key, and returns the sums by cohort, smallest key first. Without counts,
    /// only returns the sums. If the slot stores a later trial, this one has ended: nothing is added, and the
    /// result is empty. A later trial replaces the stored one when its first counts are added. After a
    /// failure the counts may have been added, so that repeating the call may count them again.
    fn count_trial(
        &self,
        trial: Trial,
        counted: Vec<(u8, Counts)>,
    ) -> StoreFuture<'_, Vec<(u8, Counts)>>;
}
