//! What is told beside where the money is, and what the vendor does by itself.
use kassette_plugin::provider::{
    Attempt, DisputeState, Money, Open, QueryFailure, Status, Subject, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{World, query, world};

fn started(w: &World) -> (Attempt, Open) {
    let attempt = w.attempt("revolut", "EUR");
    let started = open(w.start(&attempt));
    (attempt, started)
}

fn paid(w: &World) -> (Attempt, Open) {
    let (attempt, started) = started(w);
    w.choose(&started, "approve");
    (attempt, started)
}

/// An approval that the merchant captures.
fn approved(w: &World) -> (Attempt, Open) {
    w.change_setting("capture", "manual");
    paid(w)
}

#[test]
fn card_fee_times_and_the_payments_id_are_told() {
    let w = world();
    let (attempt, started) = approved(&w);
    let waits = query(&w, &attempt, &started, Wish::Look).particulars;
    assert_eq!(waits.provider_status.as_deref(), Some("authorised"));
    assert_eq!(waits.authorised_at, Some(w.now()));
    assert_eq!(waits.capture_before, Some(w.now() + 7 * 86_400_000));
    assert_eq!((waits.captured_at, waits.fee), (None, None));
    query(&w, &attempt, &started, Wish::Finish);
    w.confirm();
    let taken = query(&w, &attempt, &started, Wish::Look).particulars;
    assert_eq!(taken.instrument.as_deref(), Some("visa 0368"));
    assert_eq!(
        (taken.authorised_at, taken.capture_before),
        (waits.authorised_at, None)
    );
    assert!(taken.captured_at >= waits.authorised_at);
    let fee = Money {
        amount: 69,
        currency: "EUR".into(),
    };
    assert_eq!((taken.fee, taken.references.len()), (Some(fee), 1));
}

#[test]
fn a_declined_try_leaves_the_order_open_until_the_payer_comes_back() {
    let w = world();
    let (attempt, started) = started(&w);
    for _ in 0..3 {
        w.choose(&started, "decline");
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(report.status, Status::Pending);
        let reason = report.particulars.reason;
        assert_eq!(reason.as_deref(), Some("insufficient_funds"));
    }
    w.choose(&started, "approve");
    assert_eq!(
        query(&w, &attempt, &started, Wish::Look).status,
        Status::Completed
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn refunds_in_parts_add_up_and_one_that_fails_lowers_the_sum() {
    let w = world();
    let (attempt, started) = paid(&w);
    w.next_callback();
    for amount in ["10.00", "10.00", "5.00"] {
        w.refund(&started, amount);
        // Each is an order of its own, which leads to ours.
        let answer = w.callback(&w.next_callback()).unwrap();
        let about: Vec<Subject> = answer
            .notices
            .into_iter()
            .map(|notice| notice.about)
            .collect();
        assert_eq!(about, [Subject::Reference(started.reference.clone())]);
    }
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!((report.status, report.returned), (Status::Completed, 2500));
    w.choose(&started, "refund_fails");
    assert_eq!(query(&w, &attempt, &started, Wish::Look).returned, 2000);
}

#[test]
fn a_dispute_is_told_under_one_id_and_counts_once_it_is_lost() {
    for (end, state, returned) in [
        ("dispute_won", DisputeState::Won, 0),
        ("dispute_lost", DisputeState::Lost, 4990),
    ] {
        let w = world();
        let (attempt, started) = paid(&w);
        w.choose(&started, "dispute");
        w.choose(&started, "dispute");
        let open = query(&w, &attempt, &started, Wish::Look);
        assert_eq!((open.status, open.returned), (Status::Review, 0));
        let [dispute] = open.particulars.disputes.as_slice() else {
            panic!("one dispute")
        };
        assert_eq!((dispute.amount, dispute.state), (4990, DisputeState::Open));
        assert_eq!(dispute.reason.as_deref(), Some("10.4"));
        assert!(dispute.respond_by > Some(w.now()));
        w.choose(&started, end);
        let ended = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(
            (ended.status, ended.returned),
            (Status::Completed, returned),
            "{end}"
        );
        let decided = &ended.particulars.disputes[0];
        assert_eq!((&decided.id, decided.state), (&dispute.id, state), "{end}");
    }
}

#[test]
fn a_capture_under_way_is_neither_repeated_nor_cancelled() {
    let w = world();
    let (attempt, started) = approved(&w);
    for wish in [Wish::Finish, Wish::Finish, Wish::Look, Wish::Close] {
        let report = query(&w, &attempt, &started, wish);
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Processing, 0),
            "{wish:?}"
        );
    }
    w.confirm();
    assert_eq!(
        query(&w, &attempt, &started, Wish::Look).status,
        Status::Completed
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_that_is_refused_is_for_a_person_and_can_still_be_cancelled() {
    let w = world();
    let (attempt, started) = approved(&w);
    w.fault(Fault::CaptureRefused);
    let refused = query(&w, &attempt, &started, Wish::Finish);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Review, 0)
    );
    assert!(refused.particulars.reason.is_some());
    let closed = query(&w, &attempt, &started, Wish::Close);
    assert_eq!(closed.status, Status::Declined);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Closed, 0)
    );
}

#[test]
fn an_authorisation_that_revolut_voids_is_over_whatever_is_asked() {
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let w = world();
        w.fault(Fault::VoidsApproval);
        let (attempt, started) = approved(&w);
        w.advance(2_000);
        let report = query(&w, &attempt, &started, wish);
        assert_eq!(report.status, Status::Declined, "{wish:?}");
        assert_eq!(w.entry().captured_times, 0, "{wish:?}");
    }
}

#[test]
fn an_order_that_revolut_has_forgotten_is_absent() {
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let w = world();
        let (attempt, started) = approved(&w);
        w.fault(Fault::Forgets);
        let asked = w.query(&attempt, Some(&started.reference), wish);
        assert_eq!(asked, Err(QueryFailure::Absent), "{wish:?}");
    }
}
