//! Queries of a payment's status.
use std::mem::discriminant;

use kassette_plugin::provider::{Money, QueryFailure, QueryPurpose, Status};
use kassette_sim::{Fault, State};

use super::{Lost, PURPOSES, Payment, Vendor, world};

pub fn every_outcome_has_its_report<V: Vendor>() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", V::DECLINED),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let world = world::<V>();
        let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
        payment.choose(outcome);
        let told = if V::BY_NOTICE && outcome != "pending" {
            payment.hear()
        } else {
            Vec::new()
        };
        let report = match told.into_iter().next() {
            Some(first) if outcome != "approve" => first,
            _ => payment.settle(),
        };
        assert_eq!(report.status, status, "{outcome}");
    }
}

pub fn a_payer_who_pays_after_a_decline_is_told_as_paid<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::start(&world, V::CAPTURED);
    payment.choose("decline");
    if V::BY_NOTICE {
        payment.hear();
    }
    payment.approve();
    if V::TAKEN_ON_CAPTURE {
        assert_eq!(payment.settle().status, Status::Completed);
    }
    assert_eq!(payment.ask(QueryPurpose::Cancel).status, Status::Completed);
    assert_eq!(world.entry().captured_times, 1);
}

pub fn what_was_declined_for_good_can_no_longer_be_paid<V: Vendor>() {
    let world = world::<V>();
    world.change_setting("keep-open-after-decline", "false");
    let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
    payment.choose("decline");
    world.advance(V::DECLINED_AFTER_MS);
    let told = if V::BY_NOTICE {
        payment.hear().remove(0)
    } else {
        payment.ask(QueryPurpose::Sync)
    };
    assert_eq!(
        (told.status, told.received.amount),
        (V::DECLINED_FOR_GOOD, 0)
    );
    assert_eq!(payment.choose("approve"), 409);
    let entry = world.entry();
    assert_eq!((entry.state, entry.captured_times), (State::Declined, 0));
}

pub fn a_question_that_got_no_answer_is_no_news<V: Vendor>() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
        Fault::Down,
    ] {
        let world = world::<V>();
        let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
        payment.choose("approve");
        let state = world.entry().state;
        for purpose in PURPOSES {
            world.fault(fault);
            let asked = payment.try_ask(purpose);
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{fault} {purpose:?}"
            );
        }
        if V::LOST == Lost::Found && V::SPOILS_SEARCHES {
            world.fault(fault);
            let asked = world.query(&payment.attempt, None, QueryPurpose::Sync);
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{fault} {asked:?}"
            );
        }
        assert_eq!(world.entry().state, state, "{fault}");
        world.sim.clear_faults(world.id()).unwrap();
        if V::BY_NOTICE {
            payment.hear();
        }
        assert_eq!(payment.settle().status, Status::Completed, "{fault}");
    }
}

pub fn a_payment_that_is_held_is_told_so_whatever_the_purpose_until_it_is_let_go<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
    payment.choose("review");
    payment.settle();
    let due = payment.attempt.due.clone();
    let held = if V::HELD_MONEY { due.amount } else { 0 };
    for purpose in PURPOSES {
        let report = payment.ask(purpose);
        assert_eq!(
            (report.status, report.settlement, report.received.amount),
            (Status::Review, V::HELD, held),
            "{purpose:?}"
        );
    }
    if !V::HELD_IS_LET_GO {
        assert_eq!(payment.choose("approve"), 409);
        return;
    }
    payment.choose("approve");
    let report = payment.ask(QueryPurpose::Sync);
    assert_eq!((report.status, report.received), (Status::Completed, due));
    assert_eq!(world.entry().captured_times, 1);
}

pub fn what_was_received_is_told_as_the_vendor_took_it<V: Vendor>() {
    for (faults, amount, currency) in [
        (&[Fault::WrongAmount][..], 4989, None),
        (&[Fault::WrongCurrency], 4990, Some("USD")),
        (
            &[Fault::WrongAmount, Fault::WrongCurrency],
            4989,
            Some("USD"),
        ),
    ] {
        let world = world::<V>();
        let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
        for &fault in faults {
            world.fault(fault);
        }
        payment.approve();
        let due = payment.attempt.due.currency.as_str();
        let taken = Money {
            amount,
            currency: currency.unwrap_or(due).into(),
        };
        assert_eq!(payment.settle().received, taken, "{faults:?}");
    }
}

pub fn a_payment_that_ran_out_of_time_is_expired<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
    world.advance(payment.open.until.unwrap() - world.now() + V::GRACE_MS);
    let over = payment.ask(QueryPurpose::Sync);
    assert_eq!(
        (over.status, over.received.amount),
        (Status::Expired, 0),
        "{}",
        over.detail
    );
    let closed = payment.ask(QueryPurpose::Cancel).status;
    assert!(matches!(closed, Status::Expired | Status::Declined));
    assert_eq!(payment.choose("approve"), 409);
    assert_eq!(world.entry().captured_times, 0);
}

pub fn an_unknown_attempt_is_absent<V: Vendor>() {
    let world = world::<V>();
    let attempt = V::attempt(&world, V::METHODS[0]);
    for &purpose in V::UNKNOWN_PURPOSES {
        for reference in [None, Some(V::UNKNOWN)] {
            let asked = world.query(&attempt, reference, purpose);
            assert_eq!(
                asked,
                Err(QueryFailure::Absent),
                "{reference:?} {purpose:?}"
            );
        }
        // The module must not follow a reference to another path.
        assert!(world.query(&attempt, Some("../account"), purpose).is_err());
    }
    assert!(!world.sent().iter().any(|sent| sent.contains("..")));
    assert!(world.entries().is_empty());
}

pub fn what_the_vendor_has_forgotten_is_absent<V: Vendor>() {
    for &purpose in V::FORGOTTEN_PURPOSES {
        let world = world::<V>();
        let mut payment = Payment::<V>::authorised(&world);
        world.fault(Fault::Forgets);
        let asked = payment.try_ask(purpose);
        assert_eq!(asked, Err(QueryFailure::Absent), "{purpose:?}");
    }
}

pub fn a_reference_of_another_attempt_tells_nothing<V: Vendor>() {
    for outcome in ["pending", "approve"] {
        let world = world::<V>();
        let other = Payment::<V>::start(&world, V::METHODS[0]);
        other.choose(outcome);
        let entry = world.entry();
        let mine = V::attempt(&world, V::METHODS[0]);
        for purpose in PURPOSES {
            let asked = world.query(&mine, Some(&other.open.reference), purpose);
            let failure = asked.unwrap_err();
            assert_eq!(
                discriminant(&failure),
                discriminant(&V::FOREIGN_REFERENCE),
                "{outcome} {purpose:?}"
            );
        }
        let after = world.entry();
        assert_eq!(
            (after.state, after.captured_times),
            (entry.state, entry.captured_times),
            "{outcome}"
        );
    }
}
