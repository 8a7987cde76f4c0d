//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{QueryPurpose, StartFailure, Started};
use kassette_world::open;

use crate::{chosen, world};

#[test]
fn a_payer_without_an_address_is_asked_for_one() {
    let w = world();
    let mut attempt = w.attempt("interac", "CAD");
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks");
    };
    assert!(w.sent().is_empty());
    let answer = |question: kassette_plugin::provider::Question| {
        (question.name, "payer@shop.example".to_owned())
    };
    attempt.answers = questions.into_iter().map(answer).collect();
    open(w.start(&attempt));
}

#[test]
fn a_repeat_of_a_start_that_was_paid_meanwhile_makes_the_host_ask() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    w.confirm();
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    assert_eq!(w.entry().captured_times, 1);
}
