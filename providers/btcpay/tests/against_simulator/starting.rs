//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{Action, Condition, Failure, QueryFailure, Status, Wish};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{looked, started, world};

#[test]
fn a_payer_is_led_to_the_invoice() {
    let w = world();
    let (attempt, open) = started(&w);
    let Action::Show(show) = &open.action else {
        panic!("instructions: {:?}", open.action)
    };
    assert!(show.link.as_ref().unwrap().starts_with(&w.payer_base()));
    assert_eq!(
        show.details,
        [("Amount".to_owned(), "49.90 EUR".to_owned())]
    );
    assert_eq!(open.until, Some(attempt.expires));
    let report = looked(&w, &attempt, &open);
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Pending, 0)
    );
}

#[test]
fn a_repeated_start_finds_the_same_invoice_whatever_was_learnt_of_the_payer() {
    let w = world();
    let (attempt, first) = started(&w);
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
        let refused = w.start(&w.attempt("crypto", "EUR"));
        assert!(matches!(refused, Err(Failure::Unavailable(_))), "{fault}");
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    let refused = w.start(&w.attempt("crypto", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn what_may_have_done_something_is_uncertain_and_a_look_makes_it_certain() {
    for (fault, entries) in [
        (Fault::TimeoutBeforeEffect, 0),
        (Fault::TimeoutAfterEffect, 1),
        (Fault::Status500, 0),
        (Fault::Malformed, 1),
        (Fault::Truncated, 1),
    ] {
        let w = world();
        let attempt = w.attempt("crypto", "EUR");
        w.fault(fault);
        let lost = w.start(&attempt);
        assert!(matches!(lost, Err(Failure::Uncertain(_))), "{fault}");
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
fn an_invoice_that_could_not_be_described_is_given_to_nobody_and_described_by_the_repeat() {
    let w = world();
    let attempt = w.attempt("crypto", "EUR");
    w.lose_answer_of("/invoices");
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::Status500,
        Fault::TimeoutAfterEffect,
    ] {
        w.fault(fault);
        let lost = w.start(&attempt);
        assert!(matches!(lost, Err(Failure::Uncertain(_))), "{fault}");
        assert_eq!(w.entries().len(), 1, "{fault}");
        let asked = w.query(&attempt, None, Wish::Look).unwrap();
        assert_eq!(asked.status, Status::Pending, "{fault}");
    }
    open(w.start(&attempt));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn an_unknown_start_is_closed_without_knowing_its_reference() {
    let w = world();
    let attempt = w.attempt("crypto", "EUR");
    w.lose_answer_of("/invoices");
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
    let report = w.query(&attempt, None, Wish::Close).unwrap();
    assert_eq!(report.status, Status::Declined);
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn another_store_or_key_is_seen_before_anybody_pays() {
    let w = world();
    w.change_setting("store-id", "other");
    assert!(matches!(w.health(), Condition::Down(_)));
    let refused = w.start(&w.attempt("crypto", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
    let w = world();
    w.change_secret("api-key", "wrong");
    assert!(matches!(w.health(), Condition::Down(_)));
    let refused = w.start(&w.attempt("crypto", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn health_tells_whether_the_server_can_be_reached() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
}
