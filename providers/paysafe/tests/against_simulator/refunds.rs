//! Webhooks and reports about refunds.
use kassette_plugin::provider::{Paid, QueryPurpose, Subject};
use kassette_sim::Fault;

use crate::{chosen, world};

#[test]
fn news_of_our_refund_leads_to_the_payment() {
    for fault in [None, Some(Fault::RefundFails)] {
        let w = world();
        let (attempt, started) = chosen(&w, "approve");
        w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
            .unwrap();
        w.confirm();
        let ask = || {
            w.query(&attempt, Some(&started.reference), QueryPurpose::Sync)
                .unwrap()
        };
        let report = ask();
        let paid = Paid {
            attempt: attempt.id.clone(),
            method: attempt.method.clone(),
            reference: report.reference.clone(),
            references: vec![started.reference.clone()],
            received: report.received,
            captured_at: report.particulars.captured_at,
            merchant_order: attempt.merchant_order.clone(),
            merchant: attempt.merchant.clone(),
        };
        if let Some(fault) = fault {
            w.fault(fault);
        }
        w.give_back(&paid, &w.order(1000, "CAD")).unwrap();
        // The webhooks of the handle and the payment come first.
        w.next_callback();
        w.next_callback();
        let told = w.callback(&w.next_callback()).unwrap();
        let [notice] = told.notices.as_slice() else {
            panic!("one notice: {:?}", told.notices)
        };
        assert_eq!(notice.about, Subject::Attempt(attempt.id.clone()));
        assert_eq!(notice.report, None);
        // The host's own refund has its own reference, so it is not among the refunds of the Business Portal.
        assert!(ask().particulars.refunds.is_empty());
    }
}
