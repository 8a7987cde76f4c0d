//! Opening attempts, and results of starts.

use super::moves::StepLog;
use super::{Change, PaymentAggregate, Refusal, StartResult, StepOutcome};
use crate::attempt::{Attempt, AttemptState, Choice, End, PayerStep};
use crate::id::AttemptId;
use crate::payment::{CheckoutMode, Status};
use crate::provider::PayerAction;
use crate::secret::Secret;
use crate::time::Time;

impl PaymentAggregate {
    pub(super) fn open(
        &mut self,
        choice: Choice,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        self.may_open(log.now)?;
        log.cause = format!("start: {} at {}", choice.method, choice.account);
        let id = self.add(choice, log);
        if self.payment.status == Status::Created {
            self.move_to(Status::Pending, log);
        }
        Ok(StepOutcome::Opened(id))
    }

    /// Checks that a new attempt can be opened.
    fn may_open(&self, now: Time) -> Result<(), Refusal> {
        let status = self.payment.status;
        if !matches!(status, Status::Created | Status::Pending) || now >= self.payment.expires_at {
            return Err(Refusal::NotPayable(status));
        }
        if let Some(open) = self.open_attempt() {
            return Err(Refusal::AttemptOpen(open.id));
        }
        if self.attempts.len() >= Self::MAX_ATTEMPTS {
            return Err(Refusal::TooManyAttempts);
        }
        Ok(())
    }

    /// Adds an attempt, claimed for the start that follows.
    fn add(&mut self, mut choice: Choice, log: &mut StepLog<'_>) -> AttemptId {
        log.change.decisions.extend(choice.decision.take());
        if self.payment.mode == CheckoutMode::Hosted {
            self.payment.method = Some(choice.method);
        }
        let attempt = Attempt::open(&self.payment, choice, log.now, log.schedule);
        let id = attempt.id;
        self.attempts.push(attempt);
        id
    }

    pub(super) fn started(
        &mut self,
        (id, held): (AttemptId, Option<Time>),
        result: StartResult,
        next: Option<Choice>,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        check(&result)?;
        let now = log.now;
        if !self.attempts[i].stage.is_starting() {
            return Ok(self.overtaken(i, result, log));
        }
        self.attempts[i].start_answered(held, now);
        log.cause = format!("start: {}", describe(&result, &self.attempts[i]));
        match result {
            StartResult::Open {
                reference,
                action,
                until,
            } => {
                self.refer(i, reference.as_deref(), log.change);
                self.attempts[i].await_payer(Some(PayerStep { action, until }));
                Ok(StepOutcome::Done)
            }
            StartResult::Uncertain(detail) => {
                self.attempts[i].doubt_start(detail, now);
                Ok(StepOutcome::Done)
            }
            // An account that cannot be used now proves nothing about the previous start, or about its own earlier
            // reports.
            StartResult::Unavailable(detail)
                if self.attempts[i].stage.is_uncertain() || self.attempts[i].vendor.is_some() =>
            {
                self.attempts[i].doubt_start(detail, now);
                Ok(StepOutcome::Done)
            }
            StartResult::Unavailable(detail) => {
                self.attempts[i].detail = detail;
                self.fall_back(i, next, log)
            }
            StartResult::Declined(detail) => {
                self.attempts[i].detail = detail;
                self.end(i, End::Declined, log);
                Ok(StepOutcome::Done)
            }
        }
    }

    /// Ends an attempt whose account could not be used, and opens the next in the same step.
    fn fall_back(
        &mut self,
        i: usize,
        next: Option<Choice>,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let Some(next) = next.filter(|_| self.payment.status == Status::Pending) else {
            self.end(i, End::Unavailable, log);
            return Ok(StepOutcome::Done);
        };
        self.attempts[i].end(End::Unavailable, log.now);
        if self.may_open(log.now).is_err() {
            self.end(i, End::Unavailable, log);
            return Ok(StepOutcome::Done);
        }
        self.remark(log);
        self.tell_failed(i, log);
        Ok(StepOutcome::Opened(self.add(next, log)))
    }

    /// Records the result of a start after a report: the state from the report stays.
    fn overtaken(&mut self, i: usize, result: StartResult, log: &mut StepLog<'_>) -> StepOutcome {
        let StartResult::Open {
            reference,
            action,
            until,
        } = result
        else {
            return StepOutcome::Nothing;
        };
        self.refer(i, reference.as_deref(), log.change);
        let next = PayerStep { action, until };
        self.attempts[i].start_overtaken(next, reference.is_some(), log.now);
        StepOutcome::Done
    }

    /// Stores a provider's id, newest first.
    pub(super) fn refer(&mut self, i: usize, reference: Option<&str>, change: &mut Change) {
        let Some(reference) = reference else { return };
        let attempt = &mut self.attempts[i];
        if attempt.add_reference(reference) {
            change.references.push((attempt.id, reference.to_owned()));
        }
    }

    pub(super) fn answered(
        &mut self,
        id: AttemptId,
        answers: Vec<(String, Secret)>,
        busy_until: Time,
        log: &StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        let now = log.now;
        if self.payment.status != Status::Pending {
            return Err(Refusal::NotPayable(self.payment.status));
        }
        let attempt = &mut self.attempts[i];
        if let Some(until) = attempt.claim.busy_until().filter(|until| now < *until) {
            return Err(Refusal::Busy(until));
        }
        let asked = matches!(attempt.action(), Some(PayerAction::Ask(_)));
        if attempt.state() != AttemptState::Open || !asked || now >= attempt.expires_at {
            return Err(Refusal::WrongState(attempt.state()));
        }
        attempt.answer_questions(answers, busy_until, now, log.schedule);
        Ok(StepOutcome::Done)
    }

    pub(super) fn returned(
        &mut self,
        id: AttemptId,
        query: Secret,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        self.attempts[i].returned = Some(query);
        Ok(StepOutcome::Done)
    }
}

/// Rejects impossible results of a start.
fn check(result: &StartResult) -> Result<(), Refusal> {
    match result {
        StartResult::Open {
            reference: None,
            action: PayerAction::Ask(_),
            ..
        } => Ok(()),
        StartResult::Open { reference, .. }
            if reference.as_deref().unwrap_or_default().is_empty() =>
        {
            Err(Refusal::BadReport("an open payment without a reference"))
        }
        _ => Ok(()),
    }
}

/// Result of a start, as the timeline shows it.
fn describe(result: &StartResult, attempt: &Attempt) -> String {
    let word = match result {
        StartResult::Open { .. } => "open",
        StartResult::Declined(_) => "declined",
        StartResult::Unavailable(_) => "unavailable",
        StartResult::Uncertain(_) => "uncertain",
    };
    format!("{word} at {}", attempt.account)
}
