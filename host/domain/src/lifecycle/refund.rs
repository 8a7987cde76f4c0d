//! Money that is given back: ordered in one transaction before the vendor is asked, then sent, asked about
//! until it is known what became of it, and told once.

use std::time::Duration;

use super::moves::StepLog;
use super::query_failed::{ABSENT_AFTER, sooner};
use super::{PaymentAggregate, Refusal, StepOutcome};
use crate::attempt::{Attempt, AttemptState};
use crate::event::GivenBack;
use crate::id::{AttemptId, RefundId};
use crate::money::Minor;
use crate::order::IdempotencyKey;
use crate::payment::{ReviewCause, Status};
use crate::provider::{Given, RefundState, RefundTerms};
use crate::refund::{Ordered, Refund, RefundOrigin};
use crate::returns::{Difference, Returns, failed};
use crate::time::Time;
use crate::work::WorkKind;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An order to give money back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefund {
    /// Its id, drawn by the caller.
    pub id: RefundId,
    /// The attempt that received the money.
    pub attempt: AttemptId,
    /// [`RefundOrigin::Merchant`] or [`RefundOrigin::Operator`].
    pub origin: RefundOrigin,
    /// Makes the request idempotent.
    pub key: Option<IdempotencyKey>,
    /// Minor units of the currency received; none: all that is left.
    pub amount: Option<Minor>,
    /// The merchant's reason, which the payer may see.
    pub reason: Option<String>,
    /// The attempt's line on the work list that it settles, with its amount: no more than that is given.
    pub line: Option<(WorkKind, Minor)>,
    /// What the account's module lets be given back; none where it cannot give back at all.
    pub terms: Option<RefundTerms>,
}

impl NewRefund {
    /// The first field in which it differs from a refund of the same idempotency key; none makes it a
    /// replay.
    pub fn differs(&self, known: &Refund) -> Option<&'static str> {
        let ordered = known.ordered.as_ref()?;
        let amount = match self.amount {
            None => ordered.all,
            Some(amount) => amount == known.amount,
        };
        [
            (self.origin == known.origin, "idempotency_key"),
            (self.line.map(|(kind, _)| kind) == ordered.line, "work"),
            (amount, "amount"),
            (self.reason == ordered.reason, "reason"),
        ]
        .into_iter()
        .find_map(|(same, field)| (!same).then_some(field))
    }
}

/// What became of a call about a refund. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundAnswer {
    /// The vendor has it.
    Given(Given),
    /// The vendor will not make it; surely nothing was created.
    Refused(String),
    /// Surely nothing was created: it is sent again later.
    Unavailable(String),
    /// It may exist, or the question had no certain answer.
    Uncertain(String),
    /// The vendor has no such refund.
    Absent,
}

impl Attempt {
    /// The code of the currency that was received.
    pub fn received_currency(&self) -> &str {
        let facts = self.vendor.as_ref();
        facts.map_or_else(|| self.due.currency.code(), |facts| &facts.currency)
    }

    /// Money of it that the vendor has taken for us, returned or not.
    fn taken(&self) -> Minor {
        let holds = matches!(self.state, AttemptState::Captured | AttemptState::Surplus);
        let facts = self.vendor.as_ref().filter(|_| holds);
        facts.map_or(Minor(0), |facts| facts.received)
    }

    /// Money of it that is neither gone nor on its way.
    pub fn left(&self) -> Minor {
        less(self.taken(), self.returns.committed())
    }

    /// What a merchant can still give back of it: at most the invoice's amount. What operators give back of
    /// an excess does not count.
    fn left_to_merchant(&self) -> Minor {
        let committed = self.returns.committed();
        let own = less(committed, self.returns.committed_for(WorkKind::Excess));
        self.left().min(less(self.due.amount, own))
    }
}

impl PaymentAggregate {
    /// Every refund with its attempt, the newest first.
    pub fn refunds(&self) -> Vec<(&Attempt, &Refund)> {
        let of = |attempt| move |refund| (attempt, refund);
        let each = |attempt: &'_ Attempt| attempt.returns.refunds.len();
        let mut all = Vec::with_capacity(self.attempts.iter().map(each).sum());
        for attempt in self.attempts.iter().rev() {
            all.extend(attempt.returns.refunds.iter().rev().map(of(attempt)));
        }
        // Stable: those of one moment stay as they were ordered.
        all.sort_by_key(|(_, refund)| std::cmp::Reverse(refund.created_at));
        all
    }

    /// A refund by its id, with its attempt.
    pub fn refund(&self, id: RefundId) -> Option<(&Attempt, &Refund)> {
        self.attempts
            .iter()
            .find_map(|attempt| Some((attempt, attempt.returns.refund(id)?)))
    }

    /// The attempt whose money is given back where none is named: the one that holds the payment's money. Where
    /// nothing of that is left, an operator gives back money of the oldest attempt that has some left.
    pub fn attempt_to_refund(&self, origin: RefundOrigin) -> Option<&Attempt> {
        let own = self.captured().map(|i| &self.attempts[i]);
        if origin == RefundOrigin::Merchant || own.is_some_and(|own| own.left() > Minor(0)) {
            return own;
        }
        let some_left = |attempt: &&Attempt| attempt.left() > Minor(0);
        self.attempts.iter().find(some_left).or(own)
    }

    /// What was given back of the payment's own money, minor units of the currency received.
    pub fn refunded_amount(&self) -> Minor {
        self.captured()
            .map_or(Minor(0), |i| self.attempts[i].returns.refunded())
    }

    fn index_of_refund(&self, id: RefundId) -> Result<usize, Refusal> {
        self.attempts
            .iter()
            .position(|attempt| attempt.returns.refund(id).is_some())
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
            "{}: {amount} {} is to be given back at {}",
            new.origin.as_str(),
            attempt.received_currency(),
            attempt.account
        );
        attempt.returns.refunds.push(Refund {
            id: new.id,
            reference: None,
            amount,
            state: RefundState::Pending,
            origin: new.origin,
            at: log.now,
            created_at: log.now,
            claim_url: None,
            detail: String::new(),
            in_sum: Minor(0),
            ordered: Some(Box::new(Ordered {
                key: new.key,
                all: new.amount.is_none(),
                reason: new.reason,
                line: new.line.map(|(kind, _)| kind),
                uncertain: false,
                last_sent: Time::default(),
                claimed_at: Time::default(),
                busy_until: None,
                next_at: Some(log.now),
                asked: 0,
            })),
        });
        self.remark(log);
        Ok(StepOutcome::Done)
    }

    /// How much an order gives back, where it may.
    fn may_refund(&self, i: usize, new: &NewRefund, now: Time) -> Result<Minor, Refusal> {
        let attempt = &self.attempts[i];
        let status = self.payment.status;
        let by_merchant = new.origin == RefundOrigin::Merchant;
        if by_merchant && status != Status::Completed {
            return Err(Refusal::WrongStatus(status));
        }
        let terms = new.terms.as_ref().ok_or(Refusal::CannotRefund)?;
        let left = if by_merchant {
            let own = attempt.state == AttemptState::Captured;
            if own && attempt.received_currency() != attempt.due.currency.code() {
                return Err(Refusal::OtherCurrency);
            }
            if own {
                attempt.left_to_merchant()
            } else {
                Minor(0)
            }
        } else {
            let line = new.line.map_or(Minor(u64::MAX), |(_, amount)| amount);
            attempt.left().min(line)
        };
        let amount = new.amount.unwrap_or(left);
        if amount > left || amount == Minor(0) {
            return Err(Refusal::MoreThanLeft { left });
        }
        let since = attempt.particulars.captured_at.or(attempt.ended_at);
        if let (Some(days), Some(since)) = (terms.days, since)
            && now.since(since) > DAY * days
        {
            return Err(Refusal::RefundTooLate { days });
        }
        let made = attempt
            .returns
            .refunds
            .iter()
            .filter(|refund| refund.counts());
        let most = terms.at_most.map_or(usize::MAX, |most| most as usize);
        if made.count() >= most || attempt.returns.refunds.len() >= Returns::MOST {
            return Err(Refusal::TooManyRefunds);
        }
        let received = attempt.taken();
        if !terms.parts && amount != received {
            return Err(Refusal::WholeOnly { received });
        }
        Ok(amount)
    }

    pub(super) fn claim_refund(
        &mut self,
        id: RefundId,
        send: bool,
        until: Time,
        now: Time,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index_of_refund(id)?;
        let refund = self.attempts[i].returns.refund_mut(id);
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
            // A task that is lost takes the outcome with it.
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
            // Another call may be under way by now.
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
                let heard = attempt.returns.answer(id, &given, attempt.id, log.now);
                if heard.is_none() {
                    self.say(i, id, "the provider answered with another refund");
                }
                heard.unwrap_or_default()
            }
            RefundAnswer::Refused(why) => {
                // The vendor may know of money that is gone and of which no notice has told.
                let attempt = &mut self.attempts[i];
                attempt.next_query = sooner(attempt.next_query, log.now);
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
        self.went_back(i, &difference, log);
        self.take_turn(i, id, log);
        self.pursue(log);
        Ok(if log.change.transitions.is_empty() {
            StepOutcome::Nothing
        } else {
            StepOutcome::Done
        })
    }

    /// The order of a refund that has not ended.
    fn order_of(&mut self, i: usize, id: RefundId) -> Option<&mut Ordered> {
        let refund = self.attempts[i].returns.refund_mut(id)?;
        let pending = refund.state == RefundState::Pending;
        refund.ordered.as_deref_mut().filter(|_| pending)
    }

    /// Keeps why a refund has not ended.
    fn say(&mut self, i: usize, id: RefundId, why: &str) {
        let refund = self.attempts[i].returns.refund_mut(id);
        if let Some(refund) = refund.filter(|refund| refund.state == RefundState::Pending) {
            why.clone_into(&mut refund.detail);
        }
    }

    /// Ends a refund that surely was never made. What the vendor has told of is not.
    fn never_made(&mut self, i: usize, id: RefundId, why: &str, now: Time) -> Difference {
        let mut difference = Difference::default();
        let refund = self.attempts[i].returns.refund_mut(id);
        let unheard = |refund: &&mut Refund| {
            refund.state == RefundState::Pending && refund.reference.is_none()
        };
        if let Some(refund) = refund.filter(unheard) {
            (refund.state, refund.at) = (RefundState::Failed, now);
            why.clone_into(&mut refund.detail);
            difference.failed.push(failed(refund, false));
        }
        difference
    }

    /// Applies the vendor's answer that it has no such refund. The refund is sent, if no request to make it could
    /// be under way any more when the vendor was asked; otherwise the vendor is asked again. Returns false where
    /// the vendor has told of the refund before: then the answer proves nothing.
    fn is_absent(&mut self, i: usize, id: RefundId, now: Time) -> bool {
        let refund = self.attempts[i].returns.refund(id);
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

    /// When a refund that has not ended is sent or asked about next. After the last turn a person looks; what
    /// was surely never made has failed then.
    fn take_turn(&mut self, i: usize, id: RefundId, log: &mut StepLog<'_>) {
        let refund = self.attempts[i].returns.refund(id);
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
            self.went_back(i, &difference, log);
        } else if next.is_none() {
            let amount = self.attempts[i]
                .returns
                .refund(id)
                .map(|refund| refund.amount);
            let detail = "it is not known what became of a refund";
            self.work(i, WorkKind::Refund, amount.unwrap_or_default(), detail, log);
            self.remark_once(log);
        }
    }

    /// Does what follows from money that went back of an attempt that took some, or came back after all.
    pub(super) fn went_back(&mut self, i: usize, returned: &Difference, log: &mut StepLog<'_>) {
        let total = self.attempts[i].returns.total();
        if let Some(facts) = &mut self.attempts[i].vendor {
            facts.returned = total;
        }
        let own = self.attempts[i].state == AttemptState::Captured;
        let completed = own && self.payment.status == Status::Completed;
        if own && !completed {
            if returned.more {
                self.review(ReviewCause::Refund, log);
                self.remark_once(log);
            }
        } else {
            self.returned_elsewhere(i, returned, completed, log);
        }
        for refund in &returned.failed {
            let detail = if refund.late {
                "a refund failed after it had succeeded: its amount can be given back again"
            } else {
                "a refund failed"
            };
            self.work(i, WorkKind::Refund, refund.amount, detail, log);
            self.remark_once(log);
            if let Some(line) = refund.line.filter(|_| refund.late) {
                self.settle_line(i, line, log);
            }
        }
        if self.attempts[i].returns.is_sum_in_doubt() {
            let attempt = &mut self.attempts[i];
            attempt.next_query = sooner(attempt.next_query, log.now);
        }
        for id in &returned.revived {
            let amount = self.attempts[i]
                .returns
                .refund(*id)
                .map(|refund| refund.amount);
            let detail = "the provider made a refund that it had refused or not known";
            self.work(i, WorkKind::Refund, amount.unwrap_or_default(), detail, log);
            self.remark_once(log);
        }
        for refund in &returned.succeeded {
            if refund.ordered || completed {
                let (refund, amount) = (refund.id, refund.amount);
                self.tell_refund(GivenBack { refund, amount }, log);
            }
            if refund.ordered {
                self.remark_once(log);
            }
            if let Some(line) = refund.line {
                self.settle_line(i, line, log);
            }
        }
    }

    /// Puts on the work list what was given back elsewhere, and what came back.
    fn returned_elsewhere(
        &self,
        i: usize,
        returned: &Difference,
        completed: bool,
        log: &mut StepLog<'_>,
    ) {
        let lost = !completed && returned.more && returned.succeeded.is_empty();
        let detail = if returned.is_elsewhere() || lost {
            if completed {
                "the provider reports money as returned"
            } else {
                "the provider reports money as returned that was not the payment's"
            }
        } else if returned.less && returned.failed.is_empty() {
            "a refund failed or a dispute was won: less is returned than before"
        } else {
            return;
        };
        let total = self.attempts[i].returns.total();
        self.work(i, WorkKind::Refund, total, detail, log);
        if completed {
            self.remark(log);
        } else {
            self.remark_once(log);
        }
    }

    /// A line of the work list that money was given back for: closed where that was all of it.
    fn settle_line(&self, i: usize, line: WorkKind, log: &mut StepLog<'_>) {
        let attempt = &self.attempts[i];
        let rest = if line == WorkKind::Excess {
            less(self.excess(i), attempt.returns.refunded_for(line))
        } else if attempt.state == AttemptState::Surplus {
            less(attempt.taken(), attempt.returns.total())
        } else {
            // The payment was approved with it meanwhile, which settled the line.
            return;
        };
        if rest == Minor(0) {
            log.change.work_closed.push((attempt.id, line));
        } else {
            let detail = "a part of it was given back";
            self.work(i, line, rest, detail, log);
        }
    }
}

const fn less(amount: Minor, by: Minor) -> Minor {
    Minor(amount.0.saturating_sub(by.0))
}
