//! Figures of payments for the operators' overview, added up by period. They are for people who watch the gateway:
//! nothing is decided by them, and money is never in them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Figures of an environment in a period. All counts are sums, so that nodes can add theirs. A count can fall: a
/// payment that had failed can be completed later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Payments created in the period.
    pub created: i64,
    /// Those of them that are completed.
    pub paid: i64,
    /// Those of them that ended without money.
    pub failed: i64,
    /// The largest number of deliveries that waited, of both environments.
    pub waiting: u64,
    /// Attempts opened in the period, by method.
    pub methods: BTreeMap<String, Outcomes>,
    /// The same by account, with the times that starts took.
    pub accounts: BTreeMap<String, AccountFigures>,
}

/// Attempts of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// Starts that were answered.
    pub started: i64,
    /// Those of them that were paid.
    pub paid: i64,
}

/// Attempts of a period at an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFigures {
    pub outcomes: Outcomes,
    pub times: StartTimes,
}

/// How long starts took, counted in classes whose bounds are at most a fifth apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTimes(BTreeMap<u8, u64>);

impl Figures {
    /// Adds the figures of the same period.
    pub fn add(&mut self, other: &Self) {
        self.created = self.created.saturating_add(other.created);
        self.paid = self.paid.saturating_add(other.paid);
        self.failed = self.failed.saturating_add(other.failed);
        self.waiting = self.waiting.max(other.waiting);
        for (method, outcomes) in &other.methods {
            self.methods
                .entry(method.clone())
                .or_default()
                .add(*outcomes);
        }
        for (account, figures) in &other.accounts {
            let own = self.accounts.entry(account.clone()).or_default();
            own.outcomes.add(figures.outcomes);
            own.times.add(&figures.times);
        }
    }
}

impl Outcomes {
    pub fn add(&mut self, other: Self) {
        self.started = self.started.saturating_add(other.started);
        self.paid = self.paid.saturating_add(other.paid);
    }
}

impl StartTimes {
    pub fn count(&mut self, took: Duration) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let count = self.0.entry(class(millis)).or_default();
        *count = count.saturating_add(1);
    }

    pub fn add(&mut self, other: &Self) {
        for (class, more) in &other.0 {
            let count = self.0.entry(*class).or_default();
            *count = count.saturating_add(*more);
        }
    }

    /// Number of starts.
    pub fn starts(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The time, in milliseconds, within which this percentage of the starts was answered, to about a tenth.
    /// `None` without starts.
    pub fn within(&self, percent: u64) -> Option<u64> {
        let wanted = self.starts().saturating_mul(percent).div_ceil(100).max(1);
        let mut sum = 0;
        self.0.iter().find_map(|(class, count)| {
            sum += count;
            (sum >= wanted).then(|| middle(*class))
        })
    }
}

/// The class of a time: its doubling and the quarter within it. Times below 4 ms are their own classes.
fn class(millis: u64) -> u8 {
    let class = match millis {
        0..4 => millis,
        _ => {
            let shift = millis.ilog2() - 2;
            u64::from(shift + 1) * 4 + ((millis >> shift) & 3)
        }
    };
    u8::try_from(class).unwrap_or(u8::MAX)
}

/// The middle of a class, in milliseconds.
fn middle(class: u8) -> u64 {
    let (doubling, quarter) = (class / 4, u64::from(class % 4));
    match doubling.checked_sub(1) {
        None => quarter,
        Some(shift) => ((4 + quarter) << shift) + ((1 << shift) >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_times_that_are_at_most_a_fifth_apart() {
        let mut last = 0;
        for millis in 0..200_000 {
            let class = class(millis);
            assert!(class == last || class == last + 1, "{millis}");
            last = class;
            let middle = middle(class);
            assert!(
                middle.abs_diff(millis) * 8 <= millis.max(8),
                "{millis} is shown as {middle}"
            );
        }
    }

    #[test]
    fn percentages_of_starts_are_read_from_their_times() {
        let mut times = StartTimes::default();
        assert_eq!(times.within(50), None);
        for _ in 0..95 {
            times.count(Duration::from_millis(200));
        }
        for _ in 0..5 {
            times.count(Duration::from_secs(10));
        }
        assert_eq!(times.starts(), 100);
        assert!(times.within(50).unwrap().abs_diff(200) <= 25);
        assert!(times.within(95).unwrap().abs_diff(200) <= 25);
        assert!(times.within(96).unwrap().abs_diff(10_000) <= 1250);
        times.count(Duration::MAX);
        assert_eq!(times.starts(), 101);
    }

    #[test]
    fn figures_of_a_period_add_up() {
        let mut outcomes = Outcomes::default();
        outcomes.add(Outcomes {
            started: 2,
            paid: 1,
        });
        let mut times = StartTimes::default();
        times.count(Duration::from_millis(7));
        let account = AccountFigures { outcomes, times };
        let one = Figures {
            created: 3,
            paid: 1,
            failed: -1,
            waiting: 5,
            methods: [("ideal".to_owned(), outcomes)].into(),
            accounts: [("a-live".to_owned(), account)].into(),
        };
        let mut sum = Figures::default();
        sum.add(&one);
        assert_eq!(sum, one);
        sum.add(&one);
        assert_eq!(
            (sum.created, sum.paid, sum.failed, sum.waiting),
            (6, 2, -2, 5)
        );
        assert_eq!(
            sum.methods["ideal"],
            Outcomes {
                started: 4,
                paid: 2
            }
        );
        assert_eq!(sum.accounts["a-live"].times.starts(), 2);
    }
}
