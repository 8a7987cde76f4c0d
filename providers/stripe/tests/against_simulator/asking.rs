//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Failure, Money, QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{HOUR, world};

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
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    // The answer is lost: the next question finds the session closed already.
    w.lose_answer_of("/expire");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Look);
    assert!(ask().is_err());
    let report = ask().unwrap();
    assert_eq!(report.status, Status::Declined);
    assert_eq!(report.detail, "declined: card_declined generic_decline");
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
}

#[test]
fn a_payer_may_try_again_at_stripe_where_the_operator_wants_that() {
    let w = world();
    w.change_setting("keep-open-after-decline", "true");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    let (_, back) = w.choose(&started, "decline");
    let ask = |returned| {
        let asked = w.query_returned(&attempt, Some(&started.reference), Wish::Look, returned);
        asked.unwrap().status
    };
    assert_eq!(ask(None), Status::Pending);
    // The payer came back instead.
    let query = back.unwrap();
    let query = query.split_once('?').unwrap().1;
    assert_eq!(ask(Some(query)), Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
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
    for manual in [false, true] {
        let w = world();
        if manual {
            w.change_setting("capture", "manual");
        } else {
            w.fault(Fault::NeedsCapture);
        }
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let ask = |wish| {
            let asked = w.query(&attempt, Some(&started.reference), wish);
            asked.unwrap()
        };
        let authorised = ask(Wish::Look);
        assert_eq!(authorised.status, Status::Processing);
        assert_eq!(authorised.received.amount, 0);
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
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Finish);
    w.lose_answer_of("/capture");
    assert!(ask().is_err());
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(ask().unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_review_in_the_dashboard_is_told_with_its_money_whatever_the_wish() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let report = ask(wish);
        assert_eq!(
            (report.status, report.settlement, report.received),
            (Status::Review, Settlement::Confirmed, attempt.due.clone())
        );
    }
    w.choose(&started, "approve");
    assert_eq!(ask(Wish::Look).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn closing_voids_what_was_approved_and_proves_that_nothing_can_be_paid() {
    let w = world();
    // One approval, which only authorises.
    w.fault(Fault::NeedsCapture);
    for outcome in ["pending", "decline", "approve"] {
        let attempt = w.attempt("credit_card", "EUR");
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
        let again = w.query(&attempt, Some(&started.reference), Wish::Close);
        assert_eq!(again.unwrap().status, Status::Declined, "{outcome}");
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
}

#[test]
fn what_was_received_is_told_as_stripe_took_it() {
    let w = world();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Look)
        .unwrap();
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
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    let ask = || {
        w.query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap()
    };
    assert_eq!(
        (ask().status, ask().settlement),
        (Status::Review, Settlement::Pending)
    );
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
    w.advance(HOUR);
    for wish in [Wish::Look, Wish::Close] {
        let report = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(report.status, Status::Expired);
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
fn a_key_of_another_account_proves_nothing_about_a_session_that_was_there() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    open(w.start(&attempt));
    let asked = w.query(&attempt, Some("cs_test_0"), Wish::Close);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}
