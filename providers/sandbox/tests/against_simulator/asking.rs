//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Attempt, Failure, Money, QueryFailure, Status, Wish};
use kassette_sim::{Fault, State};

use kassette_world::open;

use crate::{ID, world};

#[test]
fn every_outcome_has_its_report() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Declined),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let w = world();
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_declined_session_can_no_longer_be_paid_once_it_was_told() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
}

#[test]
fn a_payer_who_came_back_after_a_decline_is_told_as_paid() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Close)
        .unwrap();
    assert_eq!(report.status, Status::Completed);
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
        let attempt = w.attempt("ideal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        w.fault(fault);
        let asked = w.query(&attempt, Some(&started.reference), Wish::Look);
        assert!(
            matches!(asked, Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
    }
}

#[test]
fn an_authorisation_is_captured_on_finish_alone_and_once() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| {
        w.query(&attempt, Some(&started.reference), wish)
            .unwrap()
            .status
    };
    assert_eq!(ask(Wish::Look), Status::Processing);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    // The first call is the read, the second the capture: both answers break off.
    w.sim.set_fault(ID, Fault::Truncated, 1).unwrap();
    assert!(w.query(&attempt, None, Wish::Finish).is_err());
    w.lose_answer_of("/capture");
    assert!(w.query(&attempt, None, Wish::Finish).is_err());
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(
        w.query(&attempt, None, Wish::Finish).unwrap().status,
        Status::Completed
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_held_payment_is_told_with_its_money_whatever_the_wish() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let report = w.query(&attempt, None, wish).unwrap();
        assert_eq!(
            (report.status, report.received),
            (Status::Review, attempt.due.clone())
        );
    }
    w.choose(&started, "approve");
    let report = w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(report.status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn closing_voids_what_was_approved_and_proves_that_nothing_can_be_paid() {
    let w = world();
    // One approval, which only authorises.
    w.fault(Fault::NeedsCapture);
    for outcome in ["pending", "decline", "approve"] {
        let attempt = w.attempt("ideal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Close)
            .unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Declined, 0),
            "{outcome}"
        );
        assert_eq!(w.choose(&started, "approve").0, 409, "{outcome}");
        assert!(
            matches!(w.start(&attempt), Err(Failure::Declined(_))),
            "{outcome}"
        );
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
}

#[test]
fn what_was_received_is_told_as_the_vendor_took_it() {
    let w = world();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(
        report.received,
        Money {
            amount: 4989,
            currency: "USD".into()
        }
    );
}

#[test]
fn refunds_and_disputes_are_told() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    let ask = || {
        w.query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap()
    };
    assert_eq!(ask().status, Status::Review);
    w.choose(&started, "refund");
    let report = ask();
    assert_eq!(
        (report.status, report.returned),
        (Status::Completed, attempt.due.amount)
    );
}

#[test]
fn a_session_that_ran_out_of_time_is_expired() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.advance(3_600_000);
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Look)
        .unwrap();
    assert_eq!(report.status, Status::Expired);
}

#[test]
fn an_unknown_attempt_is_absent() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    for reference in [None, Some("sbx_unknown"), Some("../account")] {
        assert_eq!(
            w.query(&attempt, reference, Wish::Close),
            Err(QueryFailure::Absent)
        );
    }
}

#[test]
fn a_reference_of_another_attempt_tells_nothing() {
    let w = world();
    let other = open(w.start(&w.attempt("ideal", "EUR")));
    w.choose(&other, "approve");
    let mine: Attempt = w.attempt("ideal", "EUR");
    let asked = w.query(&mine, Some(&other.reference), Wish::Look);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}
