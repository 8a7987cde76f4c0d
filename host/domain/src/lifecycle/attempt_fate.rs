//! Outcomes of attempts, for comparing versions of modules.

use crate::attempt::{Attempt, Stage};

/// Outcome of a start or of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFate {
    /// The start was answered. True if the provider opened the payment.
    Started(bool),
    /// An opened attempt ended. True if it was paid.
    Ended(bool),
}

/// Progress of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The outcome of the start is unknown.
    Starting,
    /// The payment is open at the provider.
    Opened,
    /// It has ended. True if it was paid.
    Over(bool),
}

fn progress(attempt: &Attempt) -> Progress {
    match attempt.stage {
        Stage::Live { step: None, .. } if attempt.stage.is_starting() => Progress::Starting,
        Stage::Live { .. } => Progress::Opened,
        Stage::Captured { .. } | Stage::Surplus { .. } => Progress::Over(true),
        Stage::Ended { .. } => Progress::Over(false),
    }
}

/// Outcomes that a step added to an attempt. `before` is `None` for a new attempt.
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
