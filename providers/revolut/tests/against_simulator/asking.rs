//! Querying an order, and fulfilling the host's purpose.
use kassette_plugin::provider::{
    Attempt, Open, QueryFailure, QueryPurpose, Report, StartFailure, Status,
};
use kassette_sim::State;
use kassette_world::open;

use crate::{World, query, world};

/// The report about a payer who has returned.
fn back(w: &World, attempt: &Attempt, started: &Open) -> Report {
    let query = Some("_rp_oid=1");
    w.query_returned(attempt, Some(&started.reference), QueryPurpose::Sync, query)
        .unwrap()
}

#[test]
fn a_declined_order_is_cancelled_before_anybody_is_told() {
    // Either the payer has returned, or the account keeps no order open.
    for came_back in [true, false] {
        let w = world();
        let attempt = w.attempt("revolut", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "decline");
        let report = if came_back {
            back(&w, &attempt, &started)
        } else {
            w.change_setting("keep-open-after-decline", "false");
            query(&w, &attempt, &started, QueryPurpose::Sync)
        };
        assert_eq!(
            (report.status, report.detail.as_str()),
            (Status::Declined, "cancelled, insufficient_funds")
        );
        assert_eq!(w.choose(&started, "approve").0, 409);
        assert_eq!(
            (w.entry().state, w.entry().captured_times),
            (State::Declined, 0)
        );
        assert!(matches!(w.start(&attempt), Err(StartFailure::Declined(_))));
    }
}

#[test]
fn a_decline_that_could_not_be_made_certain_is_no_news() {
    let w = world();
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.lose_answer_of("/cancel");
    let asked = w.query(&attempt, Some(&started.reference), QueryPurpose::Cancel);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    let report = query(&w, &attempt, &started, QueryPurpose::Sync);
    assert_eq!(report.status, Status::Declined);
}
