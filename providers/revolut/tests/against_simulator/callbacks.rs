//! Verification of webhooks, and the orders that they are about.
use kassette_plugin::provider::{CallbackFailure, CallbackRequest, Subject};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{World, world};

/// The subject of a callback, which contains no report.
fn about(w: &World, news: &CallbackRequest) -> Option<Subject> {
    let answer = w.callback(news).unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    answer.notices.into_iter().next().map(|notice| notice.about)
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
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Later(_))));
    assert_eq!(
        about(&w, &news),
        Some(Subject::Reference(started.reference))
    );
}
