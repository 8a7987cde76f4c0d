//! Which news is believed, and which order it is about.
use kassette_plugin::provider::{Incoming, Refused, Subject};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{World, world};

/// The order that a callback is about; it says no more than that.
fn about(w: &World, news: &Incoming) -> Option<Subject> {
    let answer = w.callback(news).unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    answer.notices.into_iter().next().map(|notice| notice.about)
}

fn forged(w: &World, news: &Incoming) -> bool {
    matches!(w.callback(news), Err(Refused::Forged(_)))
}

#[test]
fn callbacks_are_believed_when_signed_by_the_account_and_only_for_five_minutes() {
    for outcome in ["approve", "decline"] {
        let w = world();
        let attempt = w.attempt("revolut", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let news = w.next_callback();
        assert_eq!(
            about(&w, &news),
            Some(Subject::Attempt(attempt.id)),
            "{outcome}"
        );
        // A replay within the tolerance says the same; after it, nothing.
        assert!(about(&w, &news).is_some());
        w.advance(301_000);
        assert!(forged(&w, &news), "{outcome}");
    }
}

#[test]
fn a_forged_or_changed_callback_is_refused() {
    let w = world();
    w.fault(Fault::CallbackForged);
    let started = open(w.start(&w.attempt("revolut", "EUR")));
    w.choose(&started, "decline");
    assert!(forged(&w, &w.next_callback()));
    w.choose(&started, "approve");
    let mut news = w.next_callback();
    assert!(!forged(&w, &news));
    news.body.push(b' ');
    assert!(forged(&w, &news));
}

#[test]
fn callbacks_of_another_account_are_refused() {
    let w = world();
    w.change_secret("webhook-secret", "wsk_ofSomebodyElse");
    let started = open(w.start(&w.attempt("revolut", "EUR")));
    w.choose(&started, "approve");
    assert!(forged(&w, &w.next_callback()));
}

#[test]
fn during_a_rotation_the_old_secret_still_counts() {
    let w = world();
    w.rotate_secret("webhook-secret", "wsk_theNewOne");
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let news = w.next_callback();
    assert_eq!(about(&w, &news), Some(Subject::Attempt(attempt.id)));
}

#[test]
fn a_dispute_is_traced_to_its_order() {
    let w = world();
    let started = open(w.start(&w.attempt("revolut", "EUR")));
    w.choose(&started, "review");
    let order = Some(Subject::Reference(started.reference.clone()));
    assert_eq!(about(&w, &w.next_callback()), order);
    w.choose(&started, "approve");
    assert_eq!(about(&w, &w.next_callback()), order);
    w.choose(&started, "dispute");
    assert_eq!(about(&w, &w.next_callback()), order);
}

#[test]
fn a_refund_is_traced_to_its_order_and_asked_for_again_where_that_fails() {
    let w = world();
    let started = open(w.start(&w.attempt("revolut", "EUR")));
    w.choose(&started, "approve");
    w.next_callback();
    w.choose(&started, "refund");
    let news = w.next_callback();
    w.fault(Fault::Status500);
    assert!(matches!(w.callback(&news), Err(Refused::Later(_))));
    assert_eq!(
        about(&w, &news),
        Some(Subject::Reference(started.reference))
    );
}

#[test]
fn what_comes_twice_or_out_of_order_names_the_same_order() {
    for fault in [Fault::CallbackTwice, Fault::CallbackReordered] {
        let w = world();
        w.fault(fault);
        let attempt = w.attempt("revolut", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let first = w.next_callback();
        w.advance(1_000);
        let second = w.next_callback();
        for news in [first, second] {
            let subject = Subject::Attempt(attempt.id.clone());
            assert_eq!(about(&w, &news), Some(subject), "{fault}");
        }
    }
}
