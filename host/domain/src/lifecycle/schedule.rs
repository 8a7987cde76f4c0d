//! Schedule of queries about attempts (decisions, "Reconciliation").

use std::time::Duration;

use crate::time::Time;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Times of queries about an attempt since its start, and about a completed but unsettled payment since its
/// completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuerySchedule {
    /// Delays of the first queries, in order; at most [`QuerySchedule::FIRST`].
    pub first: Vec<Duration>,
    /// One more query this long before the attempt expires.
    pub before_end: Duration,
    /// Then one query a day, for this many days.
    pub days: u8,
    /// Minimum duration of a series of unanswered queries that leads to a review.
    pub silence: Duration,
}

impl QuerySchedule {
    /// Maximum number of first queries.
    pub const FIRST: usize = 16;
    /// Maximum number of days with daily queries.
    pub const DAYS: u8 = 200;
    /// Number of consecutive unanswered queries that can lead to a review, and that end a waiting decision of an
    /// operator.
    pub const SILENCES: u8 = 5;

    /// Time of query `number`, counted from 0. `None` after the last. `end` is the attempt's expiry if it lies
    /// ahead, `id` the attempt's or the refund's.
    pub fn turn(&self, id: &[u8; 16], from: Time, end: Option<Time>, number: u8) -> Option<Time> {
        let number = usize::from(number);
        let before_end = end
            .map(|end| end.before(self.before_end))
            .filter(|at| *at > from);
        let mut early: Vec<Time> = self
            .first
            .iter()
            .map(|after| spread(id, from, *after))
            .chain(before_end)
            .collect();
        early.sort_unstable();
        if let Some(at) = early.get(number) {
            return Some(*at);
        }
        let day = u32::try_from(number - early.len() + 1).ok()?;
        (day <= u32::from(self.days)).then(|| spread(id, from, DAY * day))
    }
}

impl Default for QuerySchedule {
    fn default() -> Self {
        Self {
            first: [1, 3, 7, 15, 30].map(|minutes| MINUTE * minutes).to_vec(),
            before_end: MINUTE * 2,
            days: 35,
            silence: DAY,
        }
    }
}

/// Delays by up to a tenth, so that attempts of the same moment, as in a sale or after an outage, are not queried
/// all at once. The random id replaces a random number, so that the same step always has the same result.
fn spread(id: &[u8; 16], from: Time, after: Duration) -> Time {
    let drawn = u32::from(u16::from_be_bytes([id[14], id[15]]));
    from.after(after + after / 10 * drawn / u32::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Time = Time::from_secs(1_000_000);

    fn turns(id: [u8; 16], end: Option<Duration>) -> Vec<Duration> {
        let schedule = QuerySchedule::default();
        let end = end.map(|end| FROM.after(end));
        (0..=u8::MAX)
            .map_while(|number| schedule.turn(&id, FROM, end, number))
            .map(|at| at.since(FROM))
            .collect()
    }

    #[test]
    fn questions_come_within_minutes_before_the_end_and_then_daily() {
        let id = [0; 16];
        let asked = turns(id, Some(MINUTE * 60));
        let first: Vec<_> = [1, 3, 7, 15, 30, 58].map(|minutes| MINUTE * minutes).into();
        assert_eq!(asked[..6], first);
        assert_eq!((asked[6], asked.len()), (DAY, 6 + 35));
        assert_eq!(asked.last(), Some(&(DAY * 35)));
        assert_eq!(turns(id, None).len(), 5 + 35);
    }

    #[test]
    fn a_short_life_has_its_last_question_in_between() {
        let asked = turns([0; 16], Some(MINUTE * 10));
        let first: Vec<_> = [1, 3, 7, 8, 15, 30].map(|minutes| MINUTE * minutes).into();
        assert_eq!(asked[..6], first);
    }

    #[test]
    fn attempts_of_one_moment_are_asked_about_one_after_another() {
        let first = |byte| turns([byte; 16], None)[0];
        assert_eq!(first(0), MINUTE);
        assert_eq!(first(255), MINUTE + MINUTE / 10);
        assert!(first(0) < first(100) && first(100) < first(200));
    }
}
