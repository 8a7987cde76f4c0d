//! Refunds: ordered in one transaction before the provider is called, then sent, queried until their outcome is
//! known, and reported to the merchant once.

use std::time::Duration;

use super::attempt_moves::ABSENT_AFTER;
use super::moves::StepLog;
use super::{PaymentAggregate, Refusal, StepOutcome};
use crate::attempt::{Attempt, Stage};
use crate::funds::{Difference, Funds};
use crate::id::{AttemptId, RefundId};
use crate::money::Minor;
use crate::movement::Bucket;
use crate::order::IdempotencyKey;
use crate::payment::{ReviewCause, Status};
use crate::provider::{Given, RefundState, RefundTerms};
use crate::refund::{Ordered, Refund, RefundOrigin};
use crate::time::Time;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An order of a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefund {
    /// Drawn by the caller.
    pub id: RefundId,
    /// The attempt that received the money.
    pub attempt: AttemptId,
    /// Who orders it; not [`RefundOrigin::Provider`].
    pub origin: RefundOrigin,
    /// Idempotency key of the request.
    pub key: Option<IdempotencyKey>,
    /// Minor units of the currency received. `None`: the whole refundable amount.
    pub amount: Option<Minor>,
    /// The merchant's reason, which the payer may see.
    pub reason: Option<String>,
    /// Bucket of the money: the payment's own, or that of a work item.
    pub bucket: Bucket,
    /// The account module's limits on refunds. `None` if it cannot refund.
    pub terms: Option<RefundTerms>,
}

impl NewRefund {
    /// The first field in which it differs from a refund with the same origin and idempotency key. `None` if it is
    /// a replay.
    pub fn differs(&self, known: &Refund) -> Option<&'static str> {
        let ordered = known.ordered.as_ref()?;
        let amount = match self.amount {
            None => ordered.all,
            Some(amount) => amount == known.amount,
        };
        [
            (self.bucket == known.bucket, "work"),
            (amount, "amount"),
            (self.reason == ordered.reason, "reason"),
        ]
        .into_iter()
        .find_map(|(same, field)| (!same).then_some(field))
    }
}

/// Result of a call about a refund. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundAnswer {
    /// The provider has it.
    Given(Given),
    /// The provider refuses it; nothing was created.
    Refused(String),
    /// Nothing was created: it is sent again later.
    Unavailable(String),
    /// It may exist, or the query had no certain result.
    Uncertain(String),
    /// The provider knows no such refund.
    Absent,
}

impl Attempt {
    /// Refundable money of one bucket.
    pub fn refundable(&self, bucket: Bucket) -> Minor {
        self.funds.position(bucket).refundable()
    }

    /// Refundable money of all buckets.
    pub fn left(&self) -> Minor {
        self.funds.total().refundable()
    }
}

impl PaymentAggregate {
    /// Every refund with its attempt, newest first.
    pub fn refunds(&self) -> Vec<(&Attempt, &Refund)> {
        let of = |attempt| move |refund| (attempt, refund);
        let each = |attempt: &'_ Attempt| attempt.funds.refunds.len();
        let mut all = Vec::with_capacity(self.attempts.iter().map(each).sum());
        for attempt in self.attempts.iter().rev() {
            all.extend(attempt.funds.refunds.iter().rev().map(of(attempt)));
        }
        // A stable sort: refunds of the same time stay in this order.
        all.sort_by_key(|(_, refund)| std::cmp::Reverse(refund.created_at));
        all
    }

    /// A refund by its id, with its attempt.
    pub fn refund(&self, id: RefundId) -> Option<(&Attempt, &Refund)> {
        self.attempts
            .iter()
            .find_map(|attempt| Some((attempt, attempt.funds.refund(id)?)))
    }

    /// Default attempt for a refund: the attempt with the payment's money. If nothing of that is refundable, an
    /// operator refunds money of the oldest attempt that has some.
    pub fn attempt_to_refund(&self, origin: RefundOrigin) -> Option<&Attempt> {
        let own = self.captured().map(|i| &self.attempts[i]);
        if origin != RefundOrigin::Operator || own.is_some_and(|own| own.left() > Minor(0)) {
            return own;
        }
        let some_left = |attempt: &&Attempt| attempt.left() > Minor(0);
        self.attempts.iter().find(some_left).or(own)
    }

    /// Refunded part of the payment's own money that did not come back, in minor units of the currency received.
    /// Disputes do not count.
    pub fn refunded_amount(&self) -> Minor {
        let Some(i) = self.captured() else {
            return Minor::ZERO;
        };
        let refunds = self.attempts[i].funds.refunds.iter();
        let own = refunds.filter(|refund| {
            refund.bucket == Bucket::Own && refund.state == RefundState::Succeeded
        });
        own.fold(Minor::ZERO, |sum, refund| sum.plus(refund.out))
    }

    fn index_of_refund(&self, id: RefundId) -> Result<usize, Refusal> {
        self.attempts
            .iter()
            .position(|attempt| attempt.funds.refund(id).is_some())
            .ok_or(Refusal::NoSuchRefund)
    }

    pub(super) fn order_refund(
        &mut self,
        new: NewRefund,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(new.attempt)?;
        let amount = self.may_refund(i, &new, log.now)?;
        let attempt = &mut self.attempts[i];
        log.cause = format!(
            "{}: a refund of {amount} {} was ordered at {}",
            new.origin.as_str(),
            attempt.received_currency(),
            attempt.account
        );
        let all = new.amount.is_none();
        let ordered = Ordered {
            key: new.key,
            all,
            reason: new.reason,
            settled: None,
            uncertain: false,
            last_sent: Time::default(),
            claimed_at: Time::default(),
            busy_until: None,
            next_at: Some(log.now),
            asked: 0,
        };
        let refund = Refund::ordered(new.id, amount, new.origin, new.bucket, ordered, log.now);
        attempt.funds.refunds.push(refund);
        self.remark(log);
        self.lapse_if_used(i, ReviewCause::Refund, log);
        Ok(StepOutcome::Done)
    }

    /// Amount of a new refund, if it is allowed.
    fn may_refund(&self, i: usize, new: &NewRefund, now: Time) -> Result<Minor, Refusal> {
        let attempt = &self.attempts[i];
        let status = self.payment.status;
        let by_operator = new.origin == RefundOrigin::Operator;
        let allowed = match new.bucket {
            Bucket::Own => status == Status::Completed || (by_operator && status == Status::Review),
            Bucket::Excess | Bucket::Surplus | Bucket::Late => by_operator,
        };
        if !allowed {
            return Err(Refusal::WrongStatus(status));
        }
        let terms = new.terms.as_ref().ok_or(Refusal::CannotRefund)?;
        if !by_operator && attempt.received_currency() != attempt.due.currency.code() {
            return Err(Refusal::OtherCurrency);
        }
        let left = attempt.refundable(new.bucket).min(attempt.left());
        let amount = new.amount.unwrap_or(left);
        if amount > left || amount == Minor::ZERO {
            return Err(Refusal::MoreThanLeft { left });
        }
        let since = attempt.particulars.captured_at.or(attempt.stage.ended_at());
        if let (Some(days), Some(since)) = (terms.days, since)
            && now.since(since) > DAY * days
        {
            return Err(Refusal::RefundTooLate { days });
        }
        let refunds = &attempt.funds.refunds;
        let made = refunds.iter().filter(|refund| refund.counts()).count();
        let most = terms.at_most.map_or(Self::MAX_REFUNDS, |most| {
            Self::MAX_REFUNDS.min(most as usize)
        });
        if made >= most || refunds.len() >= Funds::MOST_REFUNDS {
            return Err(Refusal::TooManyRefunds);
        }
        let received = attempt.funds.balance.total().received;
        if !terms.parts && amount != received {
            return Err(Refusal::WholeOnly { received });
        }
        let currency = attempt.received_currency();
        if !terms.allows_amount(amount, currency) {
            let currency = currency.to_owned();
            return Err(Refusal::WholeUnitsOnly { currency });
        }
        Ok(amount)
    }

    /// Settles a refund whose outcome stayed unknown, by an operator's decision. Later reports of the provider
    /// take precedence.
    pub(super) fn settle_refund(
        &mut self,
        id: RefundId,
        made: Option<Minor>,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index_of_refund(id)?;
        let attempt = &self.attempts[i];
        let refund = attempt.funds.refund(id).ok_or(Refusal::NoSuchRefund)?;
        let ordered = refund.ordered.as_deref().ok_or(Refusal::NoSuchRefund)?;
        let amount = made.unwrap_or(refund.amount);
        let is_made = amount > Minor::ZERO;
        match refund.state {
            RefundState::Succeeded if is_made => return Ok(StepOutcome::Nothing),
            RefundState::Failed if !is_made => return Ok(StepOutcome::Nothing),
            RefundState::Succeeded | RefundState::Failed => {
                return Err(Refusal::RefundEnded(refund.state));
            }
            RefundState::Pending => {}
        }
        if log.now.since(refund.created_at) < DAY {
            return Err(Refusal::SettledTooEarly);
        }
        if let Some(busy) = ordered.busy_until.filter(|busy| log.now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        if amount > refund.amount {
            return Err(Refusal::MoreThanLeft {
                left: refund.amount,
            });
        }
        let state = if is_made {
            RefundState::Succeeded
        } else {
            RefundState::Failed
        };
        let word = if is_made { "made" } else { "not made" };
        log.cause = format!("operator: a refund was settled as {word}");
        let attempt = &mut self.attempts[i];
        let out = attempt
            .funds
            .refund(id)
            .map_or(amount, |refund| amount.max(refund.out));
        let out = if is_made { out } else { Minor::ZERO };
        let difference = attempt
            .funds
            .end_refund(id, state, out, attempt.id, log.now);
        if let Some(ordered) = attempt
            .funds
            .refund_mut(id)
            .and_then(|refund| refund.ordered.as_deref_mut())
        {
            ordered.settled = Some(is_made);
        }
        self.after_refund(i, &difference, log);
        Ok(StepOutcome::Done)
    }

    pub(super) fn claim_refund(
        &mut self,
        id: RefundId,
        send: bool,
        until: Time,
        now: Time,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index_of_refund(id)?;
        let refund = self.attempts[i].funds.refund_mut(id);
        let refund = refund.ok_or(Refusal::NoSuchRefund)?;
        if refund.pending_order().is_none() || refund.is_to_send() != send {
            return Err(Refusal::WrongRefund);
        }
        let ordered = refund.ordered.as_mut().ok_or(Refusal::NoSuchRefund)?;
        if let Some(busy) = ordered.busy_until.filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        (ordered.claimed_at, ordered.busy_until) = (now, Some(until));
        if send {
            // If the task is lost, so is the outcome.
            ordered.uncertain = true;
            ordered.last_sent = until;
        }
        Ok(StepOutcome::Done)
    }

    pub(super) fn refund_answered(
        &mut self,
        id: RefundId,
        held: Time,
        answer: RefundAnswer,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index_of_refund(id)?;
        let mut holds = false;
        if let Some(ordered) = self.order_of(i, id) {
            holds = ordered.busy_until == Some(held);
            ordered.busy_until = ordered.busy_until.filter(|_| !holds);
        }
        if !holds && !matches!(answer, RefundAnswer::Given(_)) {
            // Another call may be in flight by now.
            return Ok(StepOutcome::Nothing);
        }
        let word = match &answer {
            RefundAnswer::Given(given) => given.state.as_str(),
            RefundAnswer::Refused(_) => "refused",
            RefundAnswer::Unavailable(_) => "not taken now",
            RefundAnswer::Uncertain(_) => "no certain answer",
            RefundAnswer::Absent => "unknown to the provider",
        };
        log.cause = format!("refund: {word} at {}", self.attempts[i].account);
        let difference = match answer {
            RefundAnswer::Given(given) => {
                let attempt = &mut self.attempts[i];
                let heard = attempt.funds.answer(id, &given, attempt.id, log.now);
                if heard.is_none() {
                    self.say(i, id, "the provider answered with another refund");
                }
                heard.unwrap_or_default()
            }
            RefundAnswer::Refused(why) => {
                // The provider may know of returned money without having sent a notification.
                self.attempts[i].queries.ask_by(log.now);
                self.never_made(i, id, &why, log.now)
            }
            RefundAnswer::Unavailable(why) => {
                self.say(i, id, &why);
                if let Some(ordered) = self.order_of(i, id) {
                    ordered.uncertain = false;
                }
                Difference::default()
            }
            RefundAnswer::Uncertain(why) => {
                self.say(i, id, &why);
                Difference::default()
            }
            RefundAnswer::Absent => {
                if self.is_absent(i, id, log.now) {
                    return Ok(StepOutcome::Done);
                }
                Difference::default()
            }
        };
        self.after_refund(i, &difference, log);
        self.take_turn(i, id, log);
        self.pursue(log);
        Ok(if log.change.transitions.is_empty() {
            StepOutcome::Nothing
        } else {
            StepOutcome::Done
        })
    }

    /// The order of a pending refund. `None` for other refunds.
    fn order_of(&mut self, i: usize, id: RefundId) -> Option<&mut Ordered> {
        let refund = self.attempts[i].funds.refund_mut(id)?;
        let pending = refund.state == RefundState::Pending;
        refund.ordered.as_deref_mut().filter(|_| pending)
    }

    /// Stores the reason why a refund is still pending.
    fn say(&mut self, i: usize, id: RefundId, why: &str) {
        let refund = self.attempts[i].funds.refund_mut(id);
        if let Some(refund) = refund.filter(|refund| refund.state == RefundState::Pending) {
            why.clone_into(&mut refund.detail);
        }
    }

    /// Fails a pending refund that was never made. Does nothing if the provider has reported it.
    fn never_made(&mut self, i: usize, id: RefundId, why: &str, now: Time) -> Difference {
        let attempt = &mut self.attempts[i];
        let unheard = |refund: &&mut Refund| {
            refund.state == RefundState::Pending && refund.reference.is_none()
        };
        let Some(refund) = attempt.funds.refund_mut(id).filter(unheard) else {
            return Difference::default();
        };
        why.clone_into(&mut refund.detail);
        let state = RefundState::Failed;
        let mut difference = attempt
            .funds
            .end_refund(id, state, Minor::ZERO, attempt.id, now);
        difference.ended = true;
        difference
    }

    /// Applies the provider's answer that it knows no such refund. The refund is sent again if every earlier
    /// request must have ended before this query; otherwise the query is repeated. Returns false if the provider
    /// has reported the refund before: then the answer proves nothing.
    fn is_absent(&mut self, i: usize, id: RefundId, now: Time) -> bool {
        let refund = self.attempts[i].funds.refund(id);
        if refund.is_none_or(|refund| refund.reference.is_some()) {
            return false;
        }
        let Some(ordered) = self.order_of(i, id) else {
            return false;
        };
        let believed_at = ordered.last_sent.after(ABSENT_AFTER);
        ordered.uncertain = ordered.claimed_at < believed_at;
        ordered.next_at = Some(believed_at.max(now));
        true
    }

    /// Plans the next call about a pending refund. After the last turn an operator must decide; a refund that was
    /// never made has then failed.
    fn take_turn(&mut self, i: usize, id: RefundId, log: &mut StepLog<'_>) {
        let refund = self.attempts[i].funds.refund(id);
        let Some((refund, ordered)) = refund.and_then(|it| Some((it, it.pending_order()?))) else {
            return;
        };
        let due = ordered.next_at.is_some_and(|at| at <= log.now);
        if !due {
            return;
        }
        let (begun, to_send) = (refund.created_at, refund.is_to_send());
        let turn = |number| log.schedule.turn(id.as_bytes(), begun, None, number);
        let mut number = ordered.asked;
        let mut next = turn(number);
        while next.is_some_and(|at| at <= log.now) {
            number += 1;
            next = turn(number);
        }
        if let Some(ordered) = self.order_of(i, id) {
            (ordered.asked, ordered.next_at) = (number, next);
        }
        if next.is_none() && to_send {
            let why = "the provider could not be reached in time: nothing was given back";
            let difference = self.never_made(i, id, why, log.now);
            self.after_refund(i, &difference, log);
        } else if next.is_none() {
            self.remark_once(log);
        }
    }

    /// Applies the consequences of an answer about a refund: ledger, timeline, review.
    fn after_refund(&mut self, i: usize, new: &Difference, log: &mut StepLog<'_>) {
        self.post(i, new.entries.clone(), log);
        if !new.revived.is_empty() || new.ended {
            self.remark_once(log);
        }
        if self.payment.status == Status::Completed
            || matches!(self.attempts[i].stage, Stage::Surplus { .. })
        {
            if !new.entries.is_empty() {
                self.remark_once(log);
            }
        } else {
            self.money_before_completion(i, new, log);
        }
    }
}
