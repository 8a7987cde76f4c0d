//! What the tests of the state machine share: a shop's payment, and its steps in short words.

mod capture;
mod decision;
mod random;
mod refund;
mod refund_books;
mod review;
mod start;
mod table;
mod takings;
mod told;
mod waiting;

use std::time::Duration;

use super::{
    Act, Change, ClaimPurpose, NewDecision, NewEvent, NewRefund, NextAction, PaymentAggregate,
    Query, QuerySchedule, RefundAnswer, Refusal, StartResult, Step, StepOutcome, Via,
};
use crate::attempt::{Attempt, AttemptState, Choice};
use crate::event::EventType;
use crate::id::{AccountId, AttemptId, Digest, MerchantId, PaymentId, RefundId, Slot};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Currency, Minor, Money, Rate};
use crate::order::{IdempotencyKey, OrderId};
use crate::payment::{
    CheckoutMode, DecisionState, NewPayment, Origin, Payment, Request, Resolution, ReviewCause,
    Settlement, Status,
};
use crate::provider::{
    Given, Particulars, Payer, PayerAction, QueryPurpose, RefundState, RefundTerms, Report,
    VendorRefund, VendorSettlement, VendorStatus,
};
use crate::refund::{Refund, RefundOrigin};
use crate::secret::Secret;
use crate::time::Time;
use crate::work::WorkKind;

pub(super) const START: Time = Time::from_secs(1_000_000);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long the tests hold an attempt.
pub(super) const LEASE: Duration = Duration::from_secs(60);
pub(super) const DUE: Minor = Minor(4990);

/// A aggregate with everything that its steps said, and the invariants checked after each.
pub(super) struct Shop {
    pub(super) aggregate: PaymentAggregate,
    pub(super) now: Time,
    pub(super) events: Vec<NewEvent>,
    pub(super) work: Vec<(WorkKind, AttemptId, Minor)>,
    pub(super) last: Change,
    pub(super) applied: Vec<(Status, Status)>,
    pub(super) unapplied: usize,
}

pub(super) fn payment(environment: Environment, risk_review: bool) -> Payment {
    let request = Request {
        merchant: MerchantId(1),
        origin: Origin::Merchant {
            idempotency_key: IdempotencyKey::parse("key-1-key-1-key-1").unwrap(),
        },
        environment,
        order_id: OrderId::parse("order-1").unwrap(),
        due: Money {
            amount: DUE,
            currency: Currency::EUR,
        },
        mode: CheckoutMode::Hosted,
        method: None,
        email: None,
        return_url: None,
    };
    let new = NewPayment {
        id: PaymentId::from_bytes([1; 16]),
        request,
        usd: Minor(5350),
        rate: Rate::parse("1.0721").unwrap(),
        rate_table: None,
        token: Secret::new("t"),
        expires_at: START.after(DAY),
        risk_review,
        decision: None,
    };
    Payment::new(new, None, START)
}

pub(super) fn id(number: u8) -> AttemptId {
    AttemptId::from_bytes([number; 16])
}

pub(super) fn choice(number: u8, method: MethodId, now: Time) -> Choice {
    Choice {
        attempt: id(number),
        return_token: Secret::new("r"),
        account: AccountId::parse("sandbox-test").unwrap(),
        slot: Slot::parse("provider.sandbox").unwrap(),
        digest: Digest::of(b"module"),
        method,
        expires_at: now.after(HOUR),
        busy_until: now.after(LEASE),
        payer: Payer::default(),
        decision: None,
    }
}

/// What the vendor says with the full amount where money was taken.
pub(super) fn report(status: VendorStatus) -> Report {
    let received = if status == VendorStatus::Completed {
        DUE
    } else {
        Minor(0)
    };
    Report {
        reference: "ref".into(),
        status,
        settlement: VendorSettlement::Pending,
        received,
        currency: "EUR".into(),
        returned: Minor(0),
        detail: String::new(),
        particulars: Particulars::default(),
    }
}

pub(super) fn confirmed() -> Report {
    Report {
        settlement: VendorSettlement::Confirmed,
        ..report(VendorStatus::Completed)
    }
}

pub(super) fn redirect() -> StartResult {
    StartResult::Open {
        reference: Some("ref".into()),
        action: PayerAction::Redirect("https://pay.example/1".into()),
        until: None,
    }
}

pub(super) fn refund_id(number: u8) -> RefundId {
    RefundId::from_bytes([0xf0 | number; 16])
}

/// An order of a merchant for a part of attempt 1, or for all that is left.
pub(super) fn order(number: u8, amount: Option<u64>) -> NewRefund {
    NewRefund {
        id: refund_id(number),
        attempt: id(1),
        origin: RefundOrigin::Merchant,
        key: Some(IdempotencyKey::parse(&format!("refund-{number}")).unwrap()),
        amount: amount.map(Minor),
        reason: None,
        line: None,
        terms: Some(RefundTerms {
            method: MethodId::Ideal,
            parts: true,
            at_most: None,
            days: None,
        }),
    }
}

/// What the vendor answers about the refund that it calls `re-<number>`.
pub(super) fn given(number: u8, state: RefundState) -> RefundAnswer {
    RefundAnswer::Given(Given {
        reference: format!("re-{number}"),
        state,
        claim_url: None,
        detail: String::new(),
    })
}

impl Shop {
    pub(super) fn new() -> Self {
        Self::of(payment(Environment::Test, false))
    }

    pub(super) fn risky() -> Self {
        Self::of(payment(Environment::Test, true))
    }

    pub(super) fn of(payment: Payment) -> Self {
        Self {
            aggregate: PaymentAggregate::new(payment),
            now: START,
            events: Vec::new(),
            work: Vec::new(),
            last: Change::default(),
            applied: Vec::new(),
            unapplied: 0,
        }
    }

    /// With attempt 1 captured and confirmed.
    pub(super) fn paid() -> Self {
        let mut shop = Self::started();
        shop.hear(1, confirmed(), Via::Query);
        shop
    }

    pub(super) fn refund(&mut self, new: NewRefund) -> Result<StepOutcome, Refusal> {
        self.try_step(Step::Refund(Box::new(new)))
    }

    /// A call about a refund, as a worker does it: claimed before, answered after.
    pub(super) fn call_refund(&mut self, refund: RefundId, answer: RefundAnswer) -> StepOutcome {
        self.claim_refund(refund).unwrap();
        self.refund_answered(refund, answer)
    }

    /// The answer of a call that began now.
    pub(super) fn refund_answered(
        &mut self,
        refund: RefundId,
        answer: RefundAnswer,
    ) -> StepOutcome {
        let held = self.now.after(LEASE);
        self.step(Step::RefundAnswered {
            refund,
            held,
            answer,
        })
    }

    pub(super) fn claim_refund(&mut self, refund: RefundId) -> Result<StepOutcome, Refusal> {
        let known = self.aggregate.refund(refund);
        let send = known.is_some_and(|(_, known)| known.is_to_send());
        let until = self.now.after(LEASE);
        self.try_step(Step::ClaimRefund {
            refund,
            send,
            until,
        })
    }

    /// A refund as it stands.
    pub(super) fn refunded(&self, number: u8) -> &Refund {
        self.aggregate.refund(refund_id(number)).unwrap().1
    }

    /// With attempt 1 waiting for the payer.
    pub(super) fn started() -> Self {
        let mut shop = Self::new();
        shop.start(1);
        shop
    }

    pub(super) fn try_step(&mut self, step: Step) -> Result<StepOutcome, Refusal> {
        let before = self.aggregate.clone();
        let outcome = match self
            .aggregate
            .step(step, self.now, &QuerySchedule::default())
        {
            Ok((outcome, change)) => {
                self.last = change;
                outcome
            }
            Err(refusal) => {
                assert_eq!(self.aggregate, before, "a refusal changed something");
                return Err(refusal);
            }
        };
        self.events.extend(self.last.events.iter().copied());
        for done in &self.last.work_done {
            self.work.retain(|(_, attempt, _)| attempt != done);
        }
        for (closed, line) in &self.last.work_closed {
            self.work
                .retain(|(kind, attempt, _)| (kind, attempt) != (line, closed));
        }
        for new in &self.last.work {
            self.work
                .retain(|(kind, attempt, _)| (*kind, *attempt) != (new.kind, new.attempt));
            self.work.push((new.kind, new.attempt, new.amount));
        }
        for line in &self.last.transitions {
            if !line.applied {
                self.unapplied += 1;
            } else if line.from != line.to {
                self.applied.push((line.from, line.to));
            }
        }
        Ok(outcome)
    }

    pub(super) fn step(&mut self, step: Step) -> StepOutcome {
        self.try_step(step).unwrap()
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    pub(super) fn open(&mut self, number: u8) -> Result<StepOutcome, Refusal> {
        let choice = choice(number, MethodId::Ideal, self.now);
        self.try_step(Step::Open(Box::new(choice)))
    }

    pub(super) fn result(&mut self, number: u8, result: StartResult) -> StepOutcome {
        self.step(Step::Started {
            held: None,
            attempt: id(number),
            result,
            next: None,
        })
    }

    pub(super) fn start(&mut self, number: u8) {
        self.open(number).unwrap();
        self.result(number, redirect());
    }

    pub(super) fn hear(&mut self, number: u8, report: Report, via: Via) -> StepOutcome {
        let asked = (via != Via::Callback).then(|| self.asked(number));
        self.step(Step::Report {
            attempt: id(number),
            report,
            via,
            asked,
        })
    }

    /// The question that a worker would ask of an attempt now.
    pub(super) fn asked(&self, number: u8) -> Query {
        let attempt = self.aggregate.attempt(id(number));
        let purpose = attempt.map_or(QueryPurpose::Sync, |attempt| match attempt.state {
            AttemptState::Capturing => QueryPurpose::Capture,
            _ if attempt.closing => QueryPurpose::Cancel,
            _ => QueryPurpose::Sync,
        });
        Query {
            purpose,
            notices: attempt.map_or(0, |attempt| attempt.notices),
            held: attempt.and_then(|attempt| attempt.busy_until),
        }
    }

    pub(super) fn callback(&mut self, number: u8, status: VendorStatus) -> StepOutcome {
        self.hear(number, report(status), Via::Callback)
    }

    pub(super) fn claim(
        &mut self,
        number: u8,
        purpose: ClaimPurpose,
    ) -> Result<StepOutcome, Refusal> {
        let until = self.now.after(LEASE);
        self.try_step(Step::Claim {
            attempt: id(number),
            purpose,
            until,
        })
    }

    pub(super) fn silent(
        &mut self,
        number: u8,
        purpose: QueryPurpose,
        absent: bool,
    ) -> StepOutcome {
        let asked = Query {
            purpose,
            ..self.asked(number)
        };
        self.step(Step::QueryFailed {
            attempt: id(number),
            asked,
            absent,
            scheduled: purpose == QueryPurpose::Sync,
        })
    }

    /// Closes an attempt with the vendor's word, so that another way can be chosen.
    pub(super) fn close(&mut self, number: u8) {
        self.claim(number, ClaimPurpose::Cancel).unwrap();
        self.hear(number, report(VendorStatus::Declined), Via::Query);
    }

    pub(super) fn decide(
        &mut self,
        resolution: Resolution,
        settlement: Option<Settlement>,
        vouch: bool,
    ) -> Result<StepOutcome, Refusal> {
        self.act(Act::Review(Box::new(NewDecision {
            resolution,
            settlement,
            vouch,
            operator: "ops".into(),
            actor: "ann".into(),
            reason: "seen".into(),
        })))
    }

    pub(super) fn approve(
        &mut self,
        settlement: Option<Settlement>,
    ) -> Result<StepOutcome, Refusal> {
        self.decide(Resolution::Approve, settlement, false)
    }

    pub(super) fn decline(&mut self) -> Result<StepOutcome, Refusal> {
        self.decide(Resolution::Decline, None, false)
    }

    pub(super) fn vouch(&mut self, settlement: Option<Settlement>) -> Result<StepOutcome, Refusal> {
        self.decide(Resolution::Approve, settlement, true)
    }

    /// Where the last decision stands.
    pub(super) fn decided(&self) -> DecisionState {
        self.aggregate.payment.decision.as_ref().unwrap().state
    }

    pub(super) fn act(&mut self, act: Act) -> Result<StepOutcome, Refusal> {
        self.try_step(Step::Act(act))
    }

    pub(super) fn status(&self) -> Status {
        self.aggregate.payment.status
    }

    pub(super) fn settlement(&self) -> Settlement {
        self.aggregate.payment.settlement
    }

    pub(super) fn attempt(&self, number: u8) -> &Attempt {
        self.aggregate.attempt(id(number)).unwrap()
    }

    pub(super) fn state(&self, number: u8) -> AttemptState {
        self.attempt(number).state
    }

    pub(super) fn next_action(&self) -> Option<NextAction> {
        self.aggregate.next_action(self.now)
    }

    pub(super) fn told(&self, event: EventType) -> usize {
        self.events.iter().filter(|told| told.kind == event).count()
    }

    pub(super) fn listed(&self, number: u8) -> Vec<WorkKind> {
        self.work
            .iter()
            .filter(|(_, attempt, _)| *attempt == id(number))
            .map(|(kind, ..)| *kind)
            .collect()
    }
}
