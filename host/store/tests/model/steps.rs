//! The reference's steps: starts, claims, silences.

use kassette_domain::attempt::{AttemptState, Choice};
use kassette_domain::id::AttemptId;
use kassette_domain::ledger::{Errand, Refusal, StartResult, Step};
use kassette_domain::payment::{ReviewCause, Settlement, Status};
use kassette_domain::provider::{Action, VendorStatus, Wish};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::law::{BELIEVED_AFTER, MOST_ATTEMPTS, is_open, is_over, is_under_way};
use crate::payment::{Attempt, Payment, Reply, Shown, Told};

/// What the product says how often an attempt was asked about, after the step.
pub(crate) type Asked<'a> = &'a dyn Fn(AttemptId) -> u8;

impl Payment {
    /// Does a step, or says why not; then nothing has changed.
    pub(crate) fn step(&mut self, step: &Step, now: Time, asked: Asked<'_>) -> (Reply, Told) {
        let before = self.clone();
        let mut told = Told::default();
        let reply = self.try_step(step, now, asked, &mut told);
        match reply {
            Ok(reply) => (reply, told),
            Err(refusal) => {
                *self = before;
                (Reply::Refused(refusal), Told::default())
            }
        }
    }

    fn try_step(
        &mut self,
        step: &Step,
        now: Time,
        asked: Asked<'_>,
        told: &mut Told,
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
            } => self.started(*attempt, result, next.as_deref(), now, told),
            Step::Answered {
                attempt,
                busy_until,
                ..
            } => self.answered(*attempt, *busy_until, now),
            Step::Claim {
                attempt,
                errand,
                until,
            } => self.claim(*attempt, *errand, *until, now),
            Step::News {
                attempt,
                report,
                via,
            } => self.news(*attempt, report, *via, now, asked, told),
            Step::Silence {
                attempt,
                wish,
                absent,
                scheduled,
            } => self.silence(*attempt, *wish, *absent, *scheduled, now, asked, told),
            Step::AskAt { attempt, .. } | Step::Returned { attempt, .. } => {
                self.find(*attempt).map(|_| Reply::Done)
            }
            Step::Act(act) => self.act(act, now, told),
            Step::Release => {
                self.lease = None;
                Ok(Reply::Done)
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
        told: &mut Told,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        if let StartResult::Open {
            reference, action, ..
        } = result
        {
            let asks = matches!(action, Action::Ask(_)) && reference.is_none();
            if !asks && reference.as_deref().unwrap_or_default().is_empty() {
                return Err(Refusal::BadNews("no reference"));
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
    fn fall_back(&mut self, at: usize, next: Option<&Choice>, now: Time, told: &mut Told) -> Reply {
        if let Some(next) = next.filter(|_| self.status == Status::Pending) {
            let mut ended = self.clone();
            ended.attempts[at].shut(AttemptState::Unavailable);
            if ended.may_open(now).is_ok() {
                *self = ended;
                told.lines += 1;
                self.add(next);
                return Reply::Opened(next.attempt);
            }
        }
        self.end(at, AttemptState::Unavailable, now, told);
        Reply::Done
    }

    /// A start that is recorded after news: what the news said stays.
    fn overtaken(&mut self, at: usize, result: &StartResult, told: &mut Told) -> Reply {
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
        Ok(Reply::Done)
    }

    fn claim(
        &mut self,
        id: AttemptId,
        errand: Errand,
        until: Time,
        now: Time,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        let attempt = &self.attempts[at];
        if let Some(busy) = attempt.busy.filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        let decided = self.status == Status::Review || is_over(self.status);
        let untaken = self.captured().is_none();
        let fits = match errand {
            Errand::Start if self.status != Status::Pending => {
                return Err(Refusal::NotPayable(self.status));
            }
            Errand::Start => {
                let lost = attempt.state == AttemptState::Unknown
                    || (attempt.state == AttemptState::Open && attempt.shown == Shown::Nothing);
                lost && now < attempt.expires
            }
            // Risk review comes before capture.
            Errand::Capture if decided || self.risky => {
                return Err(Refusal::WrongStatus(self.status));
            }
            Errand::Capture => {
                let approved = matches!(
                    attempt.state,
                    AttemptState::Processing | AttemptState::Capturing
                );
                approved && is_under_way(self.status) && untaken
            }
            Errand::ApprovedCapture if self.status != Status::Review => {
                return Err(Refusal::WrongStatus(self.status));
            }
            Errand::ApprovedCapture => {
                if let Some(other) = self.open().filter(|open| open.id != id) {
                    return Err(Refusal::AttemptOpen(other.id));
                }
                attempt.is_authorised() && untaken
            }
            Errand::Close => match attempt.state {
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
        match errand {
            Errand::Start => {
                attempt.uncertain = true;
                attempt.sent = until;
            }
            Errand::Capture | Errand::ApprovedCapture => {
                attempt.state = AttemptState::Capturing;
                attempt.closing = false;
                attempt.approved = errand == Errand::ApprovedCapture;
            }
            Errand::Close => attempt.closing = true,
        }
        Ok(Reply::Done)
    }

    #[expect(clippy::too_many_arguments, reason = "what a silence consists of")]
    fn silence(
        &mut self,
        id: AttemptId,
        wish: Wish,
        absent: bool,
        scheduled: bool,
        now: Time,
        asked: Asked<'_>,
        told: &mut Told,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        let attempt = &mut self.attempts[at];
        let held = match wish {
            Wish::Finish => attempt.state == AttemptState::Capturing,
            Wish::Close => attempt.closing,
            Wish::Look => false,
        };
        if held {
            attempt.busy = None;
        }
        let may_exist = matches!(attempt.state, AttemptState::Open | AttemptState::Unknown)
            && !attempt.holds_money();
        let over = !is_open(attempt.state)
            && !matches!(
                attempt.state,
                AttemptState::Captured | AttemptState::Surplus
            );
        if absent && over {
            return Ok(Reply::Done);
        }
        if absent && may_exist {
            let under_way = attempt.busy.is_some_and(|busy| now < busy);
            if now >= attempt.sent.after(BELIEVED_AFTER) && !under_way {
                attempt.uncertain = false;
                attempt.facts = None;
                let state = attempt.closed(now).unwrap_or(AttemptState::Unavailable);
                self.end(at, state, now, told);
            }
            return Ok(Reply::Done);
        }
        if scheduled {
            self.give_up(at, asked, told);
        }
        Ok(Reply::Done)
    }

    /// What the last question of the schedule leads to, where it was the last.
    pub(crate) fn give_up(&mut self, at: usize, asked: Asked<'_>, told: &mut Told) {
        let before = self.attempts[at].is_silent();
        self.attempts[at].asked = asked(self.attempts[at].id);
        if before || !self.attempts[at].is_silent() {
            return;
        }
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

fn shown(action: &Action) -> Shown {
    match action {
        Action::Ask(_) => Shown::Questions,
        _ => Shown::Way,
    }
}
