//! From coins on their way to money, and what ends without any.
use kassette_plugin::provider::{QueryFailure, Settlement, Status, Wish};
use kassette_sim::{Fault, State};

use crate::{choose, looked, started, told, world};

#[test]
fn a_settled_invoice_is_completed_with_what_was_paid() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "approve");
    let report = told(&w, &attempt, &open);
    assert_eq!(
        (report.status, report.settlement),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(report.received, attempt.due);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Captured, 1)
    );
    for wish in [Wish::Finish, Wish::Close] {
        let again = w.query(&attempt, Some(&open.reference), wish).unwrap();
        assert_eq!(again.status, Status::Completed);
    }
}

#[test]
fn there_is_nothing_to_capture() {
    let w = world();
    let (attempt, open) = started(&w);
    w.fault(Fault::NeedsCapture);
    choose(&w, &open, "approve");
    assert_eq!(told(&w, &attempt, &open).status, Status::Completed);
}

#[test]
fn what_was_paid_late_is_for_a_person() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "review");
    let report = told(&w, &attempt, &open);
    assert_eq!(
        (report.status, report.settlement, report.received),
        (Status::Review, Settlement::Pending, attempt.due)
    );
}

#[test]
fn another_amount_or_currency_is_told_as_it_is() {
    for (fault, amount, currency) in [
        (Fault::WrongAmount, 4989, "EUR"),
        (Fault::WrongCurrency, 4990, "USD"),
    ] {
        let w = world();
        let (attempt, open) = started(&w);
        w.fault(fault);
        choose(&w, &open, "approve");
        let report = told(&w, &attempt, &open);
        assert_eq!(report.status, Status::Completed, "{fault}");
        assert_eq!(
            (report.received.amount, report.received.currency.as_str()),
            (amount, currency),
            "{fault}"
        );
    }
}

#[test]
fn a_payer_who_lets_the_time_pass_has_paid_nothing() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "decline");
    assert_eq!(told(&w, &attempt, &open).status, Status::Expired);
    assert_eq!(w.entry().state, State::Declined);
    assert_eq!(choose(&w, &open, "approve"), 409);
    let w = world();
    let (attempt, open) = started(&w);
    w.advance(3_600_001);
    assert_eq!(looked(&w, &attempt, &open).status, Status::Expired);
    let closed = w.query(&attempt, Some(&open.reference), Wish::Close);
    assert_eq!(closed.unwrap().status, Status::Declined);
}

#[test]
fn a_closed_invoice_cannot_be_paid() {
    let w = world();
    let (attempt, open) = started(&w);
    for _ in 0..2 {
        let closed = w.query(&attempt, Some(&open.reference), Wish::Close);
        assert_eq!(closed.unwrap().status, Status::Declined);
    }
    assert_eq!(choose(&w, &open, "approve"), 409);
    assert_eq!(w.entry().state, State::Closed);
    // The server tells of the mark, too.
    assert_eq!(told(&w, &attempt, &open).status, Status::Declined);
}

#[test]
fn a_close_that_cannot_be_done_now_is_not_certain() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::TimeoutAfterEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
    ] {
        let w = world();
        let (attempt, open) = started(&w);
        let close = || w.query(&attempt, Some(&open.reference), Wish::Close);
        w.fault(fault);
        assert!(
            matches!(close(), Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
        assert_eq!(close().unwrap().status, Status::Declined, "{fault}");
    }
}

#[test]
fn a_refund_leaves_the_invoice_as_it_is_and_nobody_can_dispute() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "approve");
    told(&w, &attempt, &open);
    assert_eq!(choose(&w, &open, "dispute"), 409);
    choose(&w, &open, "refund");
    assert_eq!(w.entry().state, State::Refunded);
    let report = looked(&w, &attempt, &open);
    assert_eq!((report.status, report.returned), (Status::Completed, 0));
}

#[test]
fn the_wrong_attempts_invoice_is_left_alone() {
    let w = world();
    let (_, open) = started(&w);
    let (other, _) = started(&w);
    let asked = w.query(&other, Some(&open.reference), Wish::Close);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    assert!(w.entries().iter().all(|entry| entry.state == State::Open));
}

#[test]
fn the_books_last_over_a_restart() {
    let mut w = world();
    let (attempt, open) = started(&w);
    w.restart();
    choose(&w, &open, "approve");
    assert_eq!(told(&w, &attempt, &open).status, Status::Completed);
}
