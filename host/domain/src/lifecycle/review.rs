//! An operator's decision about a review: recorded once, carried out by the vendor's word.
//!
//! A decision waits until the vendor has captured or closed what it needs; the next actions that follow from
//! it do that. Every report and every query that failed ends in [`PaymentAggregate::pursue`], which carries the
//! decision out or lets it lapse, so that no way of learning the outcome can be forgotten.

use super::moves::StepLog;
use super::{PaymentAggregate, QuerySchedule, Refusal, StepOutcome};
use crate::attempt::{Attempt, AttemptState};
use crate::event::EventType;
use crate::money::Minor;
use crate::payment::{DecisionState, Resolution, ReviewCause, ReviewDecision, Settlement, Status};
use crate::time::Time;
use crate::work::WorkKind;

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDecision {
    pub resolution: Resolution,
    /// What the operator says of the settlement; with an approval alone. None: what the attempt proves.
    pub settlement: Option<Settlement>,
    /// Whether the operator vouches for money that the vendor does not confirm.
    pub vouch: bool,
    /// The authenticated operator.
    pub operator: String,
    /// The person that the operator acts for.
    pub actor: String,
    pub reason: String,
}

impl NewDecision {
    fn is(&self, known: &ReviewDecision) -> bool {
        (self.resolution, self.settlement, self.vouch)
            == (known.resolution, known.settlement, known.vouch)
    }

    fn recorded(self, (received, currency): (Minor, String), at: Time) -> ReviewDecision {
        ReviewDecision {
            resolution: self.resolution,
            settlement: self.settlement,
            vouch: self.vouch,
            state: DecisionState::Waiting,
            received,
            currency,
            operator: self.operator,
            actor: self.actor,
            reason: self.reason,
            at,
            silences: 0,
        }
    }
}

/// Where a resolution leads.
const fn aim(resolution: Resolution) -> Status {
    match resolution {
        Resolution::Approve => Status::Completed,
        Resolution::Decline => Status::Failed,
    }
}

impl PaymentAggregate {
    /// Records a decision, and carries it out as far as that needs no vendor.
    pub(super) fn decide(
        &mut self,
        new: NewDecision,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let status = self.payment.status;
        if let Some(known) = self
            .payment
            .decision
            .as_deref()
            .filter(|known| new.is(known))
        {
            let carried_out = known.state == DecisionState::Done && status == aim(known.resolution);
            if carried_out || self.waiting().is_some() {
                return Ok(StepOutcome::Nothing);
            }
        }
        if status == Status::Completed {
            return self.vouch_for_settlement(new, log);
        }
        if status != Status::Review {
            return Err(Refusal::WrongStatus(status));
        }
        let replaces = self.waiting().is_some();
        if replaces && !new.vouch {
            return Err(Refusal::DecisionWaits);
        }
        let approves = new.resolution == Resolution::Approve;
        if approves && !new.vouch && self.backing().is_none() && self.to_capture().is_none() {
            return Err(Refusal::NeedsVouch);
        }
        // Where the vendor was asked to capture and has not, an admin's word counts now.
        let lapsed = self.payment.decision.as_deref().is_some_and(|last| {
            last.resolution == Resolution::Approve && last.state == DecisionState::Lapsed
        });
        let by_word = approves && new.vouch && (replaces || lapsed || self.to_capture().is_none());
        let seen = self.seen();
        // What it needs of the vendor is tried at once, whatever was in vain before.
        for attempt in &mut self.attempts {
            attempt.hold_until = None;
            attempt.retries = 0;
        }
        self.payment.decision = Some(Box::new(new.recorded(seen, log.now)));
        if by_word && self.backing().is_none() {
            self.complete_unbacked(log);
        } else {
            self.pursue(log);
        }
        if log.change.transitions.is_empty() {
            self.remark(log);
        }
        Ok(StepOutcome::Done)
    }

    /// A completed payment whose settlement never came is settled by an operator's word.
    fn vouch_for_settlement(
        &mut self,
        new: NewDecision,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let settles = new.resolution == Resolution::Approve
            && new.vouch
            && new.settlement == Some(Settlement::Confirmed)
            && self.payment.settlement == Settlement::Pending;
        if !settles {
            return Err(Refusal::WrongStatus(self.payment.status));
        }
        let mut decision = new.recorded(self.seen(), log.now);
        decision.state = DecisionState::Done;
        self.payment.decision = Some(Box::new(decision));
        self.payment.vouched = true;
        self.payment.settlement = Settlement::Confirmed;
        self.remark(log);
        self.tell(EventType::PaymentCompleted, log);
        if let Some(i) = self.captured() {
            self.attempts[i].next_query = None;
            self.unsettled(i, "settled by an operator's word", log);
        }
        Ok(StepOutcome::Done)
    }

    /// The decision that waits for the vendor.
    pub(super) fn waiting(&self) -> Option<&ReviewDecision> {
        let decision = self.payment.decision.as_deref();
        decision.filter(|decision| {
            decision.state == DecisionState::Waiting && self.payment.status == Status::Review
        })
    }

    /// Whether a decision of this kind waits for the vendor.
    pub(super) fn waits_for(&self, resolution: Resolution) -> bool {
        self.waiting()
            .is_some_and(|decision| decision.resolution == resolution)
    }

    /// Carries a waiting decision out as soon as that is possible, or lets it lapse where it is not.
    pub(super) fn pursue(&mut self, log: &mut StepLog<'_>) {
        let Some(decision) = self.payment.decision.as_deref_mut() else {
            return;
        };
        if decision.state != DecisionState::Waiting {
            return;
        }
        if self.payment.status != Status::Review {
            // The vendor's final word was faster.
            let agrees = self.payment.status == aim(decision.resolution);
            decision.state = if agrees {
                DecisionState::Done
            } else {
                DecisionState::Lapsed
            };
            return;
        }
        match decision.resolution {
            Resolution::Approve => self.pursue_approval(log),
            Resolution::Decline => self.pursue_decline(log),
        }
    }

    fn pursue_approval(&mut self, log: &mut StepLog<'_>) {
        if let Some(i) = self.backing() {
            if self.suffices(i) {
                self.complete_with(i, log);
            } else if self.attempts[i].returns.total() > Minor(0) {
                self.lapse(Some(ReviewCause::Refund), log);
            } else {
                self.lapse(Some(ReviewCause::Mismatch), log);
            }
        } else if self.to_capture().is_none() && !self.is_proof_due() {
            self.lapse(Some(ReviewCause::Refused), log);
        }
    }

    /// Whether a capture was taken in and its proof is still to come.
    fn is_proof_due(&self) -> bool {
        let open = self.open_attempt().map(|open| open.state);
        open == Some(AttemptState::VerificationPending)
    }

    /// Whether what an attempt holds is what is due, or what the operator saw and accepted.
    fn suffices(&self, i: usize) -> bool {
        let Some((net, currency)) = self.attempts[i].net() else {
            return false;
        };
        let due = self.attempts[i].due;
        let paid = currency == due.currency.code() && net >= due.amount;
        let accepted = self.waiting().is_some_and(|decision| {
            (decision.received, decision.currency.as_str()) == (net, currency)
        });
        paid || accepted
    }

    /// The attempt whose money an approval would complete with: the payment's own, else what an
    /// attempt that is open holds, else, of what no payment holds, that which fits what is due, else the
    /// oldest.
    fn backing(&self) -> Option<usize> {
        let holds = |state: fn(AttemptState) -> bool| {
            self.attempts
                .iter()
                .position(|attempt| state(attempt.state) && attempt.net().is_some())
        };
        let fits = |attempt: &Attempt| {
            let due = attempt.due;
            attempt.state == AttemptState::Surplus
                && attempt.net() == Some((due.amount, due.currency.code()))
        };
        holds(|state| state == AttemptState::Captured)
            .or_else(|| holds(AttemptState::is_open))
            .or_else(|| self.attempts.iter().position(fits))
            .or_else(|| holds(|state| state == AttemptState::Surplus))
    }

    /// The authorisation that an approval captures: the open one, else the oldest.
    pub(super) fn to_capture(&self) -> Option<&Attempt> {
        let open = self.open_attempt().filter(|open| open.is_authorised());
        open.or_else(|| self.attempts.iter().find(|each| each.is_authorised()))
    }

    /// What an operator who decides now has before the eyes.
    fn seen(&self) -> (Minor, String) {
        let backing = self.backing().and_then(|i| self.attempts[i].net());
        let authorised = || {
            let facts = self.to_capture()?.vendor.as_ref()?;
            (facts.received > Minor(0)).then_some((facts.received, facts.currency.as_str()))
        };
        let (amount, currency) = backing
            .or_else(authorised)
            .unwrap_or((Minor(0), self.payment.due.currency.code()));
        (amount, currency.to_owned())
    }

    /// Completes with the money of an attempt.
    fn complete_with(&mut self, i: usize, log: &mut StepLog<'_>) {
        let attempt = &self.attempts[i];
        if attempt.state == AttemptState::Surplus {
            log.change.work_done.push(attempt.id);
        }
        let open = attempt.state.is_open();
        // The capture before, whose money went back, is the payment's no more.
        if let Some(before) = self.captured() {
            self.attempts[before].state = AttemptState::Surplus;
        }
        if open {
            self.shut(i, AttemptState::Captured, log.now);
        }
        self.attempts[i].state = AttemptState::Captured;
        self.finish_approval(None, log);
    }

    /// Completes by an operator's word alone: the attempt that is open, else the last, stands for the
    /// money that the operator vouches for.
    fn complete_unbacked(&mut self, log: &mut StepLog<'_>) {
        self.payment.vouched = true;
        // Nothing proves a settlement.
        let settlement = Some(Settlement::Pending);
        let open = self.attempts.iter().position(|each| each.state.is_open());
        let Some(i) = open.or(self.attempts.len().checked_sub(1)) else {
            return self.finish_approval(settlement, log);
        };
        if self.captured().is_none() {
            self.shut(i, AttemptState::Captured, log.now);
        }
        self.finish_approval(settlement, log);
        self.unsettled(i, "completed by an operator's word alone", log);
    }

    /// Completes with the settlement that the decision names, else this one, else what the attempt proves.
    fn finish_approval(&mut self, mut settlement: Option<Settlement>, log: &mut StepLog<'_>) {
        if let Some(decision) = self.payment.decision.as_deref_mut() {
            decision.state = DecisionState::Done;
            settlement = decision.settlement.or(settlement);
        }
        self.payment.risk_review = false;
        self.complete(settlement, log);
    }

    fn pursue_decline(&mut self, log: &mut StepLog<'_>) {
        if self
            .attempts
            .iter()
            .any(|attempt| self.is_to_close(attempt))
        {
            return;
        }
        for i in 0..self.attempts.len() {
            let attempt = &self.attempts[i];
            match attempt.state {
                AttemptState::Captured => self.give_away(i, log),
                state if state.is_open() && attempt.holds_money() => self.give_away(i, log),
                state if state.is_open() => {
                    // The vendor has not decided yet: late money is looked for.
                    let undecided = attempt.is_undecided() && !attempt.is_exhausted();
                    let next = attempt.next_query;
                    self.shut(i, AttemptState::Failed, log.now);
                    self.attempts[i].next_query = next.filter(|_| undecided);
                }
                _ => {}
            }
        }
        if let Some(decision) = self.payment.decision.as_deref_mut() {
            decision.state = DecisionState::Done;
        }
        self.payment.risk_review = false;
        self.move_to(Status::Failed, log);
    }

    /// Whether a decline has an attempt closed first. A vendor that has been silent to every question
    /// of the schedule cannot keep an operator from deciding.
    pub(super) fn is_to_close(&self, attempt: &Attempt) -> bool {
        let payable = matches!(
            attempt.state,
            AttemptState::Open | AttemptState::Unknown | AttemptState::Capturing
        );
        (payable || attempt.is_authorised()) && !attempt.is_exhausted()
    }

    /// Money of a declined payment is to be refunded.
    fn give_away(&mut self, i: usize, log: &mut StepLog<'_>) {
        self.shut(i, AttemptState::Surplus, log.now);
        let attempt = &self.attempts[i];
        let facts = attempt.vendor.as_ref();
        let amount = facts.map_or(attempt.due.amount, |facts| {
            Minor(facts.received.0.saturating_sub(facts.returned.0))
        });
        let detail = "taken, and the payment was declined";
        if amount > Minor(0) {
            self.work(i, WorkKind::Surplus, amount, detail, log);
        }
    }

    /// The vendor was asked to capture for an approval and has a person look instead: it refuses.
    pub(super) fn refused(&mut self, i: usize, log: &mut StepLog<'_>) {
        let refuses = self.waits_for(Resolution::Approve) && self.attempts[i].net().is_none();
        if refuses && self.attempts[i].state == AttemptState::Capturing {
            self.attempts[i].state = AttemptState::Review;
            self.attempts[i].busy_until = None;
            // Where the vendor has a person look itself, its final word still ends the review.
            let own = self.payment.review == Some(ReviewCause::Vendor);
            self.lapse((!own).then_some(ReviewCause::Refused), log);
        }
    }

    /// A question that a waiting decision depends on had no answer.
    pub(super) fn unanswered(&mut self, log: &mut StepLog<'_>) {
        if self.waiting().is_none() {
            return;
        }
        let Some(decision) = self.payment.decision.as_deref_mut() else {
            return;
        };
        decision.silences = decision.silences.saturating_add(1);
        if decision.silences >= QuerySchedule::SILENCES {
            "the operator's decision lapsed: the provider gave no answer"
                .clone_into(&mut log.cause);
            self.lapse(None, log);
        }
    }

    /// The vendor has answered.
    pub(super) fn answered_decision(&mut self) {
        if let Some(decision) = self.payment.decision.as_deref_mut() {
            decision.silences = 0;
        }
    }

    /// A decision that cannot be carried out: the payment stays in review, for the cause that it has or
    /// a new one.
    fn lapse(&mut self, cause: Option<ReviewCause>, log: &mut StepLog<'_>) {
        if let Some(decision) = self.payment.decision.as_deref_mut() {
            decision.state = DecisionState::Lapsed;
        }
        if cause.is_some() {
            self.payment.review = cause;
        }
        self.remark(log);
    }
}
