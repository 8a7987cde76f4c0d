//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{
    DisputeState, Failure, Money, QueryFailure, RefundState, Settlement, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{HOUR, world};

#[test]
fn every_outcome_has_its_report() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Pending),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let w = world();
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_declined_session_can_no_longer_be_paid_once_it_was_told() {
    let w = world();
    w.change_setting("keep-open-after-decline", "false");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    // The answer is lost: the next question finds the session closed already.
    w.lose_answer_of("/expire");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Look);
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
    let ask = |returned| {
        let asked = w.query_returned(&attempt, Some(&started.reference), Wish::Look, returned);
        asked.unwrap()
    };
    let mut back = None;
    for _ in 0..6 {
        back = w.choose(&started, "decline").1;
        // Whatever the payer's browser has told before, but that they left.
        for returned in [None, Some("redirect_status=failed")] {
            let told = ask(returned);
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
    let told = w.query_returned(&attempt, Some(&started.reference), Wish::Look, query);
    assert_eq!(told.unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_payer_who_came_back_after_a_decline_is_told_as_paid() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Close)
        .unwrap();
    assert_eq!(report.status, Status::Completed);
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
        let attempt = w.attempt("ideal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        w.fault(fault);
        let asked = w.query(&attempt, Some(&started.reference), Wish::Look);
        assert!(
            matches!(asked, Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
    }
}

#[test]
fn an_authorisation_is_captured_on_finish_alone_and_once() {
    for manual in [false, true] {
        let w = world();
        if manual {
            w.change_setting("capture", "manual");
        } else {
            w.fault(Fault::NeedsCapture);
        }
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let ask = |wish| {
            let asked = w.query(&attempt, Some(&started.reference), wish);
            asked.unwrap()
        };
        let authorised = ask(Wish::Look);
        assert_eq!(authorised.status, Status::Processing);
        assert_eq!(authorised.received.amount, 0);
        let captured = ask(Wish::Finish);
        assert_eq!(
            (captured.status, captured.settlement, captured.received),
            (
                Status::Completed,
                Settlement::Confirmed,
                attempt.due.clone()
            )
        );
        assert_eq!(ask(Wish::Finish).status, Status::Completed);
        assert_eq!(w.entry().captured_times, 1);
    }
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Finish);
    w.lose_answer_of("/capture");
    assert!(ask().is_err());
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(ask().unwrap().status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_review_in_the_dashboard_is_told_with_its_money_whatever_the_wish() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let report = ask(wish);
        assert_eq!(
            (report.status, report.settlement, report.received),
            (Status::Review, Settlement::Confirmed, attempt.due.clone())
        );
    }
    w.choose(&started, "approve");
    assert_eq!(ask(Wish::Look).status, Status::Completed);
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
        let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
        let held = ask(Wish::Look);
        assert_eq!(
            (held.status, held.settlement, held.received.amount),
            (Status::Review, Settlement::Pending, 0)
        );
        assert_eq!(held.particulars.reason.as_deref(), Some("rule"));
        assert_eq!(w.entry().state, State::Authorised);
        w.choose(&started, "approve");
        let let_go = ask(Wish::Look);
        assert_eq!(
            (let_go.status, let_go.received.amount),
            (Status::Processing, 0)
        );
        assert_eq!(ask(Wish::Finish).status, Status::Completed);
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
        .query(&attempt, Some(&started.reference), Wish::Finish)
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
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let told = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(
            (told.status, told.received.amount, told.returned),
            (Status::Declined, 0, 0)
        );
        assert_eq!(told.particulars.reason.as_deref(), Some("fraudulent"));
    }
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_capture_that_stripe_refuses_is_told_with_its_reason() {
    let w = world();
    w.change_setting("capture", "manual");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    w.fault(Fault::CaptureRefused);
    let refused = ask(Wish::Finish);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Processing, 0)
    );
    let reason = refused.particulars.reason.as_deref();
    assert_eq!(reason, Some("card_declined"));
    // Nothing is held back by the refusal: what was held is given back, or captured later.
    assert_eq!(ask(Wish::Look).particulars.reason, None);
    assert_eq!(ask(Wish::Finish).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
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
        .query(&attempt, Some(&started.reference), Wish::Finish)
        .unwrap();
    assert_eq!((told.received.amount, told.returned), (4890, 0));
}

#[test]
fn a_capture_that_is_confirmed_later_is_told_as_under_way() {
    let w = world();
    w.change_setting("capture", "manual");
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::CaptureLate);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    assert_eq!(ask(Wish::Finish).status, Status::VerificationPending);
    // Nothing gives it back any more.
    assert_eq!(ask(Wish::Close).status, Status::VerificationPending);
    w.advance(1);
    assert_eq!(ask(Wish::Look).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn an_approval_that_stripe_takes_back_ends_the_attempt() {
    let w = world();
    w.change_setting("capture", "manual");
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.fault(Fault::VoidsApproval);
        w.choose(&started, "approve");
        let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(ask(Wish::Look).status, Status::Processing);
        w.advance(2_000);
        let over = ask(wish);
        assert_eq!(
            (over.status, over.received.amount, over.returned),
            (Status::Declined, 0, 0),
            "{wish:?}"
        );
        assert_eq!(over.particulars.reason.as_deref(), Some("automatic"));
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
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
        let ask = |wish| {
            let told = w.query(&attempt, Some(&started.reference), wish).unwrap();
            told.particulars
        };
        assert_eq!(ask(Wish::Look).provider_status.as_deref(), Some("open"));
        w.fault(Fault::NeedsCapture);
        w.choose(&started, "approve");
        let approved = w.now();
        let held = ask(Wish::Look);
        assert_eq!(held.provider_status.as_deref(), Some("requires_capture"));
        assert_eq!(held.authorised_at, Some(approved), "{method}");
        assert_eq!((held.captured_at, held.fee), (None, None));
        let until = held.capture_before;
        let day = 24 * HOUR;
        let card = (method == "credit_card").then_some(approved + 7 * day);
        assert_eq!(until, card, "{method}");
        w.advance(HOUR);
        let paid = ask(Wish::Finish);
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
fn closing_voids_what_was_approved_and_proves_that_nothing_can_be_paid() {
    let w = world();
    // One approval, which only authorises.
    w.fault(Fault::NeedsCapture);
    for outcome in ["pending", "decline", "approve"] {
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Close)
            .unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Declined, 0),
            "{outcome}"
        );
        assert_eq!(w.choose(&started, "approve").0, 409, "{outcome}");
        assert!(
            matches!(w.start(&attempt), Err(Failure::Declined(_))),
            "{outcome}"
        );
        let again = w.query(&attempt, Some(&started.reference), Wish::Close);
        assert_eq!(again.unwrap().status, Status::Declined, "{outcome}");
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
}

#[test]
fn what_was_received_is_told_as_stripe_took_it() {
    let w = world();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Look)
        .unwrap();
    assert_eq!(
        report.received,
        Money {
            amount: 4989,
            currency: "USD".into()
        }
    );
}

#[test]
fn refunds_are_told_one_by_one_and_one_that_fails_no_longer_counts() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = || {
        let told = w.query(&attempt, Some(&started.reference), Wish::Look);
        let told = told.unwrap();
        assert_eq!(told.status, Status::Completed);
        let items = told.particulars.refunds.into_iter();
        let (ids, states): (Vec<String>, Vec<_>) = items
            .map(|each| (each.id, (each.amount, each.state)))
            .unzip();
        (told.returned, ids, states)
    };
    w.refund(&started, "10.00");
    w.refund(&started, "10.00");
    let made = (1000, RefundState::Succeeded);
    let (returned, first, states) = ask();
    assert_eq!((returned, states), (2000, vec![made, made]));
    assert_ne!(first[0], first[1]);
    w.choose(&started, "refund_fails");
    let failed = (1000, RefundState::Failed);
    let (returned, ids, states) = ask();
    assert_eq!((returned, states), (1000, vec![failed, made]));
    assert_eq!(ids, first);
    // Made again it is another one.
    w.refund(&started, "10.00");
    let (returned, ids, states) = ask();
    assert_eq!((returned, states), (2000, vec![made, failed, made]));
    assert!(ids[1..] == first && !first.contains(&ids[0]));
    w.choose(&started, "refund");
    assert_eq!(ask().0, attempt.due.amount);
}

#[test]
fn a_dispute_keeps_its_id_until_it_is_won_or_lost() {
    for (end, state, returned) in [
        ("dispute_won", DisputeState::Won, 0),
        ("dispute_lost", DisputeState::Lost, 4990),
    ] {
        let w = world();
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let ask = || {
            w.query(&attempt, Some(&started.reference), Wish::Look)
                .unwrap()
        };
        let dispute = || ask().particulars.disputes.pop().unwrap();
        w.choose(&started, "dispute");
        let told = ask();
        assert_eq!(
            (told.status, told.settlement, told.returned),
            (Status::Review, Settlement::Pending, 0)
        );
        let first = dispute();
        assert_eq!(
            (first.amount, first.state),
            (attempt.due.amount, DisputeState::Open)
        );
        assert_eq!(first.reason.as_deref(), Some("fraudulent"));
        assert_eq!(first.respond_by, Some(w.now() + 7 * 24 * HOUR));
        // Told twice, it is the same.
        w.choose(&started, "dispute");
        assert_eq!(ask().particulars.disputes, [dispute()]);
        w.choose(&started, end);
        let ended = ask();
        assert_eq!(
            (ended.status, ended.settlement, ended.returned),
            (Status::Completed, Settlement::Confirmed, returned),
            "{end}"
        );
        assert_eq!((dispute().id, dispute().state), (first.id, state));
    }
}

#[test]
fn a_session_that_ran_out_of_time_is_expired() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.advance(HOUR);
    for wish in [Wish::Look, Wish::Close] {
        let report = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(report.status, Status::Expired);
    }
}

#[test]
fn a_reference_of_another_attempt_tells_nothing() {
    let w = world();
    let other = open(w.start(&w.attempt("ideal", "EUR")));
    w.choose(&other, "approve");
    let mine = w.attempt("ideal", "EUR");
    let asked = w.query(&mine, Some(&other.reference), Wish::Look);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}

#[test]
fn what_the_account_does_not_know_is_absent() {
    let w = world();
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    // The key of another account looks the same.
    let other = w.query(&attempt, Some("cs_test_0"), Wish::Close);
    assert_eq!(other, Err(QueryFailure::Absent));
    w.fault(Fault::Forgets);
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let asked = w.query(&attempt, Some(&started.reference), wish);
        assert_eq!(asked, Err(QueryFailure::Absent), "{wish:?}");
    }
}
