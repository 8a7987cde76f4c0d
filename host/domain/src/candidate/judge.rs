//! Judgement of canaries.

use super::counts::Pair;
use super::{Counts, MOST_FALSE_ALARMS, log_evidence};

/// Maximum reported evidence: beyond it certainty no longer grows.
const MOST_TOLD: f64 = 1e12;

/// An operator's limits for a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryLimits {
    /// Number of payments that the candidate must have decided before its rates are judged, and before a ramp
    /// advances.
    pub min_sample: u64,
    /// How much more often its payments may fail than the active version's, in percent of the latter.
    pub margin_percent: u16,
    /// Maximum percentage of its decisions that may differ from the active version's. `None`: no limit.
    pub max_divergence_percent: Option<u8>,
}

impl Default for CanaryLimits {
    fn default() -> Self {
        Self {
            min_sample: 20,
            margin_percent: 0,
            max_divergence_percent: None,
        }
    }
}

/// A rate to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessRate {
    /// Starts that opened an attempt at a provider.
    Starts,
    /// Paid payments among those with an outcome, including failed starts: a candidate that starts more payments
    /// has more that can fail later, and must not be judged worse for it.
    Completions,
}

impl SuccessRate {
    pub const ALL: [Self; 2] = [Self::Starts, Self::Completions];

    /// The counts to compare.
    pub fn pair(self, counts: &Counts) -> Pair {
        match self {
            Self::Starts => counts.starts,
            Self::Completions => counts.outcomes(),
        }
    }

    /// Odds by which the failures under each share, in percent, speak against "the candidate is no worse than the
    /// margin"; at most 10¹².
    pub fn evidence(self, counted: &[(u8, Counts)], margin_percent: u16) -> f64 {
        let failed = counted.iter().map(|(percent, counts)| {
            let pair = self.pair(counts);
            (*percent, pair.candidate.failed, pair.control.failed)
        });
        let evidence = log_evidence(&failed.collect::<Vec<_>>(), margin_percent).exp();
        evidence.min(MOST_TOLD)
    }
}

/// Reason to roll a canary back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CanaryFailure {
    /// Its payments fail more often than the others.
    Worse {
        rate: SuccessRate,
        /// See [`SuccessRate::evidence`].
        evidence: f64,
    },
    /// Its decisions differ from the active version's more often than allowed.
    Diverges,
}

/// Judges the counts under each share, in percent. `None`: the canary may continue. Can be called after each
/// payment.
pub fn judge(counted: &[(u8, Counts)], limits: &CanaryLimits) -> Option<CanaryFailure> {
    let all = Counts::total(counted);
    if let Some(most) = limits.max_divergence_percent {
        let differing = u128::from(all.differing) * 100;
        let is_judged = all.compared >= limits.min_sample;
        if is_judged && differing > u128::from(all.compared) * u128::from(most) {
            return Some(CanaryFailure::Diverges);
        }
    }
    SuccessRate::ALL.into_iter().find_map(|rate| {
        if rate.pair(&all).candidate.payments < limits.min_sample {
            return None;
        }
        let evidence = rate.evidence(counted, limits.margin_percent);
        // Each of the two rates may cause half of the false alarms.
        let enough = 2.0 / MOST_FALSE_ALARMS;
        (evidence >= enough).then_some(CanaryFailure::Worse { rate, evidence })
    })
}

#[cfg(test)]
mod tests {
    use super::super::Tally;
    use super::*;

    #[test]
    fn decisions_that_differ_too_often_are_found_once_there_are_enough() {
        let limits = CanaryLimits {
            max_divergence_percent: Some(10),
            ..CanaryLimits::default()
        };
        let counted = |compared, differing| {
            let counts = Counts {
                compared,
                differing,
                ..Counts::default()
            };
            judge(&[(5, counts)], &limits)
        };
        assert_eq!(counted(19, 19), None);
        assert_eq!(counted(20, 2), None);
        assert_eq!(counted(20, 3), Some(CanaryFailure::Diverges));
        let any = judge(
            &[(
                5,
                Counts {
                    compared: 20,
                    differing: 20,
                    ..Counts::default()
                },
            )],
            &CanaryLimits::default(),
        );
        assert_eq!(any, None);
    }

    /// A hundred payments of the candidate and nine hundred others, with numbers of failures of both.
    fn counted(starts: [u64; 2], completions: [u64; 2]) -> [(u8, Counts); 1] {
        let pair = |payments: [u64; 2], failed: [u64; 2]| Pair {
            candidate: Tally {
                payments: payments[0],
                failed: failed[0],
            },
            control: Tally {
                payments: payments[1],
                failed: failed[1],
            },
        };
        let counts = Counts {
            starts: pair([100, 900], starts),
            completions: pair([100 - starts[0], 900 - starts[1]], completions),
            ..Counts::default()
        };
        [(10, counts)]
    }

    #[test]
    fn each_rate_is_judged_once_there_are_enough_payments() {
        let found = |starts, completions, min_sample| {
            let limits = CanaryLimits {
                min_sample,
                ..CanaryLimits::default()
            };
            match judge(&counted(starts, completions), &limits) {
                Some(CanaryFailure::Worse { rate, evidence }) => {
                    assert!(evidence >= 200.0);
                    Some(rate)
                }
                other => {
                    assert_eq!(other, None);
                    None
                }
            }
        };
        assert_eq!(found([10, 90], [9, 81], 20), None);
        assert_eq!(found([30, 90], [7, 81], 20), Some(SuccessRate::Starts));
        assert_eq!(
            found([10, 90], [40, 81], 20),
            Some(SuccessRate::Completions)
        );
        assert_eq!(found([30, 90], [40, 81], 101), None);
        assert_eq!(found([0, 90], [0, 81], 20), None);
    }

    #[test]
    fn a_candidate_that_starts_more_payments_may_have_more_that_fail_later() {
        // Half of the started payments are paid; the candidate starts all, the others a fifth.
        assert_eq!(
            judge(&counted([0, 720], [50, 90]), &CanaryLimits::default()),
            None
        );
    }

    #[test]
    fn evidence_is_a_number_however_much_was_counted() {
        let counts = Counts::of_figures([u64::MAX; Counts::FIGURES]);
        let evidence = SuccessRate::Completions.evidence(&[(1, counts)], 0);
        assert!((evidence - MOST_TOLD).abs() < 1.0);
    }
}
