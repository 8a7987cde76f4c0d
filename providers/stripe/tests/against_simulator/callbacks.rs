//! Verification of events.
use kassette_plugin::provider::{
    CallbackFailure, CallbackReply, CallbackRequest, Environment, QueryPurpose, Subject,
};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{World, world};

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
    event["type"].as_str().unwrap().to_owned()
}

#[test]
fn every_piece_of_news_makes_the_host_ask() {
    for (choices, event) in [
        (&["approve"][..], "checkout.session.completed"),
        (&["decline"], "payment_intent.payment_failed"),
        (&["review"], "review.opened"),
        (&["review", "approve"], "review.closed"),
        (&["approve", "refund"], "charge.refunded"),
        (&["approve", "refund", "refund_fails"], "refund.failed"),
        (&["approve", "dispute"], "charge.dispute.created"),
        (
            &["approve", "dispute", "dispute_won"],
            "charge.dispute.closed",
        ),
        (
            &["approve", "dispute", "dispute_lost"],
            "charge.dispute.closed",
        ),
    ] {
        let w = world();
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        // In sequence, because simultaneous events arrive in any order.
        let told = choices.iter().map(|choice| {
            w.choose(&started, choice);
            w.next_callback()
        });
        let news = told.last().unwrap();
        assert_eq!(kind(&news), event);
        assert_eq!(
            about(w.callback(&news)),
            [Subject::Attempt(attempt.id)],
            "{event}"
        );
    }
}

#[test]
fn an_authorisation_and_its_capture_are_told() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let news = w.next_callback();
    assert_eq!(kind(&news), "payment_intent.amount_capturable_updated");
    assert_eq!(
        about(w.callback(&news)),
        [Subject::Attempt(attempt.id.clone())]
    );
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    let news = w.next_callback();
    assert_eq!(kind(&news), "payment_intent.succeeded");
    assert_eq!(about(w.callback(&news)), [Subject::Attempt(attempt.id)]);
}

#[test]
fn a_review_before_the_capture_is_told_and_so_is_its_end() {
    for end in ["approve", "decline"] {
        let w = world();
        w.change_setting("capture", "manual");
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        for (choice, event) in [("review", "review.opened"), (end, "review.closed")] {
            w.choose(&started, choice);
            let news = w.next_callback();
            assert_eq!(kind(&news), event, "{end}");
            let about_it = [Subject::Attempt(attempt.id.clone())];
            assert_eq!(about(w.callback(&news)), about_it);
        }
    }
}

#[test]
fn news_of_the_other_environment_is_acknowledged_and_ignored() {
    let live = World::with_module("stripe", Environment::Live);
    let started = open(live.start(&live.attempt("ideal", "EUR")));
    live.choose(&started, "approve");
    let news = live.next_callback();
    assert_eq!(about(world().callback(&news)), []);
}

#[test]
fn a_dispute_whose_payment_cannot_be_asked_about_is_told_again() {
    let w = world();
    let started = open(w.start(&w.attempt("credit_card", "EUR")));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    // Simultaneous deliveries arrive in any order.
    let of_dispute = |news: &CallbackRequest| {
        let body = String::from_utf8_lossy(&news.body);
        body.contains("charge.dispute.created")
    };
    let mut news = [w.next_callback(), w.next_callback()].into_iter();
    let news = news.find(of_dispute).unwrap();
    w.fault(Fault::Status500);
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Later(_))));
    assert_eq!(about(w.callback(&news)).len(), 1);
}
