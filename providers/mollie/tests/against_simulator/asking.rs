//! Querying a payment, and fulfilling the host's purpose.
use kassette_plugin::provider::{Paid, QueryPurpose, RefundState, StartFailure, Status};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{klarna, query, world};

#[test]
fn a_payer_whose_payment_failed_is_led_to_the_cancel_address() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    let (_, location) = w.choose(&started, "decline");
    assert_eq!(location.as_ref(), Some(&attempt.cancel_url));
    let report = query(&w, &attempt, &started, QueryPurpose::Sync);
    assert_eq!(report.detail, "failed, insufficient_funds");
}

#[test]
fn closing_makes_sure_where_the_vendor_can() {
    let w = world();
    // A Klarna payment waiting for the payer can be cancelled, and so can a card's authorization.
    let waiting = klarna(&w);
    let first = open(w.start(&waiting));
    let approved = w.attempt("credit_card", "EUR");
    let second = open(w.start(&approved));
    w.fault(Fault::NeedsCapture);
    w.choose(&second, "approve");
    // A Klarna authorization is released.
    let released = klarna(&w);
    let third = open(w.start(&released));
    w.fault(Fault::NeedsCapture);
    w.choose(&third, "approve");
    for (attempt, started) in [(waiting, first), (approved, second), (released, third)] {
        let report = query(&w, &attempt, &started, QueryPurpose::Cancel);
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Declined, 0)
        );
        assert_eq!(w.choose(&started, "approve").0, 409);
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
    let sent = w.sent();
    let count = |start: &str, end: &str| {
        sent.iter()
            .filter(|call| call.starts_with(start) && call.ends_with(end))
            .count()
    };
    assert_eq!(
        (
            count("DELETE ", ""),
            count("POST ", "/release-authorization")
        ),
        (2, 1)
    );
}

#[test]
fn a_payment_that_cannot_be_called_off_stays_open_until_it_expires() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    let report = query(&w, &attempt, &started, QueryPurpose::Cancel);
    assert_eq!(report.status, Status::Pending);
    w.advance(started.until.unwrap() - w.now());
    let report = query(&w, &attempt, &started, QueryPurpose::Cancel);
    assert_eq!(report.status, Status::Expired);
    assert_eq!(w.choose(&started, "approve").0, 409);
}

#[test]
fn a_payment_that_is_over_cannot_be_started_again() {
    let w = world();
    let mut attempt = klarna(&w);
    let started = open(w.start(&attempt));
    query(&w, &attempt, &started, QueryPurpose::Cancel);
    // Mollie repeats the first answer; only the host knows that it closed the attempt.
    attempt.payer.language = Some("nl".into());
    assert!(matches!(w.start(&attempt), Err(StartFailure::Declined(_))));
}

#[test]
fn a_repeated_refund_is_told_as_it_stands_now_and_not_as_it_was_answered_first() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), QueryPurpose::Sync)
        .unwrap();
    let paid = Paid {
        attempt: attempt.id,
        method: attempt.method,
        reference: report.reference,
        references: report.particulars.references,
        received: report.received,
        captured_at: None,
        merchant_order: attempt.merchant_order,
        merchant: attempt.merchant,
    };
    let order = w.order(990, "EUR");
    assert_eq!(
        w.give_back(&paid, &order).unwrap().state,
        RefundState::Pending
    );
    w.confirm();
    let again = w.give_back(&paid, &order).unwrap();
    assert_eq!(again.state, RefundState::Succeeded);
}
