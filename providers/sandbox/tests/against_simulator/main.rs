//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod world;

use kassette_plugin::provider::{
    Action, Attempt, Condition, Failure, Kind, Money, QueryFailure, Refused, Settlement, Started,
    Status, Subject, Wish,
};
use kassette_sim::{Fault, State};
use world::World;

fn open(started: Result<Started, Failure>) -> kassette_plugin::provider::Open {
    match started {
        Ok(Started::Open(open)) => open,
        other => panic!("not open: {other:?}"),
    }
}

#[test]
fn a_payment_is_started_approved_and_completed() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    assert!(matches!(&started.action, Action::Redirect(url) if url.starts_with(&w.payer_base())));
    assert_eq!(started.until, Some(attempt.expires));
    w.choose(&started, "approve");
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

#[test]
fn every_outcome_has_its_report() {
    for (outcome, status) in [
        ("approve", Status::Completed),
        ("decline", Status::Declined),
        ("review", Status::Review),
        ("pending", Status::Pending),
    ] {
        let w = World::new();
        let attempt = w.attempt("credit_card");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap();
        assert_eq!(report.status, status, "{outcome}");
    }
}

#[test]
fn a_declined_session_can_no_longer_be_paid_once_it_was_told() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(w.choose(&started, "approve"), 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Declined, 0)
    );
}

#[test]
fn a_payer_who_came_back_after_a_decline_is_told_as_paid() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "decline");
    w.choose(&started, "approve");
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Close)
        .unwrap();
    assert_eq!(report.status, Status::Completed);
}

#[test]
fn every_method_has_an_action() {
    let w = World::new();
    for method in [
        "credit_card",
        "paypal",
        "ideal",
        "cash_app",
        "venmo",
        "revolut",
        "interac",
    ] {
        assert!(
            matches!(
                open(w.start(&w.attempt(method))).action,
                Action::Redirect(_)
            ),
            "{method}"
        );
    }
    for method in ["crypto", "upi_imps"] {
        let Action::Show(show) = open(w.start(&w.attempt(method))).action else {
            panic!("{method} shows instructions");
        };
        assert!(show.qr.is_some() && show.link.unwrap().starts_with(&w.payer_base()));
    }
    let Action::Post(form) = open(w.start(&w.attempt("klarna"))).action else {
        panic!("klarna posts a form");
    };
    assert!(form.url.starts_with(&w.payer_base()) && !form.fields.is_empty());
}

#[test]
fn a_repeated_start_finds_the_same_session_whatever_was_learnt_of_the_payer() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let first = open(w.start(&attempt));
    assert_eq!(open(w.start(&attempt)), first);
    let mut known = attempt;
    known.payer.email = Some("payer@shop.example".into());
    assert_eq!(open(w.start(&known)), first);
    assert_eq!(w.entry().reference, first.reference);
}

#[test]
fn what_surely_did_nothing_is_unavailable() {
    for fault in [Fault::Status429, Fault::Down] {
        let w = World::new();
        w.fault(fault);
        assert!(
            matches!(w.start(&w.attempt("ideal")), Err(Failure::Unavailable(_))),
            "{fault}"
        );
        assert!(w.entries().is_empty());
    }
    let w = World::new();
    w.refuse_connections();
    assert!(matches!(
        w.start(&w.attempt("ideal")),
        Err(Failure::Unavailable(_))
    ));
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
        let w = World::new();
        let attempt = w.attempt("ideal");
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
        open(w.start(&attempt));
        assert_eq!(w.entries().len(), 1, "{fault}");
    }
}

#[test]
fn a_question_that_got_no_answer_is_no_news() {
    for fault in [
        Fault::TimeoutBeforeEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
        Fault::Down,
    ] {
        let w = World::new();
        let attempt = w.attempt("ideal");
        let started = open(w.start(&attempt));
        w.choose(&started, "approve");
        w.fault(fault);
        let asked = w.query(&attempt, Some(&started.reference), Wish::Look);
        assert!(
            matches!(asked, Err(QueryFailure::Unavailable(_))),
            "{fault}"
        );
    }
}

#[test]
fn the_vendors_questions_are_asked_and_answered() {
    let w = World::new();
    w.fault(Fault::Ask);
    let mut attempt = w.attempt("ideal");
    attempt.payer.email = Some("payer@shop.example".into());
    let Ok(Started::Ask(questions)) = w.start(&attempt) else {
        panic!("asks")
    };
    let kinds: Vec<Kind> = questions.iter().map(|question| question.kind).collect();
    assert_eq!(kinds, [Kind::GivenName, Kind::FamilyName]);
    attempt.answers = questions
        .into_iter()
        .map(|q| (q.name, "Ada".into()))
        .collect();
    w.fault(Fault::Ask);
    open(w.start(&attempt));
}

#[test]
fn an_authorisation_is_captured_on_finish_alone_and_once() {
    let w = World::new();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let ask = |wish| {
        w.query(&attempt, Some(&started.reference), wish)
            .unwrap()
            .status
    };
    assert_eq!(ask(Wish::Look), Status::Processing);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(ask(Wish::Finish), Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture() {
    let w = World::new();
    w.fault(Fault::NeedsCapture);
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    // The first call is the read, the second the capture: both answers break off.
    w.sim.set_fault(world::ID, Fault::Truncated, 1).unwrap();
    assert!(w.query(&attempt, None, Wish::Finish).is_err());
    w.lose_answer_of("/capture");
    assert!(w.query(&attempt, None, Wish::Finish).is_err());
    assert_eq!(w.entry().captured_times, 1);
    assert_eq!(
        w.query(&attempt, None, Wish::Finish).unwrap().status,
        Status::Completed
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn a_held_payment_is_told_with_its_money_whatever_the_wish() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    for wish in [Wish::Look, Wish::Finish, Wish::Close] {
        let report = w.query(&attempt, None, wish).unwrap();
        assert_eq!(
            (report.status, report.received),
            (Status::Review, attempt.due.clone())
        );
    }
    w.choose(&started, "approve");
    let report = w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(report.status, Status::Completed);
    assert_eq!(w.entry().captured_times, 1);
}

#[test]
fn closing_voids_what_was_approved_and_proves_that_nothing_can_be_paid() {
    let w = World::new();
    // One approval, which only authorises.
    w.fault(Fault::NeedsCapture);
    for outcome in ["pending", "decline", "approve"] {
        let attempt = w.attempt("ideal");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let report = w
            .query(&attempt, Some(&started.reference), Wish::Close)
            .unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Declined, 0),
            "{outcome}"
        );
        assert_eq!(w.choose(&started, "approve"), 409, "{outcome}");
        assert!(
            matches!(w.start(&attempt), Err(Failure::Declined(_))),
            "{outcome}"
        );
    }
    assert!(w.entries().iter().all(|entry| entry.captured_times == 0));
}

#[test]
fn what_was_received_is_told_as_the_vendor_took_it() {
    let w = World::new();
    w.fault(Fault::WrongAmount);
    w.fault(Fault::WrongCurrency);
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let report = w.query(&attempt, None, Wish::Look).unwrap();
    assert_eq!(
        report.received,
        Money {
            amount: 4989,
            currency: "USD".into()
        }
    );
}

#[test]
fn refunds_and_disputes_are_told() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.choose(&started, "dispute");
    let ask = || {
        w.query(&attempt, Some(&started.reference), Wish::Look)
            .unwrap()
    };
    assert_eq!(ask().status, Status::Review);
    w.choose(&started, "refund");
    let report = ask();
    assert_eq!(
        (report.status, report.returned),
        (Status::Completed, attempt.due.amount)
    );
}

#[test]
fn a_session_that_ran_out_of_time_is_expired() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    let started = open(w.start(&attempt));
    w.advance(3_600_000);
    let report = w
        .query(&attempt, Some(&started.reference), Wish::Look)
        .unwrap();
    assert_eq!(report.status, Status::Expired);
}

#[test]
fn an_unknown_attempt_is_absent() {
    let w = World::new();
    let attempt = w.attempt("ideal");
    for reference in [None, Some("sbx_unknown"), Some("../account")] {
        assert_eq!(
            w.query(&attempt, reference, Wish::Close),
            Err(QueryFailure::Absent)
        );
    }
}

#[test]
fn a_reference_of_another_attempt_tells_nothing() {
    let w = World::new();
    let other = open(w.start(&w.attempt("ideal")));
    w.choose(&other, "approve");
    let mine: Attempt = w.attempt("ideal");
    let asked = w.query(&mine, Some(&other.reference), Wish::Look);
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}

#[test]
fn a_token_that_the_vendor_forgot_is_fetched_again() {
    let mut w = World::new();
    let attempt = w.attempt("ideal");
    open(w.start(&attempt));
    w.restart();
    open(w.start(&attempt));
    assert_eq!(w.entries().len(), 1);
}

#[test]
fn health_tells_whether_the_vendor_can_be_reached() {
    let w = World::new();
    assert_eq!(w.health(), Condition::Operational);
    w.fault(Fault::Down);
    assert!(matches!(w.health(), Condition::Down(_)));
}

#[test]
fn callbacks_are_believed_when_signed_by_the_account_and_not_otherwise() {
    for (outcome, status) in [
        ("approve", Some(Status::Completed)),
        ("decline", None),
        ("review", Some(Status::Review)),
    ] {
        let w = World::new();
        let attempt = w.attempt("ideal");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let news = w.next_callback();
        let answer = w.callback(&news).unwrap();
        let [notice] = answer.notices.as_slice() else {
            panic!("one notice")
        };
        assert_eq!(notice.about, Subject::Attempt(attempt.id), "{outcome}");
        assert_eq!(
            notice.report.as_ref().map(|report| report.status),
            status,
            "{outcome}"
        );
        w.advance(301_000);
        assert!(
            matches!(w.callback(&news), Err(Refused::Forged(_))),
            "{outcome}"
        );
    }
    let w = World::new();
    w.fault(Fault::CallbackForged);
    let started = open(w.start(&w.attempt("ideal")));
    w.choose(&started, "decline");
    assert!(matches!(
        w.callback(&w.next_callback()),
        Err(Refused::Forged(_))
    ));
}
