//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Failure, Money, QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{klarna, query, world};

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
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_payment_that_failed_can_no_longer_be_paid_nor_started() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    let (_, location) = w.choose(&started, "decline");
    assert_eq!(location, Some(attempt.cancel_url.clone()));
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(
        (report.status, report.detail.as_str()),
        (Status::Declined, "failed, insufficient_funds")
    );
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
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
        for known in [true, false] {
            let w = world();
            let attempt = w.attempt("ideal", "EUR");
            let started = open(w.start(&attempt));
            w.choose(&started, "approve");
            w.fault(fault);
            let reference = known.then_some(started.reference.as_str());
            let asked = w.query(&attempt, reference, Wish::Look);
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{fault}"
            );
        }
    }
}

#[test]
fn an_authorisation_is_captured_on_finish_alone_and_once() {
    for by_setting in [true, false] {
        let w = world();
        if by_setting {
            w.change_setting("capture", "manual");
        } else {
            w.fault(Fault::NeedsCapture);
        }
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let ask = |wish| query(&w, &attempt, &started, wish);
        let authorised = ask(Wish::Look);
        assert_eq!(
            (authorised.status, authorised.received.amount),
            (Status::Processing, 0)
        );
        assert_ne!(ask(Wish::Finish).status, Status::Completed, "taken in");
        w.confirm();
        let captured = ask(Wish::Finish);
        assert_eq!(
            (captured.status, captured.settlement, captured.received),
            (
                Status::Completed,
                Settlement::Confirmed,
                attempt.due.clone()
            )
        );
        assert_eq!(ask(Wish::Finish).status, Status::Completed);
        assert_eq!(w.entry().captured_times, 1);
    }
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let reference = Some(started.reference.as_str());
    w.lose_answer_of("/captures");
    assert!(w.query(&attempt, reference, Wish::Finish).is_err());
    w.confirm();
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(
        query(&w, &attempt, &started, Wish::Finish).status,
        Status::Completed
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_charged_back_payment_is_for_a_person_until_the_bank_takes_it_back() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let report = query(&w, &attempt, &started, wish);
        assert_eq!(
            (report.status, report.received),
            (Status::Review, attempt.due.clone())
        );
    }
    w.choose(&started, "approve");
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(
        (report.status, report.settlement),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn closing_makes_sure_where_the_vendor_can() {
    let w = world();
    // Klarna's waits for the payer and can be called off; a card's authorisation likewise.
    let waiting = klarna(&w);
    let first = open(w.start(&waiting));
    let approved = w.attempt("credit_card", "EUR");
    let second = open(w.start(&approved));
    w.fault(Fault::NeedsCapture);
    w.choose(&second, "approve");
    // Klarna's authorisation is released.
    let released = klarna(&w);
    let third = open(w.start(&released));
    w.fault(Fault::NeedsCapture);
    w.choose(&third, "approve");
    for (attempt, started) in [(waiting, first), (approved, second), (released, third)] {
        let report = query(&w, &attempt, &started, Wish::Close);
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Declined, 0)
        );
        assert_eq!(w.choose(&started, "approve").0, 409);
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
    let sent = w.sent();
    let count = |start: &str, end: &str| {
        sent.iter()
            .filter(|call| call.starts_with(start) && call.ends_with(end))
            .count()
    };
    assert_eq!(
        (
            count("DELETE ", ""),
            count("POST ", "/release-authorization")
        ),
        (2, 1)
    );
}

#[test]
fn a_payment_that_cannot_be_called_off_stays_open_until_it_expires() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    let report = query(&w, &attempt, &started, Wish::Close);
    assert_eq!(report.status, Status::Pending);
    w.advance(started.until.unwrap() - w.now());
    let report = query(&w, &attempt, &started, Wish::Close);
    assert_eq!(report.status, Status::Expired);
    assert_eq!(w.choose(&started, "approve").0, 409);
}

#[test]
fn what_was_paid_before_it_was_closed_is_told_as_paid() {
    let w = world();
    let attempt = klarna(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = query(&w, &attempt, &started, Wish::Close);
    assert_eq!(report.status, Status::Completed);
}

#[test]
fn a_payment_that_is_over_cannot_be_started_again() {
    let w = world();
    let mut attempt = klarna(&w);
    let started = open(w.start(&attempt));
    query(&w, &attempt, &started, Wish::Close);
    // The same request gets its first answer again; only the host knows that it closed the attempt.
    attempt.payer.language = Some("nl".into());
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
}

#[test]
fn what_was_received_is_told_as_the_vendor_took_it() {
    for method in ["credit_card", "ideal"] {
        let w = world();
        w.fault(Fault::WrongAmount);
        w.fault(Fault::WrongCurrency);
        let attempt = w.attempt(method, "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(
            report.received,
            Money {
                amount: attempt.due.amount - 1,
                currency: "USD".into()
            },
            "{method}"
        );
    }
}

#[test]
fn refunds_and_disputes_are_told() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    let disputed = query(&w, &attempt, &started, Wish::Look);
    // A chargeback has taken the money already.
    assert_eq!(
        (disputed.status, disputed.returned),
        (Status::Review, attempt.due.amount)
    );
    let other = w.attempt("ideal", "EUR");
    let started = open(w.start(&other));
    w.choose(&started, "approve");
    w.choose(&started, "refund");
    let refunded = query(&w, &other, &started, Wish::Look);
    assert_eq!(
        (refunded.status, refunded.returned),
        (Status::Completed, other.due.amount)
    );
}

#[test]
fn an_unknown_attempt_is_absent() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    for reference in [None, Some("tr_unknown"), Some("../profiles/me")] {
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
    let mine = w.attempt("ideal", "EUR");
    let asked = w.query(&mine, Some(&other.reference), Wish::Look);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}

#[test]
fn a_restarted_vendor_still_knows_its_payments() {
    let mut w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.restart();
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(report.status, Status::Pending);
}
