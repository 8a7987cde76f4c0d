//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Failure, Money, QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{attempt, chosen, world};

#[test]
fn every_outcome_has_its_report_once_asked_for() {
    for (outcome, status, state) in [
        ("approve", Status::Completed, State::Captured),
        ("decline", Status::Declined, State::Declined),
        ("review", Status::Review, State::Captured),
        ("pending", Status::Pending, State::Open),
    ] {
        let w = world();
        let (attempt, started) = chosen(&w, outcome);
        let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
        ask(Wish::Finish);
        w.confirm();
        assert_eq!(ask(Wish::Look).status, status, "{outcome}");
        assert_eq!(w.entry().state, state, "{outcome}");
    }
}

#[test]
fn a_failed_handle_can_neither_be_paid_nor_started_again() {
    let w = world();
    let (attempt, started) = chosen(&w, "decline");
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
        let (attempt, started) = chosen(&w, "approve");
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
fn money_is_asked_for_on_finish_alone_and_once() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let (attempt, started) = chosen(&w, "approve");
    let ask = |wish| {
        w.query(&attempt, Some(&started.reference), wish)
            .unwrap()
            .status
    };
    assert_eq!(ask(Wish::Look), Status::Processing);
    assert_eq!(w.entry().captured_times, 0);
    for _ in 0..3 {
        ask(Wish::Finish);
    }
    w.confirm();
    assert_eq!(ask(Wish::Close), Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_payment_whose_answer_is_lost_is_found_without_a_second_one() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    w.lose_answer_of("/payments");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish);
    assert!(matches!(
        ask(Wish::Finish),
        Err(QueryFailure::Unavailable(_))
    ));
    assert_eq!(ask(Wish::Finish).unwrap().status, Status::Processing);
    w.confirm();
    assert_eq!(ask(Wish::Finish).unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_held_payment_is_reviewed_without_money_until_it_is_let_go() {
    let w = world();
    let (attempt, started) = chosen(&w, "review");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.confirm();
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
fn what_was_received_is_told_as_paysafe_took_it() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.confirm();
    let taken = Money {
        amount: 4989,
        currency: "USD".into(),
    };
    assert_eq!(ask(Wish::Look).received, taken);
}

#[test]
fn a_handle_over_another_amount_is_not_asked_for() {
    let w = world();
    let (mut dearer, started) = chosen(&w, "approve");
    dearer.due.amount += 1;
    let report = w
        .query(&dearer, Some(&started.reference), Wish::Finish)
        .unwrap();
    assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn refunds_and_disputes_are_told() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.confirm();
    w.choose(&started, "dispute");
    assert_eq!(ask(Wish::Look).status, Status::Review);
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.confirm();
    w.choose(&started, "refund");
    let report = ask(Wish::Look);
    assert_eq!(
        (report.status, report.returned),
        (Status::Completed, attempt.due.amount)
    );
}

#[test]
fn an_unknown_attempt_is_absent_whatever_the_reference() {
    let w = world();
    let (_, other) = chosen(&w, "approve");
    let mine = attempt(&w);
    for reference in [None, Some(other.reference.as_str()), Some("../payments")] {
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            let asked = w.query(&mine, reference, wish);
            assert_eq!(asked, Err(QueryFailure::Absent), "{reference:?}");
        }
    }
    open(w.start(&mine));
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
}
