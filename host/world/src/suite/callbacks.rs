//! Acceptance of webhooks.
use kassette_plugin::provider::{CallbackFailure, CallbackRequest, QueryPurpose, Status, Subject};
use kassette_sim::Fault;

use super::{Payment, ProviderUnderTest, world};
use crate::World;

/// Starts a payment, makes the payer's choice and returns the callback about it.
fn payment_with_callback<'w, V: ProviderUnderTest>(
    world: &'w World<V::Module>,
    outcome: &str,
) -> (Payment<'w, V>, CallbackRequest) {
    let payment = Payment::<V>::start(world, V::METHODS[0]);
    payment.choose(outcome);
    let callback = world.next_callback();
    (payment, callback)
}

fn is_forged<V: ProviderUnderTest>(world: &World<V::Module>, callback: &CallbackRequest) -> bool {
    matches!(world.callback(callback), Err(CallbackFailure::Forged(_)))
}

/// Checks that the module acknowledges a callback and reports only this attempt.
fn names<V: ProviderUnderTest>(payment: &Payment<'_, V>, callback: &CallbackRequest) {
    let answer = payment.world.callback(callback).unwrap();
    assert_eq!(answer.status, 200);
    let about: Vec<_> = answer.notices.into_iter().map(|one| one.about).collect();
    assert_eq!(about, [Subject::Attempt(payment.attempt.id.clone())]);
}

pub fn callback_names_the_attempt<V: ProviderUnderTest>() {
    for outcome in ["approve", "decline"] {
        let world = world::<V>();
        let (payment, callback) = payment_with_callback::<V>(&world, outcome);
        names(&payment, &callback);
    }
}

pub fn forged_callback_is_refused<V: ProviderUnderTest>() {
    let world = world::<V>();
    world.fault(Fault::CallbackForged);
    let (_, callback) = payment_with_callback::<V>(&world, "decline");
    assert!(is_forged::<V>(&world, &callback));
}

pub fn callback_with_another_byte_is_refused<V: ProviderUnderTest>() {
    let world = world::<V>();
    let (payment, mut callback) = payment_with_callback::<V>(&world, "approve");
    names(&payment, &callback);
    callback.body.push(b' ');
    assert!(is_forged::<V>(&world, &callback));
}

pub fn callback_signed_with_the_secret_before_counts_during_a_rotation_alone<
    V: ProviderUnderTest,
>() {
    let world = world::<V>();
    let (payment, callback) = payment_with_callback::<V>(&world, "approve");
    let (name, other) = V::NOTICE_SECRET.unwrap();
    world.rotate_secret(name, other);
    names(&payment, &callback);
    world.change_secret(name, other);
    assert!(is_forged::<V>(&world, &callback));
}

pub fn callback_that_is_too_old_is_refused<V: ProviderUnderTest>() {
    let world = world::<V>();
    let (payment, callback) = payment_with_callback::<V>(&world, "approve");
    let too_old = V::NOTICE_TOO_OLD_MS;
    world.advance(too_old / 2);
    names(&payment, &callback);
    world.advance(too_old - too_old / 2);
    assert!(is_forged::<V>(&world, &callback));
}

pub fn callbacks_received_twice_or_in_the_wrong_order_change_nothing<V: ProviderUnderTest>() {
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
        for callback in [first, world.next_callback()] {
            names(&payment, &callback);
            payment.receive(&callback);
        }
        assert_eq!(payment.settle().status, Status::Completed, "{fault}");
        assert_eq!(world.entry().captured_times, 1, "{fault}");
    }
}
