//! Querying a payment, and fulfilling the host's purpose.
use kassette_plugin::provider::{QueryPurpose, StartFailure, Status};

use crate::{chosen, world};

#[test]
fn a_failed_handle_cannot_be_started_again() {
    let w = world();
    let (attempt, _) = chosen(&w, "decline");
    assert!(matches!(w.start(&attempt), Err(StartFailure::Declined(_))));
}

#[test]
fn a_handle_over_another_amount_is_not_asked_for() {
    let w = world();
    let (mut dearer, started) = chosen(&w, "approve");
    dearer.due.amount += 1;
    let report = w
        .query(&dearer, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_disputed_payment_is_for_a_person() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    ask(QueryPurpose::Capture);
    w.confirm();
    w.choose(&started, "dispute");
    assert_eq!(ask(QueryPurpose::Sync).status, Status::Review);
}
