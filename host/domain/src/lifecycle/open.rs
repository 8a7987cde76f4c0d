//! Opening attempts, and what became of a start.

use super::moves::StepLog;
use super::query_failed::{FIRST_RETRY, sooner};
use super::{Change, PaymentAggregate, Refusal, StartResult, StepOutcome};
use crate::attempt::{Attempt, AttemptState, Choice};
use crate::id::AttemptId;
use crate::payment::{CheckoutMode, Payment, Status};
use crate::provider::{Particulars, PayerAction};
use crate::returns::Returns;
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

    /// Whether a new attempt can be opened.
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

    /// Adds an attempt, held for the start that follows.
    fn add(&mut self, mut choice: Choice, log: &mut StepLog<'_>) -> AttemptId {
        log.change.decisions.extend(choice.decision.take());
        if self.payment.mode == CheckoutMode::Hosted {
            self.payment.method = Some(choice.method);
        }
        let attempt = new_attempt(&self.payment, choice, log);
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
        let state = self.attempts[i].state;
        if !matches!(state, AttemptState::Open | AttemptState::Unknown) {
            return Ok(self.overtaken(i, result, log));
        }
        let is_late = held.is_some() && self.attempts[i].busy_until != held;
        if !self.attempts[i].closing && !is_late {
            self.attempts[i].busy_until = None;
        }
        self.attempts[i].last_sent = now;
        log.cause = format!("start: {}", describe(&result, &self.attempts[i]));
        match result {
            StartResult::Open {
                reference,
                action,
                until,
            } => {
                self.refer(i, reference.as_deref(), log.change);
                let attempt = &mut self.attempts[i];
                attempt.state = AttemptState::Open;
                attempt.action = Some(action);
                attempt.until = until;
                Ok(StepOutcome::Done)
            }
            StartResult::Uncertain(detail) => {
                self.doubt(i, detail, now);
                Ok(StepOutcome::Done)
            }
            // An account that cannot be used now says nothing about the start before, nor about what
            // it reported itself.
            StartResult::Unavailable(detail)
                if self.attempts[i].uncertain || self.attempts[i].vendor.is_some() =>
            {
                self.doubt(i, detail, now);
                Ok(StepOutcome::Done)
            }
            StartResult::Unavailable(detail) => {
                self.attempts[i].detail = detail;
                self.fall_back(i, next, log)
            }
            StartResult::Declined(detail) => {
                self.attempts[i].detail = detail;
                self.end(i, AttemptState::Declined, log);
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
            self.end(i, AttemptState::Unavailable, log);
            return Ok(StepOutcome::Done);
        };
        self.shut(i, AttemptState::Unavailable, log.now);
        if self.may_open(log.now).is_err() {
            self.end(i, AttemptState::Unavailable, log);
            return Ok(StepOutcome::Done);
        }
        self.remark(log);
        self.tell_failed(i, log);
        Ok(StepOutcome::Opened(self.add(next, log)))
    }

    /// Money may move: the attempt stays open until the vendor or a repeat tells.
    fn doubt(&mut self, i: usize, detail: String, now: Time) {
        let attempt = &mut self.attempts[i];
        attempt.state = AttemptState::Unknown;
        attempt.uncertain = true;
        attempt.detail = detail;
        attempt.next_query = sooner(attempt.next_query, now.after(FIRST_RETRY));
    }

    /// A report came before the start was recorded: what it said of the state stays.
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
        let attempt = &mut self.attempts[i];
        match attempt.state {
            AttemptState::Surplus => {}
            state if state.is_open() || state == AttemptState::Captured => {
                // The start is done; a capture or close that came after it is not.
                if state != AttemptState::Capturing && !attempt.closing {
                    attempt.busy_until = None;
                }
                attempt.action = Some(action);
                attempt.until = until;
            }
            // It ended here and yet exists there: the vendor has to say what it is.
            _ if reference.is_some() => {
                attempt.next_query = sooner(attempt.next_query, log.now);
            }
            _ => {}
        }
        StepOutcome::Done
    }

    /// Remembers a vendor's id, the newest first.
    pub(super) fn refer(&mut self, i: usize, reference: Option<&str>, change: &mut Change) {
        let attempt = &mut self.attempts[i];
        let Some(reference) = reference else { return };
        let known = attempt.references.iter().any(|known| known == reference);
        if !known && attempt.references.len() < Self::MAX_REFERENCES {
            attempt.references.insert(0, reference.to_owned());
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
        if let Some(until) = attempt.busy_until.filter(|until| now < *until) {
            return Err(Refusal::Busy(until));
        }
        let asked = matches!(attempt.action, Some(PayerAction::Ask(_)));
        if attempt.state != AttemptState::Open || !asked || now >= attempt.expires_at {
            return Err(Refusal::WrongState(attempt.state));
        }
        for (name, answer) in answers {
            attempt.answers.retain(|(known, _)| *known != name);
            if attempt.answers.len() < Self::MAX_ANSWERS {
                attempt.answers.push((name, answer));
            }
        }
        attempt.action = None;
        attempt.busy_until = Some(busy_until);
        attempt.last_sent = busy_until;
        attempt.closing = false;
        let due = attempt.next_query;
        // The vendor hears of it only now; a notice still has it asked.
        self.watch(i, log);
        if let Some(due) = due {
            let attempt = &mut self.attempts[i];
            attempt.next_query = sooner(attempt.next_query, due);
        }
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

/// Refuses what no start can answer.
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

/// What became of a start, in the timeline's words.
fn describe(result: &StartResult, attempt: &Attempt) -> String {
    let word = match result {
        StartResult::Open { .. } => "open",
        StartResult::Declined(_) => "declined",
        StartResult::Unavailable(_) => "unavailable",
        StartResult::Uncertain(_) => "uncertain",
    };
    format!("{word} at {}", attempt.account)
}

/// An attempt as it is on opening: its first question is due even if its start is lost.
fn new_attempt(payment: &Payment, choice: Choice, log: &StepLog<'_>) -> Attempt {
    let now = log.now;
    let expires_at = choice.expires_at.min(payment.expires_at);
    Attempt {
        id: choice.attempt,
        payment: payment.id,
        account: choice.account,
        slot: choice.slot,
        digest: choice.digest,
        method: choice.method,
        due: payment.due,
        state: AttemptState::Open,
        action: None,
        until: None,
        references: Vec::new(),
        return_token: choice.return_token,
        answers: Vec::new(),
        payer: choice.payer,
        returned: None,
        uncertain: false,
        vendor: None,
        busy_until: Some(choice.busy_until),
        next_query: log
            .schedule
            .turn(choice.attempt.as_bytes(), now, Some(expires_at), 0),
        queries: 0,
        silences: 0,
        silent_since: None,
        notices: 0,
        notices_answered: 0,
        watched_from: now,
        hold_until: None,
        retries: 0,
        last_sent: choice.busy_until,
        closing: false,
        returns: Returns::default(),
        particulars: Particulars::default(),
        heard: Vec::new(),
        opened_at: now,
        expires_at,
        ended_at: None,
        detail: String::new(),
    }
}
