//! Shared by the tests of the state machine: a payment with short methods for its steps.

mod capture;
mod decision;
mod ledger;
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
use crate::event::{EventSubject, EventType, RefundEvent};
use crate::id::{AccountId, AttemptId, Digest, MerchantId, PaymentId, RefundId, Slot};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Currency, Minor, Money, Rate};
use crate::movement::{Balance, Bucket, Movement, MovementKind};
use crate::order::{IdempotencyKey, OrderId};
use crate::payment::{
    Accepted, CheckoutMode, DecisionState, NewPayment, Origin, Payment, Request, Resolution,
    ReviewCause, Settlement, Status,
};
use crate::provider::{
    Dispute, DisputeKind, DisputeState, Given, Particulars, Payer, PayerAction, ProviderRefund,
    ProviderSettlement, ProviderStatus, QueryPurpose, RefundState, RefundTerms, Report,
};
use crate::refund::{Refund, RefundOrigin};
use crate::secret::Secret;
use crate::time::Time;
use crate::work::{WorkKey, WorkKind};

pub(super) const START: Time = Time::from_secs(1_000_000);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// Duration of the tests' claims.
pub(super) const LEASE: Duration = Duration::from_secs(60);
pub(super) const DUE: Minor = Minor(4990);

/// An aggregate with the results of its steps; invariants are checked after each.
pub(super) struct Shop {
    pub(super) aggregate: PaymentAggregate,
    pub(super) now: Time,
    pub(super) events: Vec<NewEvent>,
    pub(super) work: Vec<(WorkKind, AttemptId, Minor)>,
    /// Open items with their amounts.
    pub(super) items: Vec<(WorkKey, Minor)>,
    /// The whole ledger.
    pub(super) movements: Vec<Movement>,
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
        extras: crate::extras::Extras::default(),
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
        fee_refundable: false,
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
        digest: Digest::hash(b"module"),
        method,
        expires_at: now.after(HOUR),
        busy_until: now.after(LEASE),
        payer: Payer::default(),
        decision: None,
    }
}

/// A provider's report; of the full amount if it is completed.
pub(super) fn report(status: ProviderStatus) -> Report {
    let received = if status == ProviderStatus::Completed {
        DUE
    } else {
        Minor(0)
    };
    Report {
        reference: "ref".into(),
        status,
        settlement: ProviderSettlement::Pending,
        received,
        currency: "EUR".into(),
        returned: Minor(0),
        detail: String::new(),
        particulars: Particulars::default(),
    }
}

pub(super) fn confirmed() -> Report {
    Report {
        settlement: ProviderSettlement::Confirmed,
        ..report(ProviderStatus::Completed)
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

/// A merchant's order to refund a part of attempt 1, or all that is refundable.
pub(super) fn order(number: u8, amount: Option<u64>) -> NewRefund {
    NewRefund {
        id: refund_id(number),
        attempt: id(1),
        origin: RefundOrigin::Merchant,
        key: Some(IdempotencyKey::parse(&format!("refund-{number}")).unwrap()),
        amount: amount.map(Minor),
        reason: None,
        bucket: Bucket::Own,
        terms: Some(RefundTerms {
            method: MethodId::Ideal,
            parts: true,
            at_most: None,
            days: None,
            whole_units: Vec::new(),
        }),
    }
}

/// The provider's result for the refund with its id `re-<number>`.
pub(super) fn given(number: u8, state: RefundState) -> RefundAnswer {
    RefundAnswer::Given(Given {
        reference: format!("re-{number}"),
        state,
        claim_url: None,
        detail: String::new(),
        paid_out: None,
    })
}

/// The refund that an event reports.
pub(super) fn refund_of(event: &NewEvent) -> Option<&RefundEvent> {
    match &event.subject {
        Some(EventSubject::Refund(refund)) => Some(refund),
        _ => None,
    }
}

/// A report about attempt 1 with a dispute of 30.00, which is withdrawn once it is lost.
pub(super) fn disputed(state: DisputeState) -> Report {
    let mut report = confirmed();
    report.particulars.disputes.push(dispute("d", 3000, state));
    report
}

pub(super) fn dispute(id: &str, amount: u64, state: DisputeState) -> Dispute {
    Dispute {
        id: id.into(),
        kind: DisputeKind::Dispute,
        amount: Minor(amount),
        withdrawn: match state {
            DisputeState::Lost => Minor(amount),
            DisputeState::Open | DisputeState::Won => Minor::ZERO,
        },
        ends_by_refund: false,
        listed_as_refund: false,
        at: None,
        state,
        reason: None,
        respond_by: None,
    }
}

/// Returned money of attempt 1.
pub(super) fn returned(shop: &Shop) -> Minor {
    shop.attempt(1).funds.balance.total().returned
}

impl Shop {
    pub(super) fn new() -> Self {
        Self::with(payment(Environment::Test, false))
    }

    pub(super) fn risky() -> Self {
        Self::with(payment(Environment::Test, true))
    }

    pub(super) fn with(payment: Payment) -> Self {
        Self {
            aggregate: PaymentAggregate::new(payment),
            now: START,
            events: Vec::new(),
            work: Vec::new(),
            items: Vec::new(),
            movements: Vec::new(),
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

    /// A worker's call about a refund: claimed before, answered after.
    pub(super) fn call_refund(&mut self, refund: RefundId, answer: RefundAnswer) -> StepOutcome {
        self.claim_refund(refund).unwrap();
        self.refund_answered(refund, answer)
    }

    /// The result of a call that started now.
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

    /// The current state of a refund.
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
        self.events.extend(self.last.events.iter().cloned());
        self.movements.extend(self.last.movements.iter().cloned());
        for closed in &self.last.work_closed {
            self.items.retain(|(key, _)| key != closed);
        }
        for new in &self.last.work {
            self.items.retain(|(key, _)| *key != new.key);
            self.items.push((new.key.clone(), new.amount));
        }
        let items = self.items.iter();
        self.work = items
            .map(|(key, amount)| (key.kind, key.attempt, *amount))
            .collect();
        self.check_ledger();
        for line in &self.last.transitions {
            if !line.applied {
                self.unapplied += 1;
            } else if line.from != line.to {
                self.applied.push((line.from, line.to));
            }
        }
        Ok(outcome)
    }

    /// Invariants of the ledger: the balance follows from the movements, and each movement is booked once.
    fn check_ledger(&self) {
        for attempt in &self.aggregate.attempts {
            let own = self.movements.iter();
            let own = own.filter(|movement| movement.attempt == Some(attempt.id));
            let balance = Balance::from_movements(own);
            assert_eq!(balance, attempt.funds.balance, "state and ledger differ");
        }
        let ids = self.movements.iter().map(|movement| movement.id);
        let ids: std::collections::BTreeSet<_> = ids.collect();
        assert_eq!(
            ids.len(),
            self.movements.len(),
            "a movement was booked twice"
        );
        let times = self.movements.iter().map(|movement| movement.booked_at);
        assert!(times.is_sorted(), "booked before an earlier movement");
    }

    /// Movements of a kind, with bucket and amount.
    pub(super) fn booked(&self, kind: MovementKind) -> Vec<(Option<Bucket>, u64)> {
        let of_kind = self
            .movements
            .iter()
            .filter(|movement| movement.kind == kind);
        of_kind
            .map(|movement| (movement.bucket, movement.amount.0))
            .collect()
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

    /// The query that a worker would send about an attempt now.
    pub(super) fn asked(&self, number: u8) -> Query {
        let attempt = self.aggregate.attempt(id(number));
        let purpose = attempt.map_or(QueryPurpose::Sync, |attempt| match attempt.state() {
            AttemptState::Capturing => QueryPurpose::Capture,
            _ if attempt.stage.is_closing() => QueryPurpose::Cancel,
            _ => QueryPurpose::Sync,
        });
        Query {
            purpose,
            notices: attempt.map_or(0, |attempt| attempt.queries.notices()),
            held: attempt.and_then(|attempt| attempt.claim.busy_until()),
        }
    }

    pub(super) fn callback(&mut self, number: u8, status: ProviderStatus) -> StepOutcome {
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

    /// Closes an attempt, confirmed by the provider, so that the payer can choose another method.
    pub(super) fn close(&mut self, number: u8) {
        self.claim(number, ClaimPurpose::Cancel).unwrap();
        self.hear(number, report(ProviderStatus::Declined), Via::Query);
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
            accept: None,
            despite: Vec::new(),
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

    /// Approves with an amount instead of the invoice's.
    pub(super) fn accept(&mut self, amount: u64, currency: &str) -> Result<StepOutcome, Refusal> {
        self.review(|decision| {
            decision.accept = Some(Accepted {
                amount: Minor(amount),
                currency: currency.into(),
                usd: Some(Minor(amount)),
            });
        })
    }

    /// Approves despite pending refunds and open disputes.
    pub(super) fn approve_despite(&mut self, ids: &[String]) -> Result<StepOutcome, Refusal> {
        self.review(|decision| decision.despite = ids.to_vec())
    }

    pub(super) fn review(
        &mut self,
        change: impl Fn(&mut NewDecision),
    ) -> Result<StepOutcome, Refusal> {
        let mut decision = NewDecision {
            resolution: Resolution::Approve,
            settlement: None,
            vouch: false,
            accept: None,
            despite: Vec::new(),
            operator: "ops".into(),
            actor: "ann".into(),
            reason: "seen".into(),
        };
        change(&mut decision);
        self.act(Act::Review(Box::new(decision)))
    }

    pub(super) fn decline(&mut self) -> Result<StepOutcome, Refusal> {
        self.decide(Resolution::Decline, None, false)
    }

    pub(super) fn vouch(&mut self, settlement: Option<Settlement>) -> Result<StepOutcome, Refusal> {
        self.decide(Resolution::Approve, settlement, true)
    }

    /// State of the latest decision.
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
        self.attempt(number).state()
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
