//! Starting a payment, finding out about a start whose answer was lost, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Environment, Failure, QueryFailure, Settlement, Started, Status, Wish,
};
use kassette_sim::Fault;
use kassette_world::open;

use crate::{HOUR, ID, MINUTE, World, attempt, world};

#[test]
fn a_payment_is_started_approved_and_completed() {
    for environment in [Environment::Test, Environment::Live] {
        let w = World::of("razorpay", environment);
        let attempt = attempt(&w);
        let started = open(w.start(&attempt));
        assert!(
            matches!(&started.action, Action::Redirect(url) if url.starts_with(&w.payer_base()))
        );
        assert_eq!(started.until, Some(attempt.expires));
        let (status, back) = w.choose(&started, "approve");
        assert_eq!(status, 303);
        assert!(back.unwrap().contains("razorpay_payment_link_status=paid"));
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(
            (report.status, report.settlement),
            (Status::Completed, Settlement::Confirmed)
        );
        assert_eq!(report.received, attempt.due);
        assert_eq!(w.entry().attempt_id, attempt.id);
        assert_eq!(w.entry().reference, started.reference);
    }
}

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
fn what_surely_did_nothing_is_unavailable() {
    let w = world();
    w.fault(Fault::Status429);
    assert!(matches!(
        w.start(&attempt(&w)),
        Err(Failure::Unavailable(_))
    ));
    w.change_secret("key-secret", "wrong");
    assert!(matches!(
        w.start(&attempt(&w)),
        Err(Failure::Unavailable(_))
    ));
    assert!(w.entries().is_empty());
    let w = world();
    w.refuse_connections();
    assert!(matches!(
        w.start(&attempt(&w)),
        Err(Failure::Unavailable(_))
    ));
}

#[test]
fn an_amount_that_upi_does_not_take_is_declined_and_another_currency_is_not_served() {
    let w = world();
    for amount in [99, 10_000_001] {
        let mut attempt = attempt(&w);
        attempt.due.amount = amount;
        assert!(matches!(w.start(&attempt), Err(Failure::Declined(_))));
    }
    let foreign = w.start(&w.attempt("upi_imps", "EUR"));
    assert!(matches!(foreign, Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn what_may_have_done_something_is_uncertain_and_a_repeat_or_a_question_makes_it_certain() {
    for (fault, entries) in [
        (Fault::TimeoutBeforeEffect, 0),
        (Fault::TimeoutAfterEffect, 1),
        (Fault::Status500, 0),
        (Fault::Malformed, 1),
        (Fault::Truncated, 1),
        (Fault::Down, 0),
    ] {
        let w = world();
        let attempt = attempt(&w);
        w.fault(fault);
        assert!(
            matches!(w.start(&attempt), Err(Failure::Uncertain(_))),
            "{fault}"
        );
        w.sim.clear_faults(ID).unwrap();
        assert_eq!(w.entries().len(), entries, "{fault}");
        for wish in [Wish::Look, Wish::Finish] {
            let asked = w.query(&attempt, None, wish);
            match entries {
                0 => assert_eq!(asked, Err(QueryFailure::Absent), "{fault}"),
                _ => assert_eq!(asked.unwrap().status, Status::Pending, "{fault}"),
            }
        }
        open(w.start(&attempt));
        assert_eq!(w.entries().len(), 1, "{fault}");
    }
}

#[test]
fn a_repeat_that_is_refused_while_nobody_can_be_asked_stays_uncertain() {
    let w = world();
    let attempt = attempt(&w);
    w.lose_answer_of("/v1/payment_links");
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
    // The repeat is refused for its reference, and the answer about that reference is lost.
    w.lose_answer_of(Box::leak(
        format!("?reference_id={}", attempt.id).into_boxed_str(),
    ));
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
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
        let report = w.query(&attempt, reference, Wish::Close).unwrap();
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

#[test]
fn health_tells_whether_razorpay_can_be_reached_and_takes_the_key() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
    w.sim.clear_faults(ID).unwrap();
    w.change_secret("key-id", "rzp_test_wrong");
    assert!(matches!(w.health(), Condition::Down(_)));
}
