//! The webhook: every call makes the host query.
use kassette_plugin::provider::{QueryPurpose, Status, Subject};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{query, world};

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
    let report = query(&w, &attempt, &started, QueryPurpose::Sync);
    assert_eq!(report.status, Status::Declined);
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
