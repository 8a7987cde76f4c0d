//! Questions without an answer, and the schedule of questions.

use std::time::Duration;

use super::moves::StepLog;
use super::{PaymentAggregate, Query, QuerySchedule, Refusal, StepOutcome};
use crate::attempt::{Attempt, AttemptState};
use crate::id::AttemptId;
use crate::payment::{Resolution, ReviewCause, Settlement, Status};
use crate::provider::{PayerAction, QueryPurpose};
use crate::time::Time;

/// After an uncertain start the vendor is asked this soon: long enough for a slow request to have
/// taken effect, short enough for a payer who waits.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(30);
/// An "unknown to the vendor" is believed this long after the last start: no request lives longer.
pub(super) const ABSENT_AFTER: Duration = Duration::from_secs(120);
/// The first pause after a capture, close or unscheduled question in vain; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest such pause: a vendor's outage of hours costs few requests and ends minutes late.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// After a day of such pauses one a day is enough.
const RETRIES_OF_A_DAY: u8 = 150;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The earlier of a time that may be set and another.
pub(super) fn sooner(set: Option<Time>, at: Time) -> Option<Time> {
    Some(set.map_or(at, |set| set.min(at)))
}

/// The pause after `retries` tries in vain.
fn pause(retries: u8) -> Duration {
    if retries > RETRIES_OF_A_DAY {
        return DAY;
    }
    FIRST_PAUSE
        .saturating_mul(1_u32.checked_shl(retries.into()).unwrap_or(u32::MAX))
        .min(LONGEST_PAUSE)
}

impl PaymentAggregate {
    pub(super) fn query_failed(
        &mut self,
        id: AttemptId,
        asked: Query,
        absent: bool,
        scheduled: bool,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        self.let_go(i, asked);
        let word = if absent { "unknown" } else { "no answer" };
        log.cause = format!("query: {word} at {}", self.attempts[i].account);
        if absent && self.nothing_there(i, asked.purpose, log) {
            self.pursue(log);
            return Ok(StepOutcome::Done);
        }
        if asked.purpose != QueryPurpose::Sync {
            self.hold(i, log.now);
        }
        if scheduled {
            self.asked(i, log);
        } else if asked.purpose == QueryPurpose::Sync {
            self.put_off(i, log.now);
        }
        self.count_silence(i, log);
        self.unanswered(log);
        Ok(StepOutcome::Done)
    }

    /// Ends the claim of a worker whose query is done. If the worker was late, another task may have a claim of its
    /// own by now, with a call under way: that claim stays.
    pub(super) fn let_go(&mut self, i: usize, asked: Query) {
        let attempt = &mut self.attempts[i];
        let holds = match asked.purpose {
            QueryPurpose::Capture => attempt.state == AttemptState::Capturing,
            QueryPurpose::Cancel => attempt.closing,
            QueryPurpose::Sync => false,
        };
        if holds && attempt.busy_until == asked.held {
            attempt.busy_until = None;
        }
    }

    /// Applies the vendor's answer that it knows no such payment. Returns false where the answer contradicts what
    /// the vendor said before, and so proves nothing.
    fn nothing_there(&mut self, i: usize, purpose: QueryPurpose, log: &mut StepLog<'_>) -> bool {
        let declined = self.waits_for(Resolution::Decline);
        let attempt = &mut self.attempts[i];
        let starting = matches!(attempt.state, AttemptState::Open | AttemptState::Unknown);
        let known = attempt.vendor.is_some() || !attempt.references.is_empty();
        // Nothing was asked of the vendor yet: the payer is still answering the module's questions.
        let answering = starting
            && matches!(attempt.action, Some(PayerAction::Ask(_)))
            && !(attempt.uncertain || attempt.closing)
            && log.now < attempt.expires_at;
        match attempt.state {
            _ if answering => {
                self.asked(i, log);
                true
            }
            // An operator's decline goes through where the vendor knows nothing any more.
            state if state.is_open() && known && !(declined && attempt.closing) => false,
            state if state.is_open() => {
                let believed_at = attempt.last_sent.after(ABSENT_AFTER);
                if starting && (log.now < believed_at || attempt.is_busy(log.now)) {
                    // It answers again: the start is repeated for the payer who waits, as right after it had failed.
                    if !attempt.closing && log.now < attempt.opened_at.after(ABSENT_AFTER) {
                        attempt.watched_from = log.now;
                    }
                    let again = log.now.after(pause(attempt.retries)).max(believed_at);
                    attempt.retries = attempt.retries.saturating_add(1);
                    attempt.next_query = Some(again);
                    if purpose != QueryPurpose::Sync {
                        attempt.hold_until = Some(again);
                    }
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
            AttemptState::Captured | AttemptState::Surplus => false,
            _ => {
                attempt.next_query = None;
                attempt.queries = Attempt::ALL_ASKED;
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
    pub(super) fn watch(&mut self, i: usize, log: &StepLog<'_>) {
        let attempt = &mut self.attempts[i];
        attempt.watched_from = log.now;
        attempt.queries = 0;
        attempt.retries = 0;
        attempt.silences = 0;
        attempt.silent_since = None;
        self.attempts[i].next_query = self.turn(i, 0, log);
    }

    /// When a question of the schedule is asked.
    fn turn(&self, i: usize, number: u8, log: &StepLog<'_>) -> Option<Time> {
        let attempt = &self.attempts[i];
        let end = Some(attempt.expires_at).filter(|_| attempt.state.is_open());
        log.schedule
            .turn(attempt.id.as_bytes(), attempt.watched_from, end, number)
    }

    /// A question of the schedule, if one was due, is asked and has ended nothing.
    ///
    /// One that was due out of turn (a notice, an uncertain start) is repeated with growing pauses
    /// until its turn and does not count. Those that an outage of ours has missed are left out.
    pub(super) fn asked(&mut self, i: usize, log: &mut StepLog<'_>) {
        let attempt = &mut self.attempts[i];
        if attempt.next_query.is_none_or(|due| log.now < due) {
            return;
        }
        if attempt.is_exhausted() {
            attempt.next_query = None;
            return;
        }
        let mut number = attempt.queries;
        let mut next = self.turn(i, number, log);
        if let Some(turn) = next.filter(|turn| log.now < *turn) {
            let attempt = &mut self.attempts[i];
            attempt.next_query = Some(log.now.after(pause(attempt.retries)).min(turn));
            attempt.retries = attempt.retries.saturating_add(1);
            return;
        }
        while next.is_some_and(|turn| turn <= log.now) {
            number += 1;
            next = self.turn(i, number, log);
        }
        let attempt = &mut self.attempts[i];
        attempt.next_query = next;
        attempt.queries = if next.is_some() {
            number
        } else {
            Attempt::ALL_ASKED
        };
        if next.is_none() {
            self.give_up(i, log);
        }
    }

    /// Counts questions in a row that had no answer since the attempt's life ended; enough of them over
    /// a long enough time have a person look. The questions go on.
    fn count_silence(&mut self, i: usize, log: &mut StepLog<'_>) {
        let attempt = &mut self.attempts[i];
        let ended = attempt.state == AttemptState::Captured || attempt.expires_at <= log.now;
        if !ended {
            return;
        }
        let since = *attempt.silent_since.get_or_insert(log.now);
        if attempt.silences < REPORTED {
            attempt.silences = (attempt.silences + 1).min(REPORTED - 1);
        }
        let long = log.now.since(since) >= log.schedule.silence;
        if long && (QuerySchedule::SILENCES..REPORTED).contains(&attempt.silences) {
            attempt.silences = REPORTED;
            self.give_up(i, log);
        }
    }

    /// The vendor was asked for long and ended nothing: a person has to look.
    fn give_up(&mut self, i: usize, log: &mut StepLog<'_>) {
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
            self.unsettled(i, "completed and not confirmed", log);
        }
    }

    pub(super) fn ask_at(&mut self, id: AttemptId, at: Time) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        let attempt = &mut self.attempts[i];
        attempt.notices = attempt.notices.wrapping_add(1);
        attempt.next_query = sooner(attempt.next_query, at);
        Ok(StepOutcome::Done)
    }
}

/// [`Attempt::silences`] once a person has been told of them.
const REPORTED: u8 = u8::MAX;
