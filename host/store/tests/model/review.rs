//! The reference's decisions about reviews: recorded once, finished by the provider's word, and
//! completed with money alone unless an operator vouches.

use kassette_domain::attempt::AttemptState;
use kassette_domain::event::EventType;
use kassette_domain::lifecycle::{NewDecision, Refusal};
use kassette_domain::payment::{DecisionState, Resolution, ReviewCause, Settlement, Status};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::attempt::Attempt;
use crate::law::{SILENCES, is_open};
use crate::payment::{Payment, Reply, StepReport};

/// An operator's decision as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) new: NewDecision,
    pub(crate) state: DecisionState,
    /// What the operator saw.
    pub(crate) seen: (u64, String),
    pub(crate) at: Time,
    /// Questions in a row without an answer.
    silences: usize,
}

impl Decision {
    fn aim(&self) -> Status {
        match self.new.resolution {
            Resolution::Approve => Status::Completed,
            Resolution::Decline => Status::Failed,
        }
    }

    /// Whether asking for this again asks for what was decided.
    fn is(&self, new: &NewDecision) -> bool {
        self.new.resolution == new.resolution
            && self.new.settlement == new.settlement
            && self.new.vouch == new.vouch
    }
}

impl Attempt {
    /// Captured money that is still there, by the provider's word.
    pub(crate) fn net(&self) -> Option<(u64, &str)> {
        let facts = self.facts.as_ref().filter(|facts| facts.is_taken())?;
        let net = facts.received.saturating_sub(self.returns.total());
        (net > 0).then_some((net, facts.currency.as_str()))
    }

    /// Whether it has to be closed before a decline.
    pub(crate) fn is_to_close(&self) -> bool {
        let payable = matches!(
            self.state,
            AttemptState::Open | AttemptState::Unknown | AttemptState::Capturing
        );
        (payable || self.is_authorised()) && !self.exhausted
    }
}

impl Payment {
    pub(crate) fn decide(
        &mut self,
        new: &NewDecision,
        now: Time,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        let known = self.decision.as_ref().filter(|known| known.is(new));
        let stands = known.is_some_and(|known| match known.state {
            DecisionState::Waiting => true,
            DecisionState::Done => self.status == known.aim(),
            DecisionState::Lapsed => false,
        });
        if stands {
            return Ok(Reply::Nothing);
        }
        let approves = new.resolution == Resolution::Approve;
        let settles = approves
            && new.vouch
            && new.settlement == Some(Settlement::Confirmed)
            && (self.status, self.settlement) == (Status::Completed, Settlement::Pending);
        if self.status != Status::Review && !settles {
            return Err(Refusal::WrongStatus(self.status));
        }
        let replaces = self.waits().is_some();
        if replaces && !new.vouch {
            return Err(Refusal::DecisionWaits);
        }
        let no_capture_to_come = self.authorisation().is_none();
        let unbacked = self.money().is_none() && no_capture_to_come;
        if approves && unbacked && !new.vouch {
            return Err(Refusal::NeedsVouch);
        }
        // Where a capture was tried for an approval and is not there, an admin's word counts.
        let last = self.decision.as_ref();
        let lapsed = last.is_some_and(|last| {
            last.new.resolution == Resolution::Approve && last.state == DecisionState::Lapsed
        });
        let counts = approves && new.vouch && (replaces || lapsed || no_capture_to_come);
        self.decision = Some(Decision {
            new: new.clone(),
            state: DecisionState::Waiting,
            seen: self.seen(),
            at: now,
            silences: 0,
        });
        told.lines += 1;
        if settles {
            self.settle_by_word(told);
        } else if counts && self.money().is_none() {
            self.complete_by_word(now, told);
        } else {
            self.pursue(now, told);
        }
        Ok(Reply::Done)
    }

    /// What the decision that waits aims at.
    pub(crate) fn waits(&self) -> Option<Resolution> {
        let decision = self.decision.as_ref()?;
        (decision.state == DecisionState::Waiting).then_some(decision.new.resolution)
    }

    /// The attempt whose money an approval completes with: the payment's own, else the open one, else
    /// of the surplus the one that fits, else the first.
    fn money(&self) -> Option<usize> {
        let due = (self.due.amount.0, self.due.currency.code());
        let rank = |attempt: &Attempt| match attempt.state {
            AttemptState::Captured => Some(0),
            state if is_open(state) => Some(1),
            AttemptState::Surplus if attempt.net() == Some(due) => Some(2),
            AttemptState::Surplus => Some(3),
            _ => None,
        };
        (0..self.attempts.len())
            .filter(|at| self.attempts[*at].net().is_some())
            .filter_map(|at| Some((rank(&self.attempts[at])?, at)))
            .min()
            .map(|(_, at)| at)
    }

    /// The authorisation that an approval captures: the open one, else the first.
    pub(crate) fn authorisation(&self) -> Option<&Attempt> {
        let authorised = self.attempts.iter().filter(|each| each.is_authorised());
        authorised.min_by_key(|each| !is_open(each.state))
    }

    fn seen(&self) -> (u64, String) {
        let money = self.money().and_then(|at| self.attempts[at].net());
        let authorised = || {
            let facts = self.authorisation()?.facts.as_ref()?;
            (facts.received > 0).then_some((facts.received, facts.currency.as_str()))
        };
        let (amount, currency) = money
            .or_else(authorised)
            .unwrap_or((0, self.due.currency.code()));
        (amount, currency.to_owned())
    }

    /// Carries a decision out as soon as that can be, or lets it lapse where it cannot.
    pub(crate) fn pursue(&mut self, now: Time, told: &mut StepReport) {
        let Some(decision) = self.decision.clone() else {
            return;
        };
        if decision.state != DecisionState::Waiting {
            return;
        }
        if self.status != Status::Review {
            let agrees = self.status == decision.aim();
            self.ends(if agrees {
                DecisionState::Done
            } else {
                DecisionState::Lapsed
            });
            return;
        }
        if decision.new.resolution == Resolution::Decline {
            if !self.attempts.iter().any(Attempt::is_to_close) {
                self.decline(told);
            }
            return;
        }
        let Some(at) = self.money() else {
            let open = self.open().map(|open| open.state);
            let proof_is_due = open == Some(AttemptState::VerificationPending);
            if self.authorisation().is_none() && !proof_is_due {
                self.lapse(Some(ReviewCause::Refused), told);
            }
            return;
        };
        let attempt = &self.attempts[at];
        if is_enough(attempt.net(), self, &decision) {
            if attempt.state == AttemptState::Surplus {
                told.settled.push(attempt.id);
            }
            // One capture is the payment's; that whose money went back no more.
            if let Some(before) = self.captured() {
                self.attempts[before].state = AttemptState::Surplus;
            }
            self.attempts[at].shut(AttemptState::Captured);
            self.approve(None, now, told);
        } else if attempt.returns.total() > 0 {
            self.lapse(Some(ReviewCause::Refund), told);
        } else {
            self.lapse(Some(ReviewCause::Mismatch), told);
        }
    }

    fn ends(&mut self, state: DecisionState) {
        if let Some(decision) = &mut self.decision {
            decision.state = state;
        }
    }

    fn lapse(&mut self, cause: Option<ReviewCause>, told: &mut StepReport) {
        self.ends(DecisionState::Lapsed);
        self.cause = cause.or(self.cause);
        told.lines += 1;
    }

    /// Completes; with what the operator named, else with this, else with what is proved.
    fn approve(&mut self, unnamed: Option<Settlement>, now: Time, told: &mut StepReport) {
        self.ends(DecisionState::Done);
        self.risky = false;
        let named = self.decision.as_ref();
        let named = named.and_then(|decision| decision.new.settlement);
        self.complete(named.or(unnamed), now, told);
    }

    /// A provider that was asked to capture for an approval has a person look instead.
    pub(crate) fn refuse(&mut self, at: usize, told: &mut StepReport) {
        let approved = self.waits() == Some(Resolution::Approve);
        let attempt = &mut self.attempts[at];
        let refused = attempt.state == AttemptState::Capturing && attempt.net().is_none();
        if approved && refused {
            attempt.state = AttemptState::Review;
            attempt.busy = None;
            // Its own review still ends by its final word.
            let own = self.cause == Some(ReviewCause::Vendor);
            self.lapse((!own).then_some(ReviewCause::Refused), told);
        }
    }

    fn complete_by_word(&mut self, now: Time, told: &mut StepReport) {
        self.vouched = true;
        let open = self.attempts.iter().position(|each| is_open(each.state));
        let stands = open.unwrap_or(self.attempts.len() - 1);
        if self.captured().is_none() {
            self.attempts[stands].shut(AttemptState::Captured);
        }
        self.approve(Some(Settlement::Pending), now, told);
        self.list(stands, WorkKind::Unsettled, self.due.amount.0, told);
    }

    fn settle_by_word(&mut self, told: &mut StepReport) {
        self.ends(DecisionState::Done);
        self.vouched = true;
        self.settlement = Settlement::Confirmed;
        self.tell(EventType::PaymentCompleted, told);
        if let Some(at) = self.captured() {
            self.list(at, WorkKind::Unsettled, self.due.amount.0, told);
        }
    }

    fn decline(&mut self, told: &mut StepReport) {
        for at in 0..self.attempts.len() {
            let attempt = &mut self.attempts[at];
            let open = is_open(attempt.state);
            if attempt.state == AttemptState::Captured || (open && attempt.holds_money()) {
                attempt.shut(AttemptState::Surplus);
                let left = attempt.facts.as_ref().map_or(self.due.amount.0, |facts| {
                    facts.received.saturating_sub(attempt.returns.total())
                });
                if left > 0 {
                    self.list(at, WorkKind::Surplus, left, told);
                }
            } else if open {
                attempt.shut(AttemptState::Failed);
            }
        }
        self.ends(DecisionState::Done);
        self.risky = false;
        self.go(Status::Failed, told);
    }

    /// A question had an answer, or had none.
    pub(crate) fn count_for_decision(&mut self, answered: bool, told: &mut StepReport) {
        let Some(decision) = &mut self.decision else {
            return;
        };
        decision.silences = if answered { 0 } else { decision.silences + 1 };
        if decision.silences >= SILENCES && self.waits().is_some() {
            self.lapse(None, told);
        }
    }
}

/// The law of completion: at least the invoice's amount in its currency, or exactly what the operator
/// who decided saw.
pub(crate) fn is_enough(net: Option<(u64, &str)>, payment: &Payment, decision: &Decision) -> bool {
    let Some((net, currency)) = net else {
        return false;
    };
    let paid = currency == payment.due.currency.code() && net >= payment.due.amount.0;
    paid || (net, currency) == (decision.seen.0, decision.seen.1.as_str())
}
