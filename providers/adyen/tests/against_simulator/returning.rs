//! The query that the payer's browser brings back from a session's page, and its meaning.
use kassette_plugin::provider::{QueryPurpose, Settlement, Status};
use kassette_sim::{Fault, State};

use crate::{CAPTURED_BY_US, TAKEN_AT_ONCE, choose, later, report, started, told, world};

#[test]
fn a_payer_who_comes_back_before_any_notification_has_paid() {
    for method in CAPTURED_BY_US {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.fault(Fault::CallbackNever);
        let back = choose(&w, &open, "approve");
        let ask = |reference: &str, purpose, back| {
            w.query_returned(&attempt, Some(reference), purpose, back)
                .unwrap()
        };
        let unknown = ask(&open.reference, QueryPurpose::Sync, None);
        assert_eq!(unknown.status, Status::Pending, "{method}");
        let approved = ask(&open.reference, QueryPurpose::Sync, Some(&back));
        assert_eq!(
            (approved.status, approved.received.clone()),
            (Status::Processing, attempt.due.clone()),
            "{method}"
        );
        assert_eq!(w.entry().state, State::Authorised, "{method}");
        ask(&approved.reference, QueryPurpose::Capture, Some(&back));
        let captured = later(&w);
        assert_eq!(
            (captured.status, captured.settlement),
            (Status::Completed, Settlement::Confirmed),
            "{method}"
        );
        assert_eq!(w.entry().captured_times, 1, "{method}");
    }
}

#[test]
fn a_paid_link_is_taken_at_its_word_where_no_notification_comes() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.fault(Fault::CallbackNever);
        choose(&w, &open, "approve");
        let look = || {
            w.query(&attempt, Some(&open.reference), QueryPurpose::Sync)
                .unwrap()
        };
        let soon = look();
        assert_eq!((soon.status, soon.received.amount), (Status::Processing, 0));
        w.advance(120_000);
        let late = look();
        assert_eq!(
            (late.status, late.settlement, late.received),
            (
                Status::Completed,
                Settlement::Confirmed,
                attempt.due.clone()
            ),
            "{method}"
        );
    }
}

#[test]
fn what_is_held_for_review_is_not_captured_because_the_payer_came_back_first() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    let back = choose(&w, &open, "review");
    let ask = |reference: &str, purpose| {
        w.query_returned(&attempt, Some(reference), purpose, Some(&back))
            .unwrap()
    };
    let held = ask(&open.reference, QueryPurpose::Sync);
    assert_eq!(held.status, Status::Review);
    // An operator's approval captures the payment.
    ask(&held.reference, QueryPurpose::Capture);
    assert_eq!(told(&w).len(), 2);
    assert_eq!(later(&w).status, Status::Completed);
}

#[test]
fn a_first_declined_card_does_not_close_the_page() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    for _ in 0..3 {
        choose(&w, &open, "decline");
        let refused = report(&w);
        assert_eq!(
            (refused.status, refused.reference.as_str()),
            (Status::Pending, open.reference.as_str())
        );
        assert_eq!(refused.particulars.reason.as_deref(), Some("Refused"));
        let asked = w.query(&attempt, Some(&open.reference), QueryPurpose::Sync);
        assert_eq!(asked.unwrap().status, Status::Pending);
    }
    choose(&w, &open, "approve");
    assert_eq!(report(&w).status, Status::Processing);
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn a_payer_who_comes_back_from_a_refusal_can_begin_anew() {
    for method in CAPTURED_BY_US {
        let w = world();
        let (attempt, open) = started(&w, method);
        let back = choose(&w, &open, "decline");
        let ended = w
            .query_returned(
                &attempt,
                Some(&open.reference),
                QueryPurpose::Sync,
                Some(&back),
            )
            .unwrap();
        assert_eq!(ended.status, Status::Cancelled, "{method}");
    }
}

#[test]
fn an_account_can_have_an_attempt_end_with_its_first_refused_card() {
    let w = world();
    w.change_setting("keep-open-after-decline", "false");
    let (_, open) = started(&w, "credit_card");
    choose(&w, &open, "decline");
    assert_eq!(report(&w).status, Status::Declined);
}

#[test]
fn a_payer_who_comes_back_undecided_can_still_pay() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    let back = choose(&w, &open, "pending");
    let look = || {
        w.query_returned(
            &attempt,
            Some(&open.reference),
            QueryPurpose::Sync,
            Some(&back),
        )
        .unwrap()
    };
    assert_eq!(look().status, Status::Pending);
    choose(&w, &open, "approve");
    // The payer's query shows an older state.
    assert_eq!(look().status, Status::Pending);
    assert_eq!(report(&w).status, Status::Processing);
}

#[test]
fn what_adyen_did_not_write_proves_nothing() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    let (_, other) = started(&w, "credit_card");
    let theirs = choose(&w, &other, "approve");
    for forged in [
        theirs.as_str(),
        "sessionResult=Ab02b4c0%21BQAB%2Bcompleted%2F00%3D%3D",
        "sessionResult=%3Cscript%3E",
        "status=completed",
        "",
    ] {
        let asked = w
            .query_returned(
                &attempt,
                Some(&open.reference),
                QueryPurpose::Sync,
                Some(forged),
            )
            .unwrap();
        assert_eq!(asked.status, Status::Pending, "{forged}");
    }
}

#[test]
fn a_result_that_cannot_be_read_now_is_no_answer() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
    ] {
        let w = world();
        let (attempt, open) = started(&w, "paypal");
        let back = choose(&w, &open, "approve");
        let look = || {
            w.query_returned(
                &attempt,
                Some(&open.reference),
                QueryPurpose::Sync,
                Some(&back),
            )
        };
        w.fault(fault);
        assert!(look().is_err(), "{fault}");
        assert_eq!(look().unwrap().status, Status::Processing, "{fault}");
    }
}
