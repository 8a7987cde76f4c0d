//! Times at which the gateway queries the provider about an attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Query schedule of an attempt, and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queries {
    /// Time of the next query. `None` if no query is planned.
    next: Option<Time>,
    /// Number of scheduled queries that were sent. `None` after the last.
    sent: Option<u8>,
    /// Consecutive unanswered queries since the attempt expired or was captured.
    silence: Option<Silence>,
    /// Number of notifications that prove nothing and so require a query.
    notices: u32,
    /// Number of those notifications that preceded an answered query.
    notices_answered: u32,
    /// Time from which the schedule and repeats of a start count: the attempt was opened, captured or reported
    /// again, or the payer answered its questions.
    watched_from: Time,
}

/// Consecutive unanswered queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Silence {
    count: u8,
    since: Time,
    /// Whether the payment went to review, or onto the work list, because of it.
    is_reported: bool,
}

/// Time of the query with a number, for a schedule that starts at a time. `None` after the last.
pub(crate) type Turn<'a> = &'a dyn Fn(Time, u8) -> Option<Time>;

impl Queries {
    pub(crate) fn new(now: Time, first: Option<Time>) -> Self {
        Self {
            next: first,
            sent: Some(0),
            silence: None,
            notices: 0,
            notices_answered: 0,
            watched_from: now,
        }
    }

    /// Time of the next query. `None` if no query is planned.
    pub const fn next(&self) -> Option<Time> {
        self.next
    }

    /// Number of notifications that prove nothing and so require a query.
    pub const fn notices(&self) -> u32 {
        self.notices
    }

    /// Whether a notification has arrived since the last answered query.
    pub(crate) const fn has_new_notice(&self) -> bool {
        self.notices != self.notices_answered
    }

    /// Whether all queries of the schedule were sent without a final answer.
    pub const fn is_exhausted(&self) -> bool {
        self.sent.is_none()
    }

    pub(crate) const fn watched_from(&self) -> Time {
        self.watched_from
    }

    /// Plans a query at `at`, unless one is due before.
    pub(crate) fn ask_by(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Replaces the planned query by one at `at`.
    pub(crate) const fn ask_at(&mut self, at: Time) {
        self.next = Some(at);
    }

    /// Cancels the planned query.
    pub(crate) const fn stop(&mut self) {
        self.next = None;
    }

    /// Ends the schedule: no further query is sent.
    pub(crate) const fn exhaust(&mut self) {
        (self.next, self.sent) = (None, None);
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|due| due <= now)
    }

    /// Restarts the schedule.
    pub(crate) fn restart(&mut self, now: Time, turn: Turn<'_>) {
        self.watched_from = now;
        self.sent = Some(0);
        self.silence = None;
        self.next = turn(now, 0);
    }

    /// Counts the schedule and repeats of a start from now, without changing the next query.
    pub(crate) const fn watch_from(&mut self, now: Time) {
        self.watched_from = now;
    }

    /// Counts a notification and plans a query at `at`.
    pub(crate) fn notice(&mut self, at: Time) {
        self.notices = self.notices.wrapping_add(1);
        self.ask_by(at);
    }

    /// Records an answer to a query that was sent after `notices` notifications. Returns whether none has arrived
    /// since.
    pub(crate) const fn answer(&mut self, notices: u32) -> bool {
        self.silence = None;
        self.notices_answered = notices;
        self.notices == notices
    }

    /// Moves to the next turn after a query that was due and had no final answer.
    ///
    /// A query that was due out of turn (a notification, an uncertain start) is not counted; the caller repeats
    /// it, at the latest at its turn. Turns missed during an outage of the gateway are skipped.
    pub(crate) fn advance(&mut self, now: Time, turn: Turn<'_>) -> Advanced {
        let Some(mut number) = self.sent else {
            self.next = None;
            return Advanced::InTurn;
        };
        let mut next = turn(self.watched_from, number);
        if let Some(turn) = next.filter(|turn| now < *turn) {
            return Advanced::OutOfTurn(turn);
        }
        while next.is_some_and(|turn| turn <= now) {
            number += 1;
            next = turn(self.watched_from, number);
        }
        self.next = next;
        self.sent = next.map(|_| number);
        if next.is_some() {
            Advanced::InTurn
        } else {
            Advanced::Last
        }
    }

    /// Counts an unanswered query. Returns true once there were at least `most` of them in a row over at least
    /// `long`, and not again before an answer.
    pub(crate) fn count_silence(&mut self, now: Time, most: u8, long: Duration) -> bool {
        let silence = self.silence.get_or_insert(Silence {
            count: 0,
            since: now,
            is_reported: false,
        });
        silence.count = silence.count.saturating_add(1);
        let lasts = now.since(silence.since) >= long && silence.count >= most;
        let news = lasts && !silence.is_reported;
        silence.is_reported |= lasts;
        news
    }

    /// Number of consecutive unanswered queries since the attempt expired or was captured.
    #[cfg(test)]
    pub(crate) fn silences(&self) -> u8 {
        self.silence.as_ref().map_or(0, |silence| silence.count)
    }

    /// Number of scheduled queries that were sent. `None` after the last.
    #[cfg(test)]
    pub(crate) const fn sent(&self) -> Option<u8> {
        self.sent
    }
}

/// Result of [`Queries::advance`].
pub(crate) enum Advanced {
    /// The schedule is at its next turn, or had ended before.
    InTurn,
    /// The query came before its turn, which is at this time.
    OutOfTurn(Time),
    /// That was the last turn.
    Last,
}
