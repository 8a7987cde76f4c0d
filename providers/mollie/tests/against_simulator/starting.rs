//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{QueryPurpose, QuestionKind, StartFailure, Started, Status};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{klarna, world};

#[test]
fn a_start_that_learns_more_after_the_payment_is_not_sure() {
    let w = world();
    let mut attempt = w.attempt("ideal", "EUR");
    let first = open(w.start(&attempt));
    w.choose(&first, "approve");
    attempt.payer.language = Some("nl".into());
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    let report = w.query(&attempt, None, QueryPurpose::Sync).unwrap();
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
    let kinds: Vec<QuestionKind> = questions.iter().map(|question| question.kind).collect();
    assert_eq!(
        kinds,
        [
            QuestionKind::GivenName,
            QuestionKind::FamilyName,
            QuestionKind::Text,
            QuestionKind::Text,
            QuestionKind::Text,
            QuestionKind::Choice
        ]
    );
    assert!(w.entries().is_empty() && w.sent().is_empty());
    attempt.answers = klarna(&w).answers;
    open(w.start(&attempt));
}

#[test]
fn an_address_that_is_refused_is_asked_for_again() {
    let w = world();
    let mut attempt = klarna(&w);
    attempt.answers.retain(|(name, _)| name != "email");
    attempt.answers.push(("email".into(), "nobody".into()));
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks")
    };
    let [question] = questions.as_slice() else {
        panic!("one question: {questions:?}")
    };
    assert_eq!(question.name, "email");
    assert!(w.entries().is_empty());
    attempt.answers = klarna(&w).answers;
    open(w.start(&attempt));
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
    let report = w.query(&attempt, None, QueryPurpose::Sync).unwrap();
    assert_eq!(report.status, Status::Pending);
    let oldest = w.entries().remove(0);
    assert_eq!(
        (report.reference, attempt.id),
        (oldest.reference, oldest.attempt_id)
    );
}
