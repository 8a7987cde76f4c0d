//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{Action, Condition, QueryPurpose, StartFailure, Status};

use crate::{looked, started, world};

#[test]
fn a_payer_is_led_to_the_invoice() {
    let w = world();
    let (attempt, open) = started(&w);
    let Action::Show(show) = &open.action else {
        panic!("instructions: {:?}", open.action)
    };
    assert!(show.link.as_ref().unwrap().starts_with(&w.payer_base()));
    assert!(show.text.starts_with("Open the payment page"));
    assert_eq!(open.until, Some(attempt.expires));
    let report = looked(&w, &attempt, &open);
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Pending, 0)
    );
}

#[test]
fn an_unknown_start_is_closed_without_knowing_its_reference() {
    let w = world();
    let attempt = w.attempt("crypto", "EUR");
    w.lose_answer_of("/invoices");
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    let report = w.query(&attempt, None, QueryPurpose::Cancel).unwrap();
    assert_eq!(report.status, Status::Declined);
    assert!(matches!(w.start(&attempt), Err(StartFailure::Declined(_))));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn an_unknown_store_is_for_another_provider() {
    let w = world();
    w.change_setting("store-id", "other");
    assert!(matches!(w.health(), Condition::Down(_)));
    let refused = w.start(&w.attempt("crypto", "EUR"));
    assert!(matches!(refused, Err(StartFailure::Unavailable(_))));
    assert!(w.entries().is_empty());
}
