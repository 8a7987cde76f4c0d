//! Movements of the ledger, and events about refunds, disputes and reversed captures.
//!
//! Refunds and disputes record the events that the merchant received, so that each step compares the current state
//! with the last event, regardless of the cause of the change.

use super::moves::StepLog;
use super::{PaymentAggregate, Refusal, StepOutcome};
use crate::attempt::Attempt;
use crate::event::{DisputeEvent, EventSubject, EventType, RefundEvent};
use crate::funds::{Disputed, Entry};
use crate::id::{AttemptId, MovementId};
use crate::money::{Minor, proportion};
use crate::movement::{Bucket, Effect, Movement, MovementKind};
use crate::order::IdempotencyKey;
use crate::payment::{Settlement, Status};
use crate::provider::{DisputeKind, DisputeState, RefundState};
use crate::refund::Refund;
use crate::time::Time;

/// A correction by an operator that no provider reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCorrection {
    /// The attempt whose money it corrects.
    pub attempt: AttemptId,
    /// [`Effect::In`] or [`Effect::Out`].
    pub effect: Effect,
    pub bucket: Bucket,
    /// Minor units of `currency`.
    pub amount: Minor,
    /// Code of the currency; must be the one received.
    pub currency: String,
    pub occurred_at: Time,
    pub provider_references: Vec<String>,
    /// Idempotency key: the same key is the same movement.
    pub key: IdempotencyKey,
}

impl NewCorrection {
    /// Object of its movement; the account and this determine the movement's id.
    pub fn object(key: &IdempotencyKey) -> String {
        format!("correction {}", key.as_str())
    }
}

impl PaymentAggregate {
    /// Writes movements of an attempt's money to the ledger.
    pub(super) fn post(&mut self, i: usize, entries: Vec<Entry>, log: &mut StepLog<'_>) {
        let attempt = &self.attempts[i];
        let booked_at = self.payment.last_booked.max(log.now);
        for entry in entries {
            let effect = entry.kind.effect().unwrap_or(Effect::None);
            let currency = entry
                .currency
                .unwrap_or_else(|| attempt.received_currency().to_owned());
            log.change.movements.push(Movement {
                id: MovementId::derived(&attempt.account, &entry.object, entry.kind, entry.number),
                account: attempt.account.clone(),
                environment: self.payment.environment,
                merchant: Some(self.payment.merchant),
                payment: Some(self.payment.id),
                attempt: Some(attempt.id),
                kind: entry.kind,
                effect,
                bucket: entry.bucket,
                from_bucket: entry.from_bucket,
                amount: entry.amount,
                currency,
                provider_references: entry.references,
                occurred_at: entry.occurred_at.unwrap_or(log.now),
                booked_at,
                source: log.source,
            });
            self.payment.last_booked = booked_at;
        }
    }

    pub(super) fn correct(
        &mut self,
        new: NewCorrection,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(new.attempt)?;
        let attempt = &mut self.attempts[i];
        if attempt.received_currency() != new.currency {
            return Err(Refusal::OtherCurrency);
        }
        let kind = MovementKind::Correction;
        attempt
            .funds
            .balance
            .apply(kind, new.effect, Some(new.bucket), None, new.amount);
        let attempt = &self.attempts[i];
        let booked_at = self.payment.last_booked.max(log.now);
        log.change.movements.push(Movement {
            id: MovementId::derived(&attempt.account, &NewCorrection::object(&new.key), kind, 0),
            account: attempt.account.clone(),
            environment: self.payment.environment,
            merchant: Some(self.payment.merchant),
            payment: Some(self.payment.id),
            attempt: Some(attempt.id),
            kind,
            effect: new.effect,
            bucket: Some(new.bucket),
            from_bucket: None,
            amount: new.amount,
            currency: new.currency,
            provider_references: new.provider_references,
            occurred_at: new.occurred_at,
            booked_at,
            source: log.source,
        });
        self.payment.last_booked = booked_at;
        "operator: a correction was booked".clone_into(&mut log.cause);
        self.remark(log);
        Ok(StepOutcome::Done)
    }

    /// The amount that the payment was completed with, with its currency's code.
    pub fn completed_amount(&self) -> (Minor, &str) {
        match &self.payment.short {
            Some((amount, currency)) => (*amount, currency),
            None => (self.payment.due.amount, self.payment.due.currency.code()),
        }
    }

    /// Whether the money still allows a confirmation: it covered the completed amount apart from refunds made
    /// after completion, some of it is neither returned nor being refunded, and no dispute is open that the
    /// operator did not name.
    pub(super) fn may_confirm(&self, i: usize) -> bool {
        let funds = &self.attempts[i].funds;
        let own = funds.position(Bucket::Own);
        let completed_at = self.payment.completed_at.unwrap_or_default();
        let after = funds
            .refunds
            .iter()
            .filter(|refund| refund.bucket == Bucket::Own && refund.created_at >= completed_at);
        let after: i128 = after.map(|refund| i128::from(refund.out.0)).sum();
        let (due, currency) = self.completed_amount();
        let named = self
            .payment
            .decision
            .as_deref()
            .map_or(&[][..], |decision| &decision.despite);
        let disputed = funds.disputes.iter().any(|disputed| {
            disputed.is_open()
                && disputed.dispute.kind == DisputeKind::Dispute
                && !named.contains(&disputed.dispute.id)
        });
        self.attempts[i].received_currency() == currency
            && own.net() + after >= i128::from(due.0)
            && own.for_completion() > Minor::ZERO
            && !disputed
    }

    /// Confirms a completed payment as soon as its attempt's settlement and its money allow it.
    pub(super) fn confirm_when_possible(&mut self, log: &mut StepLog<'_>) {
        let waits = self.payment.status == Status::Completed
            && self.payment.settlement != Settlement::Confirmed
            && !self.payment.settlement_held;
        if let Some(i) = self.captured().filter(|_| waits) {
            self.settle(i, log);
        }
    }

    /// Adds events about changes of the payment's own refunds, disputes and captures.
    pub(super) fn report_money(&mut self, log: &mut StepLog<'_>) {
        let completed = self.payment.status == Status::Completed;
        for i in 0..self.attempts.len() {
            let attempt = &self.attempts[i];
            let own = attempt.funds.bucket == Bucket::Own;
            let mut events = Vec::new();
            for r in 0..attempt.funds.refunds.len() {
                let currency = self.attempts[i].received_currency().to_owned();
                let refund = &mut self.attempts[i].funds.refunds[r];
                if completed && refund.bucket == Bucket::Own {
                    events.extend(refund_events(refund, &currency));
                }
            }
            if own {
                for d in 0..self.attempts[i].funds.disputes.len() {
                    let currency = self.attempts[i].received_currency().to_owned();
                    let disputed = &mut self.attempts[i].funds.disputes[d];
                    events.extend(dispute_events(disputed, &currency));
                }
                events.extend(self.reversal_event(i, completed));
            }
            for (kind, subject) in events {
                self.tell_of(kind, Some(subject), log);
                self.remark_once(log);
            }
        }
    }

    /// The event about a capture that was reversed after completion, or made again.
    fn reversal_event(&mut self, i: usize, completed: bool) -> Option<(EventType, EventSubject)> {
        let attempt = &mut self.attempts[i];
        let reversed = attempt.funds.reversed();
        let captured = attempt.is_captured() && completed;
        if !captured || reversed == attempt.funds.reversed_reported {
            return None;
        }
        attempt.funds.reversed_reported = reversed;
        let currency = attempt.received_currency().to_owned();
        let subject = EventSubject::CaptureReversed(reversed, currency);
        Some((EventType::PaymentCaptureReversed, subject))
    }

    /// Credits the platform's fee in proportion to refunds of the payment's own money, if the policy allows it.
    pub(super) fn credit_platform_fee(&mut self, log: &mut StepLog<'_>) {
        let (Some(fee), Some(i)) = (self.payment.fee, self.captured()) else {
            return;
        };
        if !self.payment.fee_refundable {
            return;
        }
        let (completed, _) = self.completed_amount();
        let target = proportion(fee, self.refunded_amount().min(completed), completed);
        let credited = self.payment.fee_credited;
        let (kind, amount) = if target > credited {
            (MovementKind::PlatformFeeReversed, target.less(credited))
        } else {
            (MovementKind::PlatformFee, credited.less(target))
        };
        if amount == Minor::ZERO {
            return;
        }
        self.payment.fee_credited = target;
        self.post_platform_fee(i, kind, amount, log);
    }

    /// Books the platform's fee, or a part of it.
    pub(super) fn post_platform_fee(
        &mut self,
        i: usize,
        kind: MovementKind,
        amount: Minor,
        log: &mut StepLog<'_>,
    ) {
        if amount == Minor::ZERO {
            return;
        }
        let entry = Entry {
            kind,
            object: format!("platform fee {}", self.payment.id),
            number: self.payment.fee_booked.next(kind),
            amount,
            bucket: None,
            from_bucket: None,
            currency: Some("USD".to_owned()),
            references: Vec::new(),
            occurred_at: None,
        };
        self.post(i, vec![entry], log);
    }
}

/// Events about a refund of the payment's own money; marks it as reported.
fn refund_events(refund: &mut Refund, currency: &str) -> Vec<(EventType, EventSubject)> {
    let event = |refund: &Refund, late| {
        EventSubject::Refund(RefundEvent {
            refund: refund.id,
            amount: refund.amount,
            currency: currency.to_owned(),
            origin: refund.origin,
            reversed: refund.reversed,
            late,
        })
    };
    let mut events = Vec::new();
    if refund.state == RefundState::Succeeded && !refund.succeeded_reported && !refund.is_withdrawal
    {
        refund.succeeded_reported = true;
        // A refund that an operator settled as partly made is reported with the part that came back.
        let partly = refund.reversed > refund.reversed_reported;
        events.push((EventType::PaymentRefunded, event(refund, None)));
        if partly {
            refund.reversed_reported = refund.reversed;
            events.push((EventType::PaymentRefundFailed, event(refund, Some(true))));
        }
    }
    let came_back = refund.reversed > refund.reversed_reported && refund.succeeded_reported;
    let failed = refund.state == RefundState::Failed && !refund.failed_reported;
    let ordered = refund.ordered.is_some();
    if came_back || (failed && (ordered || refund.succeeded_reported)) {
        let late = refund.succeeded_reported;
        refund.reversed_reported = refund.reversed;
        events.push((EventType::PaymentRefundFailed, event(refund, Some(late))));
    }
    if failed {
        refund.failed_reported = true;
        // If it succeeds after all, that is reported again.
        refund.succeeded_reported = false;
    }
    events
}

/// Events about a dispute or inquiry; marks it as reported.
fn dispute_events(disputed: &mut Disputed, currency: &str) -> Vec<(EventType, EventSubject)> {
    let dispute = &disputed.dispute;
    let event = |outcome| {
        EventSubject::Dispute(DisputeEvent {
            id: dispute.id.clone(),
            kind: dispute.kind,
            amount: dispute.amount,
            currency: currency.to_owned(),
            reason: dispute.reason.clone(),
            respond_by: dispute.respond_by,
            outcome,
        })
    };
    let mut events = Vec::new();
    let opened = match disputed.reported {
        None => true,
        Some((kind, _)) => kind != dispute.kind,
    };
    if opened {
        events.push((EventType::PaymentDisputed, event(None)));
        disputed.reported = Some((dispute.kind, None));
    }
    let outcome = Some(dispute.state).filter(|state| *state != DisputeState::Open);
    if let (Some((_, reported)), Some(outcome)) = (disputed.reported, outcome)
        && reported != Some(outcome)
    {
        events.push((EventType::PaymentDisputeClosed, event(Some(outcome))));
        disputed.reported = Some((dispute.kind, Some(outcome)));
    }
    events
}

impl Attempt {
    /// Code of the currency received, or of the invoice before any report.
    pub fn received_currency(&self) -> &str {
        let facts = self.vendor.as_ref();
        facts.map_or_else(|| self.due.currency.code(), |facts| &facts.currency)
    }
}
