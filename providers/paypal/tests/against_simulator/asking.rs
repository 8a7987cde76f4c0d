//! Querying a payment, and fulfilling the host's purpose.
use kassette_plugin::provider::{QueryFailure, QueryPurpose, StartFailure, Status};
use kassette_sim::Fault;
use kassette_world::open;

use crate::world;

#[test]
fn a_voided_order_cannot_be_started_again() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    assert!(matches!(w.start(&attempt), Err(StartFailure::Declined(_))));
}

#[test]
fn a_closed_order_is_never_captured_whatever_its_payer_does() {
    for before in ["pending", "approve"] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, before);
        let ask = |purpose| {
            w.query(&attempt, Some(&started.reference), purpose)
                .unwrap()
        };
        assert_eq!(
            ask(QueryPurpose::Cancel).status,
            Status::Declined,
            "{before}"
        );
        // PayPal's page still exists, but the payer's actions on it cost the payer nothing.
        w.choose(&started, "approve");
        for purpose in [
            QueryPurpose::Sync,
            QueryPurpose::Capture,
            QueryPurpose::Cancel,
        ] {
            let report = ask(purpose);
            assert_eq!(
                (report.status, report.received.amount),
                (Status::Declined, 0),
                "{before}"
            );
        }
        assert!(
            matches!(w.start(&attempt), Err(StartFailure::Declined(_))),
            "{before}"
        );
        assert_eq!(w.entry().captured_times, 0, "{before}");
    }
}

#[test]
fn an_order_over_another_amount_is_not_captured() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let mut dearer = attempt;
    dearer.due.amount += 1;
    let report = w
        .query(&dearer, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    assert_eq!(
        report.particulars.authorised_at, None,
        "finish never takes it"
    );
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn an_order_that_paypal_knows_no_more_has_expired_before_its_approval_and_after_it() {
    for (chosen, purpose) in ["pending", "approve"].into_iter().flat_map(|chosen| {
        [
            QueryPurpose::Sync,
            QueryPurpose::Capture,
            QueryPurpose::Cancel,
        ]
        .map(|purpose| (chosen, purpose))
    }) {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, chosen);
        w.advance(3 * 3_600_000);
        w.fault(Fault::Forgets);
        let report = w
            .query(&attempt, Some(&started.reference), purpose)
            .unwrap();
        assert_eq!(
            (report.status, report.received.amount, report.reference),
            (Status::Expired, 0, started.reference),
            "{chosen} {purpose:?}"
        );
        assert_eq!(w.entry().captured_times, 0);
    }
}

#[test]
fn an_order_unknown_before_its_time_proves_nothing_but_can_be_closed() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::Forgets);
    let ask = |purpose| w.query(&attempt, Some(&started.reference), purpose);
    for purpose in [QueryPurpose::Sync, QueryPurpose::Capture] {
        assert_eq!(ask(purpose), Err(QueryFailure::Absent), "{purpose:?}");
    }
    assert_eq!(ask(QueryPurpose::Cancel).unwrap().status, Status::Expired);
    let changes = w
        .sent()
        .into_iter()
        .filter(|sent| sent.starts_with("PATCH"));
    assert_eq!(changes.count(), 1, "PayPal was asked to change it too");
}

#[test]
fn without_a_reference_that_can_be_paypals_nothing_is_asked_for() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    for reference in [None, Some("../../v1/oauth2")] {
        for purpose in [
            QueryPurpose::Sync,
            QueryPurpose::Capture,
            QueryPurpose::Cancel,
        ] {
            let asked = w.query(&attempt, reference, purpose);
            assert_eq!(asked, Err(QueryFailure::Absent), "{reference:?}");
        }
    }
    assert!(w.sent().is_empty());
}

#[test]
fn a_paid_order_tells_what_support_and_bookkeeping_ask_for() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.advance(60_000);
    w.choose(&started, "approve");
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    let approved = ask(QueryPurpose::Sync).particulars;
    assert_eq!(approved.provider_status.as_deref(), Some("APPROVED"));
    assert_eq!(approved.authorised_at, Some(w.now()));
    assert_eq!(
        approved.capture_before,
        Some(w.now() - 60_000 + 3 * 3_600_000)
    );
    w.advance(1_000);
    let paid = ask(QueryPurpose::Capture).particulars;
    let taken_at = w.now();
    w.advance(1_000);
    w.refund(&started, "10.00");
    let told = ask(QueryPurpose::Sync).particulars;
    assert_eq!(
        (paid.captured_at, told.captured_at),
        (Some(taken_at), Some(taken_at))
    );
    assert_eq!(told.provider_status.as_deref(), Some("PARTIALLY_REFUNDED"));
    assert_eq!(told.instrument.as_deref(), Some("paypal"));
    // Fee: 3.49 % of 49.90, plus 0.49.
    assert_eq!(told.fee.map(|fee| fee.amount), Some(223));
    let capture = format!("3{}", &started.reference[1..]);
    assert_eq!(told.references, [capture]);
}

#[test]
fn the_failed_part_of_a_whole_refund_comes_back() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    ask(QueryPurpose::Capture);
    w.refund(&started, "20.00");
    w.choose(&started, "refund");
    assert_eq!(ask(QueryPurpose::Sync).given_back, attempt.due.amount);
    w.choose(&started, "refund_fails");
    assert_eq!(ask(QueryPurpose::Sync).given_back, 2000);
}

#[test]
fn what_a_lost_dispute_took_is_told_as_the_dispute_and_counts_once() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = || {
        w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
            .unwrap()
    };
    ask();
    w.refund(&started, "9.90");
    w.choose(&started, "dispute");
    assert_eq!(ask().given_back, 990);
    w.choose(&started, "dispute_lost");
    let report = ask();
    assert_eq!(report.given_back, attempt.due.amount);
    let amounts = report
        .particulars
        .refunds
        .iter()
        .map(|refund| refund.amount);
    assert_eq!(amounts.collect::<Vec<_>>(), [990]);
    let disputes = &report.particulars.disputes;
    assert_eq!((disputes.len(), disputes[0].withdrawn), (1, 4000));
    assert!(disputes[0].listed_as_refund);
}
