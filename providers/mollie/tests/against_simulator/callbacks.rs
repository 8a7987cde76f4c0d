//! The webhook: whoever calls it, the vendor is asked.
use kassette_plugin::provider::{Status, Subject, Wish};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{query, world};

#[test]
fn a_call_leads_to_the_payment_and_its_true_state() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Declined),
        ("review", Status::Review),
    ] {
        let w = world();
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let answer = w.callback(&w.next_callback()).unwrap();
        let [notice] = answer.notices.as_slice() else {
            panic!("one notice")
        };
        assert_eq!(
            (answer.status, &notice.about, &notice.report),
            (200, &Subject::Attempt(attempt.id.clone()), &None),
            "{outcome}"
        );
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_forged_call_changes_nothing() {
    let w = world();
    w.fault(Fault::CallbackForged);
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    let answer = w.callback(&w.next_callback()).unwrap();
    assert_eq!(answer.notices.len(), 1);
    let notice = &answer.notices[0];
    assert_eq!(
        (&notice.about, &notice.report),
        (&Subject::Reference(started.reference.clone()), &None)
    );
    let report = query(&w, &attempt, &started, Wish::Look);
    assert_eq!(report.status, Status::Declined);
}

#[test]
fn a_call_that_comes_twice_late_or_out_of_order_says_the_same() {
    for (fault, calls) in [(Fault::CallbackTwice, 2), (Fault::CallbackReordered, 2)] {
        let w = world();
        w.fault(fault);
        let attempt = w.attempt("credit_card", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        let first = w.next_callback();
        w.advance(1_000);
        for call in 1..calls {
            assert_eq!(w.next_callback().body, first.body, "{fault} {call}");
        }
        // However old a call is, it names the payment, and the vendor says where that stands now.
        w.advance(86_400_000);
        assert_eq!(w.callback(&first).unwrap().notices.len(), 1);
        let report = query(&w, &attempt, &started, Wish::Look);
        assert_eq!(report.status, Status::Completed, "{fault}");
    }
}

#[test]
fn refunds_and_chargebacks_are_called_too() {
    let w = world();
    let attempt = w.attempt("credit_card", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.next_callback();
    for outcome in ["dispute", "refund"] {
        w.choose(&started, outcome);
        let answer = w.callback(&w.next_callback()).unwrap();
        assert_eq!(answer.notices.len(), 1, "{outcome}");
    }
}
