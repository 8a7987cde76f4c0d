//! From the payer's approval to the capture.
use kassette_plugin::provider::{QueryFailure, QueryPurpose, Report, Status};
use kassette_sim::{Fault, State};

use crate::{
    CAPTURED_BY_US, LATER_MS, TAKEN_AT_ONCE, World, choose, later, report, started, told, world,
};

#[test]
fn a_paid_link_proves_no_money_while_its_notification_is_awaited() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.fault(Fault::CallbackNever);
        choose(&w, &open, "approve");
        for purpose in [
            QueryPurpose::Sync,
            QueryPurpose::Capture,
            QueryPurpose::Cancel,
        ] {
            let asked = w.query(&attempt, Some(&open.reference), purpose).unwrap();
            assert_eq!(
                (asked.status, asked.received.amount),
                (Status::Processing, 0),
                "{method}"
            );
        }
    }
}

#[test]
fn a_bank_that_confirms_late_is_awaited() {
    let w = world();
    let (attempt, open) = started(&w, "ideal");
    w.fault(Fault::CaptureLate);
    choose(&w, &open, "approve");
    let look = || {
        w.query(&attempt, Some(&open.reference), QueryPurpose::Cancel)
            .unwrap()
    };
    assert_eq!(look().status, Status::Pending);
    w.advance(1);
    assert_eq!(report(&w).status, Status::Processing);
    assert_eq!(look().status, Status::Processing);
}

/// The report about a refused capture.
fn refused(w: &World) -> Report {
    let refused = later(w);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Review, 0)
    );
    refused
}

#[test]
fn a_refused_capture_is_told_and_can_be_asked_for_anew() {
    for method in CAPTURED_BY_US {
        let w = world();
        let (attempt, open) = started(&w, method);
        choose(&w, &open, "approve");
        let approved = report(&w);
        let ask = |reference: &str, purpose| w.query(&attempt, Some(reference), purpose).unwrap();
        w.fault(Fault::CaptureRefused);
        ask(&approved.reference, QueryPurpose::Capture);
        let refused = refused(&w);
        let reason = refused.particulars.reason.as_deref();
        assert_eq!(reason, Some("Insufficient balance on payment"), "{method}");
        let stands = ask(&refused.reference, QueryPurpose::Sync);
        assert_eq!(stands.status, Status::Review, "{method}");
        // Adyen answers the first request's key with the first answer.
        ask(&approved.reference, QueryPurpose::Capture);
        w.advance(LATER_MS);
        assert_eq!(w.entry().state, State::Authorised, "{method}");
        let again = ask(&refused.reference, QueryPurpose::Capture);
        assert_eq!(again.status, Status::Processing, "{method}");
        assert_eq!(
            ask(&again.reference, QueryPurpose::Sync).status,
            Status::Processing
        );
        ask(&again.reference, QueryPurpose::Capture);
        assert_eq!(later(&w).status, Status::Completed, "{method}");
        assert_eq!(w.entry().captured_times, 1, "{method}");
    }
}

#[test]
fn what_was_authorised_can_be_given_back_after_a_refused_capture() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    choose(&w, &open, "approve");
    let approved = report(&w);
    let ask = |reference: &str, purpose| w.query(&attempt, Some(reference), purpose).unwrap();
    w.fault(Fault::CaptureRefused);
    ask(&approved.reference, QueryPurpose::Capture);
    let refused = refused(&w);
    ask(&refused.reference, QueryPurpose::Cancel);
    assert_eq!(later(&w).status, Status::Cancelled);
    assert_eq!(w.entry().state, State::Closed);
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
        choose(&w, &open, "approve");
        let approved = report(&w);
        let finish = || w.query(&attempt, Some(&approved.reference), QueryPurpose::Capture);
        w.fault(fault);
        assert!(
            matches!(finish(), Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
        assert_eq!(finish().unwrap().status, Status::Processing, "{fault}");
        assert_eq!(finish().unwrap().status, Status::Processing, "{fault}");
        assert_eq!(later(&w).status, Status::Completed, "{fault}");
        assert_eq!(w.entry().captured_times, 1, "{fault}");
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
        choose(&w, &open, "review");
        let told = told(&w);
        let [Some(review), Some(authorised)] = told.as_slice() else {
            panic!("two reports: {told:?}")
        };
        assert_eq!(
            (review.status, authorised.status),
            (Status::Review, Status::Processing)
        );
        assert_eq!(w.entry().state, state, "{method}");
        // The operator's approval captures the waiting payment.
        w.query(&attempt, Some(&authorised.reference), QueryPurpose::Capture)
            .unwrap();
        w.advance(LATER_MS);
        if state == State::Authorised {
            assert_eq!(report(&w).status, Status::Completed, "{method}");
        }
        assert_eq!(w.entry().state, State::Captured, "{method}");
    }
}
