//! Refunds and disputes against a simulated provider. It reports correctly, but late, repeatedly, in any order or
//! not at all, and makes a refund for every request: only the gateway prevents duplicates.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// How the provider reports refunds.
#[derive(Clone, Copy, Debug)]
struct Ways {
    /// Individually.
    items: bool,
    /// With our refund ids.
    orders: bool,
    /// In its sum, with or without pending refunds.
    sum: bool,
    pending_in_sum: bool,
}

/// Fate of a call about a refund.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The result arrives now.
    Answered,
    /// The result arrives later, or never.
    Slow,
    /// The request never arrives.
    Lost,
    /// It takes effect this many seconds later, and the result is lost.
    Late(u64),
    /// The provider rejects the request.
    Unavailable,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Order(u64, bool),
    Call(u8, Fate),
    /// A delayed result arrives.
    Answer(u8),
    Dashboard(u64),
    /// A refund ends at the provider, or fails after it had succeeded.
    End(u8, bool),
    /// A dispute is opened for the remaining amount, withdrawn at once or not, or the open one ends.
    Dispute(bool),
    /// The provider writes a notification, which arrives once or several times.
    Notice,
    Arrives(u8),
    Look,
    Clock(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let fate = prop_oneof![
        4 => Just(Fate::Answered),
        2 => Just(Fate::Slow),
        2 => Just(Fate::Lost),
        2 => (0..60_u64).prop_map(Fate::Late),
        1 => Just(Fate::Unavailable),
    ];
    prop_oneof![
        4 => (0..6_u64, any::<bool>()).prop_map(|(part, operator)| Happening::Order(part, operator)),
        8 => (0..4_u8, fate).prop_map(|(nth, fate)| Happening::Call(nth, fate)),
        3 => any::<u8>().prop_map(Happening::Answer),
        1 => (1..4_u64).prop_map(Happening::Dashboard),
        4 => (any::<u8>(), prop::bool::weighted(0.25)).prop_map(|(nth, fails)| Happening::End(nth, fails)),
        2 => any::<bool>().prop_map(Happening::Dispute),
        4 => Just(Happening::Notice),
        4 => any::<u8>().prop_map(Happening::Arrives),
        2 => Just(Happening::Look),
        6 => (0..400_u64).prop_map(Happening::Clock),
    ]
}

struct Entry {
    id: String,
    order: Option<RefundId>,
    amount: u64,
    state: RefundState,
}

struct Books {
    shop: Shop,
    ways: Ways,
    entries: Vec<Entry>,
    disputes: Vec<Dispute>,
    /// Ids of refunds that events have named.
    reported: BTreeSet<RefundId>,
    notices: Vec<Report>,
    /// Results in flight, with the ends of their calls' claims.
    answers: Vec<(RefundId, Time, RefundAnswer)>,
    /// Requests in flight, with the times at which they take effect.
    on_their_way: Vec<(RefundId, u64, Time)>,
    dashboard: bool,
    orders: u8,
}

impl Books {
    fn new(ways: Ways) -> Self {
        Self {
            shop: Shop::paid(),
            ways,
            entries: Vec::new(),
            disputes: Vec::new(),
            reported: BTreeSet::new(),
            notices: Vec::new(),
            answers: Vec::new(),
            on_their_way: Vec::new(),
            dashboard: false,
            orders: 0,
        }
    }

    fn total(&self, of: impl Fn(&Entry) -> bool) -> u64 {
        let entries = self.entries.iter().filter(|entry| of(entry));
        entries.map(|entry| entry.amount).sum()
    }

    fn left(&self) -> u64 {
        DUE.0 - self.total(|entry| entry.state != RefundState::Failed) - self.withdrawn()
    }

    fn withdrawn(&self) -> u64 {
        let withdrawn = self.disputes.iter().map(|dispute| dispute.withdrawn.0);
        withdrawn.sum()
    }

    fn dispute(&mut self, at_once_or_won: bool) {
        let left = self.left();
        let open = |dispute: &&mut Dispute| dispute.state == DisputeState::Open;
        if let Some(dispute) = self.disputes.iter_mut().find(open) {
            let amount = match dispute.withdrawn {
                Minor::ZERO => dispute.amount.min(Minor(left)),
                withdrawn => withdrawn,
            };
            let won = at_once_or_won || amount == Minor::ZERO;
            (dispute.state, dispute.withdrawn) = match won {
                true => (DisputeState::Won, Minor::ZERO),
                false => (DisputeState::Lost, amount),
            };
        } else if left > 0 {
            let id = format!("d-{}", self.disputes.len());
            let mut opened = dispute(&id, left, DisputeState::Open);
            opened.withdrawn = Minor(if at_once_or_won { left } else { 0 });
            self.disputes.push(opened);
        }
    }

    /// Makes a refund for every request, if there is enough money.
    fn make(&mut self, order: Option<RefundId>, amount: u64) -> RefundAnswer {
        let enough = amount <= self.left();
        assert!(
            enough || self.dashboard || !self.disputes.is_empty(),
            "asked to give back more than was received"
        );
        if !enough {
            return RefundAnswer::Refused("too much".into());
        }
        self.entries.push(Entry {
            id: format!("re-{}", self.entries.len()),
            order,
            amount,
            state: RefundState::Pending,
        });
        answer(&self.entries[self.entries.len() - 1])
    }

    fn read(&self, order: RefundId) -> RefundAnswer {
        let mut entries = self.entries.iter();
        let found = entries.find(|entry| entry.order == Some(order));
        found.map_or(RefundAnswer::Absent, answer)
    }

    fn report(&self) -> Report {
        let mut report = confirmed();
        if self.ways.items {
            let told = self.entries.iter().map(|entry| ProviderRefund {
                id: entry.id.clone(),
                order: entry.order.filter(|_| self.ways.orders),
                amount: Minor(entry.amount),
                paid_out: None,
                at: None,
                state: entry.state,
            });
            report.particulars.refunds = told.collect();
        }
        if self.ways.sum {
            let counts = |entry: &Entry| {
                entry.state == RefundState::Succeeded
                    || (self.ways.pending_in_sum && entry.state == RefundState::Pending)
            };
            report.returned = Minor(self.total(counts) + self.withdrawn());
        }
        report.particulars.disputes.clone_from(&self.disputes);
        report
    }

    fn call(&mut self, id: RefundId, fate: Fate) {
        let (send, amount) = {
            let (_, refund) = self.shop.aggregate.refund(id).unwrap();
            (refund.is_to_send(), refund.amount.0)
        };
        if self.shop.claim_refund(id).is_err() {
            return;
        }
        let held = self.shop.now.after(LEASE);
        let lost = || RefundAnswer::Uncertain("lost".into());
        let answer = match fate {
            Fate::Lost => lost(),
            Fate::Unavailable if send => RefundAnswer::Unavailable("busy".into()),
            Fate::Unavailable => lost(),
            Fate::Late(seconds) if send => {
                let at = self.shop.now.after(Duration::from_secs(seconds));
                self.on_their_way.push((id, amount, at));
                lost()
            }
            _ if send => self.make(Some(id), amount),
            _ => self.read(id),
        };
        if matches!(fate, Fate::Slow) {
            self.answers.push((id, held, answer));
        } else {
            self.answered(id, held, answer);
        }
    }

    fn answered(&mut self, refund: RefundId, held: Time, answer: RefundAnswer) {
        self.shop.step(Step::RefundAnswered {
            refund,
            held,
            answer,
        });
    }

    fn orders(&self) -> Vec<RefundId> {
        let refunds = self.shop.aggregate.refunds();
        let ordered = refunds
            .iter()
            .filter(|(_, refund)| refund.ordered.is_some());
        ordered.map(|(_, refund)| refund.id).collect()
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Order(part, operator) => {
                self.orders += 1;
                let new = NewRefund {
                    id: RefundId::from_bytes([self.orders; 16]),
                    key: None,
                    origin: match operator {
                        true => RefundOrigin::Operator,
                        false => RefundOrigin::Merchant,
                    },
                    ..order(0, (part > 0).then_some(DUE.0 / 4 * part))
                };
                let _refused = self.shop.refund(new);
            }
            Happening::Call(nth, fate) => {
                let orders = self.orders();
                let id = orders.get(usize::from(nth)).copied();
                let pending = |id: &RefundId| {
                    self.shop
                        .aggregate
                        .refund(*id)
                        .unwrap()
                        .1
                        .is_order_pending()
                };
                if let Some(id) = id.filter(pending) {
                    self.call(id, fate);
                }
            }
            Happening::Answer(nth) => {
                if let Some((id, held, answer)) = picked(nth, &self.answers).cloned() {
                    self.answered(id, held, answer);
                }
            }
            Happening::Dashboard(part) => {
                let amount = self.left().min(DUE.0 / 4 * part);
                if amount > 0 {
                    self.dashboard = true;
                    self.make(None, amount);
                }
            }
            Happening::End(nth, fails) => {
                let count = self.entries.len().max(1);
                if let Some(entry) = self.entries.get_mut(usize::from(nth) % count) {
                    entry.state = match (entry.state, fails) {
                        (RefundState::Pending, false) => RefundState::Succeeded,
                        (_, true) => RefundState::Failed,
                        (ended, false) => ended,
                    };
                }
            }
            Happening::Dispute(way) => self.dispute(way),
            Happening::Notice => self.notices.push(self.report()),
            Happening::Arrives(nth) => {
                if let Some(report) = picked(nth, &self.notices).cloned() {
                    self.shop.hear(1, report, Via::Callback);
                }
            }
            Happening::Look => {
                let report = self.report();
                self.shop.hear(1, report, Via::Query);
            }
            Happening::Clock(seconds) => self.pass_seconds(seconds),
        }
        self.check();
        let told = self.shop.events.iter().filter_map(refund_of);
        self.reported.extend(told.map(|given| given.refund));
        let refunds = self.shop.aggregate.refunds();
        let known: BTreeSet<_> = refunds
            .iter()
            .flat_map(|(_, refund)| refund.ids())
            .collect();
        assert!(self.reported.is_subset(&known), "a reported id is lost");
        let times: Vec<_> = self
            .shop
            .movements
            .iter()
            .map(|each| each.booked_at)
            .collect();
        assert!(times.is_sorted(), "booked in the past");
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.shop.pass(Duration::from_secs(seconds));
        let now = self.shop.now;
        let arrives = |(_, _, at): &(RefundId, u64, Time)| *at <= now;
        let arrived: Vec<_> = self.on_their_way.extract_if(.., |it| arrives(it)).collect();
        for (id, amount, _) in arrived {
            self.make(Some(id), amount);
        }
    }

    /// Invariants at any time.
    fn check(&self) {
        for id in self.orders() {
            let made = self.entries.iter().filter(|entry| entry.order == Some(id));
            assert!(made.count() <= 1, "given back twice for one refund");
            let told = self.shop.events.iter();
            let told = told.filter(|told| told.kind == EventType::PaymentRefunded);
            let told = told
                .filter_map(refund_of)
                .filter(|given| given.refund == id);
            assert!(told.count() <= 1, "told twice");
        }
    }

    /// The provider ends pending refunds, and reports promptly from now on.
    fn settle(&mut self) {
        const BOUND: usize = 5_000;
        for _ in 0..BOUND {
            for entry in &mut self.entries {
                if entry.state == RefundState::Pending {
                    entry.state = RefundState::Succeeded;
                }
            }
            let Some(due) = self.shop.aggregate.due_at() else {
                self.happen(Happening::Look);
                if self.shop.aggregate.due_at().is_none() {
                    return;
                }
                continue;
            };
            let wait = due.since(self.shop.now).as_secs() + 1;
            self.pass_seconds(wait);
            match self.shop.next_action() {
                Some(NextAction::Refund(id)) => self.call(id, Fate::Answered),
                Some(NextAction::Query(_)) => self.happen(Happening::Look),
                other => panic!("{other:?} is due about a paid payment"),
            }
            self.check();
        }
        panic!("the refunds never end");
    }

    /// Invariants once everything has ended.
    fn judge(&self) {
        let attempt = self.shop.attempt(1);
        for reported in self.shop.events.iter().filter_map(refund_of) {
            let found = self.shop.aggregate.refund(reported.refund);
            assert!(found.is_some(), "{reported:?} cannot be read any more");
        }
        for id in self.orders() {
            let (_, refund) = self.shop.aggregate.refund(id).unwrap();
            let entry = self.entries.iter().find(|entry| entry.order == Some(id));
            let at_vendor = entry.map_or(RefundState::Failed, |entry| entry.state);
            let ordered = refund.ordered.as_ref().unwrap();
            // The last turn may have passed without an answer: then an operator must decide.
            let given_up = ordered.next_at.is_none() && refund.state == RefundState::Pending;
            if given_up {
                assert!(self.shop.listed(1).contains(&WorkKind::Refund));
                self.settled(id, at_vendor);
                continue;
            }
            // A provider that never lists refunds individually does not report a failure after a success.
            let untold = !self.ways.items
                && (refund.state, at_vendor) == (RefundState::Succeeded, RefundState::Failed);
            assert!(untold || refund.state == at_vendor, "{refund:?}");
            let told = self.shop.events.iter();
            let told = told.filter(|told| told.kind == EventType::PaymentRefunded);
            let told = told.filter_map(refund_of);
            let told = told.filter(|given| given.refund == id).count();
            let known_else = !self.ways.orders;
            assert!(refund.state != RefundState::Succeeded || told == 1 || known_else);
        }
        let told = self.ways.items || self.ways.sum || !self.dashboard;
        let succeeded =
            self.total(|entry| entry.state == RefundState::Succeeded) + self.withdrawn();
        let some_given_up = self
            .shop
            .aggregate
            .refunds()
            .iter()
            .any(|(_, refund)| refund.is_order_pending());
        if !told || some_given_up {
            return;
        }
        let came_back = |entry: &Entry| entry.state == RefundState::Failed;
        if !self.ways.items && self.entries.iter().any(came_back) {
            // A sum does not reveal which part came back: the amount of refunds made elsewhere can be wrong until
            // an operator corrects it.
            assert!(self.dashboard || returned(&self.shop) >= Minor(succeeded));
            return;
        }
        assert_eq!(returned(&self.shop), Minor(succeeded));
        let mut disputes = self.disputes.iter();
        if disputes.all(|dispute| dispute.state != DisputeState::Open) {
            assert_eq!(attempt.left(), Minor(DUE.0 - succeeded));
        }
    }

    /// Ends a refund as an operator does after the provider's last report.
    fn settled(&self, refund: RefundId, at_vendor: RefundState) {
        let mut aggregate = self.shop.aggregate.clone();
        let made = (at_vendor != RefundState::Succeeded).then_some(Minor::ZERO);
        let step = Step::SettleRefund { refund, made };
        let now = self.shop.now.after(DAY);
        aggregate
            .step(step, now, &QuerySchedule::default())
            .unwrap();
        assert!(!aggregate.refund(refund).unwrap().1.is_order_pending());
    }
}

fn answer(entry: &Entry) -> RefundAnswer {
    RefundAnswer::Given(Given {
        reference: entry.id.clone(),
        state: entry.state,
        claim_url: None,
        detail: String::new(),
        paid_out: None,
    })
}

fn picked<T>(nth: u8, of: &[T]) -> Option<&T> {
    of.get(usize::from(nth) % of.len().max(1))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn the_vendors_books_show_each_refund_once_and_never_too_much(
        items in any::<bool>(),
        orders in any::<bool>(),
        sum in any::<bool>(),
        pending_in_sum in any::<bool>(),
        happenings in proptest::collection::vec(happening(), 1..60),
    ) {
        let mut books = Books::new(Ways { items, orders, sum, pending_in_sum });
        for happening in happenings {
            books.happen(happening);
        }
        books.settle();
        books.judge();
    }
}
