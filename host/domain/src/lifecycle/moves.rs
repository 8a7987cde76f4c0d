//! The legal transitions and their consequences: timeline, events, settlement, fee.

use super::{Change, NewEvent, PaymentAggregate, QuerySchedule, Refusal, Transition};
use crate::attempt::{Attempt, End};
use crate::decline::DeclineCode;
use crate::event::{EventSubject, EventType};
use crate::id::AttemptId;
use crate::key::Environment;
use crate::money::{platform_fee, proportion};
use crate::movement::{MovementKind, Source};
use crate::payment::{ReviewCause, Settlement, Status};
use crate::provider::ProviderSettlement;
use crate::time::Time;

/// Context of a step: its time, its cause for the timeline, and the change that it records.
pub(super) struct StepLog<'a> {
    pub(super) now: Time,
    /// How the step's movements became known.
    pub(super) source: Source,
    pub(super) cause: String,
    pub(super) schedule: &'a QuerySchedule,
    pub(super) change: &'a mut Change,
}

/// Whether `to` may follow `from`: the complete table (decisions, "Legal transitions").
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
    /// Index of an attempt in the list.
    pub(super) fn index(&self, id: AttemptId) -> Result<usize, Refusal> {
        self.attempts
            .iter()
            .position(|attempt| attempt.id == id)
            .ok_or(Refusal::NoSuchAttempt)
    }

    /// Index of the attempt that holds the payment's money.
    pub(super) fn captured(&self) -> Option<usize> {
        self.attempts.iter().position(Attempt::is_captured)
    }

    /// Adds a timeline entry with the current settlement. `applied` is false for a move that is not legal.
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

    /// Adds a timeline entry for a step that changed no status.
    pub(super) fn remark(&self, log: &mut StepLog<'_>) {
        self.line(self.payment.status, self.payment.status, true, log);
    }

    /// Adds an event about the payment's current state.
    pub(super) fn tell(&self, kind: EventType, log: &mut StepLog<'_>) {
        self.tell_of(kind, None, log);
    }

    /// Adds an event about an attempt that failed while the payment continues.
    pub(super) fn tell_failed(&self, i: usize, log: &mut StepLog<'_>) {
        if let Some(decline) = DeclineCode::of_attempt(&self.attempts[i]) {
            let subject = Some(EventSubject::Decline(decline));
            self.tell_of(EventType::PaymentAttemptFailed, subject, log);
        }
    }

    pub(super) fn tell_of(
        &self,
        kind: EventType,
        subject: Option<EventSubject>,
        log: &mut StepLog<'_>,
    ) {
        log.change.events.push(NewEvent {
            kind,
            status: self.payment.status,
            settlement: self.payment.settlement,
            subject,
        });
    }

    /// Moves the payment, with a timeline entry and an event. Adds only an unapplied entry if the move is not
    /// legal.
    pub(super) fn move_to(&mut self, to: Status, log: &mut StepLog<'_>) {
        let from = self.payment.status;
        if !legal(from, to) {
            self.line(from, to, false, log);
            return;
        }
        self.payment.status = to;
        self.payment.review = None;
        match (from, to) {
            (_, Status::Failed) if !self.payment.uncertain_end => {
                self.payment.settlement = Settlement::Failed;
            }
            // Money has arrived after all; its settlement is unknown.
            (Status::Failed, _) => self.payment.settlement = Settlement::Pending,
            _ => {}
        }
        self.line(from, to, true, log);
        if let Some(event) = EventType::of_transition(to) {
            self.tell(event, log);
        }
    }

    /// Moves the payment to review. During a review that the provider could end, a cause that only an operator can
    /// decide replaces the old one.
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

    /// Completes the payment with the settlement that an operator named, or that its captured attempt proves.
    pub(super) fn complete(&mut self, named: Option<Settlement>, log: &mut StepLog<'_>) {
        if !legal(self.payment.status, Status::Completed) {
            return self.move_to(Status::Completed, log);
        }
        let own = self.captured();
        self.payment.completed_at = Some(log.now);
        let proved = own
            .filter(|i| self.may_confirm(*i))
            .map_or(Settlement::Pending, |i| proved(&self.attempts[i]));
        self.payment.settlement = named.unwrap_or(proved);
        if self.payment.environment == Environment::Live {
            let fee = self.fee_of_completion();
            self.payment.fee = Some(fee);
            if let Some(i) = own {
                self.post_platform_fee(i, MovementKind::PlatformFee, fee, log);
            }
        }
        self.move_to(Status::Completed, log);
        if self.payment.is_paid() {
            self.tell(EventType::PaymentCompleted, log);
        }
        if let Some(i) = own.filter(|_| self.payment.settlement == Settlement::Pending) {
            self.attempts[i].watch(log.now, log.schedule);
        }
    }

    /// The platform's fee on the invoice amount, or on the amount that an operator accepted.
    fn fee_of_completion(&self) -> crate::money::Minor {
        let payment = &self.payment;
        match &payment.short {
            None => platform_fee(payment.usd),
            Some((amount, currency)) if currency == payment.due.currency.code() => {
                platform_fee(proportion(payment.usd, *amount, payment.due.amount))
            }
            Some(_) => {
                let accepted = payment.decision.as_deref();
                let accepted = accepted.and_then(|decision| decision.accept.as_ref());
                platform_fee(accepted.and_then(|accept| accept.usd).unwrap_or_default())
            }
        }
    }

    /// Applies the captured attempt's settlement facts to a completed payment. Confirmed is final.
    pub(super) fn settle(&mut self, i: usize, log: &mut StepLog<'_>) {
        let proved = proved(&self.attempts[i]);
        let known = self.payment.settlement;
        if known == Settlement::Confirmed || proved == known || proved == Settlement::Pending {
            return;
        }
        // A status does not confirm money that has been returned.
        if proved == Settlement::Confirmed && !self.may_confirm(i) {
            return;
        }
        self.payment.settlement = proved;
        self.attempts[i].queries.stop();
        self.remark(log);
        if proved == Settlement::Confirmed {
            self.tell(EventType::PaymentCompleted, log);
        }
    }

    /// Ends an attempt and applies the consequences to the payment.
    pub(super) fn end(&mut self, i: usize, how: End, log: &mut StepLog<'_>) {
        let attempt = &mut self.attempts[i];
        attempt.end(how, log.now);
        if attempt.is_undecided() {
            // The provider contradicts itself: query it until it does not.
            attempt.watch(log.now, log.schedule);
        }
        if how == End::Declined {
            self.payment.declines = self.payment.declines.saturating_add(1);
        }
        let over = how == End::Failed || self.payment.declines >= Self::MAX_DECLINES;
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
            // An authorization ended without a capture, and the payment holds no other money.
            Status::Review
                if self.attempts[i].particulars.authorised_at.is_some()
                    && self.open_attempt().is_none()
                    && self.waiting().is_none()
                    && !self.attempts.iter().any(Attempt::holds_money) =>
            {
                self.move_to(Status::Failed, log);
            }
            _ => self.remark(log),
        }
    }
}

/// Settlement that an attempt's facts prove.
fn proved(attempt: &Attempt) -> Settlement {
    match attempt.vendor.as_ref().map(|facts| facts.settlement) {
        Some(ProviderSettlement::Confirmed) => Settlement::Confirmed,
        Some(ProviderSettlement::Failed) => Settlement::Failed,
        Some(ProviderSettlement::Pending) | None => Settlement::Pending,
    }
}
