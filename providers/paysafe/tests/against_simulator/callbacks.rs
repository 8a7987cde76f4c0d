//! Verification of webhooks.
use kassette_plugin::provider::{
    CallbackFailure, CallbackReply, Environment, Notice, QueryPurpose, Settlement, Status, Subject,
};
use kassette_provider_paysafe::Paysafe;
use kassette_sim::Fault;
use kassette_world::World;

use crate::{chosen, world};

/// The only notice of an acknowledgement.
fn notice(answer: Result<CallbackReply, CallbackFailure>) -> Notice {
    let mut notices = answer.unwrap().notices;
    assert_eq!(notices.len(), 1);
    notices.remove(0)
}

#[test]
fn a_payable_handle_makes_the_host_ask_and_a_completed_payment_is_told() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    let payable = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (payable.about, payable.report),
        (Subject::Attempt(attempt.id.clone()), None)
    );
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    let completed = notice(w.callback(&w.next_callback()));
    assert_eq!(completed.about, Subject::Attempt(attempt.id));
    let report = completed.report.unwrap();
    assert_eq!(
        (report.status, report.settlement, report.received),
        (Status::Completed, Settlement::Confirmed, attempt.due)
    );
}

#[test]
fn declines_holds_refunds_and_disputes_make_the_host_ask() {
    let w = world();
    let (attempt, _) = chosen(&w, "decline");
    let told = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (told.about, told.report),
        (Subject::Attempt(attempt.id), None)
    );

    for (outcome, after) in [
        ("review", None),
        ("approve", Some("refund")),
        ("approve", Some("dispute")),
    ] {
        let w = world();
        let (attempt, started) = chosen(&w, outcome);
        w.next_callback();
        w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
            .unwrap();
        let mut news = w.next_callback();
        if let Some(after) = after {
            w.choose(&started, after);
            news = w.next_callback();
        }
        let told = notice(w.callback(&news));
        let about = Subject::Attempt(attempt.id);
        assert_eq!((told.about, told.report), (about, None), "{after:?}");
    }
}

#[test]
fn an_older_event_that_comes_later_makes_the_host_ask() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    w.next_callback();
    w.fault(Fault::CallbackReordered);
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    assert!(notice(w.callback(&w.next_callback())).report.is_some());
    w.advance(1_000);
    assert_eq!(notice(w.callback(&w.next_callback())).report, None);
}

#[test]
fn news_of_another_account_reaches_no_attempt_of_this_one() {
    // Both worlds have the same key, like two accounts of one merchant may have.
    let (w, other) = (
        world(),
        World::<Paysafe>::with_module("paysafe", Environment::Live),
    );
    let (attempt, _) = chosen(&other, "approve");
    let told = notice(w.callback(&other.next_callback()));
    assert_eq!(
        (told.about, told.report),
        (Subject::Attempt(attempt.id), None)
    );
    assert!(w.entries().is_empty());
}
