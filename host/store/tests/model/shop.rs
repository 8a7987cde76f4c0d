//! The reference of a whole store: requests made before, references, pending callbacks, keys, what is due
//! and claimed, the work list, the number of audit lines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kassette_domain::event::EventType;
use kassette_domain::id::{AccountId, AttemptId, KeyId, MerchantId, PaymentId, RefundId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::lifecycle::{Change, NewRefund, PaymentAggregate, Refusal, Step, Via};
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::{CheckoutMode, NewPayment, Origin, Request, Settlement, Status};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::due::due;
use crate::law::REFUND_TURNS;
use crate::payment::{Payment, Reply, StepReport};
use crate::questions::Questions;
use crate::refunds::difference as refund_difference;
use crate::requests::{difference, origin};
use crate::steps::{Asked, Exhausted};
use crate::verdict::{Verdict, ensure};

/// How long a notice waits for its reference.
const PARKED_FOR: Duration = Duration::from_secs(3600);
/// Notices that are kept for one reference.
const MOST_PARKED: usize = 32;

/// What becomes of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    New,
    Replay(PaymentId),
    Differs(&'static str),
    KeyRefused,
}

/// What becomes of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stepping {
    Unknown,
    Taken,
    Said(Reply, Box<StepReport>),
}

/// What becomes of an order to give money back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refunding {
    Unknown,
    New(Box<StepReport>),
    Replay(RefundId),
    Differs(&'static str),
    LineClosed,
    Refused(Refusal),
}

/// What becomes of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    Kept,
    Known(AttemptId),
    Full,
}

/// What the product says that a step did: see [`crate::payment`].
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    pub(crate) aggregate: &'a PaymentAggregate,
    pub(crate) change: &'a Change,
}

/// A line of the work list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    /// None where the store does not know the attempt.
    pub(crate) payment: Option<PaymentId>,
    pub(crate) attempt: AttemptId,
    pub(crate) kind: WorkKind,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    pub(crate) opened: Time,
    pub(crate) done: Option<Time>,
}

/// A key as the reference knows it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: KeyId,
    pub(crate) merchant: MerchantId,
    pub(crate) environment: Environment,
    pub(crate) ends: Option<Time>,
    pub(crate) revoked: bool,
}

impl Key {
    pub(crate) fn usable(&self, now: Time) -> bool {
        !self.revoked && self.ends.is_none_or(|end| now < end)
    }
}

/// A notice that waits, and until when.
type Notice = (Option<Report>, Time);

/// A payment with what is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) payment: Payment,
    pub(crate) request: Request,
    pub(crate) token: TokenHash,
    pub(crate) moves: Vec<(Time, Status, Status)>,
    pub(crate) events: Vec<(Time, EventType, Status, Settlement)>,
    pub(crate) due: Option<Time>,
}

#[derive(Debug, Default)]
pub(crate) struct Shop {
    pub(crate) payments: BTreeMap<PaymentId, Account>,
    pub(crate) made: HashMap<(String, String), PaymentId>,
    pub(crate) references: HashMap<(AccountId, String), AttemptId>,
    refund_keys: HashMap<(MerchantId, Environment, String), (PaymentId, RefundId)>,
    pending: BTreeMap<(AccountId, String), Vec<Notice>>,
    pub(crate) keys: BTreeMap<TokenHash, Key>,
    pub(crate) work: Vec<Line>,
    pub(crate) audits: u64,
}

impl Shop {
    /// What a request that was made before gets.
    pub(crate) fn replay(&self, request: &Request) -> Option<Made> {
        let id = *self.made.get(&origin(request))?;
        let first = &self.payments[&id].request;
        Some(match difference(first, request) {
            Some(field) => Made::Differs(field),
            None => Made::Replay(id),
        })
    }

    fn may(&self, request: &Request, key: Option<TokenHash>, now: Time) -> bool {
        let Some(hash) = key else { return true };
        // Only a merchant's key that is good now, for what it is good for.
        let merchants = matches!(request.origin, Origin::Merchant { .. });
        self.keys.get(&hash).is_some_and(|key| {
            merchants
                && key.usable(now)
                && key.merchant == request.merchant
                && key.environment == request.environment
        })
    }

    /// Makes a payment, exactly one for each reference.
    pub(crate) fn create(&mut self, new: &NewPayment, key: Option<TokenHash>, now: Time) -> Made {
        let request = &new.request;
        if !self.may(request, key, now) {
            return Made::KeyRefused;
        }
        if let Some(made) = self.replay(request) {
            return made;
        }
        let hosted = request.mode == CheckoutMode::Hosted;
        let payment = Payment {
            id: new.id,
            hosted,
            live: request.environment == Environment::Live,
            due: request.due,
            expires: new.expires_at,
            method: request.method.filter(|_| !hosted),
            risky: new.risk_review,
            erased: request.email.is_none(),
            status: Status::Created,
            settlement: Settlement::Pending,
            cause: None,
            declines: 0,
            charged: false,
            decision: None,
            vouched: false,
            completed: None,
            lease: None,
            attempts: Vec::new(),
        };
        self.made.insert(origin(request), new.id);
        self.payments.insert(
            new.id,
            Account {
                due: Some(payment.expires),
                payment,
                request: request.clone(),
                token: TokenHash::of(new.token.expose()),
                moves: Vec::new(),
                events: Vec::new(),
            },
        );
        Made::New
    }

    /// Whether every reference that became known is the attempt's own at its account.
    fn are_free(&self, payment: &Payment, told: &StepReport) -> bool {
        told.references.iter().all(|(attempt, reference)| {
            let at = payment.find(*attempt).unwrap();
            let key = (payment.attempts[at].account.clone(), reference.clone());
            self.references
                .get(&key)
                .is_none_or(|known| known == attempt)
        })
    }

    /// Does a step that the product has done.
    pub(crate) fn step(
        &mut self,
        id: Option<PaymentId>,
        step: &Step,
        audited: bool,
        now: Time,
        product: Option<Product<'_>>,
    ) -> Stepping {
        let Some(account) = id.and_then(|id| self.payments.get(&id)) else {
            return Stepping::Unknown;
        };
        let exhausted = |asked: Asked| {
            let aggregate = product.map(|product| product.aggregate);
            match asked {
                Asked::Attempt(id) => {
                    let attempt = aggregate.and_then(|aggregate| aggregate.attempt(id));
                    attempt.is_some_and(|attempt| attempt.is_exhausted())
                }
                Asked::Refund(id) => {
                    let refund = aggregate.and_then(|aggregate| aggregate.refund(id));
                    let ordered = refund.and_then(|(_, refund)| refund.ordered.as_ref());
                    ordered.is_some_and(|ordered| usize::from(ordered.asked) >= REFUND_TURNS)
                }
            }
        };
        let mut payment = account.payment.clone();
        let (reply, mut told) = payment.step(step, now, &exhausted);
        if matches!(reply, Reply::Refused(_)) {
            return Stepping::Said(reply, Box::new(told));
        }
        if !self.are_free(&payment, &told) {
            return Stepping::Taken;
        }
        self.read_pending(&mut payment, &mut told, now, &exhausted);
        if audited && reply != Reply::Nothing {
            self.audits += 1;
        }
        if let Some(product) = product {
            self.keep(payment, &told, now, product);
        }
        Stepping::Said(reply, Box::new(told))
    }

    /// Notices that waited for a reference are news now.
    fn read_pending(
        &mut self,
        payment: &mut Payment,
        told: &mut StepReport,
        now: Time,
        exhausted: Exhausted<'_>,
    ) {
        let mut seen = 0;
        while let Some((attempt, reference)) = told.references.get(seen).cloned() {
            seen += 1;
            let at = payment.find(attempt).unwrap();
            let key = (payment.attempts[at].account.clone(), reference);
            for (report, until) in self.pending.remove(&key).unwrap_or_default() {
                if until <= now {
                    continue;
                }
                told.pending += 1;
                let news = match report {
                    Some(report) => Step::Report {
                        attempt,
                        report,
                        via: Via::Callback,
                        asked: None,
                    },
                    None => Step::AskAt { attempt, at: now },
                };
                let mut next = payment.clone();
                let (reply, more) = next.step(&news, now, exhausted);
                if !matches!(reply, Reply::Refused(_)) && self.are_free(&next, &more) {
                    *payment = next;
                    told.moves.extend(more.moves);
                    told.events.extend(more.events);
                    told.work.extend(more.work);
                    told.settled.extend(more.settled);
                    told.references.extend(more.references);
                    told.names.extend(more.names);
                    told.refunded.extend(more.refunded);
                    told.closed.extend(more.closed);
                    told.lines += more.lines;
                    told.unbacked |= more.unbacked;
                }
            }
        }
    }

    /// Writes what a step told, all of it at once.
    fn keep(&mut self, mut payment: Payment, told: &StepReport, now: Time, product: Product<'_>) {
        for (attempt, reference) in &told.references {
            let at = payment.find(*attempt).unwrap();
            let key = (payment.attempts[at].account.clone(), reference.clone());
            self.references.insert(key, *attempt);
        }
        for attempt in &told.settled {
            let open = |line: &&mut Line| line.attempt == *attempt && line.done.is_none();
            for line in self.work.iter_mut().filter(open) {
                line.done = Some(now);
            }
        }
        for (attempt, kind) in &told.closed {
            if let Some(line) = self.open_line(*attempt, *kind) {
                line.done = Some(now);
            }
        }
        for line in &told.work {
            self.list(Some(payment.id), line, now);
        }
        for attempt in &mut payment.attempts {
            if let Some(found) = product.aggregate.attempt(attempt.id) {
                attempt.questions = Questions::of(found);
                attempt.exhausted = found.is_exhausted();
                for order in &mut attempt.returns.orders {
                    let refund = found.returns.refund(order.id);
                    let ordered = refund.and_then(|refund| refund.ordered.as_ref());
                    order.next = ordered.and_then(|ordered| ordered.next_at);
                }
            }
        }
        let due = due(&payment);
        let account = self.payments.get_mut(&payment.id).unwrap();
        account
            .moves
            .extend(told.moves.iter().map(|(from, to)| (now, *from, *to)));
        // Compared with what was told here; how often a refund is told is the product's own.
        let events = product.change.events.iter();
        account
            .events
            .extend(events.map(|told| (now, told.kind, told.status, told.settlement)));
        account.payment = payment;
        account.due = due;
    }

    /// Puts a line on the work list; one of its kind and attempt that is open takes the new figures.
    pub(crate) fn list(
        &mut self,
        payment: Option<PaymentId>,
        (kind, attempt, amount, currency): &(WorkKind, AttemptId, u64, String),
        now: Time,
    ) {
        if let Some(line) = self.open_line(*attempt, *kind) {
            line.amount = *amount;
            line.currency.clone_from(currency);
        } else {
            self.work.push(Line {
                payment,
                attempt: *attempt,
                kind: *kind,
                amount: *amount,
                currency: currency.clone(),
                opened: now,
                done: None,
            });
        }
    }

    pub(crate) fn open_line(&mut self, attempt: AttemptId, kind: WorkKind) -> Option<&mut Line> {
        let same =
            |line: &&mut Line| (line.kind, line.attempt) == (kind, attempt) && line.done.is_none();
        self.work.iter_mut().find(same)
    }

    /// Orders money to be given back, once for each key of the merchant in the environment.
    pub(crate) fn refund(
        &mut self,
        id: PaymentId,
        new: &NewRefund,
        audited: bool,
        now: Time,
        product: Option<Product<'_>>,
    ) -> Refunding {
        let Some(account) = self.payments.get(&id) else {
            return Refunding::Unknown;
        };
        let (merchant, environment) = (account.request.merchant, account.request.environment);
        let space = |key: &IdempotencyKey| (merchant, environment, key.as_str().to_owned());
        let space = new.key.as_ref().map(space);
        let known = space.as_ref().and_then(|space| self.refund_keys.get(space));
        if let Some((of, refund)) = known {
            if *of != id {
                return Refunding::Differs("payment_id");
            }
            let attempts = account.payment.attempts.iter();
            let mut orders = attempts.flat_map(|attempt| &attempt.returns.orders);
            let order = orders.find(|order| order.id == *refund).unwrap();
            return match refund_difference(order, new) {
                Some(field) => Refunding::Differs(field),
                None => Refunding::Replay(*refund),
            };
        }
        if let Some((kind, _)) = new.line
            && self.open_line(new.attempt, kind).is_none()
        {
            return Refunding::LineClosed;
        }
        let step = Step::Refund(Box::new(new.clone()));
        match self.step(Some(id), &step, audited, now, product) {
            Stepping::Said(Reply::Refused(refusal), _) => Refunding::Refused(refusal),
            Stepping::Said(_, told) => {
                if let Some(space) = space {
                    self.refund_keys.insert(space, (id, new.id));
                }
                Refunding::New(told)
            }
            Stepping::Unknown | Stepping::Taken => Refunding::Unknown,
        }
    }

    /// Forgets notices whose time has passed, as every callback that is kept does.
    fn sweep(&mut self, now: Time) {
        for notices in self.pending.values_mut() {
            notices.retain(|(_, until)| now < *until);
        }
    }

    pub(crate) fn knows(&self, account: &AccountId, reference: &str) -> bool {
        let key = (account.clone(), reference.to_owned());
        self.references.contains_key(&key)
    }

    pub(crate) fn keep_callback(
        &mut self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> Keeping {
        let key = (account, reference);
        if let Some(known) = self.references.get(&key) {
            return Keeping::Known(*known);
        }
        self.sweep(now);
        let notices = self.pending.entry(key).or_default();
        if notices.iter().any(|(kept, _)| *kept == report) {
            return Keeping::Kept;
        }
        if notices.len() >= MOST_PARKED {
            return Keeping::Full;
        }
        notices.push((report, now.after(PARKED_FOR)));
        Keeping::Kept
    }

    /// What a worker gets: what is due, the longest due first (at one time in any order), and no
    /// other worker gets it until its lease ends. Says what is wrong with what it was given.
    pub(crate) fn claim(
        &mut self,
        now: Time,
        lease: Duration,
        at_most: usize,
        given: &[PaymentId],
    ) -> Verdict {
        let due_of = |account: &Account| account.due.filter(|due| *due <= now);
        let mut due: Vec<Time> = self.payments.values().filter_map(due_of).collect();
        due.sort();
        due.truncate(at_most);
        let when = |id: &PaymentId| self.payments.get(id).and_then(due_of);
        let times: Vec<Option<Time>> = given.iter().map(when).collect();
        let expected: Vec<Option<Time>> = due.into_iter().map(Some).collect();
        let distinct: BTreeSet<&PaymentId> = given.iter().collect();
        ensure(times == expected && distinct.len() == given.len(), || {
            format!("claimed {given:?}, due at {times:?}, expected those due at {expected:?}")
        })?;
        let until = now.after(lease);
        for id in given {
            let account = self.payments.get_mut(id).unwrap();
            account.payment.lease = Some(until);
            account.due = account.due.map(|due| due.max(until));
        }
        Ok(())
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.payments
            .values()
            .filter_map(|account| account.due)
            .min()
    }
}
