//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{QueryPurpose, StartFailure};
use kassette_sim::State;
use kassette_world::open;

use crate::world;

#[test]
fn forints_are_sent_without_decimals_and_never_with() {
    let w = world();
    let mut attempt = w.attempt("paypal", "HUF");
    assert!(matches!(
        w.start(&attempt),
        Err(StartFailure::Unavailable(_))
    ));
    assert!(w.sent().is_empty());
    attempt.due.amount = 499_000;
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w.query(&attempt, Some(&started.reference), QueryPurpose::Capture);
    assert_eq!(report.unwrap().received, attempt.due);
}

#[test]
fn the_payer_comes_back_with_paypals_query() {
    let w = world();
    let started = open(w.start(&w.attempt("paypal", "EUR")));
    let (_, location) = w.choose(&started, "approve");
    let expected = format!("?token={}&PayerID=", started.reference);
    assert!(location.unwrap().contains(&expected));
}

#[test]
fn a_repeat_of_a_start_that_was_approved_meanwhile_makes_the_host_ask() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let first = open(w.start(&attempt));
    w.choose(&first, "approve");
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    assert_eq!(w.entry().state, State::Authorised);
}
