//! The reference's steps: starts and claims.

use kassette_domain::attempt::{AttemptState, Choice};
use kassette_domain::event::EventType;
use kassette_domain::id::{AttemptId, RefundId};
use kassette_domain::lifecycle::{ClaimPurpose, Refusal, StartResult, Step};
use kassette_domain::payment::{Resolution, Status};
use kassette_domain::provider::{PayerAction, VendorStatus};
use kassette_domain::time::Time;

use crate::attempt::{Attempt, Shown};
use crate::law::{MOST_ATTEMPTS, is_open, is_over, is_under_way};
use crate::payment::{Payment, Reply, StepReport};

/// What a provider is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Attempt(AttemptId),
    Refund(RefundId),
}

/// Whether the last question about it was asked, as the product says after the step.
pub(crate) type Exhausted<'a> = &'a dyn Fn(Asked) -> bool;

impl Payment {
    /// Does a step, or says why not; then nothing has changed.
    pub(crate) fn step(
        &mut self,
        step: &Step,
        now: Time,
        exhausted: Exhausted<'_>,
    ) -> (Reply, StepReport) {
        let before = self.clone();
        let mut told = StepReport::default();
        let reply = self.try_step(step, now, exhausted, &mut told);
        // A decision that waits is carried out whatever brought what it waited for.
        self.pursue(now, &mut told);
        match reply {
            Ok(reply) => (reply, told),
            Err(refusal) => {
                *self = before;
                (Reply::Refused(refusal), StepReport::default())
            }
        }
    }

    fn try_step(
        &mut self,
        step: &Step,
        now: Time,
        exhausted: Exhausted<'_>,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        match step {
            Step::Open(choice) => {
                self.may_open(now)?;
                self.add(choice);
                if self.status == Status::Created {
                    self.go(Status::Pending, told);
                }
                Ok(Reply::Opened(choice.attempt))
            }
            Step::Started {
                attempt,
                result,
                next,
                ..
            } => self.started(*attempt, result, next.as_deref(), now, told),
            Step::Answered {
                attempt,
                busy_until,
                ..
            } => self.answered(*attempt, *busy_until, now),
            Step::Claim {
                attempt,
                purpose,
                until,
            } => self.claim(*attempt, *purpose, *until, now),
            Step::Report {
                attempt,
                report,
                via,
                asked,
            } => self.apply_report(*attempt, report, *via, *asked, now, exhausted, told),
            Step::QueryFailed {
                attempt,
                asked,
                absent,
                scheduled,
            } => self.query_failed(*attempt, *asked, *absent, *scheduled, now, exhausted, told),
            Step::AskAt { attempt, .. } => {
                let at = self.find(*attempt)?;
                self.attempts[at].notices += 1;
                self.attempts[at].noticed = true;
                Ok(Reply::Done)
            }
            Step::Returned { attempt, .. } => self.find(*attempt).map(|_| Reply::Done),
            Step::Refund(new) => self.order(new, now, told),
            Step::ClaimRefund {
                refund,
                send,
                until,
            } => self.claim_order(*refund, *send, *until, now),
            Step::RefundAnswered {
                refund,
                held,
                answer,
            } => self.order_answered(*refund, *held, answer, now, exhausted, told),
            Step::Act(act) => self.act(act, now, told),
            Step::Release { claimed_until } => {
                let held = self.lease.take_if(|lease| lease == claimed_until);
                Ok(held.map_or(Reply::Nothing, |_| Reply::Done))
            }
            Step::Redact => {
                self.erased = true;
                Ok(Reply::Done)
            }
        }
    }

    fn may_open(&self, now: Time) -> Result<(), Refusal> {
        if !matches!(self.status, Status::Created | Status::Pending) || now >= self.expires {
            return Err(Refusal::NotPayable(self.status));
        }
        if let Some(open) = self.open() {
            return Err(Refusal::AttemptOpen(open.id));
        }
        if self.attempts.len() >= MOST_ATTEMPTS {
            return Err(Refusal::TooManyAttempts);
        }
        Ok(())
    }

    fn add(&mut self, choice: &Choice) {
        if self.hosted {
            self.method = Some(choice.method);
        }
        self.attempts.push(Attempt::new(choice, self));
    }

    fn started(
        &mut self,
        id: AttemptId,
        result: &StartResult,
        next: Option<&Choice>,
        now: Time,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        if let StartResult::Open {
            reference, action, ..
        } = result
        {
            let asks = matches!(action, PayerAction::Ask(_)) && reference.is_none();
            if !asks && reference.as_deref().unwrap_or_default().is_empty() {
                return Err(Refusal::BadReport("no reference"));
            }
        }
        if !matches!(
            self.attempts[at].state,
            AttemptState::Open | AttemptState::Unknown
        ) {
            return Ok(self.overtaken(at, result, told));
        }
        let attempt = &mut self.attempts[at];
        if !attempt.closing {
            attempt.busy = None;
        }
        attempt.sent = now;
        match result {
            StartResult::Open {
                reference, action, ..
            } => {
                attempt.state = AttemptState::Open;
                attempt.shown = shown(action);
                if let Some(reference) = reference {
                    self.refer(at, reference, told);
                }
            }
            StartResult::Declined(_) => self.end(at, AttemptState::Declined, now, told),
            // Nothing falls back from a start whose outcome was ever unknown.
            StartResult::Uncertain(_) => self.doubt(at),
            StartResult::Unavailable(_) if attempt.uncertain || attempt.facts.is_some() => {
                self.doubt(at);
            }
            StartResult::Unavailable(_) => return Ok(self.fall_back(at, next, now, told)),
        }
        Ok(Reply::Done)
    }

    fn doubt(&mut self, at: usize) {
        self.attempts[at].state = AttemptState::Unknown;
        self.attempts[at].uncertain = true;
    }

    /// The next opens in the transaction that ends the one before.
    fn fall_back(
        &mut self,
        at: usize,
        next: Option<&Choice>,
        now: Time,
        told: &mut StepReport,
    ) -> Reply {
        if let Some(next) = next.filter(|_| self.status == Status::Pending) {
            let mut ended = self.clone();
            ended.attempts[at].shut(AttemptState::Unavailable);
            if ended.may_open(now).is_ok() {
                *self = ended;
                told.lines += 1;
                self.tell(EventType::PaymentAttemptFailed, told);
                self.add(next);
                return Reply::Opened(next.attempt);
            }
        }
        self.end(at, AttemptState::Unavailable, now, told);
        Reply::Done
    }

    /// A start that is recorded after news: what the news said stays.
    fn overtaken(&mut self, at: usize, result: &StartResult, told: &mut StepReport) -> Reply {
        let StartResult::Open {
            reference, action, ..
        } = result
        else {
            return Reply::Nothing;
        };
        let attempt = &mut self.attempts[at];
        if is_open(attempt.state) || attempt.state == AttemptState::Captured {
            attempt.shown = shown(action);
            if attempt.state != AttemptState::Capturing && !attempt.closing {
                attempt.busy = None;
            }
        }
        if let Some(reference) = reference {
            self.refer(at, reference, told);
        }
        Reply::Done
    }

    fn answered(&mut self, id: AttemptId, until: Time, now: Time) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        if self.status != Status::Pending {
            return Err(Refusal::NotPayable(self.status));
        }
        let attempt = &mut self.attempts[at];
        if let Some(busy) = attempt.busy.filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        let waits = attempt.state == AttemptState::Open && attempt.shown == Shown::Questions;
        if !waits || now >= attempt.expires {
            return Err(Refusal::WrongState(attempt.state));
        }
        attempt.shown = Shown::Nothing;
        attempt.busy = Some(until);
        attempt.sent = until;
        attempt.closing = false;
        attempt.watch();
        Ok(Reply::Done)
    }

    fn claim(
        &mut self,
        id: AttemptId,
        purpose: ClaimPurpose,
        until: Time,
        now: Time,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        let attempt = &self.attempts[at];
        if let Some(busy) = attempt.busy.filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        let decided = self.status == Status::Review || is_over(self.status);
        let fits = match purpose {
            ClaimPurpose::Start if self.status != Status::Pending => {
                return Err(Refusal::NotPayable(self.status));
            }
            ClaimPurpose::Start => {
                let lost = attempt.state == AttemptState::Unknown
                    || (attempt.state == AttemptState::Open && attempt.shown == Shown::Nothing);
                lost && now < attempt.expires
            }
            // Risk review comes before capture.
            ClaimPurpose::Capture
                if (decided || self.risky) && self.waits() != Some(Resolution::Approve) =>
            {
                return Err(Refusal::WrongStatus(self.status));
            }
            ClaimPurpose::Capture => self.is_to_capture(attempt),
            ClaimPurpose::Cancel => match attempt.state {
                AttemptState::Open | AttemptState::Unknown => true,
                AttemptState::Captured | AttemptState::Surplus => false,
                state if is_open(state) => decided,
                // It ended here and may still be paid there.
                _ => {
                    attempt.said() == Some(VendorStatus::Pending)
                        || (decided && attempt.is_authorised())
                }
            },
        };
        if !fits {
            return Err(Refusal::WrongState(attempt.state));
        }
        let attempt = &mut self.attempts[at];
        attempt.busy = Some(until);
        match purpose {
            ClaimPurpose::Start => {
                attempt.uncertain = true;
                attempt.sent = until;
                attempt.closing = false;
            }
            ClaimPurpose::Capture => {
                attempt.state = AttemptState::Capturing;
                attempt.closing = false;
            }
            ClaimPurpose::Cancel => attempt.closing = true,
        }
        Ok(Reply::Done)
    }

    /// Whether the payer's approval is to be captured as the payment's own money.
    pub(crate) fn is_to_capture(&self, attempt: &Attempt) -> bool {
        // A capture whose money went back is in the way of no other.
        let taken = self.captured().map(|own| &self.attempts[own]);
        let untaken = taken.is_none_or(|own| own.net().is_none());
        if self.status == Status::Review {
            let chosen = self.authorisation().map(|chosen| chosen.id);
            let other = self.open().is_some_and(|open| open.id != attempt.id);
            let approved = self.waits() == Some(Resolution::Approve);
            return approved && untaken && chosen == Some(attempt.id) && !other;
        }
        let approved = matches!(
            attempt.state,
            AttemptState::Processing | AttemptState::Capturing
        );
        approved && untaken && is_under_way(self.status) && !self.risky
    }
}

fn shown(action: &PayerAction) -> Shown {
    match action {
        PayerAction::Ask(_) => Shown::Questions,
        _ => Shown::Way,
    }
}
