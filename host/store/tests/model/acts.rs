//! The reference's acts: what an operator decides, and expiry.

use kassette_domain::attempt::AttemptState;
use kassette_domain::ledger::{Act, Refusal, ReviewDecision};
use kassette_domain::payment::{Settlement, Status};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::law::{is_open, is_over};
use crate::payment::{Attempt, Payment, Reply, Told};

impl Payment {
    /// An operator's decision, or time that has passed.
    pub(crate) fn act(&mut self, act: &Act, now: Time, told: &mut Told) -> Result<Reply, Refusal> {
        match act {
            Act::Review(_) if self.status != Status::Review => {
                Err(Refusal::WrongStatus(self.status))
            }
            Act::Review(ReviewDecision::Approve { settlement }) => self.approve(*settlement, told),
            Act::Review(ReviewDecision::Decline) => self.decline(told),
            Act::Expire if now < self.expires && !is_over(self.status) => Ok(Reply::Nothing),
            Act::Cancel | Act::Expire => {
                if !matches!(self.status, Status::Created | Status::Pending) {
                    return Err(Refusal::WrongStatus(self.status));
                }
                if let Some(open) = self.open() {
                    return Err(Refusal::VendorFirst(open.id));
                }
                let to = if *act == Act::Cancel {
                    Status::Cancelled
                } else {
                    Status::Expired
                };
                self.go(to, told);
                Ok(Reply::Done)
            }
        }
    }

    /// Whether a payer may still pay it, as far as the vendor answers.
    fn payable(attempt: &Attempt) -> bool {
        matches!(
            attempt.state,
            AttemptState::Open | AttemptState::Unknown | AttemptState::Capturing
        ) && !attempt.is_silent()
    }

    fn approve(
        &mut self,
        settlement: Option<Settlement>,
        told: &mut Told,
    ) -> Result<Reply, Refusal> {
        if self.captured().is_none() {
            let nobodys: Vec<usize> = (0..self.attempts.len())
                .filter(|at| self.attempts[*at].state == AttemptState::Surplus)
                .collect();
            let fits = |attempt: &Attempt| {
                attempt.facts.as_ref().is_some_and(|facts| {
                    (facts.received, facts.returned) == (attempt.due.amount.0, 0)
                        && facts.currency == attempt.due.currency.code()
                })
            };
            let best = nobodys.iter().find(|at| fits(&self.attempts[**at]));
            if let Some(&at) = best.or(nobodys.first()) {
                self.attempts[at].state = AttemptState::Captured;
                told.settled.push(self.attempts[at].id);
            } else {
                // First what can still be paid elsewhere is closed, then what is authorised captured.
                let unapproved = |each: &&Attempt| Self::payable(each) && !each.is_authorised();
                let authorised = self.attempts.iter().filter(|each| each.is_authorised());
                let first = self
                    .attempts
                    .iter()
                    .find(unapproved)
                    .or(authorised.min_by_key(|each| !is_open(each.state)));
                if let Some(first) = first {
                    return Err(Refusal::VendorFirst(first.id));
                }
                if let Some(open) = self.attempts.iter_mut().find(|each| is_open(each.state)) {
                    open.shut(AttemptState::Captured);
                }
            }
        }
        self.risky = false;
        self.complete(settlement, told);
        Ok(Reply::Done)
    }

    fn decline(&mut self, told: &mut Told) -> Result<Reply, Refusal> {
        let undecided =
            |each: &&Attempt| Self::payable(each) || (each.is_authorised() && !each.is_silent());
        if let Some(first) = self.attempts.iter().find(undecided) {
            return Err(Refusal::VendorFirst(first.id));
        }
        for at in 0..self.attempts.len() {
            let attempt = &mut self.attempts[at];
            let open = is_open(attempt.state);
            let taken = attempt.state == AttemptState::Captured || (open && attempt.holds_money());
            if taken {
                attempt.shut(AttemptState::Surplus);
                let received = attempt
                    .facts
                    .as_ref()
                    .map_or(attempt.due.amount.0, |facts| facts.received);
                self.list(at, WorkKind::Surplus, received, told);
            } else if open {
                attempt.shut(AttemptState::Failed);
            }
        }
        self.risky = false;
        self.go(Status::Failed, told);
        Ok(Reply::Done)
    }
}
