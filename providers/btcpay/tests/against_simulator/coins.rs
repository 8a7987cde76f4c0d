//! The payments of an invoice, and when they count.
use kassette_plugin::provider::{QueryFailure, QueryPurpose, Status};

use crate::{choose, looked, started, told, world};

#[test]
fn transactions_and_the_way_they_came_are_told() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "approve");
    let told = told(&w, &attempt, &open).particulars;
    assert_eq!(told.provider_status.as_deref(), Some("Settled"));
    let way = told.instrument.as_deref();
    assert!(matches!(way, Some("BTC-CHAIN" | "BTC-OnChain")), "{way:?}");
    assert_eq!(told.references.len(), 1);
    assert_eq!(told.authorised_at, Some(w.now()));
    assert_eq!((told.reason, told.fee), (None, None));
}

#[test]
fn a_settled_invoice_is_told_even_where_its_coins_cannot_be_read_and_a_late_one_is_not() {
    let w = world();
    let (attempt, open) = started(&w);
    choose(&w, &open, "approve");
    w.lose_answer_of("/payment-methods");
    let report = looked(&w, &attempt, &open);
    assert_eq!(report.status, Status::Completed);
    assert!(report.particulars.references.is_empty());

    let (attempt, open) = started(&w);
    choose(&w, &open, "review");
    w.lose_answer_of("/payment-methods");
    let asked = w.query(&attempt, Some(&open.reference), QueryPurpose::Sync);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
    let late = looked(&w, &attempt, &open);
    assert_eq!((late.status, late.received), (Status::Review, attempt.due));
    assert_eq!(late.particulars.reason.as_deref(), Some("PaidLate"));
}
