//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{Action, StartFailure, Started};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{MINUTE, world};

#[test]
fn forints_are_taken_by_card() {
    let w = world();
    let mut attempt = w.attempt("credit_card", "HUF");
    attempt.due.amount = 49_900;
    open(w.start(&attempt));
}

#[test]
fn an_end_that_stripe_finds_too_near_is_put_off_once_and_for_all() {
    let w = world();
    let mut attempt = w.attempt("ideal", "EUR");
    attempt.expires = w.now() + 10 * MINUTE;
    let first = open(w.start(&attempt));
    assert_eq!(first.until, Some(attempt.expires + 31 * MINUTE));
    w.advance(5 * MINUTE);
    assert_eq!(open(w.start(&attempt)), first);
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn a_session_made_while_there_was_time_is_found_when_there_is_little_left() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    w.advance(45 * MINUTE);
    assert_eq!(open(w.start(&attempt)), first);
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn a_session_that_was_paid_meanwhile_is_not_offered_again() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    w.choose(&first, "approve");
    let again = open(w.start(&attempt));
    assert_eq!(again.reference, first.reference);
    assert!(matches!(again.action, Action::Show(_)));
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn an_amount_that_stripe_does_not_take_is_no_decline() {
    let w = world();
    for amount in [49, 100_000_000] {
        let mut attempt = w.attempt("credit_card", "EUR");
        attempt.due.amount = amount;
        assert!(matches!(
            w.start(&attempt),
            Err(StartFailure::Unavailable(_))
        ));
    }
    assert!(w.entries().is_empty());
}

#[test]
fn stripe_asks_nothing_of_the_payer() {
    let w = world();
    w.fault(Fault::Ask);
    assert!(matches!(
        w.start(&w.attempt("klarna", "EUR")),
        Ok(Started::Open(_))
    ));
}
