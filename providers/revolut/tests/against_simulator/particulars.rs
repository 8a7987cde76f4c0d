//! Details of an order, and changes that Revolut makes automatically.
use kassette_plugin::provider::{
    Attempt, Money, Open, Paid, QueryPurpose, RefundState, Status, Subject,
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

/// An authorized payment that the merchant captures.
fn approved(w: &World) -> (Attempt, Open) {
    w.change_setting("capture", "manual");
    paid(w)
}

#[test]
fn card_fee_times_and_the_payments_id_are_told() {
    let w = world();
    let (attempt, started) = approved(&w);
    let waits = query(&w, &attempt, &started, QueryPurpose::Sync).particulars;
    assert_eq!(waits.provider_status.as_deref(), Some("authorised"));
    assert_eq!(waits.authorised_at, Some(w.now()));
    assert_eq!(waits.capture_before, Some(w.now() + 7 * 86_400_000));
    assert_eq!((waits.captured_at, waits.fee), (None, None));
    query(&w, &attempt, &started, QueryPurpose::Capture);
    w.confirm();
    let taken = query(&w, &attempt, &started, QueryPurpose::Sync).particulars;
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
        let report = query(&w, &attempt, &started, QueryPurpose::Sync);
        assert_eq!(report.status, Status::Pending);
        let reason = report.particulars.reason;
        assert_eq!(reason.as_deref(), Some("insufficient_funds"));
    }
    w.choose(&started, "approve");
    assert_eq!(
        query(&w, &attempt, &started, QueryPurpose::Sync).status,
        Status::Completed
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_that_is_refused_is_for_a_person_and_can_still_be_cancelled() {
    let w = world();
    let (attempt, started) = approved(&w);
    w.fault(Fault::CaptureRefused);
    let refused = query(&w, &attempt, &started, QueryPurpose::Capture);
    assert_eq!(
        (refused.status, refused.received.amount),
        (Status::Review, 0)
    );
    assert!(refused.particulars.reason.is_some());
    let closed = query(&w, &attempt, &started, QueryPurpose::Cancel);
    assert_eq!(closed.status, Status::Declined);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Closed, 0)
    );
}

#[test]
fn a_refund_of_ours_is_told_by_its_order_and_others_by_none() {
    let w = world();
    let (attempt, started) = paid(&w);
    w.next_callback();
    let order = w.order(1_000, "EUR");
    let taken = Paid {
        attempt: attempt.id.clone(),
        method: "revolut".into(),
        reference: started.reference.clone(),
        references: Vec::new(),
        received: attempt.due.clone(),
        captured_at: None,
        merchant_order: attempt.merchant_order.clone(),
        merchant: attempt.merchant.clone(),
    };
    let given = w.give_back(&taken, &order).unwrap();
    let told = || {
        let report = query(&w, &attempt, &started, QueryPurpose::Sync);
        let refunds = report.particulars.refunds.into_iter();
        let refunds: Vec<_> = refunds
            .map(|refund| (refund.id, refund.order_id, refund.state))
            .collect();
        (report.given_back, refunds)
    };
    let ours = |state| vec![(given.reference.clone(), Some(order.id.clone()), state)];
    assert_eq!(told(), (0, ours(RefundState::Pending)));
    w.confirm();
    // Its webhook contains the attempt, so no query is needed.
    let news = w.next_callback();
    w.fault(Fault::Down);
    let answer = w.callback(&news).unwrap();
    assert_eq!(
        answer.notices[0].about,
        Subject::Attempt(attempt.id.clone())
    );
    w.sim.clear_faults(w.id()).unwrap();
    w.refund(&started, "5.00");
    let (given_back, refunds) = told();
    assert_eq!((given_back, refunds.len()), (1_500, 2));
    assert!(refunds.contains(&ours(RefundState::Succeeded)[0]));
    assert!(refunds.iter().any(|(_, order, _)| order.is_none()));
}
