//! Querying a payment, and fulfilling the host's purpose.
use kassette_plugin::provider::{Money, QueryPurpose, Status};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{HOUR, MINUTE, attempt, world};

#[test]
fn a_declined_link_can_no_longer_be_paid_once_it_was_told() {
    let w = world();
    w.change_setting("keep-open-after-decline", "false");
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    let ask = || w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
    // The payer's app allows a retry of the same payment.
    assert_eq!(ask().unwrap().status, Status::Pending);
    w.advance(15 * MINUTE);
    // The answer is lost; the next query finds the link cancelled.
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
        let told = w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
        let told = told.unwrap();
        assert_eq!(told.status, Status::Pending);
        let reason = told.particulars.reason.as_deref();
        assert_eq!(reason, Some("payment_declined"));
        w.advance(5 * MINUTE);
    }
    assert_eq!(w.entries().len(), 1);
    w.choose(&started, "approve");
    let told = w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
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
            w.query(&attempt, Some(&started.reference), QueryPurpose::Cancel)
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
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    w.advance(20 * MINUTE);
    let timed_out = ask(QueryPurpose::Sync).particulars;
    assert_eq!(timed_out.reason.as_deref(), Some("payment_timed_out"));
    // The link has ended, and the payer approves in the app.
    w.advance(HOUR);
    assert_eq!(ask(QueryPurpose::Cancel).status, Status::Pending);
    w.choose(&started, "approve");
    assert_eq!(ask(QueryPurpose::Sync).status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn an_expired_link_proves_nothing_before_its_tries_are_over() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "pending");
    let ask = || {
        w.query(&attempt, Some(&started.reference), QueryPurpose::Sync)
            .unwrap()
    };
    w.advance(4 * 24 * HOUR);
    assert_eq!(ask().status, Status::Pending);
    w.advance(24 * HOUR);
    assert_eq!(ask().status, Status::Expired);
}

#[test]
fn closing_gives_no_authorisation_back() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let closed = w.query(&attempt, Some(&started.reference), QueryPurpose::Cancel);
    // Only time releases it, so the authorization is reported.
    assert_eq!(closed.unwrap().status, Status::Processing);
}

#[test]
fn a_payment_tells_its_ids_its_fee_and_what_was_paid_with() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    let ask = || {
        let told = w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
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
    let told = w.query(&mine, Some(&started.reference), QueryPurpose::Sync);
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
    let report = w.query(&mine, Some(&started.reference), QueryPurpose::Sync);
    assert_eq!(report.unwrap().status, Status::Completed);
}
