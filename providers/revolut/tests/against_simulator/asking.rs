//! Asking where an order stands, and doing what the host wishes.
use kassette_plugin::provider::{
    Attempt, Failure, Money, Open, QueryFailure, Report, Settlement, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{World, query, world};

#[test]
fn every_outcome_has_its_report() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Declined),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let w = world();
        let attempt = w.attempt("revolut", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = back(&w, &attempt, &started);
        assert_eq!(report.status, status, "{outcome}");
    }
}

/// What a look tells of a payer who has come back.
fn back(w: &World, attempt: &Attempt, started: &Open) -> Report {
    let query = Some("_rp_oid=1");
    w.query_returned(attempt, Some(&started.reference), Wish::Look, query)
        .unwrap()
}

#[test]
fn a_declined_order_is_cancelled_before_anybody_is_told() {
    // The payer has come back, or the account keeps no order open.
    for came_back in [true, false] {
        let w = world();
        let attempt = w.attempt("revolut", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "decline");
        let report = if came_back {
            back(&w, &attempt, &started)
        } else {
            w.change_setting("keep-open-after-decline", "false");
            query(&w, &attempt, &started, Wish::Look)
        };
        assert_eq!(
            (report.status, report.detail.as_str()),
            (Status::Declined, "cancelled, insufficient_funds")
        );
        assert_eq!(w.choose(&started, "approve").0, 409);
        assert_eq!(
            (w.entry().state, w.entry().captured_times),
            (State::Declined, 0)
        );
        assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    }
}

#[test]
fn a_decline_that_could_not_be_made_certain_is_no_news() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.lose_answer_of("/cancel");
    let asked = w.query(&attempt, Some(&started.reference), Wish::Close);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(report.status, Status::Declined);
}

#[test]
fn a_payer_who_came_back_after_a_decline_is_told_as_paid() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.choose(&started, "approve");
    let report = query(&w, &attempt, &started, Wish::Close);
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
        for known in [true, false] {
            let w = world();
            let attempt = w.attempt("revolut", "EUR");
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
    w.lose_answer_of("/capture");
    assert!(w.query(&attempt, reference, Wish::Finish).is_err());
    w.confirm();
    assert_eq!(w.entry().captured_times, 1);
    let report = query(&w, &attempt, &started, Wish::Finish);
    assert_eq!(report.status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_dispute_is_for_a_person_until_it_is_won() {
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
        (report.status, report.settlement, report.returned),
        (Status::Completed, Settlement::Confirmed, 0)
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn closing_voids_what_was_approved_and_proves_that_nothing_can_be_paid() {
    let w = world();
    // One approval, which only authorises.
    w.fault(Fault::NeedsCapture);
    for outcome in ["pending", "decline", "approve"] {
        let attempt = w.attempt("revolut", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = query(&w, &attempt, &started, Wish::Close);
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
fn what_was_paid_before_it_was_closed_is_told_as_paid() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = query(&w, &attempt, &started, Wish::Close);
    assert_eq!(report.status, Status::Completed);
}

#[test]
fn what_was_received_is_told_as_the_vendor_took_it() {
    let w = world();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(
        report.received,
        Money {
            amount: attempt.due.amount - 1,
            currency: "USD".into()
        }
    );
}

#[test]
fn refunds_and_disputes_are_told() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    let disputed = query(&w, &attempt, &started, Wish::Look);
    assert_eq!((disputed.status, disputed.returned), (Status::Review, 0));
    w.choose(&started, "refund");
    let refunded = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(
        (refunded.status, refunded.returned),
        (Status::Completed, attempt.due.amount)
    );
}

#[test]
fn an_order_that_ran_out_of_time_is_expired() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.advance(3_600_000);
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(report.status, Status::Expired);
    assert_eq!(w.choose(&started, "approve").0, 409);
}

#[test]
fn an_unknown_attempt_is_absent() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let unknown = "00000000-0000-0000-0000-000000000000";
    for reference in [None, Some(unknown), Some("../disputes")] {
        assert_eq!(
            w.query(&attempt, reference, Wish::Close),
            Err(QueryFailure::Absent)
        );
    }
}

#[test]
fn a_reference_of_another_attempt_tells_nothing() {
    let w = world();
    let other = open(w.start(&w.attempt("revolut", "EUR")));
    w.choose(&other, "approve");
    let mine = w.attempt("revolut", "EUR");
    let asked = w.query(&mine, Some(&other.reference), Wish::Look);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}

#[test]
fn a_restarted_vendor_still_knows_its_orders() {
    let mut w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.restart();
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(report.status, Status::Pending);
}
