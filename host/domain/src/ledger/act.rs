//! What an operator decides, and expiry.

use super::moves::Log;
use super::{Change, Ledger, Outcome, Refusal};
use crate::attempt::{Attempt, AttemptState};
use crate::id::AttemptId;
use crate::money::Minor;
use crate::payment::{Settlement, Status};
use crate::provider::Payer;
use crate::time::Time;
use crate::work::WorkKind;

/// A decision from outside the provider's world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operator decides a review.
    Review(ReviewDecision),
    /// An operator calls the payment off: created, or pending without an open attempt.
    Cancel,
    /// The payment's time has passed: created, or pending without an open attempt.
    Expire,
}

/// How a review ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewDecision {
    /// → completed. `settlement` none: what the attempt proves.
    Approve {
        /// What the operator vouches for.
        settlement: Option<Settlement>,
    },
    /// → failed. Money that was taken stands on the work list until it is refunded.
    Decline,
}

impl Ledger {
    pub(super) fn act(
        &mut self,
        act: Act,
        now: Time,
        change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        let cause = match act {
            Act::Review(ReviewDecision::Approve { .. }) => "operator: approved",
            Act::Review(ReviewDecision::Decline) => "operator: declined",
            Act::Cancel => "operator: cancelled",
            Act::Expire => "its time has passed",
        };
        let mut log = Log {
            now,
            cause: cause.to_owned(),
            change,
        };
        match act {
            Act::Review(_) if self.payment.status != Status::Review => {
                Err(Refusal::WrongStatus(self.payment.status))
            }
            Act::Review(ReviewDecision::Approve { settlement }) => {
                self.approve(settlement, &mut log)
            }
            Act::Review(ReviewDecision::Decline) => self.decline(&mut log),
            Act::Cancel => self.drop_unpaid(Status::Cancelled, &mut log),
            // The worker that asked was early, or its clock was set back.
            Act::Expire if now < self.payment.expires_at && !self.payment.status.is_final() => {
                Ok(Outcome::Nothing)
            }
            Act::Expire => self.drop_unpaid(Status::Expired, &mut log),
        }
    }

    /// Ends a payment that nobody is paying.
    fn drop_unpaid(&mut self, to: Status, log: &mut Log<'_>) -> Result<Outcome, Refusal> {
        let status = self.payment.status;
        if !matches!(status, Status::Created | Status::Pending) {
            return Err(Refusal::WrongStatus(status));
        }
        if let Some(open) = self.open_attempt() {
            return Err(Refusal::VendorFirst(open.id));
        }
        self.move_to(to, log);
        Ok(Outcome::Done)
    }

    /// Completes with the money that was taken, wherever it is. What is then still open elsewhere is
    /// closed as on any completed payment.
    fn approve(
        &mut self,
        settlement: Option<Settlement>,
        log: &mut Log<'_>,
    ) -> Result<Outcome, Refusal> {
        if self.captured().is_none() {
            if let Some(i) = self.best_surplus() {
                self.attempts[i].state = AttemptState::Captured;
                log.change.work_done.push(self.attempts[i].id);
            } else if let Some(first) = self.before_approval() {
                return Err(Refusal::VendorFirst(first));
            } else if let Some(i) = self.position(|attempt| attempt.state.is_open()) {
                // Nothing but the operator's word says that it is paid.
                self.shut(i, AttemptState::Captured, log.now);
            }
        }
        self.payment.risk_review = false;
        self.complete(settlement, log);
        Ok(Outcome::Done)
    }

    /// Among several attempts with money that is nobody's, the one that fits what is due, else the
    /// oldest.
    fn best_surplus(&self) -> Option<usize> {
        let surplus = |attempt: &Attempt| attempt.state == AttemptState::Surplus;
        self.position(|attempt| {
            surplus(attempt)
                && attempt.vendor.as_ref().is_some_and(|facts| {
                    facts.received == attempt.due.amount
                        && facts.returned == Minor(0)
                        && facts.currency == attempt.due.currency.code()
                })
        })
        .or_else(|| self.position(surplus))
    }

    /// What stands before an approval where no money was taken: another attempt to be closed, then
    /// the authorisation to be captured.
    fn before_approval(&self) -> Option<AttemptId> {
        let authorised = self
            .open_attempt()
            .filter(|open| open.is_authorised())
            .or_else(|| self.attempts.iter().find(|each| each.is_authorised()));
        self.attempts
            .iter()
            .find(|attempt| self.is_payable(attempt) && !attempt.is_authorised())
            .or(authorised)
            .map(|attempt| attempt.id)
    }

    /// Whether the payer may still pay it, as far as can be learnt: a vendor that has been silent to
    /// every question of the schedule cannot keep an operator from deciding.
    fn is_payable(&self, attempt: &Attempt) -> bool {
        let payable = matches!(
            attempt.state,
            AttemptState::Open | AttemptState::Unknown | AttemptState::Capturing
        );
        payable && !attempt.is_exhausted()
    }

    /// Fails the payment; its money is somebody else's from now on.
    fn decline(&mut self, log: &mut Log<'_>) -> Result<Outcome, Refusal> {
        let first = self.attempts.iter().find(|attempt| {
            self.is_payable(attempt) || (attempt.is_authorised() && !attempt.is_exhausted())
        });
        if let Some(first) = first {
            return Err(Refusal::VendorFirst(first.id));
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
        self.payment.risk_review = false;
        self.move_to(Status::Failed, log);
        Ok(Outcome::Done)
    }

    /// Money of a declined payment is to be refunded.
    fn give_away(&mut self, i: usize, log: &mut Log<'_>) {
        self.shut(i, AttemptState::Surplus, log.now);
        let attempt = &self.attempts[i];
        let received = attempt
            .vendor
            .as_ref()
            .map_or(attempt.due.amount, |facts| facts.received);
        let detail = "taken, and the payment was declined";
        self.work(i, WorkKind::Surplus, received, detail, log);
    }

    fn position(&self, wanted: impl FnMut(&Attempt) -> bool) -> Option<usize> {
        self.attempts.iter().position(wanted)
    }

    pub(super) fn release(&mut self) -> Outcome {
        self.payment.claimed_until = None;
        Outcome::Done
    }

    pub(super) fn redact(&mut self) -> Outcome {
        self.payment.email = None;
        for attempt in &mut self.attempts {
            attempt.payer = Payer::default();
            attempt.answers.clear();
            attempt.returned = None;
        }
        Outcome::Done
    }
}
