//! An operator's decision about a review: recorded once, carried out with the provider's report.
//!
//! A decision waits until the provider has captured or closed the attempts that it needs; the next actions request
//! that. Every report and every failed query calls [`PaymentAggregate::pursue`], which carries out the decision or
//! lets it lapse, so that no path to the outcome can be forgotten.

use std::time::Duration;

use super::moves::StepLog;
use super::{PaymentAggregate, QuerySchedule, Refusal, StepOutcome};
use crate::attempt::{Attempt, AttemptState, End, Stage};
use crate::event::EventType;
use crate::money::Minor;
use crate::movement::Bucket;
use crate::payment::{
    Accepted, DecisionState, Resolution, ReviewCause, ReviewDecision, Settlement, Status,
};
use crate::time::Time;

/// Time after which a decline is carried out even if the provider has not answered.
const DECLINE_WAITS: Duration = Duration::from_secs(24 * 3600);

/// A new decision of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDecision {
    pub resolution: Resolution,
    /// Settlement that the operator names; only with an approval. `None`: the settlement that the attempt proves.
    pub settlement: Option<Settlement>,
    /// Whether the operator vouches for money that the provider does not confirm.
    pub vouch: bool,
    /// Amount that the operator accepts instead of the invoice amount; only with an approval.
    pub accept: Option<Accepted>,
    /// Ids of pending refunds and open disputes despite which the operator approves.
    pub despite: Vec<String>,
    /// The authenticated operator.
    pub operator: String,
    /// The person on whose behalf the operator acts.
    pub actor: String,
    pub reason: String,
}

impl NewDecision {
    fn is(&self, known: &ReviewDecision) -> bool {
        let accept = |accept: &Option<Accepted>| {
            let accept = accept.as_ref();
            accept.map(|accept| (accept.amount, accept.currency.clone()))
        };
        (self.resolution, self.settlement, self.vouch, &self.despite)
            == (
                known.resolution,
                known.settlement,
                known.vouch,
                &known.despite,
            )
            && accept(&self.accept) == accept(&known.accept)
    }

    fn recorded(self, (received, currency): (Minor, String), at: Time) -> ReviewDecision {
        ReviewDecision {
            resolution: self.resolution,
            settlement: self.settlement,
            vouch: self.vouch,
            accept: self.accept,
            despite: self.despite,
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

/// Final status for a resolution.
const fn aim(resolution: Resolution) -> Status {
    match resolution {
        Resolution::Approve => Status::Completed,
        Resolution::Decline => Status::Failed,
    }
}

impl PaymentAggregate {
    /// Records a decision, and carries it out as far as possible without the provider.
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
        if approves {
            self.may_approve(&new, log.now)?;
        }
        // If a requested capture did not happen, an admin can now vouch for the money.
        let lapsed = self.payment.decision.as_deref().is_some_and(|last| {
            last.resolution == Resolution::Approve && last.state == DecisionState::Lapsed
        });
        let by_word = approves && new.vouch && (replaces || lapsed || self.to_capture().is_none());
        let seen = self.seen();
        // Its calls to the provider are tried at once, regardless of earlier failures.
        for attempt in &mut self.attempts {
            attempt.claim.retry_now();
        }
        self.payment.decision = Some(Box::new(new.recorded(seen, log.now)));
        if by_word && self.backing().is_none() {
            self.complete_unbacked(log);
        } else {
            self.pursue(log);
        }
        if self.waits_for(Resolution::Approve) {
            self.watch_for_approval(log);
        }
        if log.change.transitions.is_empty() {
            self.remark(log);
        }
        Ok(StepOutcome::Done)
    }

    /// Restarts the query schedule for a waiting approval, which lapses after the last query.
    fn watch_for_approval(&mut self, log: &StepLog<'_>) {
        for i in 0..self.attempts.len() {
            if self.is_needed_for_approval(i) {
                let attempt = &mut self.attempts[i];
                let due = attempt.queries.next();
                attempt.watch(log.now, log.schedule);
                if let Some(due) = due {
                    attempt.queries.ask_by(due);
                }
            }
        }
    }

    /// Whether a waiting approval depends on reports about an attempt.
    fn is_needed_for_approval(&self, i: usize) -> bool {
        let attempt = &self.attempts[i];
        attempt.is_open() || self.to_capture().is_some_and(|each| each.id == attempt.id)
    }

    /// Lapses an approval that waits for an attempt, because the last scheduled query had no outcome.
    pub(super) fn lapse_after_last_query(&mut self, i: usize, log: &mut StepLog<'_>) {
        if self.waits_for(Resolution::Approve) && self.is_needed_for_approval(i) {
            "the operator's decision lapsed: the provider has not confirmed the capture"
                .clone_into(&mut log.cause);
            self.lapse(None, log);
        }
    }

    /// Settles a completed payment whose settlement was not reported, if an operator vouches for it.
    fn vouch_for_settlement(
        &mut self,
        new: NewDecision,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let settles = new.resolution == Resolution::Approve
            && new.vouch
            && new.settlement == Some(Settlement::Confirmed)
            && self.payment.settlement == Settlement::Pending;
        // Once refunds or lost disputes have returned everything, vouching is not possible.
        let is_gone = self.captured().is_some_and(|i| {
            let own = self.attempts[i].funds.position(Bucket::Own);
            own.returned > Minor::ZERO && own.net() <= 0
        });
        if !settles || is_gone {
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
            self.attempts[i].queries.stop();
        }
        Ok(StepOutcome::Done)
    }

    /// The decision that waits for the provider.
    pub(super) fn waiting(&self) -> Option<&ReviewDecision> {
        let decision = self.payment.decision.as_deref();
        decision.filter(|decision| {
            decision.state == DecisionState::Waiting && self.payment.status == Status::Review
        })
    }

    /// Whether a decision of this kind waits for the provider.
    pub(super) fn waits_for(&self, resolution: Resolution) -> bool {
        self.waiting()
            .is_some_and(|decision| decision.resolution == resolution)
    }

    /// Carries out a waiting decision as soon as possible, or lets it lapse if it is impossible.
    pub(super) fn pursue(&mut self, log: &mut StepLog<'_>) {
        let Some(decision) = self.payment.decision.as_deref_mut() else {
            return;
        };
        if decision.state != DecisionState::Waiting {
            return;
        }
        if self.payment.status != Status::Review {
            // The provider's final status arrived first.
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

    /// Checks that an approval may be recorded now.
    fn may_approve(&self, new: &NewDecision, now: Time) -> Result<(), Refusal> {
        let due = self.payment.due;
        if let Some(accept) = &new.accept
            && accept.currency == due.currency.code()
            && accept.amount >= due.amount
        {
            return Err(Refusal::AcceptsTooMuch);
        }
        let backing = self.backing();
        let capture = self.to_capture();
        if let Some(i) = backing {
            let needed = self.despite_needed(i);
            if needed.iter().any(|id| !new.despite.contains(id)) {
                return Err(Refusal::NeedsDespite(needed));
            }
        } else if let Some(ended) = capture.and_then(Attempt::authorization_end)
            && ended <= now
            && !new.vouch
        {
            return Err(Refusal::AuthorizationEnded);
        }
        if new.vouch {
            return Ok(());
        }
        if backing.is_none() && capture.is_none() {
            return Err(Refusal::NeedsVouch);
        }
        let (amount, currency) = self.seen();
        if self.is_enough(amount, &currency, new.accept.as_ref()) {
            Ok(())
        } else {
            Err(Refusal::NotEnough { amount, currency })
        }
    }

    /// Whether an amount is at least the invoice's, or exactly the accepted one.
    fn is_enough(&self, amount: Minor, currency: &str, accept: Option<&Accepted>) -> bool {
        let due = self.payment.due;
        let paid = currency == due.currency.code() && amount >= due.amount;
        match accept {
            None => paid,
            Some(accept) => (accept.amount, accept.currency.as_str()) == (amount, currency),
        }
    }

    /// Ids of pending refunds and of open disputes and inquiries about an attempt's money.
    pub fn despite_needed(&self, i: usize) -> Vec<String> {
        let funds = &self.attempts[i].funds;
        let refunds = funds.refunds.iter();
        let pending = refunds.filter(|refund| refund.committed() > Minor::ZERO);
        let disputes = funds.disputes.iter().filter(|disputed| disputed.is_open());
        pending
            .map(|refund| refund.id.to_string())
            .chain(disputes.map(|disputed| disputed.dispute.id.clone()))
            .collect()
    }

    /// Lets a waiting approval lapse if a refund was ordered, or a dispute opened, on the money that it would use.
    pub(super) fn lapse_if_used(&mut self, i: usize, cause: ReviewCause, log: &mut StepLog<'_>) {
        let named = self
            .waiting()
            .map_or(&[][..], |decision| &decision.despite[..]);
        let news = self.despite_needed(i).iter().any(|id| !named.contains(id));
        let used = self.backing() == Some(i)
            || self
                .to_capture()
                .is_some_and(|each| each.id == self.attempts[i].id);
        if news && used && self.waits_for(Resolution::Approve) {
            self.lapse(Some(cause), log);
        }
    }

    fn pursue_approval(&mut self, log: &mut StepLog<'_>) {
        let (accept, vouch) = match self.waiting() {
            Some(decision) => (decision.accept.clone(), decision.vouch),
            None => return,
        };
        if let Some(i) = self.backing() {
            let (amount, currency) = self.available(i);
            let enough = self.is_enough(amount, &currency, accept.as_ref());
            if vouch || enough {
                self.payment.vouched |= !enough;
                self.complete_with(i, log);
            } else if self.attempts[i].funds.balance.total().returned > Minor::ZERO {
                self.lapse(Some(ReviewCause::Refund), log);
            } else {
                self.lapse(Some(ReviewCause::Mismatch), log);
            }
        } else if self.to_capture().is_none() && !self.is_proof_due() {
            self.lapse(Some(ReviewCause::Refused), log);
        }
    }

    /// Money of an attempt that an approval can use, with its currency's code: neither returned nor being
    /// refunded.
    fn available(&self, i: usize) -> (Minor, String) {
        let attempt = &self.attempts[i];
        let amount = attempt.funds.total().for_completion();
        (amount, attempt.received_currency().to_owned())
    }

    /// Whether a capture was accepted and its proof is still missing.
    fn is_proof_due(&self) -> bool {
        let open = self.open_attempt().map(Attempt::state);
        open == Some(AttemptState::VerificationPending)
    }

    /// Index of the attempt whose money an approval would complete with: the payment's own, else that of an open
    /// attempt, else surplus that equals the due amount, else the oldest surplus.
    fn backing(&self) -> Option<usize> {
        let is_surplus = |attempt: &Attempt| matches!(attempt.stage, Stage::Surplus { .. });
        let holds = |is: &dyn Fn(&Attempt) -> bool| {
            self.attempts
                .iter()
                .position(|attempt| is(attempt) && attempt.net().is_some())
        };
        let fits = |attempt: &Attempt| {
            let due = attempt.due;
            is_surplus(attempt) && attempt.net() == Some((due.amount, due.currency.code()))
        };
        holds(&Attempt::is_captured)
            .or_else(|| holds(&Attempt::is_open))
            .or_else(|| self.attempts.iter().position(fits))
            .or_else(|| holds(&is_surplus))
    }

    /// The authorization that an approval captures: the open attempt's, else the oldest.
    pub(super) fn to_capture(&self) -> Option<&Attempt> {
        let open = self.open_attempt().filter(|open| open.is_authorised());
        open.or_else(|| self.attempts.iter().find(|each| each.is_authorised()))
    }

    /// Amount and currency that a deciding operator sees.
    fn seen(&self) -> (Minor, String) {
        let authorized = || {
            let attempt = self.to_capture()?;
            let facts = attempt.vendor.as_ref()?;
            // An authorization without an amount covers the due amount.
            let amount = Some(facts.received).filter(|sum| *sum > Minor::ZERO);
            Some((amount.unwrap_or(attempt.due.amount), facts.currency.clone()))
        };
        self.backing()
            .map(|i| self.available(i))
            .or_else(authorized)
            .unwrap_or((Minor::ZERO, self.payment.due.currency.code().to_owned()))
    }

    /// Completes with the money of an attempt.
    fn complete_with(&mut self, i: usize, log: &mut StepLog<'_>) {
        // The money of the earlier capture, which was returned, no longer belongs to the payment.
        if let Some(before) = self.captured().filter(|before| *before != i) {
            self.attempts[before].hand_over(false);
            self.hand_over(before, Bucket::Surplus, log);
        }
        if self.attempts[i].is_open() {
            self.attempts[i].capture(log.now);
        }
        self.attempts[i].hand_over(true);
        self.hand_over(i, Bucket::Own, log);
        self.mark_short(i);
        self.finish_approval(None, log);
    }

    /// Completes because an operator vouches for money. If no attempt is captured, the open attempt, else the last
    /// one, represents that money.
    fn complete_unbacked(&mut self, log: &mut StepLog<'_>) {
        self.payment.vouched = true;
        // There is no proof of a settlement.
        let settlement = Some(Settlement::Pending);
        let open = self.attempts.iter().position(Attempt::is_open);
        let Some(i) = open.or(self.attempts.len().checked_sub(1)) else {
            return self.finish_approval(settlement, log);
        };
        if self.captured().is_none() {
            self.attempts[i].capture(log.now);
        }
        self.finish_approval(settlement, log);
    }

    /// Moves the rest of an attempt's money into another bucket.
    fn hand_over(&mut self, i: usize, to: Bucket, log: &mut StepLog<'_>) {
        let due = self.payment.due;
        let attempt = &mut self.attempts[i];
        let same = attempt.received_currency() == due.currency.code();
        let mut entries = attempt
            .funds
            .reassign(to, same.then_some(due.amount), attempt.id);
        if to == Bucket::Own && same {
            entries.extend(attempt.funds.top_up(due.amount, attempt.id));
        }
        self.post(i, entries, log);
    }

    /// Marks a payment that an operator accepts for less than the invoice amount, or in another currency.
    fn mark_short(&mut self, i: usize) {
        let (amount, currency) = self.available(i);
        let accepts = self
            .waiting()
            .is_some_and(|decision| decision.accept.is_some());
        if accepts && !self.is_enough(amount, &currency, None) {
            self.payment.short = Some((amount, currency));
        }
    }

    /// Completes with the settlement that the decision names, else `settlement`, else the one that the attempt
    /// proves.
    fn finish_approval(&mut self, mut settlement: Option<Settlement>, log: &mut StepLog<'_>) {
        if let Some(decision) = self.payment.decision.as_deref_mut() {
            decision.state = DecisionState::Done;
            settlement = decision.settlement.or(settlement);
        }
        self.payment.settlement_held = settlement == Some(Settlement::Pending);
        self.payment.risk_review = false;
        self.complete(settlement, log);
    }

    fn pursue_decline(&mut self, log: &mut StepLog<'_>) {
        let Some(decision) = self.waiting() else {
            return;
        };
        let (vouch, since) = (decision.vouch, decision.at);
        let waited = vouch || log.now.since(since) >= DECLINE_WAITS;
        let awaited = |attempt: &Attempt| {
            self.is_to_close(attempt)
                || attempt.is_open()
                    && attempt.is_undecided()
                    && !attempt.holds_money()
                    && !attempt.queries.is_exhausted()
        };
        if !waited && self.attempts.iter().any(awaited) {
            return;
        }
        for i in 0..self.attempts.len() {
            let attempt = &self.attempts[i];
            match attempt.stage {
                Stage::Captured { .. } => self.give_away(i, log),
                Stage::Live { .. } if attempt.holds_money() => self.give_away(i, log),
                Stage::Live { .. } => {
                    // No provider has confirmed that no money was captured: queries continue.
                    let certain = attempt.vendor.is_none() && attempt.references.is_empty();
                    let next = attempt.queries.next();
                    let attempt = &mut self.attempts[i];
                    attempt.end(End::Failed, log.now);
                    if !certain {
                        self.payment.uncertain_end = true;
                        match next {
                            Some(at) => attempt.queries.ask_at(at),
                            None => attempt.watch(log.now, log.schedule),
                        }
                    }
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

    /// Time at which a waiting decline is carried out regardless of the provider.
    pub(super) fn decline_due(&self) -> Option<Time> {
        let waits = self.waits_for(Resolution::Decline);
        let decision = self.waiting().filter(|_| waits)?;
        Some(decision.at.after(DECLINE_WAITS))
    }

    /// Whether an attempt must be closed before a decline.
    pub(super) fn is_to_close(&self, attempt: &Attempt) -> bool {
        let payable = matches!(
            attempt.state(),
            AttemptState::Open | AttemptState::Unknown | AttemptState::Capturing
        );
        (payable || attempt.is_authorised()) && !attempt.queries.is_exhausted()
    }

    /// Makes the money of a declined payment surplus, to be refunded.
    fn give_away(&mut self, i: usize, log: &mut StepLog<'_>) {
        self.attempts[i].set_surplus(log.now);
        self.hand_over(i, Bucket::Surplus, log);
    }

    /// Lets an approval lapse if the provider answered its capture with a review, which is a refusal.
    pub(super) fn refused(&mut self, i: usize, log: &mut StepLog<'_>) {
        let refuses = self.waits_for(Resolution::Approve) && self.attempts[i].net().is_none();
        if refuses && self.attempts[i].state() == AttemptState::Capturing {
            self.attempts[i].await_review();
            // If the provider's own review continues, its final status still ends it.
            let own = self.payment.review == Some(ReviewCause::Vendor);
            self.lapse((!own).then_some(ReviewCause::Refused), log);
        }
    }

    /// Counts an unanswered query that a waiting decision depends on.
    pub(super) fn unanswered(&mut self, log: &mut StepLog<'_>) {
        // A waiting decline is carried out without an answer.
        if !self.waits_for(Resolution::Approve) {
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

    /// Resets the count of unanswered queries.
    pub(super) fn answered_decision(&mut self) {
        if let Some(decision) = self.payment.decision.as_deref_mut() {
            decision.silences = 0;
        }
    }

    /// Lets a decision lapse that cannot be carried out: the payment stays in review, for its old cause or a new
    /// one.
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
