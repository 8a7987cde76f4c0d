//! Unanswered queries, and the progress of the schedule.

use super::attempt_moves::Absence;
use super::moves::StepLog;
use super::{PaymentAggregate, Query, Refusal, StepOutcome};
use crate::attempt::Doubt;
use crate::id::AttemptId;
use crate::payment::{Resolution, ReviewCause, Settlement, Status};
use crate::provider::QueryPurpose;
use crate::time::Time;

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
        self.attempts[i].release(asked);
        let word = if absent { "unknown" } else { "no answer" };
        log.cause = format!("query: {word} at {}", self.attempts[i].account);
        if absent && self.nothing_there(i, asked.purpose, log) {
            self.pursue(log);
            return Ok(StepOutcome::Done);
        }
        if asked.purpose != QueryPurpose::Sync {
            self.attempts[i].claim.hold(log.now);
        }
        if scheduled {
            self.asked(i, log);
        } else if asked.purpose == QueryPurpose::Sync {
            self.attempts[i].put_off(log.now);
        }
        if self.attempts[i].count_silence(log.now, log.schedule) {
            self.give_up(i, log);
        }
        self.unanswered(log);
        Ok(StepOutcome::Done)
    }

    /// Applies the provider's answer that it knows no such payment. Returns false if the answer contradicts
    /// earlier reports, and so proves nothing.
    fn nothing_there(&mut self, i: usize, purpose: QueryPurpose, log: &mut StepLog<'_>) -> bool {
        let declined = self.waits_for(Resolution::Decline);
        match self.attempts[i].absent(purpose, declined, log.now) {
            Absence::Contradicts => return false,
            Absence::Nothing => {}
            Absence::Asked => self.asked(i, log),
            Absence::Ends { how, was_known } => {
                // A provider that no longer knows the payment has not reported that no money was captured.
                self.payment.uncertain_end |= was_known;
                self.end(i, how, log);
                if was_known {
                    self.attempts[i].watch(log.now, log.schedule);
                }
            }
        }
        true
    }

    /// Advances the schedule after a query without a final answer, if one was due.
    pub(super) fn asked(&mut self, i: usize, log: &mut StepLog<'_>) {
        if self.attempts[i].query_sent(log.now, log.schedule) {
            self.give_up(i, log);
        }
        if self.payment.status == Status::Failed && self.payment.uncertain_end {
            self.attempts[i].watch_weekly(log.now);
        }
    }

    /// Requires an operator, because the provider gave no final answer for long.
    fn give_up(&mut self, i: usize, log: &mut StepLog<'_>) {
        let attempt = &mut self.attempts[i];
        let waiting = matches!(
            self.payment.status,
            Status::Pending | Status::Processing | Status::VerificationPending
        );
        if attempt.is_open() && waiting {
            self.review(ReviewCause::Silence, log);
        } else if self.payment.status == Status::Completed
            && self.payment.settlement == Settlement::Pending
        {
            attempt.doubt_money(Doubt::Silence);
        }
        self.lapse_after_last_query(i, log);
    }

    pub(super) fn ask_at(&mut self, id: AttemptId, at: Time) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        self.attempts[i].queries.notice(at);
        Ok(StepOutcome::Done)
    }
}
