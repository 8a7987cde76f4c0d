//! Starting a payment, recovering a start whose answer was lost, and the meaning of failures.
use kassette_plugin::provider::{Action, QueryPurpose, StartFailure, Started, Status};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{HOUR, MINUTE, attempt, world};

#[test]
fn a_repeated_start_finds_the_link_of_the_first() {
    let w = world();
    let attempt = attempt(&w);
    let first = open(w.start(&attempt));
    w.advance(50 * MINUTE);
    assert_eq!(open(w.start(&attempt)), first);
    assert_eq!(w.entries().len(), 1);
    w.choose(&first, "approve");
    let again = open(w.start(&attempt));
    assert_eq!(again.reference, first.reference);
    assert!(matches!(again.action, Action::Show(_)));
}

#[test]
fn a_link_lives_a_quarter_of_an_hour_at_least() {
    let w = world();
    let mut attempt = attempt(&w);
    attempt.expires = w.now() + MINUTE;
    let started = open(w.start(&attempt));
    assert_eq!(started.until, Some(w.now() + 16 * MINUTE));
}

#[test]
fn an_amount_that_upi_does_not_take_is_no_decline() {
    let w = world();
    for amount in [99, 10_000_001] {
        let mut attempt = attempt(&w);
        attempt.due.amount = amount;
        assert!(matches!(
            w.start(&attempt),
            Err(StartFailure::Unavailable(_))
        ));
    }
    assert!(w.entries().is_empty());
}

#[test]
fn a_repeat_that_is_refused_while_the_vendor_cannot_be_asked_stays_uncertain() {
    let w = world();
    let attempt = attempt(&w);
    w.lose_answer_of("/v1/payment_links");
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    // The repetition is refused because of its reference, and the answer to the search is lost.
    w.lose_answer_of(Box::leak(
        format!("?reference_id={}", attempt.id).into_boxed_str(),
    ));
    assert!(matches!(w.start(&attempt), Err(StartFailure::Uncertain(_))));
    open(w.start(&attempt));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn a_lost_link_is_found_long_after_its_time() {
    let w = world();
    let attempt = attempt(&w);
    w.lose_answer_of("/v1/payment_links");
    assert!(w.start(&attempt).is_err());
    w.advance(72 * HOUR);
    for reference in [None, Some("../payments")] {
        let report = w.query(&attempt, reference, QueryPurpose::Cancel).unwrap();
        assert_eq!(report.status, Status::Expired);
        assert_eq!(report.reference, w.entry().reference);
    }
}

#[test]
fn razorpay_asks_nothing_of_the_payer() {
    let w = world();
    w.fault(Fault::Ask);
    assert!(matches!(w.start(&attempt(&w)), Ok(Started::Open(_))));
}
