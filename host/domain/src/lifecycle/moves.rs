//! The legal transitions, and what goes with each: the timeline, events, settlement, fee, work.

use super::{Change, NewEvent, NewWork, PaymentAggregate, QuerySchedule, Refusal, Transition};
use crate::attempt::{Attempt, AttemptState};
use crate::decline::DeclineCode;
use crate::event::{EventType, GivenBack};
use crate::id::AttemptId;
use crate::key::Environment;
use crate::money::{Minor, platform_fee};
use crate::payment::{ReviewCause, Settlement, Status};
use crate::provider::VendorSettlement;
use crate::time::Time;
use crate::work::WorkKind;

/// Where a step writes what it did: its time, its cause in the timeline's words, the change.
pub(super) struct StepLog<'a> {
    pub(super) now: Time,
    pub(super) cause: String,
    pub(super) schedule: &'a QuerySchedule,
    pub(super) change: &'a mut Change,
}

/// Whether `to` may follow `from` (decisions, "Legal transitions"): the whole table.
pub(super) const fn legal(from: Status, to: Status) -> bool {
    use Status::{
        Cancelled, Completed, Created, Expired, Failed, Pending, Processing, Review,
        VerificationPending,
    };
    matches!(
        (from, to),
        (Created, Pending | Review | Expired | Cancelled)
            | (
                Pending,
                Created
                    | Processing
                    | Review
                    | VerificationPending
                    | Completed
                    | Failed
                    | Cancelled
                    | Expired
            )
            | (
                Processing,
                VerificationPending | Review | Completed | Failed
            )
            | (
                VerificationPending,
                Processing | Review | Completed | Failed
            )
            | (Review, Completed | Failed)
            | (Expired | Failed | Cancelled, Review)
    )
}

impl PaymentAggregate {
    /// Where an attempt stands in the list.
    pub(super) fn index(&self, id: AttemptId) -> Result<usize, Refusal> {
        self.attempts
            .iter()
            .position(|attempt| attempt.id == id)
            .ok_or(Refusal::NoSuchAttempt)
    }

    /// The attempt that holds the payment's money.
    pub(super) fn captured(&self) -> Option<usize> {
        self.attempts
            .iter()
            .position(|attempt| attempt.state == AttemptState::Captured)
    }

    /// A line of the timeline from `from` to `to`, with the settlement as it is now.
    pub(super) fn line(&self, from: Status, to: Status, applied: bool, log: &mut StepLog<'_>) {
        log.change.transitions.push(Transition {
            at: log.now,
            from,
            to,
            settlement: self.payment.settlement,
            cause: log.cause.clone(),
            applied,
        });
    }

    /// A line for what was recorded and changed no status.
    pub(super) fn remark(&self, log: &mut StepLog<'_>) {
        self.line(self.payment.status, self.payment.status, true, log);
    }

    /// An event about the payment as it stands.
    pub(super) fn tell(&self, kind: EventType, log: &mut StepLog<'_>) {
        self.tell_of(kind, (None, None), log);
    }

    /// An event about a refund.
    pub(super) fn tell_refund(&self, given: GivenBack, log: &mut StepLog<'_>) {
        self.tell_of(EventType::PaymentRefunded, (Some(given), None), log);
    }

    /// An event about an attempt that failed while the payment goes on.
    pub(super) fn tell_failed(&self, i: usize, log: &mut StepLog<'_>) {
        if let Some(decline) = DeclineCode::of(&self.attempts[i]) {
            self.tell_of(EventType::PaymentAttemptFailed, (None, Some(decline)), log);
        }
    }

    fn tell_of(
        &self,
        kind: EventType,
        (refund, decline): (Option<GivenBack>, Option<DeclineCode>),
        log: &mut StepLog<'_>,
    ) {
        log.change.events.push(NewEvent {
            kind,
            status: self.payment.status,
            settlement: self.payment.settlement,
            refund,
            decline,
        });
    }

    /// A line for the work list about an attempt.
    pub(super) fn work(
        &self,
        i: usize,
        kind: WorkKind,
        amount: Minor,
        detail: &str,
        log: &mut StepLog<'_>,
    ) {
        let attempt = &self.attempts[i];
        let currency = attempt.vendor.as_ref().map_or_else(
            || attempt.due.currency.code().to_owned(),
            |facts| facts.currency.clone(),
        );
        log.change.work.push(NewWork {
            kind,
            attempt: attempt.id,
            account: attempt.account.clone(),
            amount,
            currency,
            detail: format!("{detail} ({})", log.cause),
        });
    }

    /// Moves the payment where that is legal, with its line and event; a line alone where it is not.
    pub(super) fn move_to(&mut self, to: Status, log: &mut StepLog<'_>) {
        let from = self.payment.status;
        if !legal(from, to) {
            self.line(from, to, false, log);
            return;
        }
        self.payment.status = to;
        self.payment.review = None;
        match (from, to) {
            (_, Status::Failed) => self.payment.settlement = Settlement::Failed,
            // Money turned up after all: whether it is safe is not known.
            (Status::Failed, _) => self.payment.settlement = Settlement::Pending,
            _ => {}
        }
        self.line(from, to, true, log);
        if let Some(event) = EventType::of_transition(to) {
            self.tell(event, log);
        }
    }

    /// Has a person look. In a review that the vendor could end, a cause that only an operator can
    /// decide takes over.
    pub(super) fn review(&mut self, cause: ReviewCause, log: &mut StepLog<'_>) {
        if self.payment.status != Status::Review {
            self.move_to(Status::Review, log);
            if self.payment.status == Status::Review {
                self.payment.review = Some(cause);
            }
            return;
        }
        let weaker = self.payment.review.is_none_or(ReviewCause::ends_by_vendor);
        if weaker && !cause.ends_by_vendor() {
            self.payment.review = Some(cause);
            self.remark(log);
        }
    }

    /// Completes the payment with what its captured attempt proves, or what an operator vouches for.
    pub(super) fn complete(&mut self, vouched: Option<Settlement>, log: &mut StepLog<'_>) {
        if legal(self.payment.status, Status::Completed) {
            let proved = self
                .captured()
                .map_or(Settlement::Pending, |i| proved(&self.attempts[i]));
            self.payment.settlement = vouched.unwrap_or(proved);
            self.payment.completed_at = Some(log.now);
            if self.payment.environment == Environment::Live {
                self.payment.fee = Some(platform_fee(self.payment.usd));
            }
        }
        self.move_to(Status::Completed, log);
        if self.payment.status != Status::Completed {
            return;
        }
        if self.payment.is_paid() {
            self.tell(EventType::PaymentCompleted, log);
        }
        let Some(i) = self.captured() else { return };
        let excess = self.excess(i);
        if excess > Minor(0) {
            self.work(
                i,
                WorkKind::Excess,
                excess,
                "more was received than was due",
                log,
            );
        }
        match self.payment.settlement {
            Settlement::Pending => self.watch(i, log),
            Settlement::Failed => self.unsettled(i, "the provider says it will not settle", log),
            Settlement::Confirmed => {}
        }
    }

    /// Applies the captured attempt's settlement facts to a completed payment. Confirmed is final.
    pub(super) fn settle(&mut self, i: usize, log: &mut StepLog<'_>) {
        let known = self.payment.settlement;
        let proved = proved(&self.attempts[i]);
        if known == Settlement::Confirmed || proved == known || proved == Settlement::Pending {
            return;
        }
        // A vendor's word for money that it does not hold confirms no operator's.
        if self.payment.vouched && self.attempts[i].net().is_none() {
            return;
        }
        self.payment.settlement = proved;
        self.attempts[i].next_query = None;
        self.remark(log);
        if proved == Settlement::Confirmed {
            self.tell(EventType::PaymentCompleted, log);
        } else {
            self.unsettled(i, "the provider says it will not settle", log);
        }
    }

    /// Puts a completed payment whose money is not safe on the work list.
    pub(super) fn unsettled(&self, i: usize, detail: &str, log: &mut StepLog<'_>) {
        let amount = self.attempts[i].due.amount;
        self.work(i, WorkKind::Unsettled, amount, detail, log);
    }

    /// How much more than due was received, in the currency that was due.
    pub(super) fn excess(&self, i: usize) -> Minor {
        let attempt = &self.attempts[i];
        attempt
            .vendor
            .as_ref()
            .filter(|facts| facts.currency == attempt.due.currency.code())
            .map_or(Minor(0), |facts| {
                Minor(facts.received.0.saturating_sub(attempt.due.amount.0))
            })
    }

    /// Ends an attempt, and does to the payment what follows from it.
    pub(super) fn end(&mut self, i: usize, state: AttemptState, log: &mut StepLog<'_>) {
        self.shut(i, state, log.now);
        if self.attempts[i].is_undecided() {
            // The vendor contradicts itself: it is asked until it does not.
            self.watch(i, log);
        }
        if state == AttemptState::Declined {
            self.payment.declines = self.payment.declines.saturating_add(1);
        }
        let over = state == AttemptState::Failed || self.payment.declines >= Self::MAX_DECLINES;
        match self.payment.status {
            Status::Pending if over => self.move_to(Status::Failed, log),
            Status::Pending if log.now >= self.payment.expires_at => {
                self.move_to(Status::Expired, log);
            }
            Status::Pending => {
                self.move_to(Status::Created, log);
                self.tell_failed(i, log);
            }
            Status::Processing | Status::VerificationPending => {
                self.move_to(Status::Failed, log);
            }
            Status::Review if self.payment.review.is_some_and(ReviewCause::ends_by_vendor) => {
                self.move_to(Status::Failed, log);
            }
            _ => self.remark(log),
        }
    }

    /// Ends an attempt and nothing else.
    pub(super) fn shut(&mut self, i: usize, state: AttemptState, now: Time) {
        let attempt = &mut self.attempts[i];
        attempt.state = state;
        attempt.ended_at = Some(now);
        attempt.busy_until = None;
        attempt.hold_until = None;
        attempt.next_query = None;
        attempt.closing = false;
        attempt.retries = 0;
    }
}

/// What an attempt's facts prove about its money.
fn proved(attempt: &Attempt) -> Settlement {
    match attempt.vendor.as_ref().map(|facts| facts.settlement) {
        Some(VendorSettlement::Confirmed) => Settlement::Confirmed,
        Some(VendorSettlement::Failed) => Settlement::Failed,
        Some(VendorSettlement::Pending) | None => Settlement::Pending,
    }
}
