//! The model in memory: the payment aggregates, and the data that a store keeps in addition.

use std::collections::{BTreeMap, HashMap};

use kassette_domain::event::EventType;
use kassette_domain::extras::NotesKept;
use kassette_domain::id::{AccountId, AttemptId, MovementId, PaymentId, RefundId, WorkId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{
    Change, NewCorrection, NewRefund, NewWork, PaymentAggregate, QuerySchedule, Refusal, Step,
    StepOutcome, Via,
};
use kassette_domain::movement::{Bucket, Movement, MovementKind};
use kassette_domain::order::Email;
use kassette_domain::payment::{NewPayment, Origin, Payment, Request, Settlement, Status};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKey, WorkKind};
use kassette_store::CLOSES_AFTER;

/// Time for which a callback waits for its reference.
const KEPT_FOR: std::time::Duration = std::time::Duration::from_secs(3600);
/// Maximum number of waiting callbacks for a reference.
const MAX_KEPT: usize = 32;

/// A payment, and the records written with it.
pub(crate) struct Account {
    pub(crate) aggregate: PaymentAggregate,
    pub(crate) request: Request,
    pub(crate) events: Vec<(Time, EventType, Status, Settlement)>,
    pub(crate) transitions: Vec<kassette_domain::lifecycle::Transition>,
}

impl Account {
    pub(crate) fn email(&self) -> Option<&Email> {
        self.request.email.as_ref()
    }
}

/// A waiting callback: its report and its time of arrival.
type Kept = (Option<Report>, Time);

/// All data about payments that a store keeps.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) schedule: QuerySchedule,
    pub(crate) payments: HashMap<PaymentId, Account>,
    pub(crate) references: HashMap<(AccountId, String), AttemptId>,
    pub(crate) kept: HashMap<(AccountId, String), Vec<Kept>>,
    pub(crate) refund_keys:
        HashMap<(&'static str, u64, Environment, String), (PaymentId, RefundId)>,
    /// Their IDs are nil, because each store draws its own.
    pub(crate) work: Vec<WorkItem>,
    pub(crate) movements: BTreeMap<(Option<PaymentId>, MovementId), Movement>,
    pub(crate) closed_until: Time,
    /// Number of audit log entries.
    pub(crate) audits: u64,
}

/// Result of a step.
pub(crate) enum Done {
    Unknown,
    Refused(Refusal),
    ReferenceTaken,
    /// With whether callbacks were applied in the step.
    Stepped(StepOutcome, Box<Change>, bool),
}

/// Result of a refund order.
pub(crate) enum Ordered {
    Unknown,
    Replay(RefundId),
    Differs(&'static str),
    LineClosed,
    Stepped(Done),
}

impl Memory {
    /// The payment that an earlier request with the same reference created.
    pub(crate) fn made(&self, request: &Request) -> Option<&Account> {
        self.payments.values().find(|account| {
            let known = &account.request;
            let same_space = match known.origin {
                Origin::Merchant { .. } => known.merchant == request.merchant,
                Origin::Reseller { .. } => true,
            };
            same_space && known.origin == request.origin
        })
    }

    /// `marks` are the store's hashes of the address and of the notes.
    pub(crate) fn create(
        &mut self,
        new: NewPayment,
        (email, notes): (Option<[u8; 32]>, Option<NotesKept>),
        now: Time,
    ) -> Payment {
        let request = new.request.clone();
        let mut payment = Payment::new(new, email, now);
        payment.notes = notes;
        let account = Account {
            aggregate: PaymentAggregate::new(payment.clone()),
            request,
            events: Vec::new(),
            transitions: Vec::new(),
        };
        self.payments.insert(payment.id, account);
        payment
    }

    /// The payment of an attempt. `None` if no payment has it.
    pub(crate) fn payment_of(&self, attempt: AttemptId) -> Option<PaymentId> {
        let has = |account: &&Account| account.aggregate.attempt(attempt).is_some();
        let account = self.payments.values().find(has)?;
        Some(account.aggregate.payment.id)
    }

    pub(crate) fn payment_of_refund(&self, refund: RefundId) -> Option<PaymentId> {
        let has = |account: &&Account| account.aggregate.refund(refund).is_some();
        let account = self.payments.values().find(has)?;
        Some(account.aggregate.payment.id)
    }

    fn are_free(&self, aggregate: &PaymentAggregate, change: &Change) -> bool {
        change.references.iter().all(|(attempt, reference)| {
            let account = aggregate.attempt(*attempt).unwrap().account.clone();
            let known = self.references.get(&(account, reference.clone()));
            known.is_none_or(|known| known == attempt)
        })
    }

    /// Performs a step and records its effects.
    pub(crate) fn step(
        &mut self,
        id: Option<PaymentId>,
        step: &Step,
        audited: bool,
        now: Time,
    ) -> Done {
        let Some(account) = id.and_then(|id| self.payments.get(&id)) else {
            return Done::Unknown;
        };
        let mut aggregate = account.aggregate.clone();
        if let Step::Correct(new) = step
            && let Some(attempt) = aggregate.attempt(new.attempt)
            && self.movements.contains_key(&(
                id,
                MovementId::derived(
                    &attempt.account,
                    &NewCorrection::object(&new.key),
                    MovementKind::Correction,
                    0,
                ),
            ))
        {
            return Done::Stepped(StepOutcome::Nothing, Box::default(), false);
        }
        let (outcome, mut change) = match aggregate.step(step.clone(), now, &self.schedule) {
            Ok(done) => done,
            Err(refusal) => return Done::Refused(refusal),
        };
        if !self.are_free(&aggregate, &change) {
            return Done::ReferenceTaken;
        }
        self.audits += u64::from(audited && outcome != StepOutcome::Nothing);
        let mut changes = Vec::new();
        let (mut seen, mut last) = (0, account.aggregate.payment.last_booked);
        let mut applied = false;
        let mut references = change.references.clone();
        while let Some((attempt, reference)) = references.get(seen).cloned() {
            seen += 1;
            let at = aggregate.attempt(attempt).unwrap().account.clone();
            for (report, until) in self.kept.remove(&(at, reference)).unwrap_or_default() {
                if until <= now {
                    continue;
                }
                let step = match report {
                    Some(report) => Step::Report {
                        attempt,
                        report,
                        via: Via::Callback,
                        asked: None,
                    },
                    None => Step::AskAt { attempt, at: now },
                };
                applied = true;
                let mut next = aggregate.clone();
                if let Ok((_, more)) = next.step(step, now, &self.schedule)
                    && self.are_free(&next, &more)
                {
                    aggregate = next;
                    references.extend(more.references.clone());
                    changes.push(more);
                }
            }
        }
        for change in std::iter::once(&mut change).chain(&mut changes) {
            for movement in &mut change.movements {
                last = last.max(movement.booked_at).max(self.closed_until);
                movement.booked_at = last;
            }
        }
        aggregate.payment.last_booked = last;
        for change in std::iter::once(&change).chain(&changes) {
            self.keep(&aggregate, change, now);
        }
        let id = aggregate.payment.id;
        self.payments.get_mut(&id).unwrap().aggregate = aggregate;
        Done::Stepped(outcome, Box::new(change), applied)
    }

    /// Records the parts of a change that are not in the aggregate.
    fn keep(&mut self, aggregate: &PaymentAggregate, change: &Change, now: Time) {
        let payment = &aggregate.payment;
        for (attempt, reference) in &change.references {
            let account = aggregate.attempt(*attempt).unwrap().account.clone();
            self.references
                .insert((account, reference.clone()), *attempt);
        }
        for key in &change.work_closed {
            if let Some(item) = self.open_item(key) {
                item.done_at = Some(now);
            }
        }
        for new in &change.work {
            self.list(new, Some(payment), payment.environment, now);
        }
        for movement in &change.movements {
            self.book(movement.clone());
        }
        let account = self.payments.get_mut(&payment.id).unwrap();
        account.transitions.extend(change.transitions.clone());
        let events = change.events.iter();
        account
            .events
            .extend(events.map(|event| (now, event.kind, event.status, event.settlement)));
    }

    fn book(&mut self, movement: Movement) {
        let key = (movement.payment, movement.id);
        self.movements.entry(key).or_insert(movement);
    }

    /// Records money of an attempt that belongs to no payment.
    pub(crate) fn unknown(&mut self, new: &NewWork, movement: &Movement, now: Time) {
        self.list(new, None, movement.environment, now);
        self.book(Movement {
            booked_at: now.max(self.closed_until),
            ..movement.clone()
        });
    }

    pub(crate) fn close(&mut self, now: Time) {
        self.closed_until = self.closed_until.max(now.before(CLOSES_AFTER));
    }

    fn open_item(&mut self, key: &WorkKey) -> Option<&mut WorkItem> {
        let is_it = |item: &&mut WorkItem| item.key == *key && item.done_at.is_none();
        self.work.iter_mut().find(is_it)
    }

    fn list(&mut self, new: &NewWork, of: Option<&Payment>, environment: Environment, now: Time) {
        let mut item = WorkItem {
            id: WorkId::from_bytes([0; 16]),
            key: new.key.clone(),
            payment: of.map(|payment| payment.id),
            merchant: of.map(|payment| payment.merchant),
            order_id: of.map(|payment| payment.order_id.as_str().to_owned()),
            environment,
            account: new.account.clone(),
            amount: new.amount,
            currency: new.currency.clone(),
            received: new.received,
            detail: new.detail.clone(),
            deadline: new.deadline,
            opened_at: now,
            done_at: None,
        };
        match self.open_item(&new.key) {
            Some(open) => {
                item.opened_at = open.opened_at;
                *open = item;
            }
            None => self.work.push(item),
        }
    }

    /// Orders a refund, once for each idempotency key of the merchant, or of operators, in its
    /// environment.
    pub(crate) fn refund(
        &mut self,
        id: PaymentId,
        new: &NewRefund,
        audited: bool,
        now: Time,
    ) -> Ordered {
        let Some(account) = self.payments.get(&id) else {
            return Ordered::Unknown;
        };
        let payment = &account.aggregate.payment;
        let space = new.key.as_ref().map(|key| {
            let key = key.as_str().to_owned();
            let origin = new.origin.as_str();
            (origin, payment.merchant.0, payment.environment, key)
        });
        if let Some((of, refund)) = space.as_ref().and_then(|space| self.refund_keys.get(space)) {
            if *of != id {
                return Ordered::Differs("payment_id");
            }
            let (_, known) = account.aggregate.refund(*refund).unwrap();
            return match new.differs(known) {
                Some(field) => Ordered::Differs(field),
                None => Ordered::Replay(*refund),
            };
        }
        let kind = match new.bucket {
            Bucket::Own => None,
            Bucket::Excess => Some(WorkKind::Excess),
            Bucket::Surplus => Some(WorkKind::Surplus),
            Bucket::Late => Some(WorkKind::Late),
        };
        if let Some(kind) = kind {
            let key = WorkKey {
                attempt: new.attempt,
                kind,
                subject: String::new(),
            };
            if self.open_item(&key).is_none() {
                return Ordered::LineClosed;
            }
        }
        let step = Step::Refund(Box::new(new.clone()));
        let done = self.step(Some(id), &step, audited, now);
        if let (Done::Stepped(..), Some(space)) = (&done, space) {
            self.refund_keys.insert(space, (id, new.id));
        }
        Ordered::Stepped(done)
    }

    /// Stores a callback: true if it waits, false if too many wait, and the attempt as the error if its reference
    /// is known.
    pub(crate) fn keep_callback(
        &mut self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> Result<bool, AttemptId> {
        let key = (account, reference);
        if let Some(known) = self.references.get(&key) {
            return Err(*known);
        }
        for kept in self.kept.values_mut() {
            kept.retain(|(_, until)| now < *until);
        }
        let kept = self.kept.entry(key).or_default();
        if kept.iter().any(|(known, _)| *known == report) {
            return Ok(true);
        }
        if kept.len() >= MAX_KEPT {
            return Ok(false);
        }
        kept.push((report, now.after(KEPT_FOR)));
        Ok(true)
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        let due = |account: &Account| account.aggregate.due_at();
        self.payments.values().filter_map(due).min()
    }
}
