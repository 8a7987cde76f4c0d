//! Payments made between two times, and where in a list of payments they begin.

use std::collections::BTreeMap;

use kassette_domain::time::Time;

use crate::rows::schema::Position;

/// How many payments of a list come between two milestones: those are walked along in memory.
const APART: u32 = 1024;

/// Between which times payments were made; at any where neither is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Period {
    /// Then or later.
    pub(crate) since: Option<Time>,
    /// Before.
    pub(crate) until: Option<Time>,
}

impl Period {
    /// Whether a time lies in it.
    pub(crate) fn holds(self, at: Time) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }
}

/// Some payments of a list by when they were made, one in every [`APART`].
#[derive(Default)]
pub(crate) struct Milestones {
    by_time: BTreeMap<Time, Position>,
    /// Payments since the last milestone.
    passed: u32,
}

impl Milestones {
    /// A payment has come into the list, wherever in it.
    pub(crate) fn pass(&mut self, position: Position, at: Time) {
        self.passed += 1;
        if self.passed == APART {
            self.passed = 0;
            self.by_time.insert(at, position);
        }
    }

    /// The oldest milestone that was not made before a time: a list's payments from before then come
    /// after it.
    pub(crate) fn not_before(&self, time: Time) -> Option<Position> {
        let (_, position) = self.by_time.range(time..).next()?;
        Some(*position)
    }
}
