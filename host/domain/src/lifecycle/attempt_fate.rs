//! What has become of an attempt, as those see it who compare versions of modules.

use crate::attempt::{Attempt, AttemptState};

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFate {
    /// The vendor answered its start: whether something was opened there.
    Started(bool),
    /// What was opened there came to its end: whether it was paid.
    Ended(bool),
}

/// How far an attempt is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// What its start came to is not known.
    Starting,
    /// Something is open at the vendor.
    Opened,
    /// It is over; whether it was paid.
    Over(bool),
}

fn progress(attempt: &Attempt) -> Progress {
    match attempt.state {
        AttemptState::Open | AttemptState::Unknown if attempt.action.is_none() => {
            Progress::Starting
        }
        state if state.is_open() => Progress::Opened,
        state => Progress::Over(matches!(
            state,
            AttemptState::Captured | AttemptState::Surplus
        )),
    }
}

/// What a step resolved of an attempt, as it was before it and is now.
pub(super) fn resolved(
    before: Option<&Attempt>,
    now: &Attempt,
) -> impl Iterator<Item = AttemptFate> {
    let (started, ended) = match (before.map_or(Progress::Starting, progress), progress(now)) {
        (Progress::Starting, Progress::Opened) => (Some(true), None),
        (Progress::Starting, Progress::Over(true)) => (Some(true), Some(true)),
        (Progress::Starting, Progress::Over(false)) => (Some(false), None),
        (Progress::Opened, Progress::Over(paid)) => (None, Some(paid)),
        _ => (None, None),
    };
    let started = started.map(AttemptFate::Started);
    started.into_iter().chain(ended.map(AttemptFate::Ended))
}
