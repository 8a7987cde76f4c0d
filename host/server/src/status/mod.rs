//! The status of the gateway: one report for operators, in the admin API and in `data_dir/status.json`.
//!
//! | file | holds |
//! |---|---|
//! | `facts` | facts that only this process knows: rejected files, certificates, settings that need a restart |
//! | `certificate` | expiry and validity of a certificate chain |
//! | `alarms` | rules for Prometheus whose conditions hold now |
//! | `report` | evaluates the parts |
//! | `file` | `status.json`: written by the server, read by `kassette status` |

mod alarms;
pub(crate) mod certificate;
pub(crate) mod facts;
mod file;
mod report;

use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

pub(crate) use self::facts::{Facts, Subject};
pub(crate) use self::file::read;
pub(crate) use self::report::Reporter;

/// State of a part, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Ok,
    /// An operator should act; payments still work.
    Attention,
    /// Payments fail, or soon will.
    Failing,
}

impl State {
    pub(crate) const ALL: [Self; 3] = [Self::Ok, Self::Attention, Self::Failing];

    /// Name in the admin API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Attention => "attention",
            Self::Failing => "failing",
        }
    }
}

/// One part of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) state: State,
    /// RFC 3339; `None` if unknown, or if the part is well.
    pub(crate) since: Option<String>,
    /// Explanation in sentences, for operators.
    pub(crate) detail: String,
}

impl Part {
    fn new(name: &str, state: State, since: Option<Time>, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state,
            since: since.filter(|_| state != State::Ok).map(Time::rfc3339),
            detail: detail.into(),
        }
    }

    /// A part whose detail is a list of findings. Its state is the worst of theirs, since the earliest finding
    /// with that state.
    fn from_findings(name: &str, things: Vec<Finding>, well: impl Into<String>) -> Self {
        let state = things.iter().map(|thing| thing.state).max();
        let state = state.unwrap_or(State::Ok);
        let worst = things.iter().filter(|thing| thing.state == state);
        let since = worst.filter_map(|thing| thing.since).min();
        let sentences: Vec<_> = things.into_iter().map(|thing| thing.why).collect();
        let detail = match sentences.is_empty() {
            true => well.into(),
            false => sentences.join("; "),
        };
        Self::new(name, state, since, detail)
    }
}

/// A finding about a part.
struct Finding {
    state: State,
    since: Option<Time>,
    why: String,
}

impl Finding {
    fn new(state: State, since: Option<Time>, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { state, since, why }
    }
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The worst state of all parts.
    pub(crate) state: State,
    pub(crate) parts: Vec<Part>,
}

impl Report {
    fn new(parts: Vec<Part>) -> Self {
        let state = parts.iter().map(|part| part.state).max();
        let state = state.unwrap_or(State::Ok);
        Self { state, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_as_its_worst_finding_and_the_whole_as_its_worst_part() {
        let at = |second| Some(Time::from_secs(second));
        let findings = vec![
            Finding::new(State::Attention, at(1), "one is slow"),
            Finding::new(State::Failing, at(9), "one is down"),
            Finding::new(State::Failing, at(5), "another is down"),
        ];
        let part = Part::from_findings("accounts", findings, "all are well");
        assert_eq!(part.state, State::Failing);
        assert_eq!(
            part.since,
            at(5).map(Time::rfc3339),
            "since the first of the worst"
        );
        assert_eq!(part.detail, "one is slow; one is down; another is down");
        let well = Part::from_findings("disk", Vec::new(), "there is room");
        assert_eq!(
            (well.state, &well.since, &*well.detail),
            (State::Ok, &None, "there is room")
        );
        assert_eq!(Report::new(vec![well.clone(), part]).state, State::Failing);
        assert_eq!(Report::new(vec![well]).state, State::Ok);
    }
}
