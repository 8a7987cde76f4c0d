//! Refunds against the books of a vendor that tells the truth late, twice, in any order or not at all, and
//! that makes a refund whenever it is told to: only the host keeps it from making one twice.

use proptest::prelude::*;

use super::*;

/// How a vendor tells of refunds.
#[derive(Clone, Copy, Debug)]
struct Ways {
    /// One by one.
    items: bool,
    /// With the orders that they answer.
    orders: bool,
    /// In its sum; one that is under way counts or does not.
    sum: bool,
    pending_in_sum: bool,
}

/// What becomes of a call about a refund.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is answered now.
    Answered,
    /// It is answered later, perhaps never.
    Slow,
    /// It never arrives.
    Lost,
    /// It takes effect so many seconds later, and the answer is lost.
    Late(u64),
    /// It is turned away.
    Unavailable,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Order(u64, bool),
    Call(u8, Fate),
    /// An answer that was slow arrives.
    Answer(u8),
    Dashboard(u64),
    /// A refund ends at the vendor, or fails after it had succeeded.
    End(u8, bool),
    /// The vendor writes a notice; it arrives once or several times.
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
    notices: Vec<Report>,
    /// Answers on their way, with the time until which their calls held the refund.
    answers: Vec<(RefundId, Time, RefundAnswer)>,
    /// Requests that are on their way, until when.
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
        DUE.0 - self.total(|entry| entry.state != RefundState::Failed)
    }

    /// Makes a refund, as often as it is told to, where there is money for it.
    fn make(&mut self, order: Option<RefundId>, amount: u64) -> RefundAnswer {
        let enough = amount <= self.left();
        assert!(
            enough || self.dashboard,
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
            let told = self.entries.iter().map(|entry| VendorRefund {
                id: entry.id.clone(),
                order: entry.order.filter(|_| self.ways.orders),
                amount: Minor(entry.amount),
                state: entry.state,
            });
            report.particulars.refunds = told.collect();
        }
        if self.ways.sum {
            let counts = |entry: &Entry| {
                entry.state == RefundState::Succeeded
                    || (self.ways.pending_in_sum && entry.state == RefundState::Pending)
            };
            report.returned = Minor(self.total(counts));
        }
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

    /// What holds at any time.
    fn check(&self) {
        for id in self.orders() {
            let made = self.entries.iter().filter(|entry| entry.order == Some(id));
            assert!(made.count() <= 1, "given back twice for one refund");
            let told = self.shop.events.iter().filter_map(|told| told.refund);
            let told = told.filter(|given| given.refund == id);
            assert!(told.count() <= 1, "told twice");
        }
    }

    /// The vendor ends what is under way, and tells the truth from now on.
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

    /// What holds once everything has ended.
    fn judge(&self) {
        let attempt = self.shop.attempt(1);
        for id in self.orders() {
            let (_, refund) = self.shop.aggregate.refund(id).unwrap();
            let entry = self.entries.iter().find(|entry| entry.order == Some(id));
            let at_vendor = entry.map_or(RefundState::Failed, |entry| entry.state);
            let ordered = refund.ordered.as_ref().unwrap();
            // The last turn may have passed without an answer: a person looks then.
            let given_up = ordered.next_at.is_none() && refund.state == RefundState::Pending;
            if given_up {
                assert!(self.shop.listed(1).contains(&WorkKind::Refund));
                continue;
            }
            // A vendor that never tells refunds one by one tells no failure after a success.
            let untold = !self.ways.items
                && (refund.state, at_vendor) == (RefundState::Succeeded, RefundState::Failed);
            assert!(untold || refund.state == at_vendor, "{refund:?}");
            let told = self.shop.events.iter().filter_map(|told| told.refund);
            let told = told.filter(|given| given.refund == id).count();
            let known_else = !self.ways.orders;
            assert!(refund.state != RefundState::Succeeded || told == 1 || known_else);
        }
        let told = self.ways.items || self.ways.sum || !self.dashboard;
        let succeeded = self.total(|entry| entry.state == RefundState::Succeeded);
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
            // A sum does not tell which part of it came back: what was given back elsewhere may be taken
            // for more, never for less.
            assert!(attempt.returns.total() >= Minor(succeeded));
            return;
        }
        assert_eq!(attempt.returns.total(), Minor(succeeded));
        assert_eq!(attempt.left(), Minor(DUE.0 - succeeded));
    }
}

fn answer(entry: &Entry) -> RefundAnswer {
    RefundAnswer::Given(Given {
        reference: entry.id.clone(),
        state: entry.state,
        claim_url: None,
        detail: String::new(),
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
