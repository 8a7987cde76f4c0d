//! A session's details, from the start to the last dispute.
use kassette_plugin::provider::{Attempt, Money, Open, QueryPurpose, Report, Status};
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
    let asked = w.query(attempt, Some(&started.reference), QueryPurpose::Sync);
    asked.unwrap()
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
    let asked = w.query(&attempt, Some(&started.reference), QueryPurpose::Capture);
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
    let ask = |purpose| {
        w.query(&attempt, Some(&started.reference), purpose)
            .unwrap()
    };
    let refused = ask(QueryPurpose::Capture);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Review, 0)
    );
    let reason = refused.particulars.reason;
    assert_eq!(reason.as_deref(), Some("payment_refused"));
    // The payment is still authorized: it can be captured later, or closed.
    assert_eq!(ask(QueryPurpose::Sync).status, Status::Processing);
    assert_eq!(ask(QueryPurpose::Cancel).status, Status::Declined);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Closed, 0)
    );
}

#[test]
fn less_than_was_asked_for_is_told_as_it_was_taken() {
    let w = world();
    w.fault(Fault::CaptureShort);
    let (attempt, started) = paid(&w);
    assert_eq!(look(&w, &attempt, &started).received.amount, 4890);
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
        QueryPurpose::Sync,
        Some("session=1"),
    );
    assert_eq!(back.unwrap().status, Status::Declined);
    assert_eq!(w.choose(&started, "approve").0, 409);
}
