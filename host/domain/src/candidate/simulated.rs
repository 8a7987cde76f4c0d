//! Results of canaries over many random runs: how rarely a candidate is rolled back that fails no more often, and
//! how soon a worse one. `KASSETTE_CANARY_RUNS` sets the number of runs (10,000 in the long form of `.ci/run`).

use proptest::prelude::RngExt as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;

/// Default number of runs.
const SAMPLE: u64 = 500;
/// From this number of runs, the limit leaves out the tolerance for chance.
const WHOLE: u64 = 10_000;

/// Failure rates of a version, in percent.
#[derive(Clone, Copy)]
struct Version {
    /// Failures at the start.
    starts: u32,
    /// Later failures of started payments.
    completions: u32,
}

const SOUND: Version = Version {
    starts: 10,
    completions: 10,
};

struct Trial {
    /// Seed of the first run; each next run adds one.
    seed: u64,
    candidate: Version,
    control: Version,
    /// Shares in percent, each for the same number of payments.
    shares: &'static [u8],
    margin_percent: u16,
    /// Maximum number of payments of both sides.
    payments: usize,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            seed: 0,
            candidate: SOUND,
            control: SOUND,
            shares: &[10],
            margin_percent: 0,
            payments: 10_000,
        }
    }
}

impl Trial {
    /// Number of payments that the candidate had decided when it was rolled back. `None` if it was not.
    fn run(&self, seed: u64) -> Option<u64> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut chance = |percent| random.random_ratio(percent, 100);
        let limits = CanaryLimits {
            margin_percent: self.margin_percent,
            ..CanaryLimits::default()
        };
        let mut counted = Vec::new();
        let mut decided = 0;
        for share in self.shares {
            let last = counted.len();
            counted.push((*share, Counts::default()));
            for _ in 0..self.payments / self.shares.len() {
                let (arm, version) = match chance(u32::from(*share)) {
                    true => (Arm::Candidate, self.candidate),
                    false => (Arm::Control, self.control),
                };
                let is_started = !chance(version.starts);
                let is_paid = is_started && !chance(version.completions);
                let counts = &mut counted[last].1;
                counts.resolve(arm, AttemptFate::Started(is_started));
                if is_started {
                    counts.resolve(arm, AttemptFate::Ended(is_paid));
                }
                decided += u64::from(arm == Arm::Candidate);
                // Other payments do not change the verdict.
                let is_news = !is_paid || arm == Arm::Candidate;
                if is_news && judge(&counted, &limits).is_some() {
                    return Some(decided);
                }
            }
        }
        None
    }

    /// The outcome of each run, earliest rollbacks first, and the number of rollbacks.
    fn runs(&self, what: &str) -> (Vec<Option<u64>>, usize) {
        let runs = std::env::var("KASSETTE_CANARY_RUNS").map_or(SAMPLE, |runs| {
            runs.parse()
                .expect("KASSETTE_CANARY_RUNS is a whole number")
        });
        let seeds = self.seed..self.seed + runs;
        let mut found: Vec<_> = seeds.clone().map(|seed| self.run(seed)).collect();
        found.sort_by_key(|decided| decided.unwrap_or(u64::MAX));
        let rolled_back = found.iter().flatten().count();
        eprintln!(
            "{what}, seeds {seeds:?}: {rolled_back} rolled back, the median after {:?} payments of the candidate",
            found.get(found.len() / 2).copied().flatten()
        );
        (found, rolled_back)
    }

    /// Asserts that rollbacks do not exceed their limit.
    fn is_left_alone(&self, what: &str) {
        let (runs, rolled_back) = self.runs(what);
        assert!(rolled_back <= most_rolled_back(runs.len()), "{what}");
    }

    /// Asserts that at least half of the runs are rolled back after at most `most` payments of the candidate.
    fn is_found_after(&self, most: u64, what: &str) {
        let (runs, _) = self.runs(what);
        let median = runs[runs.len() / 2];
        assert!(median.is_some_and(|decided| decided <= most), "{what}");
    }
}

/// Limit of rollbacks, if each run may be rolled back with the probability [`MOST_FALSE_ALARMS`]: a number
/// exceeded once in a million times; in the long form, that fraction of the runs.
fn most_rolled_back(runs: usize) -> usize {
    let (all, probability) = (runs as f64, MOST_FALSE_ALARMS);
    if runs as u64 >= WHOLE {
        return (all * probability) as usize;
    }
    // The binomial distribution, term by term.
    let mut exactly = (1.0 - probability).powf(all);
    let (mut more, mut number) = (1.0 - exactly, 0);
    while more > 1e-6 {
        exactly *=
            (runs - number) as f64 * probability / ((number + 1) as f64 * (1.0 - probability));
        more -= exactly;
        number += 1;
    }
    number
}

#[test]
fn the_room_for_chance_is_the_binomial_distributions() {
    // Of 500 runs with probability 0.01: P(X > 18) is 1.16e-6, and P(X > 19) 2.8e-7.
    assert_eq!(most_rolled_back(500), 19);
    assert_eq!(most_rolled_back(10_000), 100);
}

#[test]
fn an_equal_version_is_hardly_ever_rolled_back_however_often_one_looks() {
    let trial = Trial {
        seed: 1_000_000,
        ..Trial::default()
    };
    trial.is_left_alone("equal at a share of 10");
    let ramp = Trial {
        seed: 2_000_000,
        shares: &[1, 5, 25],
        ..Trial::default()
    };
    ramp.is_left_alone("equal over a ramp of 1, 5, 25");
}

#[test]
fn a_version_that_is_as_bad_as_the_margin_allows_is_hardly_ever_rolled_back() {
    let trial = Trial {
        seed: 3_000_000,
        candidate: Version {
            starts: 15,
            completions: 15,
        },
        margin_percent: 50,
        ..Trial::default()
    };
    trial.is_left_alone("fails half as often again, as it may");
}

#[test]
fn a_version_that_starts_more_payments_is_not_rolled_back_for_those_that_fail_later() {
    let trial = Trial {
        seed: 4_000_000,
        candidate: Version {
            starts: 5,
            completions: 50,
        },
        control: Version {
            starts: 60,
            completions: 50,
        },
        ..Trial::default()
    };
    trial.is_left_alone("starts more");
}

#[test]
fn a_start_rate_20_points_worse_is_found_within_150_payments() {
    let trial = Trial {
        seed: 5_000_000,
        candidate: Version {
            starts: 30,
            ..SOUND
        },
        payments: 100_000,
        ..Trial::default()
    };
    trial.is_found_after(150, "starts 20 points worse");
}

#[test]
fn a_start_rate_3_points_worse_is_found_within_4000_payments() {
    let trial = Trial {
        seed: 6_000_000,
        candidate: Version {
            starts: 13,
            ..SOUND
        },
        payments: 200_000,
        ..Trial::default()
    };
    trial.is_found_after(4_000, "starts 3 points worse");
}

#[test]
fn a_completion_rate_20_points_worse_is_found_within_200_payments() {
    let trial = Trial {
        seed: 7_000_000,
        candidate: Version {
            completions: 30,
            ..SOUND
        },
        payments: 100_000,
        ..Trial::default()
    };
    trial.is_found_after(200, "completions 20 points worse");
}
