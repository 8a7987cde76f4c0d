//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Environment, Failure, QueryFailure, Settlement, Status, Wish,
};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{World, query, world};

#[test]
fn a_payment_is_started_approved_and_completed() {
    for (method, currency) in [("revolut", "EUR"), ("credit_card", "GBP")] {
        let w = world();
        let attempt = w.attempt(method, currency);
        let started = open(w.start(&attempt));
        assert!(
            matches!(&started.action, Action::Redirect(url) if url.starts_with(&w.payer_base()))
        );
        assert_eq!(started.until, Some(attempt.expires));
        let (status, location) = w.choose(&started, "approve");
        let back = format!("{}?_rp_oid={}", attempt.return_url, started.reference);
        assert_eq!((status, location), (303, Some(back)));
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(
            (report.status, report.settlement, report.received),
            (
                Status::Completed,
                Settlement::Confirmed,
                attempt.due.clone()
            ),
            "{method}"
        );
        assert_eq!(
            (w.entry().attempt_id, w.entry().reference),
            (attempt.id, started.reference)
        );
    }
}

#[test]
fn a_repeated_start_finds_the_same_order() {
    let w = world();
    let mut attempt = w.attempt("revolut", "EUR");
    let first = open(w.start(&attempt));
    attempt.payer.email = Some("payer@shop.example".into());
    assert_eq!(open(w.start(&attempt)), first);
    assert_eq!(w.entry().reference, first.reference);
    let creations = w.sent();
    let creations = creations.iter().filter(|call| *call == "POST /api/orders");
    assert_eq!(creations.count(), 1);
}

#[test]
fn a_currency_that_revolut_does_not_take_is_for_another_provider() {
    let w = world();
    let attempt = w.attempt("revolut", "INR");
    assert!(matches!(w.start(&attempt), Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = world();
        w.fault(fault);
        let started = w.start(&w.attempt("revolut", "EUR"));
        assert!(matches!(started, Err(Failure::Unavailable(_))), "{fault}");
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    let started = w.start(&w.attempt("revolut", "EUR"));
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
        let attempt = w.attempt("revolut", "EUR");
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
fn wrong_credentials_are_for_another_provider() {
    let w = world();
    w.change_secret("secret-key", "sk_somebody");
    let attempt = w.attempt("revolut", "EUR");
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
        let w = World::of("revolut", environment);
        assert_eq!(w.health(), Condition::Operational);
        w.fault(Fault::Down);
        assert!(matches!(w.health(), Condition::Down(_)));
    }
}
