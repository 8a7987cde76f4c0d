//! Starting a payment, and the meaning of failures.
use kassette_plugin::provider::{Condition, QueryFailure, QueryPurpose, StartFailure, Status};
use kassette_sim::State;

use crate::{TAKEN_AT_ONCE, started, world};

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
                assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
            }
            let report = w.query(&attempt, None, QueryPurpose::Cancel).unwrap();
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
        let asked = w.query(&attempt, None, QueryPurpose::Cancel);
        assert_eq!(asked, Err(QueryFailure::Absent), "{method}");
        // A page that was created is found nevertheless.
        let w = world();
        let attempt = w.attempt(method, "EUR");
        w.lose_answer_of(path);
        assert!(w.start(&attempt).is_err());
        w.advance(3_600_001);
        let asked = w.query(&attempt, None, QueryPurpose::Cancel).unwrap();
        assert_eq!(asked.status, Status::Declined, "{method}");
    }
}

#[test]
fn an_unknown_merchant_account_is_for_another_provider() {
    let w = world();
    w.change_setting("merchant-account", "OtherECOM");
    let refused = w.start(&w.attempt("ideal", "EUR"));
    assert!(matches!(refused, Err(StartFailure::Unavailable(_))));
    assert!(matches!(w.health(), Condition::Down(_)));
    assert!(w.entries().is_empty());
}

#[test]
fn an_unpaid_link_is_over_once_no_payment_can_be_under_way() {
    for method in TAKEN_AT_ONCE {
        let w = world();
        let (attempt, open) = started(&w, method);
        let look = |purpose| {
            w.query(&attempt, Some(&open.reference), purpose)
                .unwrap()
                .status
        };
        w.advance(3_600_001);
        assert_eq!(look(QueryPurpose::Sync), Status::Pending, "{method}");
        assert_eq!(look(QueryPurpose::Cancel), Status::Pending, "{method}");
        w.advance(3_600_000);
        assert_eq!(look(QueryPurpose::Sync), Status::Expired, "{method}");
        assert_eq!(look(QueryPurpose::Cancel), Status::Declined, "{method}");
    }
}
