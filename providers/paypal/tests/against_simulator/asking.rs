//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Failure, Money, QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::world;

#[test]
fn every_outcome_has_its_report_once_captured() {
    for (outcome, status, state) in [
        ("approve", Status::Completed, State::Captured),
        ("decline", Status::Declined, State::Declined),
        ("review", Status::Review, State::Captured),
        ("pending", Status::Pending, State::Open),
    ] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w.query(&attempt, Some(&started.reference), Wish::Finish);
        assert_eq!(report.unwrap().status, status, "{outcome}");
        assert_eq!(w.entry().state, state, "{outcome}");
    }
}

#[test]
fn a_voided_order_can_neither_be_paid_nor_started_again() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_question_that_got_no_answer_is_no_news() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
        Fault::Down,
    ] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            w.fault(fault);
            let asked = w.query(&attempt, Some(&started.reference), wish);
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{fault} {wish:?}"
            );
        }
        assert_eq!(w.entry().state, State::Authorised, "{fault}");
    }
}

#[test]
fn an_approval_is_captured_on_finish_alone_and_once() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| {
        w.query(&attempt, Some(&started.reference), wish)
            .unwrap()
            .status
    };
    assert_eq!(ask(Wish::Look), Status::Processing);
    assert_eq!(w.entry().captured_times, 0);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(ask(Wish::Close), Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_whose_answer_is_lost_is_found_without_a_second_capture() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.lose_answer_of("/capture");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Finish);
    assert!(matches!(ask(), Err(QueryFailure::Unavailable(_))));
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(ask().unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_held_capture_is_reviewed_without_money_until_paypal_lets_it_go() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let report = ask(wish);
        assert_eq!(
            (report.status, report.settlement, report.received.amount),
            (Status::Review, Settlement::Pending, 0),
            "{wish:?}"
        );
    }
    w.choose(&started, "approve");
    let report = ask(Wish::Look);
    assert_eq!(
        (report.status, report.received),
        (Status::Completed, attempt.due.clone())
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_closed_order_is_never_captured_whatever_its_payer_does() {
    for before in ["pending", "approve"] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, before);
        let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(ask(Wish::Close).status, Status::Declined, "{before}");
        // PayPal's page is still there: what the payer does on it costs him nothing.
        w.choose(&started, "approve");
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            let report = ask(wish);
            assert_eq!(
                (report.status, report.received.amount),
                (Status::Declined, 0),
                "{before}"
            );
        }
        assert!(
            matches!(w.start(&attempt), Err(Failure::Declined(_))),
            "{before}"
        );
        assert_eq!(w.entry().captured_times, 0, "{before}");
    }
}

#[test]
fn what_was_received_is_told_as_paypal_took_it() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let taken = Money {
        amount: 4989,
        currency: "USD".into(),
    };
    assert_eq!(ask(Wish::Finish).received, taken);
    w.choose(&started, "refund");
    assert_eq!(ask(Wish::Look).returned, taken.amount);
}

#[test]
fn an_order_over_another_amount_is_not_captured() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let mut dearer = attempt;
    dearer.due.amount += 1;
    let report = w
        .query(&dearer, Some(&started.reference), Wish::Finish)
        .unwrap();
    assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_refund_is_told_with_its_amount() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.choose(&started, "refund");
    let report = ask(Wish::Look);
    assert_eq!(
        (report.status, report.returned),
        (Status::Completed, attempt.due.amount)
    );
}

#[test]
fn an_order_that_nobody_approved_in_time_is_absent() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.advance(3 * 3_600_000);
    let asked = w.query(&attempt, Some(&started.reference), Wish::Look);
    assert_eq!(asked, Err(QueryFailure::Absent));
}

#[test]
fn an_unknown_order_is_absent_and_a_strange_reference_is_not_asked_for() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    for reference in [None, Some("../../v1/oauth2"), Some("5O190127TN364715T")] {
        let asked = w.query(&attempt, reference, Wish::Close);
        assert_eq!(asked, Err(QueryFailure::Absent), "{reference:?}");
    }
    let reads = |sent: &String| sent.contains("/v2/");
    assert_eq!(w.sent().iter().filter(|sent| reads(sent)).count(), 1);
}

#[test]
fn an_order_of_another_attempt_tells_nothing() {
    let w = world();
    let other = open(w.start(&w.attempt("paypal", "EUR")));
    w.choose(&other, "approve");
    let mine = w.attempt("paypal", "EUR");
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let asked = w.query(&mine, Some(&other.reference), wish);
        assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    }
    assert_eq!(w.entry().captured_times, 0);
}
