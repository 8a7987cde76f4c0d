//! What both stores forget when its time is over.

use std::time::Duration;

use crate::Retention;

/// How soon a payment that was not over is looked at again.
pub(crate) const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// What a rule forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Routing decisions with their verdicts.
    Decisions,
    /// E-mail addresses, answers, what is known of payers.
    PersonalData,
}

impl Rule {
    pub(crate) const ALL: [Self; 2] = [Self::Decisions, Self::PersonalData];

    /// How long it keeps things; none for ever.
    pub(crate) const fn keeps(self, retention: &Retention) -> Option<Duration> {
        match self {
            Self::Decisions => retention.decisions,
            Self::PersonalData => retention.personal_data,
        }
    }

    /// Its number in rows.
    pub(crate) const fn tag(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.tag() == tag)
    }
}
