//! Payments created between two times, and their start in a list.

use std::collections::BTreeMap;

use kassette_domain::time::Time;

use crate::rows::schema::Position;

/// Number of payments of a list between two milestones. These are walked through in memory.
const APART: u32 = 1024;

/// A range of creation times. Unlimited if neither is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Period {
    /// Inclusive start.
    pub(crate) since: Option<Time>,
    /// Exclusive end.
    pub(crate) until: Option<Time>,
}

impl Period {
    /// Whether the period contains a time.
    pub(crate) fn holds(self, at: Time) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }
}

/// Some payments of a list by creation time, one in every [`APART`].
#[derive(Default)]
pub(crate) struct Milestones {
    by_time: BTreeMap<Time, Position>,
    /// Payments since the last milestone.
    passed: u32,
}

impl Milestones {
    /// Counts a payment that was added to the list, at any place.
    pub(crate) fn pass(&mut self, position: Position, at: Time) {
        self.passed += 1;
        if self.passed == APART {
            self.passed = 0;
            self.by_time.insert(at, position);
        }
    }

    /// The oldest milestone that was not created before a time. All payments of the list from before that
    /// time come after it.
    pub(crate) fn not_before(&self, time: Time) -> Option<Position> {
        let (_, position) = self.by_time.range(time..).next()?;
        Some(*position)
    }
}
