//! From unconfirmed coins to received money, and invoices that end without payment.
use kassette_plugin::provider::{QueryPurpose, Status};
use kassette_sim::{Fault, State};

use crate::{choose, looked, started, told, world};

#[test]
fn there_is_nothing_to_capture() {
    let w = world();
    let (attempt, open) = started(&w);
    w.fault(Fault::NeedsCapture);
    choose(&w, &open, "approve");
    assert_eq!(told(&w, &attempt, &open).status, Status::Completed);
}

#[test]
fn the_server_tells_of_an_invoice_that_was_closed() {
    let w = world();
    let (attempt, open) = started(&w);
    let closed = w.query(&attempt, Some(&open.reference), QueryPurpose::Cancel);
    assert_eq!(closed.unwrap().status, Status::Declined);
    assert_eq!(w.entry().state, State::Closed);
    assert_eq!(told(&w, &attempt, &open).status, Status::Declined);
}

#[test]
fn a_refund_leaves_the_invoice_as_it_is_and_there_are_no_disputes() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "approve");
    told(&w, &attempt, &open);
    assert_eq!(choose(&w, &open, "dispute"), 409);
    choose(&w, &open, "refund");
    assert_eq!(w.entry().state, State::Refunded);
    let report = looked(&w, &attempt, &open);
    assert_eq!((report.status, report.given_back), (Status::Completed, 0));
}
