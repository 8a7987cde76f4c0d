//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{
    Failure, Money, QueryFailure, RefundState, Settlement, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::world;

#[test]
fn every_outcome_has_its_report_once_captured() {
    for (outcome, status, state) in [
        ("approve", Status::Completed, State::Captured),
        ("decline", Status::Declined, State::Declined),
        ("review", Status::Review, State::Captured),
        ("pending", Status::Pending, State::Open),
    ] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w.query(&attempt, Some(&started.reference), Wish::Finish);
        assert_eq!(report.unwrap().status, status, "{outcome}");
        assert_eq!(w.entry().state, state, "{outcome}");
    }
}

#[test]
fn a_voided_order_can_neither_be_paid_nor_started_again() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_question_that_got_no_answer_is_no_news() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
        Fault::Down,
    ] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            w.fault(fault);
            let asked = w.query(&attempt, Some(&started.reference), wish);
            assert!(
                matches!(asked, Err(QueryFailure::Unavailable(_))),
                "{fault} {wish:?}"
            );
        }
        assert_eq!(w.entry().state, State::Authorised, "{fault}");
    }
}

#[test]
fn an_approval_is_captured_on_finish_alone_and_once() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| {
        w.query(&attempt, Some(&started.reference), wish)
            .unwrap()
            .status
    };
    assert_eq!(ask(Wish::Look), Status::Processing);
    assert_eq!(w.entry().captured_times, 0);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(ask(Wish::Close), Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_whose_answer_is_lost_is_found_without_a_second_capture() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.lose_answer_of("/capture");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Finish);
    assert!(matches!(ask(), Err(QueryFailure::Unavailable(_))));
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(ask().unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_held_capture_is_reviewed_without_money_until_paypal_lets_it_go() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let report = ask(wish);
        assert_eq!(
            (report.status, report.settlement, report.received.amount),
            (Status::Review, Settlement::Pending, 0),
            "{wish:?}"
        );
    }
    w.choose(&started, "approve");
    let report = ask(Wish::Look);
    assert_eq!(
        (report.status, report.received),
        (Status::Completed, attempt.due.clone())
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_closed_order_is_never_captured_whatever_its_payer_does() {
    for before in ["pending", "approve"] {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, before);
        let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(ask(Wish::Close).status, Status::Declined, "{before}");
        // PayPal's page is still there: what the payer does on it costs him nothing.
        w.choose(&started, "approve");
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            let report = ask(wish);
            assert_eq!(
                (report.status, report.received.amount),
                (Status::Declined, 0),
                "{before}"
            );
        }
        assert!(
            matches!(w.start(&attempt), Err(Failure::Declined(_))),
            "{before}"
        );
        assert_eq!(w.entry().captured_times, 0, "{before}");
    }
}

#[test]
fn what_was_received_is_told_as_paypal_took_it() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let taken = Money {
        amount: 4989,
        currency: "USD".into(),
    };
    assert_eq!(ask(Wish::Finish).received, taken);
    w.choose(&started, "refund");
    assert_eq!(ask(Wish::Look).returned, taken.amount);
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
        .query(&dearer, Some(&started.reference), Wish::Finish)
        .unwrap();
    assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    assert_eq!(
        report.particulars.authorised_at, None,
        "finish never takes it"
    );
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_refund_is_told_with_its_amount() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    w.choose(&started, "refund");
    let report = ask(Wish::Look);
    assert_eq!(
        (report.status, report.returned),
        (Status::Completed, attempt.due.amount)
    );
}

#[test]
fn an_order_that_paypal_knows_no_more_has_expired_before_its_approval_and_after_it() {
    for (chosen, wish) in ["pending", "approve"]
        .into_iter()
        .flat_map(|chosen| [Wish::Look, Wish::Finish, Wish::Close].map(|wish| (chosen, wish)))
    {
        let w = world();
        let attempt = w.attempt("paypal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, chosen);
        w.advance(3 * 3_600_000);
        w.fault(Fault::Forgets);
        let report = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(
            (report.status, report.received.amount, report.reference),
            (Status::Expired, 0, started.reference),
            "{chosen} {wish:?}"
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
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish);
    for wish in [Wish::Look, Wish::Finish] {
        assert_eq!(ask(wish), Err(QueryFailure::Absent), "{wish:?}");
    }
    assert_eq!(ask(Wish::Close).unwrap().status, Status::Expired);
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
        for wish in [Wish::Look, Wish::Finish, Wish::Close] {
            let asked = w.query(&attempt, reference, wish);
            assert_eq!(asked, Err(QueryFailure::Absent), "{reference:?}");
        }
    }
    assert!(w.sent().is_empty());
}

#[test]
fn a_capture_that_paypal_refuses_is_declined_with_its_reason_and_never_tried_again() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::CaptureRefused);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let refused = ask(Wish::Finish);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Declined, 0)
    );
    let reason = refused.particulars.reason;
    assert_eq!(reason.as_deref(), Some("INSTRUMENT_DECLINED"));
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        assert_eq!(ask(wish).status, Status::Declined);
    }
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn an_approval_that_paypal_takes_back_is_declined() {
    let w = world();
    w.fault(Fault::VoidsApproval);
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.advance(2_000);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        assert_eq!(ask(wish).status, Status::Declined);
    }
}

#[test]
fn a_capture_that_awaits_its_funding_is_no_money_until_it_is_complete() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::CaptureLate);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let report = ask(wish);
        assert_eq!(
            (report.status, report.received.amount),
            (Status::VerificationPending, 0)
        );
    }
    w.advance(1);
    let report = ask(Wish::Look);
    assert_eq!(
        (report.status, report.received),
        (Status::Completed, attempt.due.clone())
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_paid_order_tells_what_support_and_bookkeeping_ask_for() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.advance(60_000);
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let approved = ask(Wish::Look).particulars;
    assert_eq!(approved.provider_status.as_deref(), Some("APPROVED"));
    assert_eq!(approved.authorised_at, Some(w.now()));
    assert_eq!(
        approved.capture_before,
        Some(w.now() - 60_000 + 3 * 3_600_000)
    );
    w.advance(1_000);
    let paid = ask(Wish::Finish).particulars;
    let taken_at = w.now();
    w.advance(1_000);
    w.refund(&started, "10.00");
    let told = ask(Wish::Look).particulars;
    assert_eq!(
        (paid.captured_at, told.captured_at),
        (Some(taken_at), Some(taken_at))
    );
    assert_eq!(told.provider_status.as_deref(), Some("PARTIALLY_REFUNDED"));
    assert_eq!(told.instrument.as_deref(), Some("paypal"));
    // 3.49 % and 0.49 of 49.90
    assert_eq!(told.fee.map(|fee| fee.amount), Some(223));
    let capture = format!("3{}", &started.reference[1..]);
    assert_eq!(told.references, [capture]);
}

#[test]
fn refunds_are_told_one_by_one_and_one_that_fails_lowers_the_sum() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    ask(Wish::Finish);
    for amount in ["10.00", "10.00", "5.00"] {
        w.refund(&started, amount);
    }
    let report = ask(Wish::Look);
    assert_eq!((report.status, report.returned), (Status::Completed, 2500));
    let refunds = report.particulars.refunds;
    let mut ids: Vec<_> = refunds.iter().map(|refund| refund.id.clone()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    w.choose(&started, "refund_fails");
    let report = ask(Wish::Look);
    assert_eq!(report.returned, 2000);
    let states = report.particulars.refunds.iter().map(|refund| refund.state);
    let states: Vec<_> = states.collect();
    let (made, failed) = (RefundState::Succeeded, RefundState::Failed);
    assert_eq!(states, [made, made, failed]);
    // All of it, then a part comes back.
    w.choose(&started, "refund");
    assert_eq!(ask(Wish::Look).returned, attempt.due.amount);
    w.choose(&started, "refund_fails");
    assert_eq!(ask(Wish::Look).returned, 2000);
}

#[test]
fn what_a_lost_dispute_took_is_told_by_the_order_and_counts_once() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = || {
        w.query(&attempt, Some(&started.reference), Wish::Finish)
            .unwrap()
    };
    ask();
    w.refund(&started, "9.90");
    w.choose(&started, "dispute");
    assert_eq!(ask().returned, 990);
    w.choose(&started, "dispute_lost");
    let report = ask();
    assert_eq!(report.returned, attempt.due.amount);
    let amounts = report
        .particulars
        .refunds
        .iter()
        .map(|refund| refund.amount);
    assert_eq!(amounts.collect::<Vec<_>>(), [990, 4000]);
}

#[test]
fn an_order_of_another_attempt_tells_nothing() {
    let w = world();
    let other = open(w.start(&w.attempt("paypal", "EUR")));
    w.choose(&other, "approve");
    let mine = w.attempt("paypal", "EUR");
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let asked = w.query(&mine, Some(&other.reference), wish);
        assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    }
    assert_eq!(w.entry().captured_times, 0);
}
