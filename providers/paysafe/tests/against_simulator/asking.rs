//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{Failure, Status, Wish};

use crate::{chosen, world};

#[test]
fn a_failed_handle_cannot_be_started_again() {
    let w = world();
    let (attempt, _) = chosen(&w, "decline");
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
}

#[test]
fn a_handle_over_another_amount_is_not_asked_for() {
    let w = world();
    let (mut dearer, started) = chosen(&w, "approve");
    dearer.due.amount += 1;
    let report = w
        .query(&dearer, Some(&started.reference), Wish::Finish)
        .unwrap();
    assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_disputed_payment_is_for_a_person() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.confirm();
    w.choose(&started, "dispute");
    assert_eq!(ask(Wish::Look).status, Status::Review);
}
