//! Closing attempts so that no money moves afterwards.
use kassette_plugin::provider::{QueryPurpose, Status};
use kassette_sim::{Fault, State};

use crate::{CAPTURED_BY_US, LATER_MS, TAKEN_AT_ONCE, choose, later, report, started, told, world};

#[test]
fn what_is_approved_on_a_page_that_was_left_is_never_captured() {
    for method in CAPTURED_BY_US {
        let w = world();
        let (attempt, open) = started(&w, method);
        for _ in 0..2 {
            let closed = w
                .query(&attempt, Some(&open.reference), QueryPurpose::Cancel)
                .unwrap();
            assert_eq!(closed.status, Status::Declined, "{method}");
        }
        choose(&w, &open, "approve");
        assert_eq!(report(&w).status, Status::Processing, "{method}");
        let entry = w.entry();
        assert_eq!(
            (entry.state, entry.captured_times),
            (State::Authorised, 0),
            "{method}"
        );
    }
}

#[test]
fn an_approval_of_which_no_news_came_is_given_back() {
    for method in CAPTURED_BY_US {
        let w = world();
        let (attempt, open) = started(&w, method);
        w.fault(Fault::CallbackNever);
        choose(&w, &open, "approve");
        let closed = w
            .query(&attempt, Some(&open.reference), QueryPurpose::Cancel)
            .unwrap();
        assert_eq!(closed.status, Status::Declined, "{method}");
        assert_eq!(later(&w).status, Status::Cancelled, "{method}");
        assert_eq!(w.entry().state, State::Closed, "{method}");
    }
}

#[test]
fn a_link_is_left_to_its_own_end_and_can_be_paid_until_then() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        let closed = w
            .query(&attempt, Some(&open.reference), QueryPurpose::Cancel)
            .unwrap();
        assert_eq!(closed.status, Status::Pending, "{method}");
        choose(&w, &open, "approve");
        let approved = report(&w);
        let closed = w
            .query(&attempt, Some(&approved.reference), QueryPurpose::Cancel)
            .unwrap();
        assert_eq!(closed.status, Status::Completed, "{method}");
    }
}

#[test]
fn a_payment_that_is_under_way_is_awaited_past_its_links_end() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        choose(&w, &open, "pending");
        let ask = |purpose| {
            let report = w.query(&attempt, Some(&open.reference), purpose).unwrap();
            (report.status, report.detail)
        };
        for purpose in [QueryPurpose::Sync, QueryPurpose::Cancel] {
            let pending = (Status::Pending, "link paymentPending".to_owned());
            assert_eq!(ask(purpose), pending, "{method}");
        }
        w.advance(3_600_001);
        assert_eq!(ask(QueryPurpose::Cancel).0, Status::Pending, "{method}");
        assert!(!w.sent().iter().any(|sent| sent.starts_with("PATCH")));
        choose(&w, &open, "approve");
        let approved = report(&w);
        let done = w
            .query(&attempt, Some(&approved.reference), QueryPurpose::Cancel)
            .unwrap();
        assert_eq!(done.status, Status::Completed, "{method}");
    }
}

#[test]
fn a_refusal_ends_its_link() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        choose(&w, &open, "decline");
        let looked = w.query(&attempt, Some(&open.reference), QueryPurpose::Sync);
        let looked = looked.unwrap();
        assert_eq!(looked.status, Status::Pending, "a link tells no refusal");
        let declined = report(&w);
        assert_eq!(
            (declined.status, declined.reference.as_str()),
            (Status::Declined, open.reference.as_str())
        );
        assert_eq!(declined.particulars.reason.as_deref(), Some("Refused"));
        assert_eq!(w.choose(&open, "approve").0, 409);
        assert_eq!(w.entry().state, State::Declined);
    }
}

#[test]
fn a_refusal_beside_a_payment_that_is_under_way_ends_nothing() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    choose(&w, &open, "pending");
    choose(&w, &open, "decline");
    assert_eq!(told(&w), [None]);
    assert!(!w.sent().iter().any(|sent| sent.starts_with("PATCH")));
    choose(&w, &open, "approve");
    assert_eq!(report(&w).status, Status::Processing);
}

#[test]
fn a_refusal_after_which_the_payer_paid_ends_nothing() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    choose(&w, &open, "decline");
    let refusal = w.next_callback();
    choose(&w, &open, "approve");
    let answer = w.callback(&refusal).unwrap();
    assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    assert_eq!(report(&w).status, Status::Processing);
}

#[test]
fn a_refusal_is_heard_again_where_adyen_could_not_be_asked() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::TimeoutAfterEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
    ] {
        let w = world();
        let (_, open) = started(&w, "ideal");
        choose(&w, &open, "decline");
        let refusal = w.next_callback();
        w.fault(fault);
        assert!(w.callback(&refusal).is_err(), "{fault}");
        let answer = w.callback(&refusal).unwrap();
        let report = answer.notices.first().and_then(|one| one.report.as_ref());
        let status = report.map(|report| report.status);
        assert_eq!(status, Some(Status::Declined), "{fault}");
    }
}

#[test]
fn an_authorisation_that_is_wanted_no_longer_is_cancelled_and_never_given_back() {
    let w = world();
    let (attempt, open) = started(&w, "klarna");
    choose(&w, &open, "approve");
    let approved = report(&w);
    let asked = w
        .query(&attempt, Some(&approved.reference), QueryPurpose::Cancel)
        .unwrap();
    assert_eq!(asked.status, Status::Processing, "not certain yet");
    let cancelled = later(&w);
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(w.entry().state, State::Closed);
    let known = w
        .query(&attempt, Some(&cancelled.reference), QueryPurpose::Sync)
        .unwrap();
    assert_eq!(known.status, Status::Cancelled);
}

#[test]
fn what_was_captured_meanwhile_stays() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    choose(&w, &open, "approve");
    let approved = report(&w);
    let query = |purpose| {
        w.query(&attempt, Some(&approved.reference), purpose)
            .unwrap()
    };
    query(QueryPurpose::Capture);
    w.advance(LATER_MS);
    assert_eq!(report(&w).status, Status::Completed);
    query(QueryPurpose::Cancel);
    assert_eq!(w.entry().state, State::Captured);
}

#[test]
fn a_merchants_acceptance_changes_nothing_by_itself() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    choose(&w, &open, "review");
    assert_eq!(told(&w).len(), 2);
    choose(&w, &open, "approve");
    assert_eq!(told(&w), []);
}
