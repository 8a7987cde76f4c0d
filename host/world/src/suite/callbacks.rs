//! Acceptance of webhooks.
use kassette_plugin::provider::{CallbackFailure, CallbackRequest, QueryPurpose, Status, Subject};
use kassette_sim::Fault;

use super::{Payment, Vendor, world};
use crate::World;

/// Starts a payment, makes the payer's choice and returns the callback about it.
fn told<'w, V: Vendor>(
    world: &'w World<V::Module>,
    outcome: &str,
) -> (Payment<'w, V>, CallbackRequest) {
    let payment = Payment::<V>::start(world, V::METHODS[0]);
    payment.choose(outcome);
    let news = world.next_callback();
    (payment, news)
}

fn is_forged<V: Vendor>(world: &World<V::Module>, news: &CallbackRequest) -> bool {
    matches!(world.callback(news), Err(CallbackFailure::Forged(_)))
}

/// Checks that the module acknowledges a callback and reports only this attempt.
fn names<V: Vendor>(payment: &Payment<'_, V>, news: &CallbackRequest) {
    let answer = payment.world.callback(news).unwrap();
    assert_eq!(answer.status, 200);
    let about: Vec<_> = answer.notices.into_iter().map(|one| one.about).collect();
    assert_eq!(about, [Subject::Attempt(payment.attempt.id.clone())]);
}

pub fn news_names_the_attempt<V: Vendor>() {
    for outcome in ["approve", "decline"] {
        let world = world::<V>();
        let (payment, news) = told::<V>(&world, outcome);
        names(&payment, &news);
    }
}

pub fn forged_news_is_refused<V: Vendor>() {
    let world = world::<V>();
    world.fault(Fault::CallbackForged);
    let (_, news) = told::<V>(&world, "decline");
    assert!(is_forged::<V>(&world, &news));
}

pub fn news_with_another_byte_is_refused<V: Vendor>() {
    let world = world::<V>();
    let (payment, mut news) = told::<V>(&world, "approve");
    names(&payment, &news);
    news.body.push(b' ');
    assert!(is_forged::<V>(&world, &news));
}

pub fn news_signed_with_the_secret_before_counts_during_a_rotation_alone<V: Vendor>() {
    let world = world::<V>();
    let (payment, news) = told::<V>(&world, "approve");
    let (name, other) = V::NOTICE_SECRET.unwrap();
    world.rotate_secret(name, other);
    names(&payment, &news);
    world.change_secret(name, other);
    assert!(is_forged::<V>(&world, &news));
}

pub fn news_that_is_too_old_is_refused<V: Vendor>() {
    let world = world::<V>();
    let (payment, news) = told::<V>(&world, "approve");
    let too_old = V::NOTICE_TOO_OLD_MS;
    world.advance(too_old / 2);
    names(&payment, &news);
    world.advance(too_old - too_old / 2);
    assert!(is_forged::<V>(&world, &news));
}

pub fn news_told_twice_or_in_the_wrong_order_changes_nothing<V: Vendor>() {
    for fault in [Fault::CallbackTwice, Fault::CallbackReordered] {
        let world = world::<V>();
        let mut payment = Payment::<V>::start(&world, V::METHODS[0]);
        if V::TAKEN_ON_CAPTURE && !V::BY_NOTICE {
            payment.choose("approve");
            world.next_callback();
            world.fault(fault);
            payment.ask(QueryPurpose::Capture);
        } else {
            world.fault(fault);
            payment.choose("approve");
        }
        let first = world.next_callback();
        world.advance(1_000);
        for news in [first, world.next_callback()] {
            names(&payment, &news);
            payment.take(&news);
        }
        assert_eq!(payment.settle().status, Status::Completed, "{fault}");
        assert_eq!(world.entry().captured_times, 1, "{fault}");
    }
}
