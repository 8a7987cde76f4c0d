//! What is counted of a canary.

use crate::key::Environment;

/// Payments that are counted together: made in one environment, under one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cohort {
    pub environment: Environment,
    /// Of a hundred payments so many are the candidate's.
    pub percent: u8,
}

impl Cohort {
    /// Above every percentage.
    const TEST: u8 = 100;

    /// As a row has it.
    pub const fn key(self) -> u8 {
        match self.environment {
            Environment::Live => self.percent,
            Environment::Test => self.percent.saturating_add(Self::TEST),
        }
    }

    /// Reads [`Cohort::key`].
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

/// What was counted of the payments that judge a candidate, by share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Live payments judge where there are any: else the holder of a test key could have a good candidate rolled
    /// back, or hide a bad one.
    pub environment: Environment,
    /// What was counted under each share, in percent, the smallest first.
    pub by_share: Vec<(u8, Counts)>,
}

impl Counted {
    /// Of all that was counted, by the keys of cohorts.
    pub fn of(all: Vec<(u8, Counts)>) -> Self {
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

/// Who decides a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// The version on trial.
    Candidate,
    /// The active version.
    Control,
}

/// Payments of one side, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub payments: u64,
    pub failed: u64,
}

/// The same thing of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Payments that the candidate decided.
    pub candidate: Tally,
    /// The others.
    pub control: Tally,
}

/// What was counted while one share was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Starts of payments: the first of each.
    pub starts: Pair,
    /// What became of those attempts that were started.
    pub completions: Pair,
    /// Decisions of the candidate's side over which the active version was asked too.
    pub compared: u64,
    /// Those over which the two differ.
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
    /// Figures of a row.
    pub const FIGURES: usize = 10;

    /// As a row has them.
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

    /// Reads [`Counts::figures`].
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

    /// Adds what was counted elsewhere or later.
    pub fn add(&mut self, other: &Self) {
        let mut sums = self.figures();
        for (sum, more) in sums.iter_mut().zip(other.figures()) {
            *sum = sum.saturating_add(more);
        }
        *self = Self::of_figures(sums);
    }

    /// Payments that came to an end: started and paid or not, or not started, which is a failure too.
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

    /// What was counted under all shares.
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
