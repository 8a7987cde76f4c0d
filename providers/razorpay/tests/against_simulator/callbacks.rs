//! Verification of events.
use kassette_plugin::provider::{
    CallbackFailure, CallbackReply, CallbackRequest, QueryPurpose, Subject,
};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{attempt, world};

/// The subjects of a callback's notices. No callback results in a report.
fn about(answer: Result<CallbackReply, CallbackFailure>) -> Vec<Subject> {
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    answer
        .notices
        .into_iter()
        .map(|notice| notice.about)
        .collect()
}

fn kind(news: &CallbackRequest) -> String {
    let event: serde_json::Value = serde_json::from_slice(&news.body).unwrap();
    event["event"].as_str().unwrap().to_owned()
}

#[test]
fn every_piece_of_news_makes_the_host_ask() {
    for (choices, event) in [
        (&["approve"][..], "payment_link.paid"),
        (&["decline"], "payment.failed"),
        (&["review"], "payment.dispute.created"),
        (&["review", "approve"], "payment.dispute.closed"),
        (&["approve", "refund"], "refund.processed"),
        (&["approve", "refund", "refund_fails"], "refund.failed"),
        (&["approve", "dispute"], "payment.dispute.created"),
        (
            &["approve", "dispute", "dispute_won"],
            "payment.dispute.won",
        ),
        (
            &["approve", "dispute", "dispute_lost"],
            "payment.dispute.lost",
        ),
    ] {
        let w = world();
        let attempt = attempt(&w);
        let started = open(w.start(&attempt));
        // In sequence, because simultaneous events arrive in any order.
        let told = choices.iter().map(|choice| {
            w.choose(&started, choice);
            w.next_callback()
        });
        let news = told.last().unwrap();
        assert_eq!(kind(&news), event);
        let told = about(w.callback(&news));
        assert_eq!(told, [Subject::Attempt(attempt.id)], "{event}");
    }
}

#[test]
fn an_authorisation_and_its_capture_are_told() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let about_it = [Subject::Attempt(attempt.id.clone())];
    let news = w.next_callback();
    assert_eq!(kind(&news), "payment.authorized");
    assert_eq!(about(w.callback(&news)), about_it);
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    let news = w.next_callback();
    assert_eq!(kind(&news), "payment.captured");
    assert_eq!(about(w.callback(&news)), about_it);
}

#[test]
fn an_authorisation_that_razorpay_gives_back_is_told() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    w.fault(Fault::VoidsApproval);
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    assert_eq!(kind(&w.next_callback()), "payment.authorized");
    w.advance(2_000);
    let news = w.next_callback();
    assert_eq!(kind(&news), "refund.processed");
    assert_eq!(about(w.callback(&news)), [Subject::Attempt(attempt.id)]);
}

#[test]
fn a_payment_whose_order_cannot_be_asked_for_is_told_again() {
    let w = world();
    let started = open(w.start(&attempt(&w)));
    w.choose(&started, "decline");
    let news = w.next_callback();
    w.fault(Fault::Status500);
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Later(_))));
    assert_eq!(about(w.callback(&news)).len(), 1);
}
