//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{Action, Condition, Failure, QueryFailure, Status, Wish};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{METHODS, TAKEN_AT_ONCE, World, started, world};

#[test]
fn every_method_leads_to_a_page() {
    let w = world();
    for (method, _) in METHODS {
        let (attempt, open) = started(&w, method);
        let leads =
            matches!(&open.action, Action::Redirect(url) if url.starts_with(&w.payer_base()));
        assert!(leads, "{method}");
        assert_eq!(open.until, Some(attempt.expires), "{method}");
        let report = w
            .query(&attempt, Some(&open.reference), Wish::Look)
            .unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Pending, 0),
            "{method}"
        );
    }
}

#[test]
fn a_repeated_start_finds_the_same_page_whatever_was_learnt_of_the_payer() {
    let w = world();
    let (attempt, first) = started(&w, "klarna");
    assert_eq!(open(w.start(&attempt)), first);
    let mut known = attempt;
    known.payer.email = Some("payer@shop.example".into());
    known.payer.country = Some("DE".into());
    assert_eq!(open(w.start(&known)), first);
    assert_eq!(w.entry().reference, first.reference);
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = world();
        w.fault(fault);
        let refused = w.start(&w.attempt("ideal", "EUR"));
        assert!(matches!(refused, Err(Failure::Unavailable(_))), "{fault}");
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    let refused = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
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
        let attempt = w.attempt("credit_card", "EUR");
        w.fault(fault);
        let lost = w.start(&attempt);
        assert!(matches!(lost, Err(Failure::Uncertain(_))), "{fault}");
        assert_eq!(w.entries().len(), entries, "{fault}");
        // The question repeats the creation, and finds or makes the one link.
        let asked = w.query(&attempt, None, Wish::Look).unwrap();
        assert_eq!(asked.status, Status::Pending, "{fault}");
        let open = open(w.start(&attempt));
        assert_eq!(open.reference, asked.reference, "{fault}");
        assert_eq!(w.entries().len(), 1, "{fault}");
    }
}

#[test]
fn an_unknown_start_is_closed_without_knowing_its_reference() {
    for (method, path, state) in [
        ("credit_card", "/sessions", State::Open),
        ("ideal", "/paymentLinks", State::Closed),
    ] {
        for lost in [true, false] {
            let w = world();
            let attempt = w.attempt(method, "EUR");
            if lost {
                w.lose_answer_of(path);
                assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
            }
            let report = w.query(&attempt, None, Wish::Close).unwrap();
            assert_eq!(report.status, Status::Declined, "{method}");
            assert_eq!(w.entry().state, state, "{method}");
        }
    }
}

#[test]
fn a_start_that_was_never_made_is_absent_once_its_time_has_passed() {
    for (method, path) in [("credit_card", "/sessions"), ("ideal", "/paymentLinks")] {
        let w = world();
        let attempt = w.attempt(method, "EUR");
        w.advance(3_600_001);
        let asked = w.query(&attempt, None, Wish::Close);
        assert_eq!(asked, Err(QueryFailure::Absent), "{method}");
        // One that was made is found all the same.
        let w = world();
        let attempt = w.attempt(method, "EUR");
        w.lose_answer_of(path);
        assert!(w.start(&attempt).is_err());
        w.advance(3_600_001);
        let asked = w.query(&attempt, None, Wish::Close).unwrap();
        assert_eq!(asked.status, Status::Declined, "{method}");
    }
}

#[test]
fn what_adyen_refuses_goes_to_another_provider() {
    let w = world();
    let mut odd = w.attempt("ideal", "EUR");
    odd.due.currency = "USD".into();
    assert!(matches!(w.start(&odd), Err(Failure::Unavailable(_))));
    w.change_setting("merchant-account", "OtherECOM");
    let refused = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
    assert!(matches!(w.health(), Condition::Down(_)));
    assert!(w.entries().is_empty());
}

#[test]
fn wrong_credentials_are_seen_before_anybody_pays() {
    let w = world();
    w.change_secret("api-key", "AQEwrong");
    assert!(matches!(w.health(), Condition::Down(_)));
    let refused = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(refused, Err(Failure::Unavailable(_))));
}

#[test]
fn health_tells_whether_adyen_can_be_reached() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
    let w = World::of("adyen", kassette_plugin::provider::Environment::Live);
    assert_eq!(w.health(), Condition::Operational);
}

#[test]
fn an_unpaid_link_is_over_once_no_payment_can_be_under_way() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        let look = |wish| {
            w.query(&attempt, Some(&open.reference), wish)
                .unwrap()
                .status
        };
        w.advance(3_600_001);
        assert_eq!(look(Wish::Look), Status::Pending, "{method}");
        assert_eq!(look(Wish::Close), Status::Pending, "{method}");
        w.advance(3_600_000);
        assert_eq!(look(Wish::Look), Status::Expired, "{method}");
        assert_eq!(look(Wish::Close), Status::Declined, "{method}");
    }
}
