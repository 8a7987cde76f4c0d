//! The reference's silences: questions that had no answer, and the last of the schedule.

use kassette_domain::attempt::AttemptState;
use kassette_domain::id::AttemptId;
use kassette_domain::lifecycle::{Query, Refusal};
use kassette_domain::payment::{Resolution, ReviewCause, Settlement, Status};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::attempt::Shown;
use crate::law::{BELIEVED_AFTER, SILENCES, SILENT_FOR, is_open, is_under_way};
use crate::payment::{Payment, Reply, StepReport};
use crate::steps::{Asked, Exhausted};

impl Payment {
    #[expect(clippy::too_many_arguments, reason = "what a silence consists of")]
    pub(crate) fn query_failed(
        &mut self,
        id: AttemptId,
        asked: Query,
        absent: bool,
        scheduled: bool,
        now: Time,
        exhausted: Exhausted<'_>,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        self.attempts[at].let_go(asked);
        if absent && self.is_recorded_absence(at, now, told) {
            return Ok(Reply::Done);
        }
        if scheduled {
            self.exhaust(at, exhausted, told);
        }
        let attempt = &mut self.attempts[at];
        if attempt.state == AttemptState::Captured || attempt.expires <= now {
            let since = *attempt.silent_since.get_or_insert(now);
            attempt.silences += 1;
            let long = now.since(since) >= SILENT_FOR && attempt.silences >= SILENCES;
            if long && !attempt.reported {
                attempt.reported = true;
                self.give_up(at, told);
            }
        }
        self.count_for_decision(false, told);
        Ok(Reply::Done)
    }

    /// What follows where a provider knows nothing; false where it knew the payment before, and so is
    /// silent.
    fn is_recorded_absence(&mut self, at: usize, now: Time, told: &mut StepReport) -> bool {
        let declines = self.waits() == Some(Resolution::Decline);
        let attempt = &mut self.attempts[at];
        if matches!(
            attempt.state,
            AttemptState::Captured | AttemptState::Surplus
        ) {
            return false;
        }
        if !is_open(attempt.state) {
            attempt.exhausted = true;
            return true;
        }
        let starts = matches!(attempt.state, AttemptState::Open | AttemptState::Unknown);
        // The payer answers questions, and nothing was asked of the provider yet.
        let asks = starts
            && attempt.shown == Shown::Questions
            && !attempt.uncertain
            && !attempt.closing
            && now < attempt.expires;
        let known = attempt.facts.is_some() || !attempt.references.is_empty();
        if asks {
            return true;
        }
        if known && !(declines && attempt.closing) {
            return false;
        }
        let under_way = attempt.busy.is_some_and(|busy| now < busy);
        if starts && (under_way || now < attempt.sent.after(BELIEVED_AFTER)) {
            return true;
        }
        attempt.uncertain = false;
        attempt.facts = None;
        let state = attempt.closed(now).unwrap_or(AttemptState::Unavailable);
        self.end(at, state, now, told);
        true
    }

    /// A question of the schedule was asked; what follows where it was the last.
    pub(crate) fn exhaust(&mut self, at: usize, exhausted: Exhausted<'_>, told: &mut StepReport) {
        let attempt = &mut self.attempts[at];
        if !attempt.exhausted && exhausted(Asked::Attempt(attempt.id)) {
            attempt.exhausted = true;
            self.give_up(at, told);
        }
    }

    /// A vendor that was asked for long has ended nothing: a person has to look.
    fn give_up(&mut self, at: usize, told: &mut StepReport) {
        let state = self.attempts[at].state;
        if is_open(state) && is_under_way(self.status) {
            self.review(ReviewCause::Silence, told);
        } else if state == AttemptState::Captured
            && self.status == Status::Completed
            && self.settlement == Settlement::Pending
        {
            self.list(at, WorkKind::Unsettled, self.due.amount.0, told);
        }
    }
}
