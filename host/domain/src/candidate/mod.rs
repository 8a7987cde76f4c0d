//! A version on trial next to the active one of its slot: which payments it decides, and with which outcomes.
//!
//! A payment stays on one side permanently: a keyed hash of its id is compared with the share at the time of its
//! creation. So the side need not be stored, all nodes agree on it, and a growing share moves no existing payment.

mod counts;
mod judge;
mod sequential;
#[cfg(test)]
mod simulated;

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

pub use self::counts::{Arm, Cohort, Counted, Counts, Pair, Tally};
pub use self::judge::{CanaryFailure, CanaryLimits, SuccessRate, judge};
pub use self::sequential::{MOST_FALSE_ALARMS, log_evidence};
use crate::id::{Digest, PaymentId, digest_text};
use crate::lifecycle::AttemptFate;
use crate::time::Time;

/// Maximum number of steps of a ramp, including the first.
pub const MOST_STEPS: usize = 10;
/// Maximum number of shares kept; payments from before the earliest are on neither side.
const MOST_SHARES: usize = 32;
/// Allowed time between two steps of a ramp, in seconds.
pub const STEP_TIMES: std::ops::RangeInclusive<u64> = 1..=30 * 86_400;

/// A version on trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Digest of its file.
    #[serde(with = "digest_text")]
    pub digest: Digest,
    /// Time at which it was put on trial in this mode.
    pub since: Time,
    /// `None`: a shadow, which is called in addition to live decisions and decides none.
    pub canary: Option<Canary>,
}

/// The share of payments that a candidate decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Random key that selects the payments.
    key: [u8; 16],
    /// Shares so far, earliest first; at least one.
    shares: Vec<Share>,
    /// Percentages to come, next first.
    ramp: Vec<u8>,
    /// Time between two steps.
    every: Duration,
}

/// A share of new payments from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Share {
    from: Time,
    percent: u8,
}

/// Reason why a canary cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCanary {
    #[error("must be one to 10 whole numbers from 1 to 100, each larger than the one before")]
    Steps,
    #[error("must be a whole number from 1 to 2592000")]
    Every,
}

/// The side of a payment, and the share at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub arm: Arm,
    /// The candidate's share at the payment's creation, in percent.
    pub percent: u8,
}

/// Next stage of a ramp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A larger share.
    Share(Canary),
    /// The candidate replaces the active version.
    Promote,
}

impl Canary {
    /// Starts a share, or the steps of a ramp. A ramp that ends in 100 promotes the candidate as its last step; a
    /// single share of 100 does not.
    ///
    /// # Errors
    /// See [`BadCanary`].
    pub fn begin(
        steps: &[u8],
        every_seconds: u64,
        key: [u8; 16],
        now: Time,
    ) -> Result<Self, BadCanary> {
        let is_rising = steps.windows(2).all(|pair| pair[0] < pair[1]);
        let are_percents = steps.iter().all(|percent| (1..=100).contains(percent));
        let [first, ramp @ ..] = steps else {
            return Err(BadCanary::Steps);
        };
        if !is_rising || !are_percents || steps.len() > MOST_STEPS {
            return Err(BadCanary::Steps);
        }
        if !ramp.is_empty() && !STEP_TIMES.contains(&every_seconds) {
            return Err(BadCanary::Every);
        }
        Ok(Self {
            key,
            shares: vec![Share {
                from: now,
                percent: *first,
            }],
            ramp: ramp.to_vec(),
            every: Duration::from_secs(every_seconds),
        })
    }

    /// Another share, or other steps, from now on. Earlier payments stay on their side.
    ///
    /// # Errors
    /// See [`BadCanary`].
    pub fn change(&self, steps: &[u8], every_seconds: u64, now: Time) -> Result<Self, BadCanary> {
        let fresh = Self::begin(steps, every_seconds, self.key, now)?;
        let kept = self.shares.len().saturating_sub(MOST_SHARES - 1);
        let shares = self.shares.iter().skip(kept).chain(&fresh.shares);
        Ok(Self {
            shares: shares.copied().collect(),
            ..fresh
        })
    }

    /// The current share of new payments, in percent.
    pub fn percent(&self) -> u8 {
        self.shares.last().map_or(0, |share| share.percent)
    }

    /// Time at which the current share was set.
    pub fn percent_since(&self) -> Option<Time> {
        self.shares.last().map(|share| share.from)
    }

    /// Steps to come, in percent.
    pub fn ramp(&self) -> &[u8] {
        &self.ramp
    }

    /// Time between two steps.
    pub const fn every(&self) -> Duration {
        self.every
    }

    /// The side of a payment. `None` if it was created before the canary, or before the earliest share kept.
    pub fn side(&self, payment: PaymentId, made_at: Time) -> Option<Side> {
        let mut shares = self.shares.iter().rev();
        let share = shares.find(|share| share.from <= made_at)?;
        let arm = match self.place(payment) < share.percent {
            true => Arm::Candidate,
            false => Arm::Control,
        };
        Some(Side {
            arm,
            percent: share.percent,
        })
    }

    /// A payment's place from 0 to 99, evenly distributed.
    fn place(&self, payment: PaymentId) -> u8 {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            // HMAC accepts keys of any length.
            return u8::MAX;
        };
        mac.update(payment.as_bytes());
        let hash = mac.finalize().into_bytes();
        let (high, low) = (u64::from(hash[0]) << 8, u64::from(hash[1]));
        let part = hash[2..8]
            .iter()
            .fold(high | low, |all, byte| (all << 8) | u64::from(*byte));
        let place = (u128::from(part) * 100) >> 64;
        u8::try_from(place).unwrap_or(u8::MAX)
    }

    /// The next step, if it is due. `decided`: number of payments that the candidate has decided under the current
    /// share.
    pub fn advance(&self, now: Time, decided: u64, limits: &CanaryLimits) -> Option<Advance> {
        let (next, rest) = self.ramp.split_first()?;
        let since = self.percent_since()?;
        if now < since.after(self.every) || decided < limits.min_sample {
            return None;
        }
        if *next == 100 {
            return Some(Advance::Promote);
        }
        let mut steps = vec![*next];
        steps.extend(rest);
        let next = self.change(&steps, self.every.as_secs(), now);
        next.ok().map(Advance::Share)
    }
}

impl Counts {
    /// Counts an outcome of a payment's first attempt in the slot.
    pub fn resolve(&mut self, arm: Arm, resolution: AttemptFate) {
        match resolution {
            AttemptFate::Started(well) => self.starts.count(arm, well),
            AttemptFate::Ended(well) => self.completions.count(arm, well),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_000_000);
    const LIMITS: CanaryLimits = CanaryLimits {
        min_sample: 20,
        margin_percent: 0,
        max_divergence_percent: None,
    };

    fn canary(steps: &[u8]) -> Canary {
        Canary::begin(steps, 600, [7; 16], NOW).unwrap()
    }

    fn payment(number: u64) -> PaymentId {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&number.to_be_bytes());
        PaymentId::made_at(NOW, random)
    }

    #[test]
    fn a_share_takes_its_part_of_the_payments() {
        for percent in [1, 10, 50, 99, 100] {
            let canary = canary(&[percent]);
            let sides = (0..20_000).map(|number| canary.side(payment(number), NOW).unwrap());
            let taken = sides.filter(|side| side.arm == Arm::Candidate).count();
            let expected = 200 * usize::from(percent);
            assert!(taken.abs_diff(expected) < 300, "{taken} of {expected}");
        }
    }

    #[test]
    fn a_payment_stays_on_its_side_while_the_share_grows() {
        let before = canary(&[5, 50, 100]);
        let later = NOW.after(Duration::from_secs(600));
        let Some(Advance::Share(after)) = before.advance(later, 20, &LIMITS) else {
            panic!("its time has come");
        };
        assert_eq!((after.percent(), after.ramp()), (50, &[100][..]));
        for number in 0..1_000 {
            let old = before.side(payment(number), NOW);
            assert_eq!(after.side(payment(number), NOW), old);
            let new = after.side(payment(number), later).unwrap();
            assert_eq!(new.percent, 50);
            let was_its = old.unwrap().arm == Arm::Candidate;
            assert!(
                !was_its || new.arm == Arm::Candidate,
                "shares lie in each other"
            );
        }
        let last = later.after(Duration::from_secs(600));
        assert_eq!(after.advance(last, 20, &LIMITS), Some(Advance::Promote));
    }

    #[test]
    fn a_payment_from_before_is_on_neither_side() {
        let canary = canary(&[100]);
        assert_eq!(
            canary.side(payment(1), NOW.before(Duration::from_millis(1))),
            None
        );
    }

    #[test]
    fn a_ramp_waits_for_its_time_and_for_payments() {
        let canary = canary(&[1, 5]);
        let soon = NOW.after(Duration::from_secs(599));
        let later = NOW.after(Duration::from_secs(600));
        assert_eq!(canary.advance(soon, 1_000, &LIMITS), None);
        assert_eq!(canary.advance(later, 19, &LIMITS), None);
        assert!(canary.advance(later, 20, &LIMITS).is_some());
    }

    #[test]
    fn another_key_chooses_other_payments() {
        let (one, other) = (
            canary(&[50]),
            Canary::begin(&[50], 0, [8; 16], NOW).unwrap(),
        );
        let differ = (0..1_000)
            .filter(|number| one.side(payment(*number), NOW) != other.side(payment(*number), NOW));
        assert!(differ.count() > 400);
    }

    #[test]
    fn steps_rise_from_1_to_100() {
        let begin = |steps: &[u8], every| Canary::begin(steps, every, [0; 16], NOW).map(drop);
        for bad in [
            &[][..],
            &[0],
            &[101],
            &[5, 5],
            &[5, 1],
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        ] {
            assert_eq!(begin(bad, 60), Err(BadCanary::Steps));
        }
        assert_eq!(begin(&[1, 5], 0), Err(BadCanary::Every));
        assert_eq!(begin(&[5], 0), Ok(()));
    }

    #[test]
    fn a_candidate_reads_as_it_was_written() {
        let candidate = Candidate {
            digest: Digest::hash(b"module"),
            since: NOW,
            canary: Some(canary(&[1, 5, 100])),
        };
        let text = serde_json::to_string(&candidate).unwrap();
        assert!(text.contains(&candidate.digest.to_string()));
        assert_eq!(serde_json::from_str::<Candidate>(&text).unwrap(), candidate);
    }
}
