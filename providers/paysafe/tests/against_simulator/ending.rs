//! Evidence that no money can arrive, and lack of it: lost callbacks, unused handles, failed payments.
use kassette_plugin::provider::{QueryPurpose, Settlement, Status, Subject};
use kassette_sim::{Fault, State};

use crate::{attempt, chosen, world};

const LIFE_MS: u64 = 15 * 60_000;

#[test]
fn a_payer_who_has_paid_is_seen_by_asking_alone_and_the_money_is_asked_for() {
    // Neither the callback nor the payer returned.
    let w = world();
    w.fault(Fault::CallbackNever);
    let (attempt, started) = chosen(&w, "approve");
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    for purpose in [QueryPurpose::Sync, QueryPurpose::Cancel] {
        let seen = ask(purpose);
        assert_eq!(seen.status, Status::Processing, "{purpose:?}");
        let until = seen.particulars.capture_before;
        assert_eq!(until, Some(w.now() + LIFE_MS), "{purpose:?}");
        assert_eq!(w.entry().state, State::Authorised, "{purpose:?}");
    }
    ask(QueryPurpose::Capture);
    w.confirm();
    let report = ask(QueryPurpose::Sync);
    assert_eq!(
        (report.status, report.settlement, report.received),
        (Status::Completed, Settlement::Confirmed, attempt.due)
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn what_was_paid_at_interac_is_taken_by_paysafe_where_it_is_not_asked_for() {
    for purpose in [
        QueryPurpose::Sync,
        QueryPurpose::Capture,
        QueryPurpose::Cancel,
    ] {
        let w = world();
        let (attempt, started) = chosen(&w, "approve");
        let ask = |purpose| {
            w.query(&attempt, Some(&started.reference), purpose)
                .unwrap()
        };
        assert_eq!(ask(QueryPurpose::Cancel).status, Status::Processing);
        w.advance(LIFE_MS);
        let report = ask(purpose);
        assert_eq!(
            (report.status, report.received),
            (Status::Completed, attempt.due.clone()),
            "{purpose:?}"
        );
        assert_eq!(w.entry().captured_times, 1, "{purpose:?}");
    }
}

#[test]
fn a_handle_that_waits_is_not_over_before_its_own_end() {
    let w = world();
    let (attempt, started) = chosen(&w, "pending");
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    assert_eq!(ask(QueryPurpose::Cancel).status, Status::Pending);
    // The payer's link still works, and a payment made now is found.
    w.choose(&started, "approve");
    assert_eq!(ask(QueryPurpose::Cancel).status, Status::Processing);
}

#[test]
fn a_held_payment_is_definite_after_its_webhook() {
    let w = world();
    let (attempt, started) = chosen(&w, "review");
    w.next_callback();
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    let told = w.callback(&w.next_callback()).unwrap();
    assert_eq!(told.notices[0].about, Subject::Attempt(attempt.id.clone()));
    for purpose in [
        QueryPurpose::Sync,
        QueryPurpose::Capture,
        QueryPurpose::Cancel,
    ] {
        let report = w
            .query(&attempt, Some(&started.reference), purpose)
            .unwrap();
        assert_eq!(report.status, Status::Review, "{purpose:?}");
        let words = report.particulars.provider_status;
        assert_eq!(words.as_deref(), Some("HELD"), "{purpose:?}");
    }
}

#[test]
fn refunds_in_parts_are_traced_add_up_and_fall_back_whatever_the_purpose() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    w.next_callback();
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    ask(QueryPurpose::Capture);
    let completed = w.callback(&w.next_callback()).unwrap().notices.remove(0);
    let payment = completed.report.unwrap().reference;
    for amount in ["10.00", "10.00", "5.00"] {
        w.refund(&started, amount);
        // Made in the Business Portal, with the payment's own reference.
        let told = w.callback(&w.next_callback()).unwrap();
        assert_eq!(told.notices[0].about, Subject::Attempt(attempt.id.clone()));
    }
    for purpose in [
        QueryPurpose::Sync,
        QueryPurpose::Capture,
        QueryPurpose::Cancel,
    ] {
        let report = ask(purpose);
        assert_eq!(
            (report.status, report.given_back),
            (Status::Completed, 2500),
            "{purpose:?}"
        );
        assert_eq!(report.reference, payment, "{purpose:?}");
    }
    w.choose(&started, "refund_fails");
    assert_eq!(ask(QueryPurpose::Sync).given_back, 2000);
}

#[test]
fn another_shops_payments_at_the_same_account_are_none_of_ours() {
    let w = world();
    let mut others = attempt(&w);
    others.id = "shop:123".into();
    let started = kassette_world::open(w.start(&others));
    w.choose(&started, "approve");
    let told = w.callback(&w.next_callback()).unwrap();
    assert_eq!((told.status, told.notices), (200, Vec::new()));
}
