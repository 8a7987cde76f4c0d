//! Refunds.
use kassette_plugin::provider::{
    Given, Order, Paid, QueryFailure, QueryPurpose, RefundFailure, RefundState, Report, Status,
};
use kassette_sim::Fault;

use super::{Lost, Payment, Vendor, world};
use crate::World;

/// Maximum number of callbacks that are searched for one about a refund.
const NEWS: usize = 10;
/// Longer than any vendor stores an idempotency key: 40 days.
const KEYS_HAVE_ENDED_MS: u64 = 40 * 86_400_000;

/// A completed payment, and the facts that the host passes to a module for a refund.
struct Taken<'w, V: Vendor> {
    payment: Payment<'w, V>,
    paid: Paid,
}

impl<'w, V: Vendor> Taken<'w, V> {
    fn new(world: &'w World<V::Module>) -> Self {
        let mut payment = Payment::<V>::start(world, V::REFUNDED);
        payment.approve();
        let report = payment.settle();
        assert_eq!(report.status, Status::Completed);
        let first =
            (payment.open.reference != report.reference).then(|| payment.open.reference.clone());
        let paid = Paid {
            attempt: payment.attempt.id.clone(),
            method: payment.attempt.method.clone(),
            reference: report.reference,
            references: first
                .into_iter()
                .chain(report.particulars.references)
                .collect(),
            received: report.received,
            captured_at: report.particulars.captured_at,
            merchant_order: payment.attempt.merchant_order.clone(),
            merchant: payment.attempt.merchant.clone(),
        };
        Self { payment, paid }
    }

    fn world(&self) -> &'w World<V::Module> {
        self.payment.world
    }

    /// A new order.
    fn order(&self, amount: u64) -> Order {
        self.world().order(amount, &self.paid.received.currency)
    }

    fn refund(&self, order: &Order) -> Result<Given, RefundFailure> {
        self.world().give_back(&self.paid, order)
    }

    fn query(&self, order: &Order) -> Result<Given, QueryFailure> {
        self.world().query_refund(&self.paid, order)
    }

    /// Orders a refund and checks its initial state.
    fn given(&self, order: &Order) -> Given {
        let given = self.refund(order).unwrap();
        let first = if V::REFUNDED_LATER {
            RefundState::Pending
        } else {
            RefundState::Succeeded
        };
        assert_eq!(given.state, first, "{}", given.detail);
        assert_eq!(given.claim_url.is_some(), V::CLAIMED);
        given
    }

    /// State of a refund after the vendor has completed it.
    fn done(&mut self, order: &Order, given: &Given) -> RefundState {
        V::finish_refund(self.world(), &self.payment, given);
        self.told(order, given)
    }

    /// Current state of a refund at the vendor.
    fn told(&mut self, order: &Order, given: &Given) -> RefundState {
        if V::REFUNDS_BY_NOTICE {
            return self.news_of(&given.reference);
        }
        let order = known(order, given);
        let asked = self.query(&order).unwrap();
        assert_eq!(asked.reference, given.reference);
        asked.state
    }

    /// State of a refund from the next callbacks.
    fn news_of(&mut self, id: &str) -> RefundState {
        let mut reports = (0..NEWS).flat_map(|_| self.payment.hear());
        let told = reports.find_map(|report| state_in(&report, id));
        told.unwrap_or_else(|| panic!("no news of the refund {id}"))
    }

    /// Total refunded in minor units, from the simulator's books.
    fn refunded(&self) -> u64 {
        minor(&self.world().entry().refunded)
    }
}

/// The order with the vendor's reference, as the host sends it once known.
fn known(order: &Order, given: &Given) -> Order {
    Order {
        reference: Some(given.reference.clone()),
        ..order.clone()
    }
}

fn state_in(report: &Report, id: &str) -> Option<RefundState> {
    let refunds = &report.particulars.refunds;
    let told = refunds.iter().find(|refund| refund.id == id)?;
    Some(told.state)
}

/// Converts an amount such as `12.34` to minor units.
fn minor(amount: &str) -> u64 {
    amount.replace('.', "").parse().unwrap()
}

pub fn terms_name_methods_of_the_module_without_a_request<V: Vendor>() {
    let world = world::<V>();
    let terms = world.refund_terms();
    assert!(world.sent().is_empty());
    assert!(terms.iter().any(|term| term.method == V::REFUNDED.0));
    let methods = world.methods();
    for (at, term) in terms.iter().enumerate() {
        assert!(methods.contains(&term.method), "{}", term.method);
        let again = terms[..at].iter().any(|other| other.method == term.method);
        assert!(!again, "{} is named twice", term.method);
    }
}

pub fn all_of_the_money_is_given_back_and_then_nothing_is_left<V: Vendor>() {
    let world = world::<V>();
    let mut taken = Taken::<V>::new(&world);
    let whole = taken.order(4990);
    let given = taken.given(&whole);
    assert_eq!(taken.done(&whole, &given), RefundState::Succeeded);
    assert_eq!(taken.refunded(), 4990);
    let more = taken.refund(&taken.order(1));
    assert!(matches!(more, Err(RefundFailure::Refused(_))), "{more:?}");
    assert_eq!(taken.refunded(), 4990);
}

pub fn parts_are_given_back_and_never_more_than_is_left<V: Vendor>() {
    let world = world::<V>();
    let mut taken = Taken::<V>::new(&world);
    let terms = world.refund_terms();
    let term = terms.iter().find(|term| term.method == V::REFUNDED.0);
    assert!(term.unwrap().parts);
    let (one, other) = (taken.order(1000), taken.order(1000));
    let first = taken.given(&one);
    assert_eq!(taken.done(&one, &first), RefundState::Succeeded);
    let second = taken.given(&other);
    assert_ne!(first.reference, second.reference);
    assert_eq!(taken.done(&other, &second), RefundState::Succeeded);
    let more = taken.refund(&taken.order(2991));
    assert!(matches!(more, Err(RefundFailure::Refused(_))), "{more:?}");
    assert_eq!(taken.refunded(), 2000);
    let rest = taken.order(2990);
    let last = taken.given(&rest);
    assert_eq!(taken.done(&rest, &last), RefundState::Succeeded);
    assert_eq!(taken.refunded(), 4990);
}

pub fn the_same_order_gives_back_once_even_when_the_vendors_keys_have_ended<V: Vendor>() {
    let world = world::<V>();
    let mut taken = Taken::<V>::new(&world);
    let order = taken.order(1000);
    let given = taken.given(&order);
    for wait in [60_000, KEYS_HAVE_ENDED_MS] {
        world.advance(wait);
        for order in [order.clone(), known(&order, &given)] {
            let again = taken.refund(&order).unwrap();
            assert_eq!(again.reference, given.reference, "after {wait} ms");
        }
    }
    assert_eq!(taken.done(&order, &given), RefundState::Succeeded);
    assert_eq!(taken.refunded(), 1000);
}

pub fn a_refund_whose_answer_is_lost_is_uncertain_and_given_once<V: Vendor>() {
    let world = world::<V>();
    let mut taken = Taken::<V>::new(&world);
    let order = taken.order(1000);
    world.lose_answer_of(V::REFUND_PATH);
    let lost = taken.refund(&order);
    assert!(matches!(lost, Err(RefundFailure::Uncertain(_))), "{lost:?}");
    made_certain(&mut taken, &order, true);
}

pub fn what_may_have_given_something_back_is_uncertain_and_given_once<V: Vendor>() {
    for (fault, effect) in [
        (Fault::TimeoutBeforeEffect, false),
        (Fault::TimeoutAfterEffect, true),
        (Fault::Status500, false),
        (Fault::Malformed, true),
        (Fault::Truncated, true),
    ] {
        let world = world::<V>();
        let mut taken = Taken::<V>::new(&world);
        let order = taken.order(1000);
        world.fault(fault);
        let lost = taken.refund(&order);
        // The fault may have hit a query that the module sends before the refund.
        let uncertain = matches!(lost, Err(RefundFailure::Uncertain(_)));
        let unavailable = matches!(lost, Err(RefundFailure::Unavailable(_)));
        assert!(uncertain || unavailable, "{fault}: {lost:?}");
        world.sim.clear_faults(world.id()).unwrap();
        made_certain(&mut taken, &order, effect && uncertain);
    }
}

/// Resolves an uncertain refund like the host: queries and repeats it.
fn made_certain<V: Vendor>(taken: &mut Taken<'_, V>, order: &Order, effect: bool) {
    let asked = taken.query(order);
    match (V::REFUND_LOST, effect) {
        (Lost::Found, false) => assert_eq!(asked, Err(QueryFailure::Absent)),
        (Lost::Found, true) | (Lost::Made, _) => assert!(asked.is_ok(), "{asked:?}"),
        (Lost::Unfindable, _) => {
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{asked:?}"
            );
        }
    }
    let again = taken.refund(order).unwrap();
    if let Ok(found) = asked {
        assert_eq!(again.reference, found.reference);
    }
    assert_eq!(taken.done(order, &again), RefundState::Succeeded);
    assert_eq!(taken.refunded(), 1000);
}

pub fn what_surely_gave_nothing_back_is_unavailable<V: Vendor>() {
    for &fault in V::SURE {
        let world = world::<V>();
        let taken = Taken::<V>::new(&world);
        let order = taken.order(1000);
        world.fault(fault);
        let lost = taken.refund(&order);
        assert!(
            matches!(lost, Err(RefundFailure::Unavailable(_))),
            "{fault}: {lost:?}"
        );
        let asked = taken.query(&order);
        if fault == Fault::Down {
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{fault}: {asked:?}"
            );
        }
        world.sim.clear_faults(world.id()).unwrap();
        assert_eq!(taken.refunded(), 0, "{fault}");
    }
    let world = world::<V>();
    let taken = Taken::<V>::new(&world);
    world.refuse_connections();
    let lost = taken.refund(&taken.order(1000));
    assert!(
        matches!(lost, Err(RefundFailure::Unavailable(_))),
        "{lost:?}"
    );
}

pub fn a_refund_that_fails_later_is_told_and_can_be_given_again<V: Vendor>() {
    let world = world::<V>();
    let mut taken = Taken::<V>::new(&world);
    let order = taken.order(4990);
    let given = taken.given(&order);
    assert_eq!(taken.done(&order, &given), RefundState::Succeeded);
    assert!(taken.payment.choose("refund_fails") < 400);
    assert_eq!(taken.told(&order, &given), RefundState::Failed);
    assert_eq!(taken.refunded(), 0);
    let another = taken.order(4990);
    let again = taken.given(&another);
    assert_ne!(again.reference, given.reference);
    assert_eq!(taken.done(&another, &again), RefundState::Succeeded);
    assert_eq!(taken.refunded(), 4990);
}

pub fn our_refund_is_told_by_its_order_and_one_of_the_dashboard_by_none<V: Vendor>() {
    let world = world::<V>();
    let mut taken = Taken::<V>::new(&world);
    let order = taken.order(1000);
    let given = taken.given(&order);
    assert_eq!(taken.done(&order, &given), RefundState::Succeeded);
    assert!(world.refund(&taken.payment.open, "5.00").0 < 400);
    let told = taken.payment.ask(QueryPurpose::Sync);
    assert_eq!((told.status, told.given_back), (Status::Completed, 1500));
    let of = |amount| {
        let refunds = told.particulars.refunds.iter();
        let mut found = refunds.filter(|refund| refund.amount == amount);
        let refund = found.next().unwrap();
        assert!(found.next().is_none());
        refund
    };
    let (ours, other) = (of(1000), of(500));
    assert_eq!(ours.id, given.reference);
    assert_eq!(ours.order_id.as_deref(), Some(order.id.as_str()));
    assert_eq!(other.order_id, None);
}

pub fn nothing_is_given_back_of_a_payment_that_the_vendor_does_not_know<V: Vendor>() {
    let world = world::<V>();
    let taken = Taken::<V>::new(&world);
    let unknown = Paid {
        attempt: "f".repeat(32),
        reference: V::UNKNOWN.into(),
        references: Vec::new(),
        ..taken.paid.clone()
    };
    let order = taken.order(1000);
    let refused = world.give_back(&unknown, &order);
    assert!(
        matches!(
            refused,
            Err(RefundFailure::Refused(_) | RefundFailure::Unavailable(_))
        ),
        "{refused:?}"
    );
    let asked = world.query_refund(&unknown, &order);
    assert!(asked.is_err(), "{asked:?}");
    assert_eq!(taken.refunded(), 0);
}

pub fn wrong_credentials_give_nothing_back_and_prove_nothing<V: Vendor>() {
    let world = world::<V>();
    let taken = Taken::<V>::new(&world);
    let (name, wrong) = V::CREDENTIAL;
    world.change_secret(name, wrong);
    let order = taken.order(1000);
    let refused = taken.refund(&order);
    assert!(
        matches!(refused, Err(RefundFailure::Unavailable(_))),
        "{refused:?}"
    );
    let asked = taken.query(&order);
    assert!(
        matches!(asked, Err(QueryFailure::Unavailable(_))),
        "{asked:?}"
    );
    assert_eq!(taken.refunded(), 0);
}
