//! The reference's refunds: how much may be given back, and what becomes of an order.

use kassette_domain::attempt::AttemptState;
use kassette_domain::id::RefundId;
use kassette_domain::lifecycle::{NewRefund, RefundAnswer, Refusal};
use kassette_domain::money::Minor;
use kassette_domain::payment::{ReviewCause, Status};
use kassette_domain::refund::RefundOrigin;
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::attempt::Attempt;
use crate::law::BELIEVED_AFTER;
use crate::payment::{Payment, Reply, StepReport};
use crate::returns::{Back, Ended, MOST_REFUNDS, Order};
use crate::steps::{Asked, Exhausted};

/// The first field in which an order of a used key differs.
pub(crate) fn difference(known: &Order, new: &NewRefund) -> Option<&'static str> {
    let all = known.asked.0.is_none();
    let amount = match new.amount {
        None => all,
        Some(amount) => amount.0 == known.amount,
    };
    if known.origin != new.origin {
        Some("idempotency_key")
    } else if known.line != new.line.map(|(kind, _)| kind) {
        Some("work")
    } else if !amount {
        Some("amount")
    } else if known.asked.1 != new.reason {
        Some("reason")
    } else {
        None
    }
}

impl Attempt {
    /// Money that the provider has taken.
    fn taken(&self) -> u64 {
        let has = matches!(self.state, AttemptState::Captured | AttemptState::Surplus);
        let facts = self.facts.as_ref().filter(|_| has);
        facts.map_or(0, |facts| facts.received)
    }

    fn left(&self) -> u64 {
        self.taken().saturating_sub(self.returns.committed())
    }
}

impl Payment {
    fn find_order(&self, id: RefundId) -> Result<(usize, usize), Refusal> {
        let of = |(at, attempt): (usize, &Attempt)| {
            let orders = &attempt.returns.orders;
            Some((at, orders.iter().position(|order| order.id == id)?))
        };
        let mut attempts = self.attempts.iter().enumerate();
        attempts.find_map(of).ok_or(Refusal::NoSuchRefund)
    }

    pub(crate) fn order(
        &mut self,
        new: &NewRefund,
        now: Time,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        let at = self.find(new.attempt)?;
        let amount = self.may_give(at, new)?;
        let order = Order::new(new, amount, now);
        self.attempts[at].returns.orders.push(order);
        told.lines += 1;
        Ok(Reply::Done)
    }

    /// How much an order gives back.
    fn may_give(&self, at: usize, new: &NewRefund) -> Result<u64, Refusal> {
        let attempt = &self.attempts[at];
        let returns = &attempt.returns;
        let merchant = new.origin == RefundOrigin::Merchant;
        if merchant && self.status != Status::Completed {
            return Err(Refusal::WrongStatus(self.status));
        }
        let Some(terms) = &new.terms else {
            return Err(Refusal::CannotRefund);
        };
        let own = attempt.state == AttemptState::Captured;
        let code = self.due.currency.code();
        let foreign = attempt
            .facts
            .as_ref()
            .is_some_and(|facts| facts.currency != code);
        if merchant && own && foreign {
            return Err(Refusal::OtherCurrency);
        }
        // A merchant's is the invoice; what operators gave back of an excess is not its own.
        let gone = returns.committed() - returns.for_line(WorkKind::Excess, true);
        let left = match (merchant, new.line) {
            (true, _) if !own => 0,
            (true, _) => attempt.left().min(self.due.amount.0.saturating_sub(gone)),
            (false, Some((_, line))) => attempt.left().min(line.0),
            (false, None) => attempt.left(),
        };
        let amount = new.amount.map_or(left, |amount| amount.0);
        if amount == 0 || amount > left {
            return Err(Refusal::MoreThanLeft { left: Minor(left) });
        }
        let most = terms.at_most.map_or(usize::MAX, |most| most as usize);
        if returns.count_not_failed() >= most || returns.count() >= MOST_REFUNDS {
            return Err(Refusal::TooManyRefunds);
        }
        if !terms.parts && amount != attempt.taken() {
            let received = Minor(attempt.taken());
            return Err(Refusal::WholeOnly { received });
        }
        Ok(amount)
    }

    pub(crate) fn claim_order(
        &mut self,
        id: RefundId,
        send: bool,
        until: Time,
        now: Time,
    ) -> Result<Reply, Refusal> {
        let (at, nth) = self.find_order(id)?;
        let order = &mut self.attempts[at].returns.orders[nth];
        if !order.is_pending() || order.is_to_send() != send {
            return Err(Refusal::WrongRefund);
        }
        if let Some(busy) = order.busy.filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        (order.claimed, order.busy) = (now, Some(until));
        if send {
            order.uncertain = true;
            order.sent = until;
        }
        Ok(Reply::Done)
    }

    pub(crate) fn order_answered(
        &mut self,
        id: RefundId,
        held: Time,
        answer: &RefundAnswer,
        now: Time,
        exhausted: Exhausted<'_>,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        let (at, nth) = self.find_order(id)?;
        let returns = &mut self.attempts[at].returns;
        let order = &mut returns.orders[nth];
        let pending = order.is_pending();
        let holds = pending && order.busy == Some(held);
        if holds {
            order.busy = None;
        } else if !matches!(answer, RefundAnswer::Given(_)) {
            return Ok(Reply::Nothing);
        }
        let mut back = Back::default();
        match answer {
            RefundAnswer::Given(given) => {
                returns.answer(nth, &given.reference, given.state, now, &mut back);
            }
            RefundAnswer::Refused(_) => returns.never_made(nth, &mut back),
            RefundAnswer::Unavailable(_) if pending => order.uncertain = false,
            RefundAnswer::Absent if pending && order.reference.is_none() => {
                let believed = order.sent.after(BELIEVED_AFTER);
                order.uncertain = order.claimed < believed;
                order.next = Some(believed.max(now));
                return Ok(Reply::Done);
            }
            _ => {}
        }
        self.went_back(at, &back, told);
        let order = &self.attempts[at].returns.orders[nth];
        let due = order.is_pending() && order.next.is_some_and(|next| next <= now);
        if due && exhausted(Asked::Refund(id)) {
            if order.is_to_send() {
                let mut back = Back::default();
                self.attempts[at].returns.never_made(nth, &mut back);
                self.went_back(at, &back, told);
            } else {
                self.list(at, WorkKind::Refund, order.amount, told);
                told.lines += 1;
            }
        }
        self.pursue(now, told);
        Ok(if told.lines > 0 {
            Reply::Done
        } else {
            Reply::Nothing
        })
    }

    /// What follows from money that went back of an attempt that had taken some.
    pub(crate) fn went_back(&mut self, at: usize, back: &Back, told: &mut StepReport) {
        let attempt = &self.attempts[at];
        let (total, own) = (
            attempt.returns.total(),
            attempt.state == AttemptState::Captured,
        );
        let completed = own && self.status == Status::Completed;
        let elsewhere = back.given.iter().any(|given| given.order.is_none());
        let lost = !completed && back.more && back.given.is_empty();
        if own && !completed {
            if back.more {
                self.review(ReviewCause::Refund, told);
                told.lines += 1;
            }
        } else if elsewhere || lost || (back.less && back.failed.is_empty()) {
            self.list(at, WorkKind::Refund, total, told);
            told.lines += 1;
        }
        for failed in &back.failed {
            self.list(at, WorkKind::Refund, failed.amount, told);
            told.lines += 1;
            if failed.late {
                self.settle_line(at, failed, told);
            }
        }
        for (_, amount) in &back.revived {
            self.list(at, WorkKind::Refund, *amount, told);
            told.lines += 1;
        }
        for given in &back.given {
            if given.order.is_some() || completed {
                told.refunded.push((given.order, given.amount));
            }
            told.lines += usize::from(given.order.is_some());
            self.settle_line(at, given, told);
        }
    }

    /// The line that money was given back for: closed with the last of it.
    fn settle_line(&self, at: usize, ended: &Ended, told: &mut StepReport) {
        let Some(line) = ended.line else { return };
        let attempt = &self.attempts[at];
        let rest = match line {
            WorkKind::Excess => {
                let given = attempt.returns.for_line(line, false);
                attempt.excess().saturating_sub(given)
            }
            _ if attempt.state == AttemptState::Surplus => {
                attempt.taken().saturating_sub(attempt.returns.total())
            }
            _ => return,
        };
        if rest > 0 {
            self.list(at, line, rest, told);
        } else {
            told.closed.push((attempt.id, line));
        }
    }
}
