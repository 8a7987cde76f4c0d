//! Whether a canary goes on.

use super::{Counts, MOST_FALSE_ALARMS, log_evidence};

/// What an operator allows a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Payments that the candidate has decided before its rates are judged, and before a ramp goes on.
    pub min_sample: u64,
    /// By how much more often than the active version's its payments may fail, in percent of that.
    pub margin_percent: u16,
    /// Of a hundred of its decisions so many may differ from the active version's; none: any.
    pub max_divergence_percent: Option<u8>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_sample: 20,
            margin_percent: 0,
            max_divergence_percent: None,
        }
    }
}

/// A rate that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Starts that opened an attempt at a provider.
    Starts,
    /// Attempts that were paid.
    Completions,
}

/// What keeps a canary from going on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// More of its payments fail than of the others.
    Worse {
        /// Where.
        rate: Rate,
        /// How many to one the failures speak against "no worse than the margin".
        evidence: f64,
    },
    /// Its decisions differ from the active version's more often than they may.
    Diverges,
}

/// Judges what was counted under each share, in percent; none: it may go on. May be asked after each payment.
pub fn judge(counted: &[(u8, Counts)], limits: &Limits) -> Option<Finding> {
    let mut all = Counts::default();
    counted.iter().for_each(|(_, counts)| all.add(counts));
    if let Some(most) = limits.max_divergence_percent {
        let differing = u128::from(all.differing) * 100;
        let is_judged = all.compared >= limits.min_sample;
        if is_judged && differing > u128::from(all.compared) * u128::from(most) {
            return Some(Finding::Diverges);
        }
    }
    [Rate::Starts, Rate::Completions]
        .into_iter()
        .find_map(|rate| {
            let pair = |counts: &Counts| match rate {
                Rate::Starts => counts.starts,
                Rate::Completions => counts.completions,
            };
            if pair(&all).candidate.payments < limits.min_sample {
                return None;
            }
            let failed = counted.iter().map(|(percent, counts)| {
                let pair = pair(counts);
                (*percent, pair.candidate.failed, pair.control.failed)
            });
            let evidence = log_evidence(&failed.collect::<Vec<_>>(), limits.margin_percent);
            // Two rates are judged: each may raise half of the false alarms.
            let enough = (2.0 / MOST_FALSE_ALARMS).ln();
            (evidence >= enough).then(|| Finding::Worse {
                rate,
                evidence: evidence.exp(),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_that_differ_too_often_are_found_once_there_are_enough() {
        let limits = Limits {
            max_divergence_percent: Some(10),
            ..Limits::default()
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
        assert_eq!(counted(20, 3), Some(Finding::Diverges));
        let any = judge(
            &[(
                5,
                Counts {
                    compared: 20,
                    differing: 20,
                    ..Counts::default()
                },
            )],
            &Limits::default(),
        );
        assert_eq!(any, None);
    }
}
