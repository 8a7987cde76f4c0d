//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Failure, QueryFailure, Settlement, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::world;

#[test]
fn a_payment_is_started_approved_captured_and_completed() {
    for (method, currency) in [("paypal", "EUR"), ("venmo", "USD")] {
        let w = world();
        let attempt = w.attempt(method, currency);
        let started = open(w.start(&attempt));
        let page = w.payer_base();
        assert!(matches!(&started.action, Action::Redirect(url) if url.starts_with(&page)));
        w.choose(&started, "approve");
        let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(ask(Wish::Look).status, Status::Processing);
        let report = ask(Wish::Finish);
        assert_eq!(
            (report.status, report.settlement),
            (Status::Completed, Settlement::Confirmed)
        );
        assert_eq!(report.received, attempt.due);
        assert_eq!(w.entry().attempt_id, attempt.id);
        assert_eq!(w.entry().captured_times, 1);
    }
}

#[test]
fn forints_are_sent_without_decimals_and_never_with() {
    let w = world();
    let mut attempt = w.attempt("paypal", "HUF");
    assert!(matches!(w.start(&attempt), Err(Failure::Unavailable(_))));
    assert!(w.sent().is_empty());
    attempt.due.amount = 499_000;
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w.query(&attempt, Some(&started.reference), Wish::Finish);
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
fn a_repeated_start_finds_the_same_order_whatever_was_learnt_of_the_payer() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let first = open(w.start(&attempt));
    let mut known = attempt.clone();
    known.payer.email = Some("payer@shop.example".into());
    assert_eq!(open(w.start(&known)), first);
    assert_eq!(w.entry().reference, first.reference);
}

#[test]
fn a_repeat_of_a_start_that_was_approved_meanwhile_makes_the_host_ask() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let first = open(w.start(&attempt));
    w.choose(&first, "approve");
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
    assert_eq!(w.entry().state, State::Authorised);
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = world();
        w.fault(fault);
        let started = w.start(&w.attempt("paypal", "EUR"));
        assert!(matches!(started, Err(Failure::Unavailable(_))), "{fault}");
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    let started = w.start(&w.attempt("paypal", "EUR"));
    assert!(matches!(started, Err(Failure::Unavailable(_))));
    let w = world();
    // Rupees are none of PayPal's currencies.
    let started = w.start(&w.attempt("paypal", "INR"));
    assert!(matches!(started, Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn wrong_credentials_are_unavailable_and_down() {
    let w = world();
    w.change_secret("client-secret", "another");
    let started = w.start(&w.attempt("paypal", "EUR"));
    assert!(matches!(started, Err(Failure::Unavailable(_))));
    assert!(matches!(w.health(), Condition::Down(_)));
    assert!(w.entries().is_empty());
}

#[test]
fn what_may_have_done_something_is_uncertain_and_a_repeat_makes_it_certain() {
    for (fault, entries) in [
        (Fault::TimeoutBeforeEffect, 0),
        (Fault::TimeoutAfterEffect, 1),
        (Fault::Status500, 0),
        (Fault::Malformed, 1),
        (Fault::Truncated, 1),
    ] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        w.fault(fault);
        assert!(
            matches!(w.start(&attempt), Err(Failure::Uncertain(_))),
            "{fault}"
        );
        assert_eq!(w.entries().len(), entries, "{fault}");
        // Nobody can approve or capture an order whose id nobody has learnt.
        for wish in [Wish::Look, Wish::Close] {
            let asked = w.query(&attempt, None, wish);
            assert_eq!(asked, Err(QueryFailure::Absent), "{fault}");
        }
        let started = open(w.start(&attempt));
        assert_eq!(w.entry().reference, started.reference, "{fault}");
    }
}

#[test]
fn a_token_that_paypal_forgot_is_fetched_again() {
    let mut w = world();
    let attempt = w.attempt("paypal", "EUR");
    open(w.start(&attempt));
    w.restart();
    open(w.start(&attempt));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn health_tells_whether_paypal_can_be_reached() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
}
