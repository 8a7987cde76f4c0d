//! Starting a payment, and what a failure proves.
use kassette_plugin::provider::{
    Action, Condition, Failure, QueryFailure, Settlement, Started, Status, Wish,
};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{attempt, chosen, world};

#[test]
fn a_payment_is_started_approved_asked_for_and_completed() {
    let w = world();
    let attempt = attempt(&w);
    let started = open(w.start(&attempt));
    let page = w.payer_base();
    assert!(matches!(&started.action, Action::Redirect(url) if url.starts_with(&page)));
    assert_eq!(started.until, Some(w.now() + 900_000));
    w.choose(&started, "approve");
    let ask = |wish| w.query(&attempt, Some(&started.reference), wish).unwrap();
    assert_eq!(ask(Wish::Look).status, Status::Processing);
    // The answer to the payment is no proof yet; the next look is.
    assert_eq!(ask(Wish::Finish).status, Status::Processing);
    w.confirm();
    let report = ask(Wish::Finish);
    assert_eq!(
        (report.status, report.settlement, report.received),
        (Status::Completed, Settlement::Confirmed, attempt.due)
    );
    // The payment has its own id, which refunds name.
    assert_ne!(report.reference, started.reference);
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(w.entry().attempt_id, attempt.id);
}

#[test]
fn a_payer_without_an_address_is_asked_for_one() {
    let w = world();
    let mut attempt = w.attempt("interac", "CAD");
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks");
    };
    assert!(w.sent().is_empty());
    let answer = |question: kassette_plugin::provider::Question| {
        (question.name, "payer@shop.example".to_owned())
    };
    attempt.answers = questions.into_iter().map(answer).collect();
    open(w.start(&attempt));
}

#[test]
fn a_repeated_start_finds_the_handle_whatever_was_learnt_of_the_payer() {
    let w = world();
    let mut attempt = attempt(&w);
    let first = open(w.start(&attempt));
    attempt.payer.email = Some("another@shop.example".into());
    assert_eq!(open(w.start(&attempt)), first);
    assert_eq!(w.entry().reference, first.reference);
}

#[test]
fn a_repeat_of_a_start_that_was_paid_meanwhile_makes_the_host_ask() {
    let w = world();
    let (attempt, started) = chosen(&w, "approve");
    w.query(&attempt, Some(&started.reference), Wish::Finish)
        .unwrap();
    w.confirm();
    assert!(matches!(w.start(&attempt), Err(Failure::Uncertain(_))));
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = world();
        w.fault(fault);
        assert!(
            matches!(w.start(&attempt(&w)), Err(Failure::Unavailable(_))),
            "{fault}"
        );
        assert!(w.entries().is_empty());
    }
    let w = world();
    w.refuse_connections();
    assert!(matches!(
        w.start(&attempt(&w)),
        Err(Failure::Unavailable(_))
    ));
    let w = world();
    let mut euros = attempt(&w);
    euros.due.currency = "EUR".into();
    assert!(matches!(w.start(&euros), Err(Failure::Unavailable(_))));
    assert!(w.entries().is_empty());
}

#[test]
fn wrong_credentials_are_unavailable_and_down() {
    let w = world();
    w.change_secret("api-password", "another");
    assert!(matches!(
        w.start(&attempt(&w)),
        Err(Failure::Unavailable(_))
    ));
    assert!(matches!(w.health(), Condition::Down(_)));
    assert!(w.entries().is_empty());
}

#[test]
fn what_may_have_done_something_is_uncertain_and_a_repeat_makes_it_certain() {
    for (fault, entries) in [
        (Fault::TimeoutBeforeEffect, 0),
        (Fault::TimeoutAfterEffect, 1),
        (Fault::Status500, 0),
        (Fault::Malformed, 1),
        (Fault::Truncated, 1),
    ] {
        let w = world();
        let attempt = attempt(&w);
        w.fault(fault);
        assert!(
            matches!(w.start(&attempt), Err(Failure::Uncertain(_))),
            "{fault}"
        );
        assert_eq!(w.entries().len(), entries, "{fault}");
        let asked = w.query(&attempt, None, Wish::Look);
        match entries {
            0 => assert_eq!(asked, Err(QueryFailure::Absent), "{fault}"),
            _ => assert_eq!(asked.unwrap().status, Status::Pending, "{fault}"),
        }
        let started = open(w.start(&attempt));
        assert_eq!(w.entry().reference, started.reference, "{fault}");
        assert_eq!(w.entry().state, State::Open, "{fault}");
    }
}

#[test]
fn health_tells_whether_paysafe_can_be_reached() {
    let w = world();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
}
