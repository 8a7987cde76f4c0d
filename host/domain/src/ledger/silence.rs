//! Questions without an answer, and the schedule of questions.

use std::time::Duration;

use super::moves::Log;
use super::{Change, FIRST_QUERIES, Ledger, Outcome, Refusal};
use crate::attempt::AttemptState;
use crate::id::AttemptId;
use crate::payment::{ReviewCause, Settlement, Status};
use crate::provider::Wish;
use crate::time::Time;

/// After an uncertain start the vendor is asked this soon: long enough for a slow request to have
/// taken effect, short enough for a payer who waits.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(30);
/// An "unknown to the vendor" is believed this long after the last start: no request lives longer.
const ABSENT_AFTER: Duration = Duration::from_secs(120);
/// The first pause after a capture, close or unscheduled question in vain; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest such pause: a vendor's outage of hours costs few requests and ends minutes late.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Questions of the schedule lie at least this far apart, also when it is made up for after an outage
/// of ours.
const LEAST_GAP: Duration = FIRST_QUERIES[0];

/// The earlier of a time that may be set and another.
pub(super) fn sooner(set: Option<Time>, at: Time) -> Option<Time> {
    Some(set.map_or(at, |set| set.min(at)))
}

/// The pause after `retries` tries in vain.
fn pause(retries: u8) -> Duration {
    FIRST_PAUSE
        .saturating_mul(1_u32.checked_shl(retries.into()).unwrap_or(u32::MAX))
        .min(LONGEST_PAUSE)
}

impl Ledger {
    pub(super) fn silence(
        &mut self,
        id: AttemptId,
        wish: Wish,
        absent: bool,
        scheduled: bool,
        now: Time,
        change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        let i = self.index(id)?;
        let attempt = &mut self.attempts[i];
        let holder = match wish {
            Wish::Finish => attempt.state == AttemptState::Capturing,
            Wish::Close => attempt.closing,
            Wish::Look => false,
        };
        if holder {
            attempt.busy_until = None;
        }
        let word = if absent { "unknown" } else { "no answer" };
        let mut log = Log {
            now,
            cause: format!("query: {word} at {}", attempt.account),
            change,
        };
        if absent && self.nothing_there(i, &mut log) {
            return Ok(Outcome::Done);
        }
        if wish != Wish::Look {
            self.hold(i, now);
        }
        if scheduled {
            self.asked(i, &mut log);
        } else if wish == Wish::Look {
            self.put_off(i, now);
        }
        Ok(Outcome::Done)
    }

    /// Heeds that the vendor knows no such payment; false where that contradicts what it said before
    /// and so proves nothing.
    fn nothing_there(&mut self, i: usize, log: &mut Log<'_>) -> bool {
        let attempt = &mut self.attempts[i];
        match attempt.state {
            AttemptState::Open | AttemptState::Unknown if !attempt.holds_money() => {
                let believed_at = attempt.last_sent.after(ABSENT_AFTER);
                if log.now < believed_at || attempt.is_busy(log.now) {
                    let again = log.now.after(pause(attempt.retries)).max(believed_at);
                    attempt.retries = attempt.retries.saturating_add(1);
                    attempt.next_query = Some(again);
                    attempt.hold_until = Some(again);
                    return true;
                }
                attempt.uncertain = false;
                attempt.vendor = None;
                let state = self
                    .closed_as(i, log.now)
                    .unwrap_or(AttemptState::Unavailable);
                self.end(i, state, log);
                true
            }
            state if state.is_open() => false,
            AttemptState::Captured | AttemptState::Surplus => false,
            _ => {
                attempt.next_query = None;
                attempt.queries = LAST_QUERY;
                true
            }
        }
    }

    /// How an attempt ends that was claimed to be closed; none where it was not.
    pub(super) fn closed_as(&self, i: usize, now: Time) -> Option<AttemptState> {
        let attempt = &self.attempts[i];
        attempt.closing.then_some(if now >= attempt.expires_at {
            AttemptState::Expired
        } else {
            AttemptState::Closed
        })
    }

    /// Puts off the next capture or close after one without success.
    pub(super) fn hold(&mut self, i: usize, now: Time) {
        let attempt = &mut self.attempts[i];
        if attempt.hold_until.is_none_or(|until| until <= now) {
            attempt.hold_until = Some(now.after(pause(attempt.retries)));
            attempt.retries = attempt.retries.saturating_add(1);
        }
    }

    /// Puts off a question that was due and had no answer, without counting it.
    fn put_off(&mut self, i: usize, now: Time) {
        let attempt = &mut self.attempts[i];
        if attempt.next_query.is_some_and(|due| due <= now) {
            attempt.next_query = Some(now.after(pause(attempt.retries)));
            attempt.retries = attempt.retries.saturating_add(1);
        }
    }

    /// Starts the schedule of questions anew from now.
    pub(super) fn watch(&mut self, i: usize, now: Time) {
        let attempt = &mut self.attempts[i];
        attempt.watched_from = now;
        attempt.queries = 0;
        attempt.retries = 0;
        attempt.next_query = Some(now.after(FIRST_QUERIES[0]));
    }

    /// A question of the schedule, if one was due, is asked and has ended nothing.
    ///
    /// One that was due out of turn (a notice, an uncertain start) is repeated with growing pauses
    /// until its turn and does not count.
    pub(super) fn asked(&mut self, i: usize, log: &mut Log<'_>) {
        let attempt = &mut self.attempts[i];
        if attempt.next_query.is_none_or(|due| log.now < due) {
            return;
        }
        let Some(turn) = FIRST_QUERIES.get(usize::from(attempt.queries)) else {
            attempt.next_query = None;
            return;
        };
        let turn = attempt.watched_from.after(*turn);
        if log.now < turn {
            attempt.next_query = Some(log.now.after(pause(attempt.retries)).min(turn));
            attempt.retries = attempt.retries.saturating_add(1);
            return;
        }
        attempt.queries += 1;
        attempt.next_query = FIRST_QUERIES
            .get(usize::from(attempt.queries))
            .map(|next| attempt.watched_from.after(*next))
            .map(|next| next.max(log.now.after(LEAST_GAP)));
        if attempt.next_query.is_none() {
            self.give_up(i, log);
        }
    }

    /// The last question of the schedule ended nothing: a person has to look.
    fn give_up(&mut self, i: usize, log: &mut Log<'_>) {
        let state = self.attempts[i].state;
        let waiting = matches!(
            self.payment.status,
            Status::Pending | Status::Processing | Status::VerificationPending
        );
        if state.is_open() && waiting {
            self.review(ReviewCause::Silence, log);
        } else if state == AttemptState::Captured
            && self.payment.status == Status::Completed
            && self.payment.settlement == Settlement::Pending
        {
            self.unsettled(i, "completed and never confirmed", log);
        }
    }

    pub(super) fn ask_at(&mut self, id: AttemptId, at: Time) -> Result<Outcome, Refusal> {
        let i = self.index(id)?;
        let attempt = &mut self.attempts[i];
        attempt.next_query = sooner(attempt.next_query, at);
        Ok(Outcome::Done)
    }
}

/// [`crate::attempt::Attempt::queries`] when all were asked.
const LAST_QUERY: u8 = 7;
const _: () = assert!(LAST_QUERY as usize == FIRST_QUERIES.len());
