//! Cancellation of payments, after which no money may move.
use kassette_plugin::provider::{QueryFailure, QueryPurpose, StartFailure, Status};
use kassette_sim::Fault;

use super::{Payment, Vendor, world};

pub fn closing_proves_that_nothing_can_be_paid<V: Vendor>() {
    for &outcome in V::CLOSABLE_AFTER {
        let world = world::<V>();
        // The payer's approval only authorizes.
        world.fault(Fault::NeedsCapture);
        let mut payment = Payment::<V>::start(&world, V::CLOSABLE);
        if !outcome.is_empty() {
            payment.choose(outcome);
        }
        for _ in 0..2 {
            let closed = payment.ask(QueryPurpose::Cancel);
            assert_eq!(
                (closed.status, closed.received.amount),
                (Status::Declined, 0),
                "{outcome}"
            );
        }
        let status = payment.choose("approve");
        assert!(V::PAGE_STAYS || status == 409, "{outcome} {status}");
        for purpose in [QueryPurpose::Sync, QueryPurpose::Cancel] {
            let report = payment.ask(purpose);
            assert_ne!(report.status, Status::Completed, "{outcome} {purpose:?}");
            assert_eq!(report.received.amount, 0, "{outcome} {purpose:?}");
        }
        assert_eq!(world.entry().captured_times, 0, "{outcome}");
    }
}

pub fn what_was_closed_cannot_be_started_again<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::start(&world, V::CLOSABLE);
    assert_eq!(payment.ask(QueryPurpose::Cancel).status, Status::Declined);
    let again = world.start(&payment.attempt);
    assert!(matches!(again, Err(StartFailure::Declined(_))));
    assert_eq!(world.entries().len(), 1);
}

pub fn a_close_that_cannot_be_done_now_is_not_certain<V: Vendor>() {
    for &fault in V::CLOSE_FAULTS {
        let world = world::<V>();
        let mut payment = Payment::<V>::start(&world, V::CLOSABLE);
        world.fault(fault);
        let closed = payment.try_ask(QueryPurpose::Cancel);
        assert!(
            matches!(closed, Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
        assert_eq!(
            payment.ask(QueryPurpose::Cancel).status,
            Status::Declined,
            "{fault}"
        );
    }
}

pub fn what_was_paid_before_it_was_closed_is_told_as_paid<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
    payment.approve();
    if V::TAKEN_ON_CAPTURE {
        payment.settle();
    }
    let closed = payment.ask(QueryPurpose::Cancel);
    assert_eq!(
        (closed.status, closed.received),
        (Status::Completed, payment.attempt.due)
    );
    assert_eq!(world.entry().captured_times, 1);
}
