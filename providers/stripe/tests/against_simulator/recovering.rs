//! Recovering a start whose answer was lost.
use kassette_plugin::provider::{Attempt, QueryFailure, QueryPurpose, StartFailure, Status};
use kassette_world::open;

use crate::{HOUR, MINUTE, World, world};

/// A session whose id the gateway does not know.
fn lost(w: &World) -> Attempt {
    let attempt = w.attempt("ideal", "EUR");
    w.lose_answer_of("/v1/checkout/sessions");
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    assert_eq!(w.entries().len(), 1);
    attempt
}

#[test]
fn a_lost_session_is_found_whatever_the_purpose() {
    for (purpose, status) in [
        (QueryPurpose::Sync, Status::Pending),
        (QueryPurpose::Capture, Status::Pending),
        (QueryPurpose::Cancel, Status::Declined),
    ] {
        let w = world();
        let attempt = lost(&w);
        let report = w.query(&attempt, None, purpose).unwrap();
        assert_eq!(report.status, status, "{purpose:?}");
        assert_eq!(report.reference, w.entry().reference, "{purpose:?}");
        assert_eq!(w.entries().len(), 1, "{purpose:?}");
    }
}

#[test]
fn a_lost_session_is_found_when_its_time_is_over_and_its_key_forgotten() {
    for hours in [1, 2, 23, 25, 72] {
        let w = world();
        let attempt = lost(&w);
        w.advance(hours * HOUR);
        for purpose in [QueryPurpose::Sync, QueryPurpose::Cancel] {
            let report = w.query(&attempt, None, purpose).unwrap();
            assert_eq!(report.status, Status::Expired, "{hours} {purpose:?}");
        }
        assert_eq!(w.entries().len(), 1);
    }
}

#[test]
fn a_session_that_ends_later_than_its_attempt_is_found_too() {
    for (minutes, status) in [
        (5, Status::Declined),
        (20, Status::Declined),
        (50, Status::Expired),
    ] {
        let w = world();
        let mut attempt = w.attempt("ideal", "EUR");
        attempt.expires = w.now() + 10 * MINUTE;
        let started = open(w.start(&attempt));
        w.advance(minutes * MINUTE);
        let report = w.query(&attempt, None, QueryPurpose::Cancel).unwrap();
        assert_eq!(
            (report.status, report.reference),
            (status, started.reference),
            "{minutes}"
        );
        assert_eq!(w.entries().len(), 1);
    }
}

#[test]
fn looking_for_a_session_that_never_was_makes_none() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    for advance in [0, 45 * MINUTE, 30 * MINUTE, 48 * HOUR] {
        w.advance(advance);
        let asked = w.query(&attempt, None, QueryPurpose::Sync);
        assert_eq!(asked, Err(QueryFailure::Absent), "{advance}");
    }
    // After its expiry no purpose can create a session.
    for purpose in [QueryPurpose::Capture, QueryPurpose::Cancel] {
        assert_eq!(w.query(&attempt, None, purpose), Err(QueryFailure::Absent));
    }
    assert!(w.entries().is_empty());
}

#[test]
fn closing_a_start_that_never_arrived_leaves_nothing_that_can_be_paid() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let report = w.query(&attempt, None, QueryPurpose::Cancel).unwrap();
    assert_eq!(report.status, Status::Declined);
    assert!(matches!(w.start(&attempt), Err(StartFailure::Declined(_))));
}

#[test]
fn a_reference_that_is_none_is_looked_up_by_the_attempt() {
    let w = world();
    let attempt = lost(&w);
    let report = w
        .query(&attempt, Some("../balance"), QueryPurpose::Sync)
        .unwrap();
    assert_eq!(report.reference, w.entry().reference);
}

#[test]
fn a_session_is_found_beyond_the_first_page() {
    let w = world();
    let attempt = lost(&w);
    for _ in 0..101 {
        open(w.start(&w.attempt("ideal", "EUR")));
    }
    let report = w.query(&attempt, None, QueryPurpose::Sync).unwrap();
    assert_eq!(report.status, Status::Pending);
    let listed = |line: &&String| line.starts_with("GET /v1/checkout/sessions?limit=100");
    assert_eq!(w.sent().iter().filter(listed).count(), 2);
}
