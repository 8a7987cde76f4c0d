//! What canaries come to, over many runs at random: how seldom a candidate that is no worse is rolled back, and how
//! soon a worse one. `KASSETTE_CANARY_RUNS` sets how many runs (10,000 in the long form of `.ci/run`).

use proptest::prelude::RngExt as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;

/// Runs of each, where it is not said.
const SAMPLE: u64 = 500;
/// From so many on, no room is left for chance.
const WHOLE: u64 = 10_000;

/// Of a hundred payments so many fail.
#[derive(Clone, Copy)]
struct Version {
    /// At their start.
    starts: u32,
    /// Later, of those that were started.
    completions: u32,
}

const SOUND: Version = Version {
    starts: 10,
    completions: 10,
};

struct Trial {
    /// The first run's; each other's is one more.
    seed: u64,
    candidate: Version,
    control: Version,
    /// In percent, each for as many payments.
    shares: &'static [u8],
    margin_percent: u16,
    /// Of both sides, in a run that finds nothing.
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
    /// How many payments the candidate had decided when it was rolled back; none where it was not.
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
                // Nothing else changes what is found.
                let is_news = !is_paid || arm == Arm::Candidate;
                if is_news && judge(&counted, &limits).is_some() {
                    return Some(decided);
                }
            }
        }
        None
    }

    /// The outcome of each run, those that were rolled back first and soonest first, and how many those are.
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

    /// Asserts that no more are rolled back than may be.
    fn is_left_alone(&self, what: &str) {
        let (runs, rolled_back) = self.runs(what);
        assert!(rolled_back <= most_rolled_back(runs.len()), "{what}");
    }

    /// Asserts that half of the runs or more are rolled back after so many payments of the candidate at most.
    fn is_found_after(&self, most: u64, what: &str) {
        let (runs, _) = self.runs(what);
        let median = runs[runs.len() / 2];
        assert!(median.is_some_and(|decided| decided <= most), "{what}");
    }
}

/// Of so many runs that each may be rolled back with the probability [`MOST_FALSE_ALARMS`]: the number that is exceeded
/// once in a million times; in the long form that part of them.
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
    // Of 500 runs at a hundredth P(X > 18) is 1.16e-6, and P(X > 19) 2.8e-7.
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
