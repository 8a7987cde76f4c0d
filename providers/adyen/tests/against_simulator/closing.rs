//! Making sure that nobody pays any more.
use kassette_plugin::provider::{QueryFailure, Status, Wish};
use kassette_sim::{Fault, State};

use crate::{METHODS, report, started, told, world};

#[test]
fn a_closed_link_cannot_be_paid() {
    for (method, _) in METHODS {
        let w = world();
        let (attempt, open) = started(&w, method);
        for _ in 0..2 {
            let closed = w
                .query(&attempt, Some(&open.reference), Wish::Close)
                .unwrap();
            assert_eq!(closed.status, Status::Declined, "{method}");
        }
        assert_eq!(w.choose(&open, "approve").0, 409, "{method}");
        assert_eq!(w.entry().state, State::Closed, "{method}");
    }
}

#[test]
fn a_refused_payer_finds_the_link_closed() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    w.choose(&open, "decline");
    assert_eq!(
        w.query(&attempt, Some(&open.reference), Wish::Look)
            .unwrap()
            .status,
        Status::Pending,
        "a link tells nothing of a refusal"
    );
    let declined = report(&w);
    assert_eq!(
        (declined.status, declined.reference.as_str()),
        (Status::Declined, open.reference.as_str())
    );
    assert_eq!(w.choose(&open, "approve").0, 409);
    assert_eq!(w.entry().state, State::Declined);
}

#[test]
fn a_refusal_after_which_the_payer_paid_ends_nothing() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    w.choose(&open, "decline");
    let refusal = w.next_callback();
    w.choose(&open, "approve");
    let answer = w.callback(&refusal).unwrap();
    assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    assert_eq!(report(&w).status, Status::Processing);
    let _ = attempt;
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
        let (_, open) = started(&w, "paypal");
        w.choose(&open, "decline");
        let refusal = w.next_callback();
        w.fault(fault);
        let _ = w.callback(&refusal);
        let again = w.callback(&refusal).unwrap();
        let statuses: Vec<_> = again
            .notices
            .into_iter()
            .map(|n| n.report.map(|r| r.status))
            .collect();
        assert_eq!(statuses, [Some(Status::Declined)], "{fault}");
    }
}

#[test]
fn an_authorisation_that_is_wanted_no_longer_is_cancelled_and_never_given_back() {
    let w = world();
    let (attempt, open) = started(&w, "klarna");
    w.choose(&open, "approve");
    let approved = report(&w);
    let asked = w
        .query(&attempt, Some(&approved.reference), Wish::Close)
        .unwrap();
    assert_eq!(asked.status, Status::Processing, "not certain yet");
    let cancelled = report(&w);
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(w.entry().state, State::Closed);
    let known = w
        .query(&attempt, Some(&cancelled.reference), Wish::Look)
        .unwrap();
    assert_eq!(known.status, Status::Cancelled);
}

#[test]
fn what_was_captured_meanwhile_stays() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    w.choose(&open, "approve");
    let approved = report(&w);
    w.query(&attempt, Some(&approved.reference), Wish::Finish)
        .unwrap();
    w.query(&attempt, Some(&approved.reference), Wish::Close)
        .unwrap();
    assert_eq!(w.entry().state, State::Captured);
    assert_eq!(report(&w).status, Status::Completed);
}

#[test]
fn a_close_that_cannot_be_done_now_is_not_certain() {
    let w = world();
    let (attempt, open) = started(&w, "ideal");
    w.fault(Fault::Status500);
    let asked = w.query(&attempt, Some(&open.reference), Wish::Close);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    let closed = w
        .query(&attempt, Some(&open.reference), Wish::Close)
        .unwrap();
    assert_eq!(closed.status, Status::Declined);
}

#[test]
fn the_wrong_attempts_link_is_left_alone() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    let (other, _) = started(&w, "ideal");
    let asked = w.query(&other, Some(&open.reference), Wish::Close);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    assert!(w.entries().iter().all(|entry| entry.state == State::Open));
}

#[test]
fn a_merchants_acceptance_changes_nothing_by_itself() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.choose(&open, "review");
    assert_eq!(told(&w).len(), 2);
    w.choose(&open, "approve");
    assert_eq!(told(&w), []);
}
