//! Starts of a payment, and the certainty of their failures.
use kassette_plugin::provider::{
    Action, Condition, Environment, Payer, QueryFailure, QueryPurpose, Settlement, StartFailure,
    Status,
};
use kassette_sim::Fault;

use super::{Lost, PURPOSES, Payment, Vendor, world};
use crate::{World, open};

pub fn a_payment_is_started_approved_and_completed<V: Vendor>() {
    for environment in [Environment::Test, Environment::Live] {
        for &method in V::METHODS {
            let world = World::with_module(V::MODULE, environment);
            let mut payment = Payment::<V>::start(&world, method);
            let page = world.page(&payment.open);
            assert!(page.starts_with(&world.payer_base()), "{page}");
            let until = V::until(&payment.attempt);
            assert_eq!(payment.open.until, until, "{method:?}");
            let waits = payment.ask(QueryPurpose::Sync);
            assert_eq!(
                (waits.status, waits.received.amount),
                (Status::Pending, 0),
                "{method:?}"
            );
            let (_, back) = world.choose(&payment.open, "approve");
            let leads_back = back.is_some_and(|to| to.starts_with(&payment.attempt.return_url));
            assert_eq!(leads_back, V::LEADS_BACK, "{method:?}");
            if V::BY_NOTICE {
                payment.hear();
            }
            let paid = payment.settle();
            assert_eq!(
                (paid.status, paid.settlement, &paid.received),
                (
                    Status::Completed,
                    Settlement::Confirmed,
                    &payment.attempt.due
                ),
                "{method:?}"
            );
            for purpose in PURPOSES {
                let status = payment.ask(purpose).status;
                assert_eq!(status, Status::Completed, "{method:?} {purpose:?}");
            }
            let entry = world.entry();
            assert_eq!(
                (entry.attempt_id, entry.reference, entry.captured_times),
                (payment.attempt.id, payment.open.reference, 1),
                "{method:?}"
            );
        }
    }
}

pub fn a_repeated_start_finds_the_payment_whatever_was_learnt_of_the_payer<V: Vendor>() {
    for &method in V::METHODS {
        let world = world::<V>();
        let mut payment = Payment::<V>::start(&world, method);
        world.advance(60_000);
        let again = open(world.start(&payment.attempt));
        assert_eq!(again, payment.open, "{method:?}");
        payment.attempt.payer = Payer {
            email: Some("another@shop.example".into()),
            ip: None,
            language: Some("nl".into()),
            country: Some("DE".into()),
        };
        let mut known = open(world.start(&payment.attempt));
        for open in [&mut known, &mut payment.open] {
            // The texts are in the payer's language, which has changed.
            if let Action::Show(instructions) = &mut open.action {
                instructions.text.clear();
                let details = instructions.details.iter_mut();
                details.for_each(|(label, _)| label.clear());
            }
        }
        assert_eq!(known, payment.open, "{method:?}");
        assert_eq!(world.entry().reference, payment.open.reference);
    }
}

pub fn what_surely_did_nothing_is_unavailable<V: Vendor>() {
    for &fault in V::SURE {
        let world = world::<V>();
        world.fault(fault);
        let refused = world.start(&V::attempt(&world, V::METHODS[0]));
        assert!(
            matches!(refused, Err(StartFailure::Unavailable(_))),
            "{fault}"
        );
        assert!(world.entries().is_empty());
    }
    let world = world::<V>();
    world.refuse_connections();
    let refused = world.start(&V::attempt(&world, V::METHODS[0]));
    assert!(matches!(refused, Err(StartFailure::Unavailable(_))));
    assert!(world.entries().is_empty());
}

pub fn what_may_have_done_something_is_uncertain_and_a_repeat_makes_it_certain<V: Vendor>() {
    for (fault, entries) in [
        (Fault::TimeoutBeforeEffect, 0),
        (Fault::TimeoutAfterEffect, 1),
        (Fault::Status500, 0),
        (Fault::Malformed, 1),
        (Fault::Truncated, 1),
        (Fault::Down, 0),
    ] {
        if V::SURE.contains(&fault) {
            continue;
        }
        let world = world::<V>();
        let attempt = V::attempt(&world, V::METHODS[0]);
        world.fault(fault);
        let lost = world.start(&attempt);
        assert!(matches!(lost, Err(StartFailure::Uncertain(_))), "{fault}");
        world.sim.clear_faults(world.id()).unwrap();
        assert_eq!(world.entries().len(), entries, "{fault}");
        let asked = world.query(&attempt, None, QueryPurpose::Sync);
        match (V::LOST, entries) {
            (Lost::Unfindable, _) | (Lost::Found, 0) => {
                assert_eq!(asked, Err(QueryFailure::Absent), "{fault}");
            }
            (Lost::Found | Lost::Made, _) => {
                assert_eq!(asked.unwrap().status, Status::Pending, "{fault}");
            }
        }
        let started = open(world.start(&attempt));
        assert_eq!(world.entry().reference, started.reference, "{fault}");
    }
}

pub fn a_currency_that_the_method_does_not_take_is_for_another_provider<V: Vendor>() {
    let world = world::<V>();
    let refused = world.start(&V::attempt(&world, V::FOREIGN));
    let elsewhere = matches!(
        refused,
        Err(StartFailure::Unavailable(_) | StartFailure::NotActivated(_))
    );
    assert!(elsewhere, "{refused:?}");
    assert!(world.entries().is_empty());
}

pub fn wrong_credentials_are_for_another_provider<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
    let (name, wrong) = V::CREDENTIAL;
    world.change_secret(name, wrong);
    let refused = world.start(&V::attempt(&world, V::METHODS[0]));
    assert!(matches!(refused, Err(StartFailure::Unavailable(_))));
    assert_eq!(world.entries().len(), 1);
    let asked = payment.try_ask(QueryPurpose::Sync);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    assert!(matches!(world.health(), Condition::Down(_)));
}

pub fn health_tells_whether_the_vendor_can_be_reached<V: Vendor>() {
    for environment in [Environment::Test, Environment::Live] {
        let world = World::<V::Module>::with_module(V::MODULE, environment);
        assert_eq!(world.health(), Condition::Operational);
        world.fault(Fault::Down);
        assert!(matches!(world.health(), Condition::Down(_)));
    }
}

pub fn a_vendor_that_was_restarted_still_knows_its_payments<V: Vendor>() {
    let mut world = world::<V>();
    let attempt = V::attempt(&world, V::METHODS[0]);
    let started = open(world.start(&attempt));
    world.restart();
    // The module fetches lost state, such as tokens, again.
    assert_eq!(open(world.start(&attempt)).reference, started.reference);
    assert_eq!(world.entries().len(), 1);
    let restarted = open(world.start(&attempt));
    let mut payment = Payment::<V>::new(&world, attempt, restarted);
    assert_eq!(payment.ask(QueryPurpose::Sync).status, Status::Pending);
    payment.approve();
    assert_eq!(payment.settle().status, Status::Completed);
}
