//! Counts of payments that judge a canary.

use serde::{Deserialize, Serialize};

use crate::key::Environment;

/// Payments that are counted together: made in one environment, under one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cohort {
    pub environment: Environment,
    /// The candidate's share of payments, in percent.
    pub percent: u8,
}

impl Cohort {
    /// Added to keys of test payments; no percentage is larger.
    const TEST: u8 = 100;

    /// The key under which rows store the cohort.
    pub const fn key(self) -> u8 {
        match self.environment {
            Environment::Live => self.percent,
            Environment::Test => self.percent.saturating_add(Self::TEST),
        }
    }

    /// Parses [`Cohort::key`].
    pub const fn of_key(key: u8) -> Self {
        match key.checked_sub(Self::TEST) {
            Some(percent @ 1..) => Self {
                environment: Environment::Test,
                percent,
            },
            _ => Self {
                environment: Environment::Live,
                percent: key,
            },
        }
    }
}

/// Counts of the payments that judge a candidate, by share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Environment of the payments. Live payments judge if there are any: otherwise the holder of a test key could
    /// have a good candidate rolled back, or hide a bad one.
    pub environment: Environment,
    /// Counts under each share, in percent, smallest first.
    pub by_share: Vec<(u8, Counts)>,
}

impl Counted {
    /// Selects the judging counts from all counts by cohort key.
    pub fn new(all: Vec<(u8, Counts)>) -> Self {
        let cohorts = all
            .into_iter()
            .map(|(key, counts)| (Cohort::of_key(key), counts));
        let (live, test): (Vec<_>, Vec<_>) =
            cohorts.partition(|(cohort, _)| cohort.environment == Environment::Live);
        let has_live = live.iter().any(|(_, counts)| !counts.is_empty());
        let (environment, judging) = match has_live {
            true => (Environment::Live, live),
            false => (Environment::Test, test),
        };
        let by_share = judging
            .into_iter()
            .map(|(cohort, counts)| (cohort.percent, counts));
        Self {
            environment,
            by_share: by_share.collect(),
        }
    }
}

/// The version that decides a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// The version on trial.
    Candidate,
    /// The active version.
    Control,
}

/// Payments of one side, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub payments: u64,
    pub failed: u64,
}

/// Tallies of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Payments that the candidate decided.
    pub candidate: Tally,
    /// The other payments.
    pub control: Tally,
}

/// Counts under one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// First starts of payments.
    pub starts: Pair,
    /// Outcomes of the attempts that were started.
    pub completions: Pair,
    /// Decisions of the candidate for which the active version was also called.
    pub compared: u64,
    /// Compared decisions that differ.
    pub differing: u64,
}

impl Pair {
    pub(super) fn count(&mut self, arm: Arm, well: bool) {
        let tally = match arm {
            Arm::Candidate => &mut self.candidate,
            Arm::Control => &mut self.control,
        };
        tally.payments += 1;
        tally.failed += u64::from(!well);
    }
}

impl Counts {
    /// Number of figures in a row.
    pub const FIGURES: usize = 10;

    /// The figures of a row.
    pub const fn figures(&self) -> [u64; Self::FIGURES] {
        let (starts, completions) = (&self.starts, &self.completions);
        [
            starts.candidate.payments,
            starts.candidate.failed,
            starts.control.payments,
            starts.control.failed,
            completions.candidate.payments,
            completions.candidate.failed,
            completions.control.payments,
            completions.control.failed,
            self.compared,
            self.differing,
        ]
    }

    /// Parses [`Counts::figures`].
    pub const fn of_figures(figures: [u64; Self::FIGURES]) -> Self {
        const fn pair(figures: [u64; 4]) -> Pair {
            let [candidate, candidate_failed, control, control_failed] = figures;
            Pair {
                candidate: Tally {
                    payments: candidate,
                    failed: candidate_failed,
                },
                control: Tally {
                    payments: control,
                    failed: control_failed,
                },
            }
        }
        let [a, b, c, d, e, f, g, h, compared, differing] = figures;
        Self {
            starts: pair([a, b, c, d]),
            completions: pair([e, f, g, h]),
            compared,
            differing,
        }
    }

    /// Adds counts of another place or time.
    pub fn add(&mut self, other: &Self) {
        let mut sums = self.figures();
        for (sum, more) in sums.iter_mut().zip(other.figures()) {
            *sum = sum.saturating_add(more);
        }
        *self = Self::of_figures(sums);
    }

    /// Payments with an outcome: started attempts that ended, and failed starts, which are failures here too.
    pub fn outcomes(&self) -> Pair {
        let of = |starts: Tally, completions: Tally| Tally {
            payments: completions.payments.saturating_add(starts.failed),
            failed: completions.failed.saturating_add(starts.failed),
        };
        Pair {
            candidate: of(self.starts.candidate, self.completions.candidate),
            control: of(self.starts.control, self.completions.control),
        }
    }

    /// Sum of the counts under all shares.
    pub fn total(counted: &[(u8, Self)]) -> Self {
        let mut all = Self::default();
        counted.iter().for_each(|(_, counts)| all.add(counts));
        all
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_were_written_and_add_up() {
        let figures = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let mut counts = Counts::of_figures(figures);
        assert_eq!(counts.figures(), figures);
        counts.add(&Counts::of_figures([1; 10]));
        assert_eq!(counts.figures(), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert!(Counts::default().is_empty() && !counts.is_empty());
    }
}
