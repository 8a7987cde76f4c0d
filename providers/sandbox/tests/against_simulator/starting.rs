//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Failure, Kind, QueryFailure, Settlement, Started, Status, Wish,
};
use kassette_sim::Fault;

use kassette_world::open;

use crate::world;

#[test]
fn a_payment_is_started_approved_and_completed() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    assert!(matches!(&started.action, Action::Redirect(url) if url.starts_with(&w.payer_base())));
    assert_eq!(started.until, Some(attempt.expires));
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Look)
        .unwrap();
    assert_eq!(
        (report.status, report.settlement),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(report.received, attempt.due);
    assert_eq!(w.entry().attempt_id, attempt.id);
    assert_eq!(w.entry().reference, started.reference);
}

#[test]
fn every_method_has_an_action() {
    let w = world();
    for method in [
        "credit_card",
        "paypal",
        "ideal",
        "cash_app",
        "venmo",
        "revolut",
        "interac",
    ] {
        assert!(
            matches!(
                open(w.start(&w.attempt(method, "EUR"))).action,
                Action::Redirect(_)
            ),
            "{method}"
        );
    }
    for method in ["crypto", "upi_imps"] {
        let Action::Show(show) = open(w.start(&w.attempt(method, "EUR"))).action else {
            panic!("{method} shows instructions");
        };
        assert!(show.qr.is_some() && show.link.unwrap().starts_with(&w.payer_base()));
    }
    let Action::Post(form) = open(w.start(&w.attempt("klarna", "EUR"))).action else {
        panic!("klarna posts a form");
    };
    assert!(form.url.starts_with(&w.payer_base()) && !form.fields.is_empty());
}

#[test]
fn a_repeated_start_finds_the_same_session_whatever_was_learnt_of_the_payer() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    assert_eq!(open(w.start(&attempt)), first);
    let mut known = attempt;
    known.payer.email = Some("payer@shop.example".into());
    assert_eq!(open(w.start(&known)), first);
    assert_eq!(w.entry().reference, first.reference);
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = world();
        w.fault(fault);
        assert!(
            matches!(
                w.start(&w.attempt("ideal", "EUR")),
                Err(Failure::Unavailable(_))
            ),
            "{fault}"
        );
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    assert!(matches!(
        w.start(&w.attempt("ideal", "EUR")),
        Err(Failure::Unavailable(_))
    ));
    assert!(w.entries().is_empty());
}

#[test]
fn what_may_have_done_something_is_uncertain_and_a_repeat_makes_it_certain() {
    for (fault, entries) in [
        (Fault::TimeoutBeforeEffect, 0),
        (Fault::TimeoutAfterEffect, 1),
        (Fault::Status500, 0),
        (Fault::Malformed, 1),
        (Fault::Truncated, 1),
    ] {
        let w = world();
        let attempt = w.attempt("ideal", "EUR");
        w.fault(fault);
        assert!(
            matches!(w.start(&attempt), Err(Failure::Uncertain(_))),
            "{fault}"
        );
        assert_eq!(w.entries().len(), entries, "{fault}");
        let asked = w.query(&attempt, None, Wish::Look);
        match entries {
            0 => assert_eq!(asked, Err(QueryFailure::Absent), "{fault}"),
            _ => assert_eq!(asked.unwrap().status, Status::Pending, "{fault}"),
        }
        open(w.start(&attempt));
        assert_eq!(w.entries().len(), 1, "{fault}");
    }
}

#[test]
fn the_vendors_questions_are_asked_and_answered() {
    let w = world();
    w.fault(Fault::Ask);
    let mut attempt = w.attempt("ideal", "EUR");
    attempt.payer.email = Some("payer@shop.example".into());
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks")
    };
    let kinds: Vec<Kind> = questions.iter().map(|question| question.kind).collect();
    assert_eq!(kinds, [Kind::GivenName, Kind::FamilyName]);
    attempt.answers = questions
        .into_iter()
        .map(|q| (q.name, "Ada".into()))
        .collect();
    w.fault(Fault::Ask);
    open(w.start(&attempt));
}

#[test]
fn a_token_that_the_vendor_forgot_is_fetched_again() {
    let mut w = world();
    let attempt = w.attempt("ideal", "EUR");
    open(w.start(&attempt));
    w.restart();
    open(w.start(&attempt));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn health_tells_whether_the_vendor_can_be_reached() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
}
