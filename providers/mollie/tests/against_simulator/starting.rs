//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Environment, Failure, Kind, QueryFailure, Settlement, Started, Status, Wish,
};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{World, klarna, query, world};

#[test]
fn a_payment_is_started_approved_and_completed() {
    let w = world();
    for (method, currency) in [
        ("credit_card", "USD"),
        ("ideal", "EUR"),
        ("klarna", "EUR"),
        ("paypal", "GBP"),
    ] {
        let attempt = match method {
            "klarna" => klarna(&w),
            _ => w.attempt(method, currency),
        };
        let started = open(w.start(&attempt));
        assert!(
            matches!(&started.action, Action::Redirect(url) if url.starts_with(&w.payer_base()))
        );
        assert!(started.until.is_some_and(|until| until > w.now()));
        let (status, location) = w.choose(&started, "approve");
        assert_eq!(
            (status, location),
            (303, Some(attempt.return_url.clone())),
            "{method}"
        );
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(
            (report.status, report.settlement),
            (Status::Completed, Settlement::Confirmed),
            "{method}"
        );
        assert_eq!(report.received, attempt.due);
    }
}

#[test]
fn the_attempt_is_the_vendors_reference() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    assert_eq!(
        (w.entry().attempt_id, w.entry().reference),
        (attempt.id, started.reference)
    );
}

#[test]
fn a_repeated_start_finds_the_same_payment_whatever_was_learnt_of_the_payer() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    assert_eq!(open(w.start(&attempt)), first);
    let mut known = attempt;
    known.payer.language = Some("nl".into());
    assert_eq!(open(w.start(&known)), first);
    assert_eq!(w.entry().reference, first.reference);
}

#[test]
fn a_start_that_learns_more_after_the_payment_is_not_sure() {
    let w = world();
    let mut attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    w.choose(&first, "approve");
    attempt.payer.language = Some("nl".into());
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
    let report = w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(report.status, Status::Completed);
}

#[test]
fn klarna_asks_for_what_it_must_know() {
    let w = world();
    let mut attempt = w.attempt("klarna", "EUR");
    attempt.payer.email = Some("payer@shop.example".into());
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks")
    };
    let kinds: Vec<Kind> = questions.iter().map(|question| question.kind).collect();
    assert_eq!(
        kinds,
        [
            Kind::GivenName,
            Kind::FamilyName,
            Kind::Text,
            Kind::Text,
            Kind::Text,
            Kind::Choice
        ]
    );
    assert!(w.entries().is_empty() && w.sent().is_empty());
    attempt.answers = klarna(&w).answers;
    open(w.start(&attempt));
}

#[test]
fn an_address_that_is_refused_is_declined() {
    let w = world();
    let mut attempt = klarna(&w);
    attempt.answers.retain(|(name, _)| name != "email");
    attempt.answers.push(("email".into(), "nobody".into()));
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn a_currency_that_the_method_does_not_take_is_for_another_provider() {
    let w = world();
    let attempt = w.attempt("ideal", "USD");
    assert!(matches!(w.start(&attempt), Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = world();
        w.fault(fault);
        let started = w.start(&w.attempt("ideal", "EUR"));
        assert!(matches!(started, Err(Failure::Unavailable(_))), "{fault}");
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    let started = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(started, Err(Failure::Unavailable(_))));
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
        let started = w.start(&attempt);
        assert!(matches!(started, Err(Failure::Uncertain(_))), "{fault}");
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
fn a_payment_without_an_answer_is_found_among_many() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    w.fault(Fault::TimeoutAfterEffect);
    assert!(w.start(&attempt).is_err());
    for _ in 0..260 {
        open(w.start(&w.attempt("ideal", "EUR")));
    }
    let report = w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(report.status, Status::Pending);
    let oldest = w.entries().remove(0);
    assert_eq!(
        (report.reference, attempt.id),
        (oldest.reference, oldest.attempt_id)
    );
}

#[test]
fn wrong_credentials_and_the_other_mode_are_for_another_provider() {
    let w = world();
    w.change_secret("api-key", "test_somebody");
    let attempt = w.attempt("ideal", "EUR");
    assert!(matches!(w.start(&attempt), Err(Failure::Unavailable(_))));
    assert!(matches!(
        w.query(&attempt, None, Wish::Look),
        Err(QueryFailure::Unavailable(_))
    ));
    assert!(matches!(w.health(), Condition::Down(_)));
}

#[test]
fn health_tells_whether_the_vendor_can_be_reached() {
    for environment in [Environment::Test, Environment::Live] {
        let w = World::of("mollie", environment);
        assert_eq!(w.health(), Condition::Operational);
        w.fault(Fault::Down);
        assert!(matches!(w.health(), Condition::Down(_)));
    }
}
