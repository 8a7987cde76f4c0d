//! Events after the capture, and the details that support sees.
use kassette_plugin::provider::{
    Attempt, DisputeState, Open, Order, Paid, QueryFailure, QueryPurpose, Refund, RefundFailure,
    RefundState, Report, Settlement, Status,
};
use kassette_sim::Fault;

use crate::{World, choose, later, report, started, world};

/// A paid payment, with the reports about it.
fn paid(w: &World, method: &str) -> (Attempt, Open, Vec<Report>) {
    let (attempt, open) = started(w, method);
    choose(w, &open, "approve");
    let approved = report(w);
    let mut done = w
        .query(&attempt, Some(&approved.reference), QueryPurpose::Capture)
        .unwrap();
    if done.status == Status::Processing {
        done = later(w);
    }
    assert_eq!(done.status, Status::Completed);
    (attempt, open, vec![approved, done])
}

#[test]
fn refunds_are_told_each_with_its_own_id_and_what_failed_is_taken_back() {
    for method in ["ideal", "credit_card"] {
        let w = world();
        let (_, open, _) = paid(&w, method);
        let mut ids = Vec::new();
        for amount in [1_000, 1_000, 500] {
            let refund = w.sim.refund_part(w.id(), &open.reference, amount);
            let id = w.at_the_vendor(refund).unwrap();
            let refunded = report(&w);
            assert_eq!(
                (refunded.status, refunded.settlement, refunded.given_back),
                (Status::Pending, Settlement::Pending, 0)
            );
            let [refund] = refunded.particulars.refunds.as_slice() else {
                panic!("one refund: {refunded:?}")
            };
            assert_eq!(refund.id, id);
            assert!(refunded.particulars.references.contains(&id));
            assert_eq!(
                (refund.amount, refund.state),
                (amount, RefundState::Succeeded)
            );
            assert!(!ids.contains(&id), "each has an id of its own");
            ids.push(id);
        }
        let fails = w.sim.fail_refund(w.id(), &open.reference, &ids[1]);
        w.at_the_vendor(fails).unwrap();
        let failed = report(&w);
        let [refund] = failed.particulars.refunds.as_slice() else {
            panic!("one refund: {failed:?}")
        };
        assert_eq!(
            (&refund.id, refund.amount, refund.state),
            (&ids[1], 1_000, RefundState::Failed)
        );
    }
}

#[test]
fn a_chargeback_takes_the_money_at_once_and_its_reversal_brings_it_back() {
    let w = world();
    let (attempt, open, _) = paid(&w, "credit_card");
    let id = w.at_the_vendor(w.sim.dispute(w.id(), &open.reference));
    let id = id.unwrap();
    let lost = report(&w);
    assert_eq!((lost.status, lost.given_back), (Status::Review, 0));
    let [dispute] = lost.particulars.disputes.as_slice() else {
        panic!("one dispute: {lost:?}")
    };
    assert_eq!(
        (dispute.id.as_str(), dispute.amount, dispute.state),
        (id.as_str(), attempt.due.amount, DisputeState::Lost)
    );
    assert_eq!(dispute.reason.as_deref(), Some("10.4"));
    assert!(dispute.respond_by.is_some_and(|by| by > w.now()));
    let ended = w.sim.end_dispute(w.id(), &open.reference, true);
    w.at_the_vendor(ended).unwrap();
    let won = report(&w);
    assert_eq!(won.status, Status::Pending);
    let states: Vec<_> = won
        .particulars
        .disputes
        .iter()
        .map(|dispute| (dispute.id.as_str(), dispute.state))
        .collect();
    assert_eq!(states, [(id.as_str(), DisputeState::Won)]);
}

#[test]
fn support_is_told_with_what_and_when_a_payer_paid_and_under_which_ids() {
    let w = world();
    let (_, _, told) = paid(&w, "credit_card");
    let [approved, captured] = told.as_slice() else {
        panic!("two reports: {told:?}")
    };
    let of = &approved.particulars;
    assert_eq!(of.instrument.as_deref(), Some("visa 1111"));
    assert_eq!(of.authorised_at, Some(w.now() - 1_500));
    let until = of.capture_before.map(|until| until - w.now());
    assert_eq!(until, Some(28 * 86_400_000 - 1_500));
    assert_eq!(of.provider_status.as_deref(), Some("AUTHORISATION"));
    let [payment] = of.references.as_slice() else {
        panic!("one id: {of:?}")
    };
    assert!(approved.reference.starts_with(payment));
    let of = &captured.particulars;
    assert_eq!(of.captured_at.map(|at| at / 1_000), Some(w.now() / 1_000));
    assert_eq!(of.references.len(), 2, "the payment's and the capture's");
    assert_eq!(of.references.first(), Some(payment));
    let (_, _, told) = paid(&w, "ideal");
    let bank = told
        .first()
        .and_then(|told| told.particulars.instrument.as_deref());
    assert_eq!(bank, Some("bank TESTNL01"));
}

#[test]
fn what_was_told_afterwards_changes_nothing_about_the_capture() {
    let w = world();
    let (attempt, open, told) = paid(&w, "ideal");
    let refund = w.sim.refund_part(w.id(), &open.reference, 1_000);
    w.at_the_vendor(refund).unwrap();
    let refunded = report(&w);
    let asked = w.query(&attempt, Some(&refunded.reference), QueryPurpose::Sync);
    assert_eq!(asked.unwrap().status, Status::Pending);
    let first = told.first().unwrap();
    let asked = w.query(&attempt, Some(&first.reference), QueryPurpose::Sync);
    assert_eq!(asked.unwrap().status, Status::Completed);
}

/// A paid payment as the host passes it to the module.
fn taken(w: &World, method: &str) -> (Open, Paid) {
    let (attempt, open, reports) = paid(w, method);
    let [approved, done] = reports.as_slice() else {
        panic!("two reports")
    };
    let told = Paid {
        attempt: attempt.id,
        method: method.into(),
        reference: done.reference.clone(),
        references: vec![open.reference.clone(), approved.reference.clone()],
        received: done.received.clone(),
        captured_at: None,
        merchant_order: attempt.merchant_order,
        merchant: attempt.merchant,
    };
    (open, told)
}

/// The only refund in the next notification.
fn refund_told(w: &World) -> Refund {
    let told = report(w);
    let [refund] = told.particulars.refunds.as_slice() else {
        panic!("one refund: {told:?}")
    };
    refund.clone()
}

/// Refunds, and returns the state in the following notification.
fn given_back(w: &World, paid: &Paid, order: &Order) -> RefundState {
    let given = w.give_back(paid, order).unwrap();
    assert_eq!(given.state, RefundState::Pending);
    w.confirm();
    let told = refund_told(w);
    assert_eq!(told.id, given.reference);
    assert_eq!(told.order_id.as_deref(), Some(order.id.as_str()));
    assert_eq!(told.amount, order.amount.amount);
    told.state
}

#[test]
fn parts_are_given_back_and_what_is_too_much_is_refused_by_news() {
    for (method, currency) in crate::METHODS {
        let w = world();
        let (_, paid) = taken(&w, method);
        let order = |amount| w.order(amount, currency);
        for (amount, state, refunded) in [
            (1_000, RefundState::Succeeded, "10.00"),
            (1_000, RefundState::Succeeded, "20.00"),
            (2_991, RefundState::Failed, "20.00"),
            (2_990, RefundState::Succeeded, "49.90"),
            (1, RefundState::Failed, "49.90"),
        ] {
            assert_eq!(given_back(&w, &paid, &order(amount)), state, "{method}");
            assert_eq!(w.entry().refunded, refunded, "{method} {amount}");
        }
    }
}

#[test]
fn a_refund_that_adyen_refuses_later_is_told_with_its_reason() {
    for fault in [Fault::RefundFails, Fault::RefundRefused] {
        let w = world();
        let (_, paid) = taken(&w, "credit_card");
        let order = w.order(1_000, "EUR");
        w.fault(fault);
        w.give_back(&paid, &order).unwrap();
        w.confirm();
        let told = report(&w);
        let reason = told.particulars.reason.as_deref();
        assert_eq!(reason, Some("Insufficient balance on payment"), "{fault}");
        let [refund] = told.particulars.refunds.as_slice() else {
            panic!("one refund: {told:?}")
        };
        assert_eq!(refund.state, RefundState::Failed);
        assert_eq!(refund.order_id.as_deref(), Some(order.id.as_str()));
        assert_eq!(w.entry().refunded, "0.00");
    }
}

#[test]
fn an_order_gives_back_once_while_its_key_lives_and_is_never_sent_after() {
    let w = world();
    let (_, paid) = taken(&w, "ideal");
    let order = w.order(1_000, "EUR");
    let given = w.give_back(&paid, &order).unwrap();
    w.advance(6 * 86_400_000);
    assert_eq!(
        w.give_back(&paid, &order).unwrap().reference,
        given.reference
    );
    assert_eq!(
        w.query_refund(&paid, &order).unwrap().reference,
        given.reference
    );
    w.advance(86_400_000);
    let sent = w.sent().len();
    let old = w.give_back(&paid, &order);
    assert!(matches!(old, Err(RefundFailure::Uncertain(_))), "{old:?}");
    let asked = w.query_refund(&paid, &order);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    assert_eq!(w.sent().len(), sent, "nothing is sent");
    assert_eq!(w.entry().refunded, "10.00");
}

#[test]
fn a_refund_of_the_customer_area_names_no_order() {
    let w = world();
    let (open, paid) = taken(&w, "credit_card");
    let order = w.order(1_000, "EUR");
    assert_eq!(given_back(&w, &paid, &order), RefundState::Succeeded);
    let refund = w.sim.refund_part(w.id(), &open.reference, 500);
    w.at_the_vendor(refund).unwrap();
    let told = refund_told(&w);
    assert_eq!((told.amount, told.order_id), (500, None));
}

#[test]
fn before_adyen_has_named_the_payment_nothing_is_given_back_of_it() {
    let w = world();
    let (open, paid) = taken(&w, "ideal");
    let page = Paid {
        reference: open.reference,
        references: Vec::new(),
        ..paid
    };
    let order = w.order(1_000, "EUR");
    let early = w.give_back(&page, &order);
    assert!(
        matches!(early, Err(RefundFailure::Unavailable(_))),
        "{early:?}"
    );
}
