//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Environment, Failure, QueryFailure, Settlement, Started, Status, Wish,
};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{ID, MINUTE, World, world};

#[test]
fn a_payment_is_started_approved_and_completed() {
    for environment in [Environment::Test, Environment::Live] {
        let w = World::of("stripe", environment);
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        assert!(
            matches!(&started.action, Action::Redirect(url) if url.starts_with(&w.payer_base()))
        );
        assert_eq!(started.until, Some(attempt.expires));
        let (status, back) = w.choose(&started, "approve");
        assert_eq!((status, back.as_ref()), (303, Some(&attempt.return_url)));
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(
            (report.status, report.settlement),
            (Status::Completed, Settlement::Confirmed)
        );
        assert_eq!(report.received, attempt.due);
        assert_eq!(w.entry().attempt_id, attempt.id);
        assert_eq!(w.entry().reference, started.reference);
    }
}

#[test]
fn every_method_is_taken_in_its_currencies() {
    let w = world();
    for (method, currency) in [
        ("credit_card", "HUF"),
        ("ideal", "EUR"),
        ("klarna", "SEK"),
        ("cash_app", "USD"),
        ("revolut", "GBP"),
    ] {
        let mut attempt = w.attempt(method, currency);
        attempt.due.amount = 49_900;
        attempt.payer.email = Some("payer@shop.example".into());
        let started = open(w.start(&attempt));
        assert!(matches!(started.action, Action::Redirect(_)), "{method}");
    }
    let wrong = w.start(&w.attempt("ideal", "USD"));
    assert!(matches!(wrong, Err(Failure::Unavailable(_))));
}

#[test]
fn a_repeated_start_finds_the_same_session_whatever_was_learnt_of_the_payer() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    w.advance(MINUTE);
    assert_eq!(open(w.start(&attempt)), first);
    let mut known = attempt;
    known.payer.email = Some("payer@shop.example".into());
    assert_eq!(open(w.start(&known)), first);
    assert_eq!(w.entries().len(), 1);
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
fn what_surely_did_nothing_is_unavailable() {
    let w = world();
    w.fault(Fault::Status429);
    let limited = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(limited, Err(Failure::Unavailable(_))));
    w.change_secret("secret-key", "sk_test_wrong");
    let refused = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
    let w = world();
    w.refuse_connections();
    let unsent = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(unsent, Err(Failure::Unavailable(_))));
}

#[test]
fn an_amount_that_stripe_does_not_take_is_declined() {
    let w = world();
    for amount in [49, 100_000_000] {
        let mut attempt = w.attempt("credit_card", "EUR");
        attempt.due.amount = amount;
        assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    }
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
        (Fault::Down, 0),
    ] {
        let w = world();
        let attempt = w.attempt("ideal", "EUR");
        w.fault(fault);
        assert!(
            matches!(w.start(&attempt), Err(Failure::Uncertain(_))),
            "{fault}"
        );
        w.sim.clear_faults(ID).unwrap();
        assert_eq!(w.entries().len(), entries, "{fault}");
        let asked = w.query(&attempt, None, Wish::Look);
        match entries {
            0 => assert_eq!(asked, Err(QueryFailure::Absent), "{fault}"),
            _ => assert_eq!(asked.unwrap().status, Status::Pending, "{fault}"),
        }
        open(w.start(&attempt));
        assert_eq!(w.entries().len(), 1, "{fault}");
    }
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

#[test]
fn health_tells_whether_stripe_can_be_reached_and_takes_the_key() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
    w.sim.clear_faults(ID).unwrap();
    w.change_secret("secret-key", "sk_test_wrong");
    assert!(matches!(w.health(), Condition::Down(_)));
}
