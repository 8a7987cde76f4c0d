//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Failure, Money, QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{HOUR, attempt, world};

#[test]
fn every_outcome_has_its_report() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Declined),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let w = world();
        let attempt = attempt(&w);
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_declined_link_can_no_longer_be_paid_once_it_was_told() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    // The answer is lost: the next question finds the link cancelled already.
    w.lose_answer_of("/cancel");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Look);
    assert!(ask().is_err());
    assert_eq!(ask().unwrap().status, Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
}

#[test]
fn a_payer_may_try_again_at_razorpay_where_the_operator_wants_that() {
    let w = world();
    w.change_setting("keep-open-after-decline", "true");
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    let ask = |wish| {
        let asked = w.query(&attempt, Some(&started.reference), wish);
        asked.unwrap().status
    };
    assert_eq!(ask(Wish::Look), Status::Pending);
    assert_eq!(ask(Wish::Close), Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
}

#[test]
fn a_payer_who_came_back_after_a_decline_is_told_as_paid() {
    let w = world();
    let attempt = attempt(&w);
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
        let attempt = attempt(&w);
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
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let authorised = ask(Wish::Look);
    assert_eq!(
        (authorised.status, authorised.received.amount),
        (Status::Processing, 0)
    );
    // Nothing gives it back but time: what was approved is told as it is.
    assert_eq!(ask(Wish::Close).status, Status::Processing);
    assert_eq!(ask(Wish::Finish).status, Status::Completed);
    assert_eq!(ask(Wish::Finish).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
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
fn what_the_bank_asks_about_is_a_review_with_its_money_whatever_the_wish() {
    let w = world();
    let attempt = attempt(&w);
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
fn closing_proves_that_nothing_can_be_paid() {
    let w = world();
    for outcome in ["pending", "decline"] {
        let attempt = attempt(&w);
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let close = || w.query(&attempt, Some(&started.reference), Wish::Close);
        let report = close().unwrap();
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
        assert_eq!(close().unwrap().status, Status::Declined, "{outcome}");
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
}

#[test]
fn what_was_received_is_told_as_razorpay_took_it() {
    let w = world();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = attempt(&w);
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
    let attempt = attempt(&w);
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
fn a_dispute_of_another_payment_is_none_of_this_one() {
    let w = world();
    let other = open(w.start(&attempt(&w)));
    w.choose(&other, "approve");
    w.choose(&other, "dispute");
    let mine = attempt(&w);
    let started = open(w.start(&mine));
    w.choose(&started, "approve");
    let report = w.query(&mine, Some(&started.reference), Wish::Look);
    assert_eq!(report.unwrap().status, Status::Completed);
}

#[test]
fn a_link_that_ran_out_of_time_is_expired() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.advance(HOUR);
    for wish in [Wish::Look, Wish::Close] {
        let report = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(report.status, Status::Expired);
    }
}

#[test]
fn a_reference_of_another_attempt_or_account_tells_nothing() {
    let w = world();
    let other = open(w.start(&attempt(&w)));
    w.choose(&other, "approve");
    let mine = attempt(&w);
    for reference in [other.reference.as_str(), "plink_0"] {
        let asked = w.query(&mine, Some(reference), Wish::Close);
        assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    }
}
