//! Querying a payment, and fulfilling the host's purpose.
use kassette_plugin::provider::{Money, Paid, QueryPurpose, RefundState, Settlement, Status};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{HOUR, world};

#[test]
fn a_declined_session_can_no_longer_be_paid_once_it_was_told() {
    let w = world();
    w.change_setting("keep-open-after-decline", "false");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    // The answer is lost; the next query finds the session closed.
    w.lose_answer_of("/expire");
    let ask = || w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
    assert!(ask().is_err());
    let report = ask().unwrap();
    assert_eq!(report.status, Status::Declined);
    assert_eq!(report.detail, "declined: card_declined generic_decline");
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
}

#[test]
fn a_declined_payer_may_try_again_until_they_leave_and_it_is_one_attempt() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    let ask = |return_query| {
        let asked = w.query_returned(
            &attempt,
            Some(&started.reference),
            QueryPurpose::Sync,
            return_query,
        );
        asked.unwrap()
    };
    let mut back = None;
    for _ in 0..6 {
        back = w.choose(&started, "decline").1;
        // The payer's query does not matter unless it shows that they left the page.
        for return_query in [None, Some("redirect_status=failed")] {
            let told = ask(return_query);
            assert_eq!(told.status, Status::Pending);
            let reason = told.particulars.reason.as_deref();
            assert_eq!(reason, Some("generic_decline"));
        }
    }
    assert_eq!(w.entries().len(), 1);
    let query = back.unwrap();
    let query = query.split_once('?').unwrap().1;
    assert_eq!(ask(Some(query)).status, Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(ask(Some(query)).status, Status::Declined);
}

#[test]
fn a_payer_who_left_and_had_paid_in_another_tab_is_told_as_paid() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    let (_, back) = w.choose(&started, "decline");
    w.choose(&started, "approve");
    let back = back.unwrap();
    let query = back.split_once('?').map(|(_, query)| query);
    let told = w.query_returned(
        &attempt,
        Some(&started.reference),
        QueryPurpose::Sync,
        query,
    );
    assert_eq!(told.unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_review_holds_before_the_capture_until_it_is_approved() {
    for manual in [false, true] {
        let w = world();
        if manual {
            w.change_setting("capture", "manual");
        } else {
            w.fault(Fault::NeedsCapture);
        }
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "review");
        let ask = |purpose| {
            w.query(&attempt, Some(&started.reference), purpose)
                .unwrap()
        };
        let held = ask(QueryPurpose::Sync);
        assert_eq!(
            (held.status, held.settlement, held.received.amount),
            (Status::Review, Settlement::Pending, 0)
        );
        assert_eq!(held.particulars.reason.as_deref(), Some("rule"));
        assert_eq!(w.entry().state, State::Authorised);
        w.choose(&started, "approve");
        let let_go = ask(QueryPurpose::Sync);
        assert_eq!(
            (let_go.status, let_go.received.amount),
            (Status::Processing, 0)
        );
        assert_eq!(ask(QueryPurpose::Capture).status, Status::Completed);
        assert_eq!(w.entry().captured_times, 1);
    }
}

#[test]
fn an_operators_approval_captures_what_is_held_for_review() {
    let w = world();
    w.change_setting("capture", "manual");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    let taken = w
        .query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    assert_eq!(
        (taken.settlement, taken.received),
        (Settlement::Confirmed, attempt.due)
    );
}

#[test]
fn a_review_that_finds_fraud_ends_the_attempt_without_money() {
    let w = world();
    w.change_setting("capture", "manual");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    w.choose(&started, "decline");
    for purpose in [
        QueryPurpose::Sync,
        QueryPurpose::Capture,
        QueryPurpose::Cancel,
    ] {
        let told = w
            .query(&attempt, Some(&started.reference), purpose)
            .unwrap();
        assert_eq!(
            (told.status, told.received.amount, told.given_back),
            (Status::Declined, 0, 0)
        );
        assert_eq!(told.particulars.reason.as_deref(), Some("fraudulent"));
    }
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn what_was_captured_in_part_is_told_with_what_was_taken() {
    let w = world();
    w.change_setting("capture", "manual");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::CaptureShort);
    let told = w
        .query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    assert_eq!((told.received.amount, told.given_back), (4890, 0));
}

#[test]
fn a_payment_tells_its_ids_its_fee_its_times_and_what_was_paid_with() {
    for (method, instrument) in [
        ("credit_card", "visa 4242"),
        ("ideal", "ing"),
        ("klarna", "klarna"),
        ("revolut", "mastercard 4444"),
    ] {
        let w = world();
        let attempt = w.attempt(method, "EUR");
        let started = open(w.start(&attempt));
        let ask = |purpose| {
            let told = w
                .query(&attempt, Some(&started.reference), purpose)
                .unwrap();
            told.particulars
        };
        assert_eq!(
            ask(QueryPurpose::Sync).provider_status.as_deref(),
            Some("open")
        );
        w.fault(Fault::NeedsCapture);
        w.choose(&started, "approve");
        let approved = w.now();
        let held = ask(QueryPurpose::Sync);
        assert_eq!(held.provider_status.as_deref(), Some("requires_capture"));
        assert_eq!(held.authorised_at, Some(approved), "{method}");
        assert_eq!((held.captured_at, held.fee), (None, None));
        let until = held.capture_before;
        let day = 24 * HOUR;
        let card = (method == "credit_card").then_some(approved + 7 * day);
        assert_eq!(until, card, "{method}");
        w.advance(HOUR);
        let paid = ask(QueryPurpose::Capture);
        assert_eq!(paid.provider_status.as_deref(), Some("succeeded"));
        let end = started.reference.rsplit('_').next().unwrap();
        let ids = ["pi", "ch", "txn"].map(|kind| format!("{kind}_{end}"));
        assert_eq!(paid.references, ids);
        let fee = Money {
            amount: 99,
            currency: "EUR".into(),
        };
        assert_eq!(paid.fee, Some(fee));
        assert_eq!(paid.authorised_at, Some(approved));
        assert_eq!(paid.captured_at, Some(approved + HOUR));
        assert_eq!(paid.capture_before, None);
        assert_eq!(paid.instrument.as_deref(), Some(instrument));
    }
}

#[test]
fn a_charge_with_more_refunds_than_it_tells_is_told_one_by_one() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    for _ in 0..12 {
        assert!(w.refund(&started, "1.00").0 < 400);
    }
    let asked = w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
    let told = asked.unwrap();
    assert_eq!(
        (told.particulars.refunds.len(), told.given_back),
        (12, 1_200)
    );
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
