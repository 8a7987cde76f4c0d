//! The reference of one payment: what it shows, by the decisions' words and nothing else.
//!
//! It says nothing of when a vendor is asked next: those times are the product's own, and `questions`
//! holds the laws that they keep. Whether the last question of the schedule was asked is taken from
//! the product, and what has to follow is said here.

use kassette_domain::attempt::AttemptState;
use kassette_domain::event::EventType;
use kassette_domain::id::{AttemptId, PaymentId, RefundId};
use kassette_domain::lifecycle::Refusal;
use kassette_domain::method::MethodId;
use kassette_domain::money::Money;
use kassette_domain::payment::{DecisionState, ReviewCause, Settlement, Status};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::attempt::Attempt;
use crate::law::{MOST_DECLINES, MOST_REFERENCES, event_of, follows, is_open, is_providers};
use crate::review::{Decision, is_enough};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: PaymentId,
    pub(crate) hosted: bool,
    pub(crate) live: bool,
    pub(crate) due: Money,
    pub(crate) expires: Time,
    pub(crate) method: Option<MethodId>,
    pub(crate) risky: bool,
    pub(crate) erased: bool,
    pub(crate) status: Status,
    pub(crate) settlement: Settlement,
    pub(crate) cause: Option<ReviewCause>,
    pub(crate) declines: usize,
    pub(crate) charged: bool,
    pub(crate) decision: Option<Decision>,
    pub(crate) vouched: bool,
    pub(crate) completed: Option<Time>,
    pub(crate) lease: Option<Time>,
    pub(crate) attempts: Vec<Attempt>,
}

/// What a step tells beside the payment itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepReport {
    pub(crate) moves: Vec<(Status, Status)>,
    /// But for `payment.refunded`.
    pub(crate) events: Vec<(EventType, Status, Settlement)>,
    /// What `payment.refunded` tells: the order, where it was one, and the amount.
    pub(crate) refunded: Vec<(Option<RefundId>, u64)>,
    pub(crate) work: Vec<(WorkKind, AttemptId, u64, String)>,
    /// Attempts whose open work is settled.
    pub(crate) settled: Vec<AttemptId>,
    /// Lines that were settled by giving back.
    pub(crate) closed: Vec<(AttemptId, WorkKind)>,
    pub(crate) references: Vec<(AttemptId, String)>,
    /// Other references, to be found by alone.
    pub(crate) names: Vec<(AttemptId, String)>,
    /// Lines of the timeline, moves among them.
    pub(crate) lines: usize,
    /// Notices that waited and were read.
    pub(crate) pending: usize,
    /// The law of completion was broken.
    pub(crate) unbacked: bool,
}

/// How a step is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Opened(AttemptId),
    Nothing,
    Refused(Refusal),
}

impl Payment {
    pub(crate) fn open(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| is_open(attempt.state))
    }

    /// The attempt that holds the payment's money.
    pub(crate) fn captured(&self) -> Option<usize> {
        self.attempts
            .iter()
            .position(|attempt| attempt.state == AttemptState::Captured)
    }

    pub(crate) fn find(&self, id: AttemptId) -> Result<usize, Refusal> {
        self.attempts
            .iter()
            .position(|attempt| attempt.id == id)
            .ok_or(Refusal::NoSuchAttempt)
    }

    /// A legal transition with its event; a line of the timeline either way.
    pub(crate) fn go(&mut self, to: Status, told: &mut StepReport) {
        told.lines += 1;
        if !follows(self.status, to) {
            return;
        }
        told.moves.push((self.status, to));
        if to == Status::Failed {
            self.settlement = Settlement::Failed;
        } else if self.status == Status::Failed {
            self.settlement = Settlement::Pending;
        }
        self.status = to;
        self.cause = None;
        if let Some(event) = event_of(to) {
            self.tell(event, told);
        }
    }

    pub(crate) fn tell(&self, event: EventType, told: &mut StepReport) {
        told.events.push((event, self.status, self.settlement));
    }

    pub(crate) fn list(&self, at: usize, kind: WorkKind, amount: u64, told: &mut StepReport) {
        let attempt = &self.attempts[at];
        let currency = attempt.facts.as_ref().map_or_else(
            || self.due.currency.code().to_owned(),
            |facts| facts.currency.clone(),
        );
        told.work.push((kind, attempt.id, amount, currency));
    }

    /// A person has to look; a cause that only an operator decides takes a provider's review over.
    pub(crate) fn review(&mut self, cause: ReviewCause, told: &mut StepReport) {
        if self.status != Status::Review {
            self.go(Status::Review, told);
            if self.status == Status::Review {
                self.cause = Some(cause);
            }
        } else if self.cause.is_none_or(is_providers) && !is_providers(cause) {
            self.cause = Some(cause);
            told.lines += 1;
        }
    }

    /// Completes with the captured attempt's proof, or with what an operator names.
    pub(crate) fn complete(&mut self, named: Option<Settlement>, now: Time, told: &mut StepReport) {
        let captured = self.captured();
        if follows(self.status, Status::Completed) {
            let proved = captured.map_or(Settlement::Pending, |at| self.attempts[at].proves());
            self.settlement = named.unwrap_or(proved);
            self.charged |= self.live;
            self.completed = Some(now);
            told.unbacked |= !self.vouched && !self.is_backed();
        }
        self.go(Status::Completed, told);
        if self.status != Status::Completed {
            return;
        }
        if self.settlement == Settlement::Confirmed {
            self.tell(EventType::PaymentCompleted, told);
        }
        let Some(at) = captured else { return };
        let excess = self.attempts[at].excess();
        if excess > 0 {
            self.list(at, WorkKind::Excess, excess, told);
        }
        match self.settlement {
            Settlement::Pending => self.attempts[at].watch(),
            Settlement::Failed => self.list(at, WorkKind::Unsettled, self.due.amount.0, told),
            Settlement::Confirmed => {}
        }
    }

    /// The law of completion.
    fn is_backed(&self) -> bool {
        let net = self.captured().and_then(|at| self.attempts[at].net());
        let done = self.decision.as_ref();
        let done = done.filter(|decision| decision.state == DecisionState::Done);
        match done {
            Some(done) => is_enough(net, self, done),
            None => net.is_some_and(|(net, currency)| {
                currency == self.due.currency.code() && net >= self.due.amount.0
            }),
        }
    }

    /// Ends an attempt, and what follows for the payment.
    pub(crate) fn end(&mut self, at: usize, state: AttemptState, now: Time, told: &mut StepReport) {
        let attempt = &mut self.attempts[at];
        attempt.shut(state);
        if attempt.is_undecided() {
            attempt.watch();
        }
        if state == AttemptState::Declined {
            self.declines += 1;
        }
        let for_good = state == AttemptState::Failed || self.declines >= MOST_DECLINES;
        match self.status {
            Status::Pending if for_good => self.go(Status::Failed, told),
            Status::Pending if now >= self.expires => self.go(Status::Expired, told),
            Status::Pending => {
                self.go(Status::Created, told);
                if matches!(state, AttemptState::Declined | AttemptState::Unavailable) {
                    self.tell(EventType::PaymentAttemptFailed, told);
                }
            }
            Status::Processing | Status::VerificationPending => self.go(Status::Failed, told),
            Status::Review if self.cause.is_some_and(is_providers) => {
                self.go(Status::Failed, told);
            }
            _ => told.lines += 1,
        }
    }

    /// A vendor's reference becomes known.
    pub(crate) fn refer(&mut self, at: usize, reference: &str, told: &mut StepReport) {
        let attempt = &mut self.attempts[at];
        let known = attempt.references.iter().any(|known| known == reference);
        if !known && attempt.references.len() < MOST_REFERENCES {
            attempt.references.insert(0, reference.to_owned());
            told.references.push((attempt.id, reference.to_owned()));
        }
    }
}
