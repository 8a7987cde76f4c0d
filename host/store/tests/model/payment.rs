//! The reference of one payment: what it shows, by the decisions' words and nothing else.
//!
//! It says nothing of when a vendor is asked: that schedule is the product's own. How many of its
//! questions were asked is taken from the product, and what has to follow is said here.

use std::collections::BTreeSet;

use kassette_domain::attempt::{AttemptState, Choice};
use kassette_domain::event::EventType;
use kassette_domain::id::{AccountId, AttemptId, PaymentId};
use kassette_domain::ledger::{Refusal, Via};
use kassette_domain::method::MethodId;
use kassette_domain::money::Money;
use kassette_domain::payment::{ReviewCause, Settlement, Status};
use kassette_domain::provider::{VendorSettlement, VendorStatus};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::law::{
    MOST_DECLINES, MOST_REFERENCES, QUESTIONS, event_of, follows, is_open, is_providers,
};

/// What a vendor last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) status: VendorStatus,
    pub(crate) settlement: VendorSettlement,
    pub(crate) received: u64,
    pub(crate) currency: String,
    pub(crate) returned: u64,
}

/// What an attempt shows its payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    Way,
    Questions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) account: AccountId,
    pub(crate) crypto: bool,
    pub(crate) due: Money,
    pub(crate) state: AttemptState,
    pub(crate) facts: Option<Facts>,
    pub(crate) given_back: u64,
    pub(crate) uncertain: bool,
    pub(crate) shown: Shown,
    pub(crate) busy: Option<Time>,
    pub(crate) closing: bool,
    pub(crate) approved: bool,
    pub(crate) sent: Time,
    pub(crate) expires: Time,
    pub(crate) references: Vec<String>,
    pub(crate) heard: BTreeSet<(u8, u8)>,
    /// How many questions of the schedule were asked in vain, as the product last said.
    pub(crate) asked: u8,
}

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
    pub(crate) lease: Option<Time>,
    pub(crate) attempts: Vec<Attempt>,
}

/// What a step tells beside the payment itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) moves: Vec<(Status, Status)>,
    pub(crate) events: Vec<(EventType, Status, Settlement)>,
    pub(crate) work: Vec<(WorkKind, AttemptId, u64, String)>,
    /// Attempts whose open work is settled.
    pub(crate) settled: Vec<AttemptId>,
    pub(crate) references: Vec<(AttemptId, String)>,
    /// Lines of the timeline, moves among them.
    pub(crate) lines: usize,
}

/// How a step is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Opened(AttemptId),
    Nothing,
    Refused(Refusal),
}

impl Attempt {
    pub(crate) fn new(choice: &Choice, payment: &Payment) -> Self {
        Self {
            id: choice.attempt,
            account: choice.account.clone(),
            crypto: choice.method == MethodId::Crypto,
            due: payment.due,
            state: AttemptState::Open,
            facts: None,
            given_back: 0,
            uncertain: false,
            shown: Shown::Nothing,
            busy: Some(choice.busy_until),
            closing: false,
            approved: false,
            sent: choice.busy_until,
            expires: choice.expires_at.min(payment.expires),
            references: Vec::new(),
            heard: BTreeSet::new(),
            asked: 0,
        }
    }

    pub(crate) fn said(&self) -> Option<VendorStatus> {
        self.facts.as_ref().map(|facts| facts.status)
    }

    /// The vendor's last word is an authorisation that nobody has captured.
    pub(crate) fn is_authorised(&self) -> bool {
        self.said() == Some(VendorStatus::Processing)
            && !matches!(self.state, AttemptState::Captured | AttemptState::Surplus)
    }

    /// All questions were asked in vain.
    pub(crate) fn is_silent(&self) -> bool {
        usize::from(self.asked) >= QUESTIONS.len()
    }

    /// The vendor holds money for us, as far as it told.
    pub(crate) fn holds_money(&self) -> bool {
        self.facts
            .as_ref()
            .is_some_and(|facts| facts.received > facts.returned)
    }

    /// What was received is not what was due; more of a cryptocurrency is no harm.
    pub(crate) fn differs(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| {
            let due = self.due.amount.0;
            let enough = facts.received == due || (self.crypto && facts.received > due);
            !enough || facts.currency != self.due.currency.code()
        })
    }

    /// How much more than due came, of the currency that was due.
    pub(crate) fn excess(&self) -> u64 {
        self.facts.as_ref().map_or(0, |facts| {
            if facts.currency == self.due.currency.code() {
                facts.received.saturating_sub(self.due.amount.0)
            } else {
                0
            }
        })
    }

    /// What the vendor's facts prove about the money.
    pub(crate) fn proves(&self) -> Settlement {
        match self.facts.as_ref().map(|facts| facts.settlement) {
            Some(VendorSettlement::Confirmed) => Settlement::Confirmed,
            Some(VendorSettlement::Failed) => Settlement::Failed,
            _ => Settlement::Pending,
        }
    }

    /// Ends it here.
    pub(crate) fn shut(&mut self, state: AttemptState) {
        self.state = state;
        self.busy = None;
        self.closing = false;
    }

    /// How it ends where a close was under way.
    pub(crate) fn closed(&self, now: Time) -> Option<AttemptState> {
        self.closing.then_some(if now < self.expires {
            AttemptState::Closed
        } else {
            AttemptState::Expired
        })
    }

    pub(crate) fn hears(&mut self, via: Via, said: VendorStatus) -> bool {
        self.heard.insert((via as u8, said as u8))
    }

    pub(crate) fn has_heard(&self, via: Via, said: VendorStatus) -> bool {
        self.heard.contains(&(via as u8, said as u8))
    }
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
    pub(crate) fn go(&mut self, to: Status, told: &mut Told) {
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

    pub(crate) fn tell(&self, event: EventType, told: &mut Told) {
        told.events.push((event, self.status, self.settlement));
    }

    pub(crate) fn list(&self, at: usize, kind: WorkKind, amount: u64, told: &mut Told) {
        let attempt = &self.attempts[at];
        let currency = attempt.facts.as_ref().map_or_else(
            || self.due.currency.code().to_owned(),
            |facts| facts.currency.clone(),
        );
        told.work.push((kind, attempt.id, amount, currency));
    }

    /// A person has to look; a cause that only an operator decides takes a provider's review over.
    pub(crate) fn review(&mut self, cause: ReviewCause, told: &mut Told) {
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

    /// Completes with the captured attempt's proof, or with what an operator vouches for.
    pub(crate) fn complete(&mut self, vouched: Option<Settlement>, told: &mut Told) {
        let captured = self.captured();
        if follows(self.status, Status::Completed) {
            let proved = captured.map_or(Settlement::Pending, |at| self.attempts[at].proves());
            self.settlement = vouched.unwrap_or(proved);
            self.charged |= self.live;
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
        if self.settlement == Settlement::Failed {
            self.list(at, WorkKind::Unsettled, self.due.amount.0, told);
        }
    }

    /// Ends an attempt, and what follows for the payment.
    pub(crate) fn end(&mut self, at: usize, state: AttemptState, now: Time, told: &mut Told) {
        self.attempts[at].shut(state);
        if state == AttemptState::Declined {
            self.declines += 1;
        }
        let for_good = state == AttemptState::Failed || self.declines >= MOST_DECLINES;
        match self.status {
            Status::Pending if for_good => self.go(Status::Failed, told),
            Status::Pending if now >= self.expires => self.go(Status::Expired, told),
            Status::Pending => self.go(Status::Created, told),
            Status::Processing | Status::VerificationPending => self.go(Status::Failed, told),
            Status::Review if self.cause.is_some_and(is_providers) => {
                self.go(Status::Failed, told);
            }
            _ => told.lines += 1,
        }
    }

    /// A vendor's reference becomes known.
    pub(crate) fn refer(&mut self, at: usize, reference: &str, told: &mut Told) {
        let attempt = &mut self.attempts[at];
        let known = attempt.references.iter().any(|known| known == reference);
        if !known && attempt.references.len() < MOST_REFERENCES {
            attempt.references.insert(0, reference.to_owned());
            told.references.push((attempt.id, reference.to_owned()));
        }
    }
}
