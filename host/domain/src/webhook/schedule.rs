//! Retries of failed deliveries.

use std::time::Duration;

/// Maximum number of attempts of a delivery (spec, "Events" 6).
pub const ATTEMPTS: usize = 8;
/// Maximum wait that a receiver's `Retry-After` can request.
pub const RETRY_AFTER_MOST: Duration = Duration::from_secs(10 * 3600);
/// Time after its due time at which a delivery held back by a disabled endpoint is exhausted.
pub const HELD_BACK_MOST: Duration = Duration::from_secs(72 * 3600);

/// Pauses between attempts. Their number is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySchedule([Duration; ATTEMPTS - 1]);

impl Default for RetrySchedule {
    /// 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h.
    fn default() -> Self {
        Self([5, 300, 1800, 7200, 18_000, 36_000, 36_000].map(Duration::from_secs))
    }
}

impl RetrySchedule {
    /// Pauses after the first to the seventh attempt.
    pub const fn new(pauses: [Duration; ATTEMPTS - 1]) -> Self {
        Self(pauses)
    }

    /// Pause after the `made`-th attempt (1-7; later ones like the last), changed by up to ten percent by
    /// `jitter`, and never shorter than the receiver's `retry_after`, which counts up to 10 h.
    ///
    /// `jitter` is a uniform random number from the caller.
    pub fn pause(&self, made: usize, jitter: u16, retry_after: Option<Duration>) -> Duration {
        let at = made.clamp(1, ATTEMPTS - 1) - 1;
        let pause = self.0[at];
        // From 0.9 to 1.1 in 65,535 steps.
        let jittered = pause * 9 / 10 + pause / 5 * u32::from(jitter) / u32::from(u16::MAX);
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MOST);
        jittered.max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pause_is_the_decided_one_give_or_take_ten_percent(
            made in 0_usize..12,
            jitter in any::<u16>(),
            pauses in prop::array::uniform7(0_u64..100_000_000),
        ) {
            let schedule = RetrySchedule::new(pauses.map(Duration::from_millis));
            let pause = schedule.pause(made, jitter, None).as_secs_f64();
            let decided = pauses[made.clamp(1, 7) - 1] as f64 / 1000.0;
            prop_assert!(pause >= decided * 0.9 - 1e-6 && pause <= decided * 1.1 + 1e-6);
        }

        #[test]
        fn a_receiver_is_left_alone_for_as_long_as_it_asks_and_ten_hours_at_most(
            made in 1_usize..8,
            jitter in any::<u16>(),
            asked in 0_u64..100_000,
        ) {
            let schedule = RetrySchedule::default();
            let asked = Duration::from_secs(asked);
            let pause = schedule.pause(made, jitter, Some(asked));
            let without = schedule.pause(made, jitter, None);
            prop_assert_eq!(pause, without.max(asked.min(RETRY_AFTER_MOST)));
        }
    }

    #[test]
    fn the_schedule_is_the_decided_one() {
        let middle = u16::MAX / 2;
        let pauses: Vec<u64> = (1..8)
            .map(|made| {
                RetrySchedule::default()
                    .pause(made, middle, None)
                    .as_secs_f64()
                    .round() as u64
            })
            .collect();
        assert_eq!(pauses, [5, 300, 1800, 7200, 18_000, 36_000, 36_000]);
        let spread = |jitter| RetrySchedule::default().pause(2, jitter, None).as_secs();
        assert_eq!((spread(0), spread(u16::MAX)), (270, 330));
    }
}
