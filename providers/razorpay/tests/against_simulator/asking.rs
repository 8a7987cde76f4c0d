//! Asking where a payment stands, and doing what the host wishes.
use kassette_plugin::provider::{
    DisputeState, Failure, Money, QueryFailure, RefundState, Settlement, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{HOUR, MINUTE, attempt, world};

#[test]
fn every_outcome_has_its_report() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Pending),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let w = world();
        let attempt = attempt(&w);
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_declined_link_can_no_longer_be_paid_once_it_was_told() {
    let w = world();
    w.change_setting("keep-open-after-decline", "false");
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    let ask = || w.query(&attempt, Some(&started.reference), Wish::Look);
    // The payer's app lets him try the same payment again.
    assert_eq!(ask().unwrap().status, Status::Pending);
    w.advance(15 * MINUTE);
    // The answer is lost: the next question finds the link cancelled already.
    w.lose_answer_of("/cancel");
    assert!(ask().is_err());
    assert_eq!(ask().unwrap().status, Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
}

#[test]
fn a_declined_payer_may_try_again_at_razorpay_and_it_is_one_attempt() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    for _ in 0..6 {
        w.choose(&started, "decline");
        let told = w.query(&attempt, Some(&started.reference), Wish::Look);
        let told = told.unwrap();
        assert_eq!(told.status, Status::Pending);
        let reason = told.particulars.reason.as_deref();
        assert_eq!(reason, Some("payment_declined"));
        w.advance(5 * MINUTE);
    }
    assert_eq!(w.entries().len(), 1);
    w.choose(&started, "approve");
    let told = w.query(&attempt, Some(&started.reference), Wish::Look);
    assert_eq!(told.unwrap().status, Status::Completed);
}

#[test]
fn a_link_is_closed_when_its_tries_can_bring_no_money_and_not_before() {
    for (outcome, minutes) in [("decline", 15), ("pending", 5 * 24 * 60)] {
        let w = world();
        let mut attempt = attempt(&w);
        // A link that lives longer than the try.
        attempt.expires = w.now() + 10 * 24 * HOUR;
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let close = || {
            w.query(&attempt, Some(&started.reference), Wish::Close)
                .unwrap()
        };
        assert_eq!(close().status, Status::Pending, "{outcome}");
        w.advance((minutes - 1) * MINUTE);
        assert_eq!(close().status, Status::Pending, "{outcome}");
        w.advance(MINUTE);
        assert_eq!(close().status, Status::Declined, "{outcome}");
        assert_eq!(w.choose(&started, "approve").0, 409, "{outcome}");
    }
}

#[test]
fn a_try_that_is_authorised_late_is_told_whatever_became_of_its_link() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "pending");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    w.advance(20 * MINUTE);
    let timed_out = ask(Wish::Look).particulars;
    assert_eq!(timed_out.reason.as_deref(), Some("payment_timed_out"));
    // The link is over, and the payer approves in the app.
    w.advance(HOUR);
    assert_eq!(ask(Wish::Close).status, Status::Pending);
    w.choose(&started, "approve");
    assert_eq!(ask(Wish::Look).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn an_expired_link_proves_nothing_before_its_tries_are_over() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "pending");
    let ask = || {
        w.query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap()
    };
    w.advance(4 * 24 * HOUR);
    assert_eq!(ask().status, Status::Pending);
    w.advance(24 * HOUR);
    assert_eq!(ask().status, Status::Expired);
}

#[test]
fn a_payer_who_came_back_after_a_decline_is_told_as_paid() {
    let w = world();
    let attempt = attempt(&w);
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
        let attempt = attempt(&w);
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
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let authorised = ask(Wish::Look);
    assert_eq!(
        (authorised.status, authorised.received.amount),
        (Status::Processing, 0)
    );
    // Nothing gives it back but time: what was approved is told as it is.
    assert_eq!(ask(Wish::Close).status, Status::Processing);
    assert_eq!(ask(Wish::Finish).status, Status::Completed);
    assert_eq!(ask(Wish::Finish).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
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
fn what_the_bank_asks_about_is_a_review_with_its_money_whatever_the_wish() {
    let w = world();
    let attempt = attempt(&w);
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
fn closing_a_link_that_was_not_tried_proves_that_nothing_can_be_paid() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    let close = || w.query(&attempt, Some(&started.reference), Wish::Close);
    let report = close().unwrap();
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Declined, 0)
    );
    assert_eq!(w.choose(&started, "approve").0, 409);
    assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    assert_eq!(close().unwrap().status, Status::Declined);
    assert_eq!(w.entry().captured_times, 0);
}

#[test]
fn a_capture_that_razorpay_refuses_is_told_with_its_reason() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    w.fault(Fault::CaptureRefused);
    let refused = ask(Wish::Finish);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Processing, 0)
    );
    assert!(refused.particulars.reason.is_some());
    assert_eq!(ask(Wish::Look).particulars.reason, None);
    assert_eq!(ask(Wish::Finish).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_that_is_confirmed_later_is_told_as_it_is() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.fault(Fault::CaptureLate);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    assert_eq!(ask(Wish::Finish).status, Status::Processing);
    w.advance(1);
    assert_eq!(ask(Wish::Look).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn an_authorisation_that_razorpay_gives_back_ends_the_attempt() {
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let w = world();
        w.fault(Fault::NeedsCapture);
        w.fault(Fault::VoidsApproval);
        let attempt = attempt(&w);
        let started = open(w.start(&attempt));
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
        let word = over.particulars.provider_status;
        assert_eq!(word.as_deref(), Some("refunded"));
        assert_eq!(w.choose(&started, "approve").0, 409);
        assert_eq!(w.entry().captured_times, 0);
    }
}

#[test]
fn a_payment_tells_its_ids_its_fee_and_what_was_paid_with() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    let ask = || {
        let told = w.query(&attempt, Some(&started.reference), Wish::Look);
        told.unwrap().particulars
    };
    let fresh = ask();
    assert_eq!(fresh.provider_status.as_deref(), Some("created"));
    assert_eq!(fresh.references, [] as [&str; 0]);
    w.choose(&started, "decline");
    w.advance(MINUTE);
    w.choose(&started, "approve");
    let paid = ask();
    assert_eq!(paid.provider_status.as_deref(), Some("captured"));
    let end = started.reference.rsplit('_').next().unwrap();
    assert_eq!(
        paid.references,
        [
            format!("order_{end}"),
            format!("pay_{end}"),
            "103608848276".to_owned(),
            format!("pay_{end}t0"),
        ]
    );
    // 2 %, and 18 % tax on that.
    let fee = Money {
        amount: 99 + 17,
        currency: "INR".into(),
    };
    assert_eq!(paid.fee, Some(fee));
    assert_eq!(paid.instrument.as_deref(), Some("upi @upi"));
    assert_eq!(paid.reason, None);
}

#[test]
fn what_was_received_is_told_as_razorpay_took_it() {
    let w = world();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = attempt(&w);
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
    let attempt = attempt(&w);
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
        let attempt = attempt(&w);
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
        assert_eq!(first.reason.as_deref(), Some("chargeback"));
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
fn a_dispute_is_found_behind_a_hundred_newer_ones() {
    let w = world();
    let mine = attempt(&w);
    let started = open(w.start(&mine));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    for _ in 0..101 {
        let other = open(w.start(&attempt(&w)));
        w.choose(&other, "approve");
        w.choose(&other, "dispute");
    }
    let told = w.query(&mine, Some(&started.reference), Wish::Look);
    assert_eq!(told.unwrap().particulars.disputes.len(), 1);
}

#[test]
fn a_dispute_of_another_payment_is_none_of_this_one() {
    let w = world();
    let other = open(w.start(&attempt(&w)));
    w.choose(&other, "approve");
    w.choose(&other, "dispute");
    let mine = attempt(&w);
    let started = open(w.start(&mine));
    w.choose(&started, "approve");
    let report = w.query(&mine, Some(&started.reference), Wish::Look);
    assert_eq!(report.unwrap().status, Status::Completed);
}

#[test]
fn a_link_that_ran_out_of_time_is_expired() {
    let w = world();
    let attempt = attempt(&w);
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
    let other = open(w.start(&attempt(&w)));
    w.choose(&other, "approve");
    let mine = attempt(&w);
    let asked = w.query(&mine, Some(&other.reference), Wish::Close);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}

#[test]
fn what_the_account_does_not_know_is_absent() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    // The key of another account looks the same.
    let other = w.query(&attempt, Some("plink_0"), Wish::Close);
    assert_eq!(other, Err(QueryFailure::Absent));
    w.fault(Fault::Forgets);
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let asked = w.query(&attempt, Some(&started.reference), wish);
        assert_eq!(asked, Err(QueryFailure::Absent), "{wish:?}");
    }
}
