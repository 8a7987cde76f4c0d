//! From the payer's approval to the money.
use kassette_plugin::provider::{QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};

use crate::{METHODS, report, started, told, world};

#[test]
fn every_method_is_approved_finished_and_completed() {
    for (method, _) in METHODS {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.choose(&open, "approve");
        let approved = report(&w);
        assert_eq!(
            (approved.status, approved.settlement),
            (Status::Processing, Settlement::Pending),
            "{method}"
        );
        assert_eq!(approved.received, attempt.due, "{method}");
        let mut done = w
            .query(&attempt, Some(&approved.reference), Wish::Finish)
            .unwrap();
        if done.status == Status::Processing {
            // Only a notification tells that the capture was made.
            done = report(&w);
        }
        assert_eq!(
            (done.status, done.settlement),
            (Status::Completed, Settlement::Confirmed),
            "{method}"
        );
        assert_eq!(done.received, attempt.due, "{method}");
        assert_eq!(
            (w.entry().state, w.entry().captured_times),
            (State::Captured, 1),
            "{method}"
        );
        // What was proved stays known.
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            let again = w.query(&attempt, Some(&done.reference), wish).unwrap();
            assert_eq!(again.status, Status::Completed, "{method}");
        }
    }
}

#[test]
fn only_finish_captures() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    w.fault(Fault::NeedsCapture);
    w.choose(&open, "approve");
    let approved = report(&w);
    for reference in [&open.reference, &approved.reference] {
        let looked = w.query(&attempt, Some(reference), Wish::Look).unwrap();
        assert_eq!(looked.status, Status::Processing);
    }
    assert_eq!(w.entry().state, State::Authorised);
    w.query(&attempt, Some(&approved.reference), Wish::Finish)
        .unwrap();
    assert_eq!(w.entry().state, State::Captured);
}

#[test]
fn a_paid_link_proves_no_money_and_captures_nothing() {
    for (method, _) in METHODS {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.fault(Fault::CallbackNever);
        w.choose(&open, "approve");
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            let asked = w.query(&attempt, Some(&open.reference), wish).unwrap();
            assert_eq!(
                (asked.status, asked.received.amount),
                (Status::Processing, 0),
                "{method}"
            );
        }
    }
}

#[test]
fn a_capture_that_is_asked_for_twice_is_made_once() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::TimeoutAfterEffect,
        Fault::Status500,
        Fault::Status429,
        Fault::Malformed,
        Fault::Truncated,
    ] {
        let w = world();
        let (attempt, open) = started(&w, "paypal");
        w.choose(&open, "approve");
        let approved = report(&w);
        let finish = || w.query(&attempt, Some(&approved.reference), Wish::Finish);
        w.fault(fault);
        assert!(
            matches!(finish(), Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
        assert_eq!(finish().unwrap().status, Status::Processing, "{fault}");
        assert_eq!(finish().unwrap().status, Status::Processing, "{fault}");
        assert_eq!(report(&w).status, Status::Completed, "{fault}");
        assert_eq!(w.entry().captured_times, 1, "{fault}");
    }
}

#[test]
fn another_amount_or_currency_is_told_as_it_is() {
    for (fault, amount, currency) in [
        (Fault::WrongAmount, 4989, "EUR"),
        (Fault::WrongCurrency, 4990, "USD"),
    ] {
        for method in ["ideal", "credit_card"] {
            let w = world();
            let (attempt, open) = started(&w, method);
            w.fault(fault);
            w.choose(&open, "approve");
            let approved = report(&w);
            let mut done = w
                .query(&attempt, Some(&approved.reference), Wish::Finish)
                .unwrap();
            if done.status == Status::Processing {
                done = report(&w);
            }
            assert_eq!(done.status, Status::Completed, "{fault} {method}");
            assert_eq!(
                (done.received.amount, done.received.currency.as_str()),
                (amount, currency),
                "{fault} {method}"
            );
        }
    }
}

#[test]
fn a_payment_in_manual_review_waits_for_a_person_with_its_authorisation_known() {
    for (method, state) in [
        ("credit_card", State::Authorised),
        ("ideal", State::Captured),
    ] {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.choose(&open, "review");
        let told = told(&w);
        let [Some(review), Some(authorised)] = told.as_slice() else {
            panic!("two reports: {told:?}")
        };
        assert_eq!(
            (review.status, authorised.status),
            (Status::Review, Status::Processing)
        );
        assert_eq!(w.entry().state, state, "{method}");
        // The operator's approval captures what waits.
        w.query(&attempt, Some(&authorised.reference), Wish::Finish)
            .unwrap();
        assert_eq!(w.entry().state, State::Captured, "{method}");
    }
}

#[test]
fn refunds_and_disputes_are_told() {
    let w = world();
    let (attempt, open) = started(&w, "ideal");
    w.choose(&open, "approve");
    let approved = report(&w);
    w.choose(&open, "dispute");
    let disputed = report(&w);
    assert_eq!((disputed.status, disputed.returned), (Status::Review, 0));
    w.choose(&open, "refund");
    let refunded = report(&w);
    assert_eq!(refunded.returned, attempt.due.amount);
    assert_ne!(refunded.status, Status::Completed);
    assert_eq!(w.entry().state, State::Refunded);
    // The authorisation's reference still reads.
    let asked = w.query(&attempt, Some(&approved.reference), Wish::Look);
    assert_eq!(asked.unwrap().status, Status::Completed);
}
