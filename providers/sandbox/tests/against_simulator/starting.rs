//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{Action, QuestionKind, Started};
use kassette_sim::Fault;

use kassette_world::open;

use crate::world;

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
fn the_vendors_questions_are_asked_and_answered() {
    let w = world();
    w.fault(Fault::Ask);
    let mut attempt = w.attempt("ideal", "EUR");
    attempt.payer.email = Some("payer@shop.example".into());
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks")
    };
    let kinds: Vec<QuestionKind> = questions.iter().map(|question| question.kind).collect();
    assert_eq!(kinds, [QuestionKind::GivenName, QuestionKind::FamilyName]);
    attempt.answers = questions
        .into_iter()
        .map(|q| (q.name, "Ada".into()))
        .collect();
    w.fault(Fault::Ask);
    open(w.start(&attempt));
}
