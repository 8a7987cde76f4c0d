//! Which news is believed.
use kassette_plugin::provider::{
    Acknowledged, Incoming, Notice, Open, Refused, Settlement, Status, Subject, Wish,
};
use kassette_provider_paypal::PayPal;
use kassette_sim::Fault;
use kassette_world::{World, open};

use crate::world;

/// The one notice of an acknowledgement.
fn notice(answer: Result<Acknowledged, Refused>) -> Notice {
    let mut notices = answer.unwrap().notices;
    assert_eq!(notices.len(), 1);
    notices.remove(0)
}

/// A started payment, after the payer's choice.
fn chosen(w: &World<PayPal>, outcome: &str) -> (String, Open) {
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, outcome);
    (attempt.id, started)
}

#[test]
fn an_approval_is_told_and_its_capture_again() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let approved = notice(w.callback(&w.next_callback()));
    assert_eq!(approved.about, Subject::Attempt(attempt.id.clone()));
    let report = approved.report.unwrap();
    assert_eq!(
        (report.status, report.reference),
        (Status::Processing, started.reference.clone())
    );
    w.query(&attempt, Some(&started.reference), Wish::Finish)
        .unwrap();
    let captured = notice(w.callback(&w.next_callback())).report.unwrap();
    assert_eq!(
        (captured.status, captured.settlement, captured.received),
        (Status::Completed, Settlement::Confirmed, attempt.due)
    );
}

#[test]
fn what_proves_no_whole_state_makes_the_host_ask() {
    let w = world();
    let (id, _) = chosen(&w, "decline");
    let told = notice(w.callback(&w.next_callback()));
    assert_eq!((told.about, told.report), (Subject::Attempt(id), None));

    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "review");
    w.next_callback();
    w.query(&attempt, Some(&started.reference), Wish::Finish)
        .unwrap();
    let told = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (told.about, told.report),
        (Subject::Attempt(attempt.id), None)
    );
}

#[test]
fn refunds_and_disputes_reach_their_attempt() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.next_callback();
    w.query(&attempt, Some(&started.reference), Wish::Finish)
        .unwrap();
    w.next_callback();
    w.choose(&started, "dispute");
    let disputed = notice(w.callback(&w.next_callback())).report.unwrap();
    assert_eq!(
        (disputed.status, disputed.received, disputed.reference),
        (
            Status::Review,
            attempt.due.clone(),
            started.reference.clone()
        )
    );
    w.choose(&started, "refund");
    let refunded = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (refunded.about, refunded.report),
        (Subject::Attempt(attempt.id), None)
    );
}

#[test]
fn a_forgery_is_refused_and_a_changed_body_is_not_read() {
    let w = world();
    w.fault(Fault::CallbackForged);
    chosen(&w, "decline");
    let forged = w.callback(&w.next_callback());
    assert!(matches!(forged, Err(Refused::Forged(_))));

    let w = world();
    chosen(&w, "approve");
    let news = w.next_callback();
    let text = String::from_utf8(news.body.clone()).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from));
        let body = text.replace(from, to).into_bytes();
        Incoming {
            body,
            ..news.clone()
        }
    };
    let dearer = notice(w.callback(&changed("49.90", "49.91")));
    assert_eq!(dearer, notice(w.callback(&news)));
    let of_nobody = w.callback(&changed("\"WH5", "\"WH6"));
    assert!(matches!(of_nobody, Err(Refused::Forged(_))));
}

#[test]
fn news_of_another_account_is_a_forgery() {
    let (w, other) = (
        world(),
        World::<PayPal>::of("paypal", kassette_plugin::provider::Environment::Live),
    );
    chosen(&other, "approve");
    let news: Incoming = other.next_callback();
    assert!(matches!(w.callback(&news), Err(Refused::Forged(_))));
}

#[test]
fn a_repeat_is_the_same_news_and_a_late_one_makes_the_host_ask() {
    let w = world();
    w.fault(Fault::CallbackTwice);
    let (id, _) = chosen(&w, "approve");
    let (first, second) = (w.next_callback(), w.next_callback());
    assert_eq!(first.body, second.body);
    assert_eq!(notice(w.callback(&first)), notice(w.callback(&second)));
    w.advance(4 * 86_400_000 + 1_001);
    let late = notice(w.callback(&first));
    assert_eq!((late.about, late.report), (Subject::Attempt(id), None));
}

#[test]
fn news_is_found_again_after_paypal_was_down() {
    let mut w = world();
    let (id, _) = chosen(&w, "approve");
    let news = w.next_callback();
    w.restart();
    assert_eq!(notice(w.callback(&news)).about, Subject::Attempt(id));
}

#[test]
fn an_older_event_that_comes_later_takes_nothing_back() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.next_callback();
    w.fault(Fault::CallbackReordered);
    w.query(&attempt, Some(&started.reference), Wish::Finish)
        .unwrap();
    let newest = notice(w.callback(&w.next_callback())).report.unwrap();
    w.advance(1_000);
    let older = notice(w.callback(&w.next_callback())).report.unwrap();
    assert_eq!(
        (newest.status, older.status),
        (Status::Completed, Status::Processing)
    );
}

#[test]
fn an_approval_after_the_host_closed_the_order_is_no_money() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.query(&attempt, Some(&started.reference), Wish::Close)
        .unwrap();
    w.choose(&started, "approve");
    let told = notice(w.callback(&w.next_callback()));
    assert_eq!(told.about, Subject::Attempt(attempt.id));
    assert_eq!(told.report.unwrap().status, Status::Declined);
}

#[test]
fn while_paypal_is_down_news_is_asked_for_again() {
    let w = world();
    let (_, _) = chosen(&w, "approve");
    let news = w.next_callback();
    w.fault(Fault::Down);
    assert!(matches!(w.callback(&news), Err(Refused::Later(_))));
}
