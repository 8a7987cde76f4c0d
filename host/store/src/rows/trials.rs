//! Row with the counts of a slot's latest trial.

use std::collections::BTreeMap;

use kassette_domain::candidate::Counts;
use kassette_domain::id::Digest;
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::Trial;

/// A slot's row. If two trials started at the same time, their digests decide which is later, so that all
/// nodes agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrialRow {
    since: Time,
    digest: Digest,
    shares: BTreeMap<u8, [u64; Counts::FIGURES]>,
}

impl TrialRow {
    /// The row of a trial, given the slot's stored row. `None` if that belongs to a later trial.
    pub(crate) fn new(trial: &Trial, kept: Option<Self>) -> Option<Self> {
        let new = Self {
            since: trial.since,
            digest: trial.digest,
            shares: BTreeMap::new(),
        };
        let age = |row: &Self| (row.since, row.digest);
        match kept {
            Some(kept) if age(&kept) > age(&new) => None,
            Some(kept) if age(&kept) == age(&new) => Some(kept),
            _ => Some(new),
        }
    }

    pub(crate) fn add(&mut self, counted: &[(u8, Counts)]) {
        for (percent, counts) in counted {
            let figures = self.shares.entry(*percent).or_default();
            let mut sum = Counts::of_figures(*figures);
            sum.add(counts);
            *figures = sum.figures();
        }
    }

    /// Counts by share in percent, the smallest first.
    pub(crate) fn sums(&self) -> Vec<(u8, Counts)> {
        let sum = |(percent, figures): (&u8, &_)| (*percent, Counts::of_figures(*figures));
        self.shares.iter().map(sum).collect()
    }
}

/// Removes empty counts.
pub(crate) fn counted(mut counted: Vec<(u8, Counts)>) -> Vec<(u8, Counts)> {
    counted.retain(|(_, counts)| !counts.is_empty());
    counted
}
