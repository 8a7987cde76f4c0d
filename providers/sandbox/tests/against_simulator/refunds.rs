//! Refunds that the provider refuses, accepts, or cannot deliver.
use kassette_plugin::provider::{Order, Paid, QueryPurpose, RefundFailure, RefundState};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{World, world};

/// A paid payment, and an order to refund a part of it.
fn paid(w: &World) -> (Paid, Order) {
    let attempt = w.attempt("ideal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.next_callback();
    let asked = w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
    let paid = Paid {
        attempt: attempt.id,
        method: attempt.method,
        reference: started.reference,
        references: Vec::new(),
        received: asked.unwrap().received,
        captured_at: None,
        merchant_order: attempt.merchant_order,
        merchant: attempt.merchant,
    };
    (paid, w.order(1000, "EUR"))
}

#[test]
fn a_refund_that_is_refused_gives_nothing_back() {
    let w = world();
    let (paid, order) = paid(&w);
    w.fault(Fault::RefundRefused);
    let refused = w.give_back(&paid, &order);
    assert!(
        matches!(refused, Err(RefundFailure::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(w.entry().refunds, []);
}

#[test]
fn one_that_is_taken_in_is_pending_until_news_tells_its_end_under_our_id() {
    for (fault, end) in [
        (Fault::RefundLate, RefundState::Succeeded),
        (Fault::RefundFails, RefundState::Failed),
    ] {
        let w = world();
        let (paid, order) = paid(&w);
        w.fault(fault);
        let given = w.give_back(&paid, &order).unwrap();
        assert_eq!(given.state, RefundState::Pending);
        let asked = w.query_refund(&paid, &order).unwrap();
        assert_eq!(asked, given);
        w.advance(2_000);
        // The two callbacks may arrive in either order.
        let told = [(); 2].map(|()| {
            let told = w.callback(&w.next_callback()).unwrap();
            let [notice] = told.notices.as_slice() else {
                panic!("one notice: {:?}", told.notices)
            };
            let report = notice.report.as_ref().unwrap();
            let [refund] = report.particulars.refunds.as_slice() else {
                panic!("one refund: {report:?}")
            };
            assert_eq!(refund.order_id.as_ref(), Some(&order.id));
            assert_eq!(refund.id, given.reference);
            refund.state
        });
        assert!(told.contains(&RefundState::Pending) && told.contains(&end));
        assert_eq!(w.query_refund(&paid, &order).unwrap().state, end);
    }
}
