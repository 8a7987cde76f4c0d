//! What is told beside where the money is, from the start to the last dispute.
use kassette_plugin::provider::{
    Attempt, DisputeState, Money, Open, QueryFailure, RefundState, Report, Settlement, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{World, world};

const DAY_MS: u64 = 86_400_000;

fn started(w: &World) -> (Attempt, Open) {
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    (attempt, started)
}

fn paid(w: &World) -> (Attempt, Open) {
    let (attempt, started) = started(w);
    w.choose(&started, "approve");
    (attempt, started)
}

fn look(w: &World, attempt: &Attempt, started: &Open) -> Report {
    let asked = w.query(attempt, Some(&started.reference), Wish::Look);
    asked.unwrap()
}

/// Ids and states of the refunds that are told.
fn refunds(report: &Report) -> Vec<(u64, RefundState)> {
    let refunds = report.particulars.refunds.iter();
    refunds
        .map(|refund| (refund.amount, refund.state))
        .collect()
}

#[test]
fn an_authorisation_tells_until_when_it_can_be_captured_and_a_capture_what_it_cost() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let (attempt, started) = paid(&w);
    let approved = look(&w, &attempt, &started).particulars;
    assert_eq!(approved.provider_status.as_deref(), Some("authorised"));
    assert_eq!(approved.authorised_at, Some(w.now()));
    assert_eq!(approved.capture_before, Some(w.now() + 7 * DAY_MS));
    assert_eq!((approved.captured_at, approved.fee), (None, None));
    assert_eq!(approved.instrument.as_deref(), Some("visa 4242"));
    w.advance(1_000);
    let asked = w.query(&attempt, Some(&started.reference), Wish::Finish);
    let taken = asked.unwrap().particulars;
    assert_eq!(taken.captured_at, Some(w.now()));
    assert_eq!(taken.authorised_at, approved.authorised_at);
    assert_eq!(taken.capture_before, None);
    let fee = Money {
        amount: 99,
        currency: "EUR".into(),
    };
    assert_eq!(taken.fee, Some(fee));
    let charge = started.reference.replacen("sbx_", "sbc_", 1);
    assert_eq!(taken.references, [charge]);
}

#[test]
fn refunds_are_told_one_by_one_and_one_that_fails_lowers_the_sum() {
    use RefundState::{Failed, Succeeded};
    let w = world();
    let (attempt, started) = paid(&w);
    for amount in ["10.00", "10.00", "5.00"] {
        assert_eq!(w.refund(&started, amount).0, 200);
    }
    let report = look(&w, &attempt, &started);
    assert_eq!((report.status, report.returned), (Status::Completed, 2500));
    let three = [(1000, Succeeded), (1000, Succeeded), (500, Succeeded)];
    assert_eq!(refunds(&report), three);
    let ids: Vec<&str> = report
        .particulars
        .refunds
        .iter()
        .map(|refund| refund.id.as_str())
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
    w.choose(&started, "refund_fails");
    let report = look(&w, &attempt, &started);
    assert_eq!(report.returned, 2000);
    assert_eq!(refunds(&report)[2], (500, Failed));
    // Made again it is another one.
    w.refund(&started, "5.00");
    let report = look(&w, &attempt, &started);
    assert_eq!((report.returned, refunds(&report).len()), (2500, 4));
}

#[test]
fn a_dispute_keeps_its_id_until_it_is_decided() {
    for (end, state, returned) in [
        ("dispute_won", DisputeState::Won, 0),
        ("dispute_lost", DisputeState::Lost, 4990),
    ] {
        let w = world();
        let (attempt, started) = paid(&w);
        w.choose(&started, "dispute");
        let first = look(&w, &attempt, &started);
        assert_eq!(first.status, Status::Review);
        let [dispute] = first.particulars.disputes.as_slice() else {
            panic!("one dispute")
        };
        assert_eq!((dispute.amount, dispute.state), (4990, DisputeState::Open));
        assert_eq!(dispute.reason.as_deref(), Some("fraudulent"));
        assert_eq!(dispute.respond_by, Some(w.now() + 7 * DAY_MS));
        // Told twice, it is the same one.
        w.choose(&started, "dispute");
        assert_eq!(
            look(&w, &attempt, &started).particulars.disputes,
            first.particulars.disputes
        );
        w.choose(&started, end);
        let ended = look(&w, &attempt, &started);
        assert_eq!(
            (ended.status, ended.returned),
            (Status::Completed, returned),
            "{end}"
        );
        let [decided] = ended.particulars.disputes.as_slice() else {
            panic!("one dispute")
        };
        assert_eq!((&decided.id, decided.state), (&dispute.id, state), "{end}");
    }
}

#[test]
fn every_piece_of_news_tells_the_same_as_a_question() {
    let w = world();
    let (attempt, started) = paid(&w);
    w.next_callback();
    for outcome in ["refund_part", "refund_fails", "dispute", "dispute_lost"] {
        match outcome {
            "refund_part" => w.refund(&started, "10.00"),
            outcome => w.choose(&started, outcome),
        };
        let told = w.callback(&w.next_callback()).unwrap();
        let [notice] = told.notices.as_slice() else {
            panic!("one notice")
        };
        let asked = look(&w, &attempt, &started);
        assert_eq!(notice.report.as_ref(), Some(&asked), "{outcome}");
    }
}

#[test]
fn a_capture_that_is_refused_is_for_a_person_and_can_still_be_given_back() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let (attempt, started) = paid(&w);
    w.fault(Fault::CaptureRefused);
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    let refused = ask(Wish::Finish);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Review, 0)
    );
    let reason = refused.particulars.reason;
    assert_eq!(reason.as_deref(), Some("payment_refused"));
    // The approval stands: it can be captured later, or closed.
    assert_eq!(ask(Wish::Look).status, Status::Processing);
    assert_eq!(ask(Wish::Close).status, Status::Declined);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Closed, 0)
    );
}

#[test]
fn a_capture_that_is_only_taken_in_is_no_money_yet_and_is_neither_repeated_nor_closed() {
    let w = world();
    w.fault(Fault::NeedsCapture);
    let (attempt, started) = paid(&w);
    w.fault(Fault::CaptureLate);
    for wish in [Wish::Finish, Wish::Finish, Wish::Look, Wish::Close] {
        let report = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Processing, 0),
            "{wish:?}"
        );
    }
    w.advance(0);
    let report = look(&w, &attempt, &started);
    assert_eq!(
        (report.status, report.settlement, report.received),
        (Status::Completed, Settlement::Confirmed, attempt.due)
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn an_authorisation_that_the_vendor_voids_is_over_whatever_is_asked() {
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let w = world();
        w.fault(Fault::NeedsCapture);
        w.fault(Fault::VoidsApproval);
        let (attempt, started) = paid(&w);
        w.advance(2_000);
        let report = w.query(&attempt, Some(&started.reference), wish).unwrap();
        assert_eq!(report.status, Status::Declined, "{wish:?}");
        let reason = report.particulars.reason;
        assert_eq!(reason.as_deref(), Some("authorisation_voided"), "{wish:?}");
    }
}

#[test]
fn less_than_was_asked_for_is_told_as_it_was_taken() {
    let w = world();
    w.fault(Fault::CaptureShort);
    let (attempt, started) = paid(&w);
    assert_eq!(look(&w, &attempt, &started).received.amount, 4890);
}

#[test]
fn what_the_vendor_has_forgotten_is_absent() {
    for wish in [Wish::Finish, Wish::Look, Wish::Close] {
        let w = world();
        let (attempt, started) = started(&w);
        w.fault(Fault::Forgets);
        let asked = w.query(&attempt, Some(&started.reference), wish);
        assert_eq!(asked, Err(QueryFailure::Absent), "{wish:?}");
    }
}

#[test]
fn a_declined_payer_may_try_again_in_the_same_session_until_they_come_back() {
    let w = world();
    w.change_setting("keep-open-after-decline", "true");
    let (attempt, started) = started(&w);
    for _ in 0..3 {
        w.choose(&started, "decline");
        let report = look(&w, &attempt, &started);
        assert_eq!(report.status, Status::Pending);
        let reason = report.particulars.reason;
        assert_eq!(reason.as_deref(), Some("insufficient_funds"));
    }
    let back = w.query_returned(
        &attempt,
        Some(&started.reference),
        Wish::Look,
        Some("session=1"),
    );
    assert_eq!(back.unwrap().status, Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
}
