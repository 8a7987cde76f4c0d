//! Rules of retention, the same in both stores.

use std::time::Duration;

use crate::Retention;

/// Interval at which a payment that has not ended is examined again.
pub(crate) const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// The data that a rule deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Routing decisions with their verdicts.
    Decisions,
    /// E-mail addresses, answers and other data of payers.
    PersonalData,
}

impl Rule {
    pub(crate) const ALL: [Self; 2] = [Self::Decisions, Self::PersonalData];

    /// Retention time. `None` means permanently.
    pub(crate) const fn keeps(self, retention: &Retention) -> Option<Duration> {
        match self {
            Self::Decisions => retention.decisions,
            Self::PersonalData => retention.personal_data,
        }
    }

    /// Number in rows.
    pub(crate) const fn tag(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.tag() == tag)
    }
}
