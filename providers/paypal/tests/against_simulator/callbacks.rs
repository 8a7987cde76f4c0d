//! Verification of webhooks.
use kassette_plugin::provider::{
    Attempt, CallbackFailure, CallbackReply, CallbackRequest, DisputeState, Environment, Notice,
    Open, QueryPurpose, Status, Subject,
};
use kassette_provider_paypal::PayPal;
use kassette_sim::Fault;
use kassette_world::{World, open};

use crate::world;

/// The only notice of an acknowledgement.
fn notice(answer: Result<CallbackReply, CallbackFailure>) -> Notice {
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
fn an_approval_is_told_and_its_capture_makes_the_host_ask() {
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
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    let captured = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (captured.about, captured.report),
        (Subject::Attempt(attempt.id), None)
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
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    let told = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (told.about, told.report),
        (Subject::Attempt(attempt.id), None)
    );
}

/// A captured payment whose webhooks have been processed.
fn paid(w: &World<PayPal>) -> (Attempt, Open) {
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    w.next_callback();
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    w.next_callback();
    (attempt, started)
}

#[test]
fn a_refund_makes_the_host_ask() {
    let w = world();
    let (attempt, started) = paid(&w);
    w.refund(&started, "10.00");
    let refunded = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (refunded.about, refunded.report),
        (Subject::Attempt(attempt.id), None)
    );
}

#[test]
fn a_dispute_is_told_under_one_id_from_its_beginning_to_its_end() {
    for (end, state, amount) in [
        ("dispute_won", DisputeState::Won, 4990),
        ("dispute_lost", DisputeState::Lost, 4990),
    ] {
        let w = world();
        let (attempt, started) = paid(&w);
        let tell = |outcome| {
            w.choose(&started, outcome);
            w.callback(&w.next_callback()).unwrap().notices
        };
        let opened = tell("dispute");
        assert_eq!(opened.len(), 1);
        let opened = opened[0].report.clone().unwrap();
        assert_eq!(
            (opened.status, &opened.received, &opened.reference),
            (Status::Review, &attempt.due, &started.reference)
        );
        let dispute = &opened.particulars.disputes[0];
        assert_eq!(
            (dispute.state, dispute.amount, dispute.reason.as_deref()),
            (DisputeState::Open, 4990, Some("UNAUTHORISED"))
        );
        assert_eq!(dispute.respond_by, Some(w.now() + 7 * 86_400_000));
        let again = tell("dispute")[0].report.clone().unwrap();
        assert_eq!(again.particulars.disputes, opened.particulars.disputes);
        let ended = tell(end);
        assert_eq!(ended.len(), 2, "the host asks for the order too");
        let last = &ended[0].report.as_ref().unwrap().particulars.disputes[0];
        assert_eq!(
            (&last.id, last.state, last.amount),
            (&dispute.id, state, amount)
        );
        assert_eq!(
            (&ended[1].about, &ended[1].report),
            (&Subject::Attempt(attempt.id), &None)
        );
    }
}

/// The same delivery with a changed body.
fn changed(news: &CallbackRequest, from: &str, to: &str) -> CallbackRequest {
    let text = String::from_utf8(news.body.clone()).unwrap();
    assert!(text.contains(from));
    CallbackRequest {
        body: text.replace(from, to).into_bytes(),
        ..news.clone()
    }
}

/// The requests that a call of the module sends, except for tokens.
fn cost(w: &World<PayPal>, act: impl Fn()) -> Vec<String> {
    let before = w.sent().len();
    act();
    let sent = w.sent().into_iter().skip(before);
    sent.filter(|sent| !sent.contains("/oauth2/")).collect()
}

#[test]
fn a_forgery_costs_one_certificate_and_every_other_one_nothing() {
    let w = world();
    w.fault(Fault::CallbackForged);
    chosen(&w, "decline");
    let forged = w.next_callback();
    // The forger's own certificate is not PayPal's.
    let sent = cost(&w, || {
        assert!(matches!(
            w.callback(&forged),
            Err(CallbackFailure::Forged(_))
        ));
    });
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with("GET /v1/notifications/certs/CERT-"));

    let w = world();
    chosen(&w, "approve");
    let news = w.next_callback();
    let sent = cost(&w, || {
        assert_eq!(w.callback(&news).unwrap().notices.len(), 1);
    });
    assert_eq!(sent.len(), 1);
    // PayPal's certificate is public, but its key is not.
    let sent = cost(&w, || {
        let mut other = forged.clone();
        let certificate = |incoming: &CallbackRequest| {
            let names = |(name, _): &&(String, String)| name == "paypal-cert-url";
            incoming.headers.iter().find(names).unwrap().1.clone()
        };
        let (theirs, paypals) = (certificate(&forged), certificate(&news));
        for (_, value) in other
            .headers
            .iter_mut()
            .filter(|(_, value)| *value == theirs)
        {
            value.clone_from(&paypals);
        }
        for forgery in [
            changed(&news, "49.90", "49.91"),
            changed(&news, "\"WH-", "\"WX-"),
            other,
        ] {
            assert!(matches!(
                w.callback(&forgery),
                Err(CallbackFailure::Forged(_))
            ));
        }
    });
    assert_eq!(sent, [""; 0]);
}

#[test]
fn where_the_way_to_the_root_is_missing_paypal_is_asked_about_what_its_key_signed() {
    let w = world();
    chosen(&w, "approve");
    let news = w.next_callback();
    let elsewhere = World::<PayPal>::with_module("paypal", Environment::Live).account();
    let root = elsewhere
        .settings
        .iter()
        .find(|(name, _)| name == "simulator-root");
    w.change_setting("simulator-root", &root.unwrap().1);
    let sent = cost(&w, || {
        let forged = w.callback(&changed(&news, "49.90", "49.91"));
        assert!(matches!(forged, Err(CallbackFailure::Forged(_))));
    });
    assert_eq!(sent.len(), 1, "the certificate alone: {sent:?}");
    let sent = cost(&w, || {
        assert_eq!(w.callback(&news).unwrap().notices.len(), 1);
    });
    assert_eq!(sent, ["POST /v1/notifications/verify-webhook-signature"]);
    w.fault(Fault::Down);
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Later(_))));
}

#[test]
fn news_of_another_webhook_is_a_forgery() {
    let w = world();
    chosen(&w, "approve");
    let news = w.next_callback();
    w.change_setting("webhook-id", "2JE4291016473214C");
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Forged(_))));
}

#[test]
fn genuine_news_about_none_of_ours_is_acknowledged_and_ignored() {
    let w = world();
    let mut attempt = w.attempt("paypal", "EUR");
    attempt.id = "shop:123".into();
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    let answer = w.callback(&w.next_callback()).unwrap();
    assert_eq!((answer.status, answer.notices.len()), (200, 0));
}

#[test]
fn news_of_another_account_is_a_forgery() {
    let (w, other) = (
        world(),
        World::<PayPal>::with_module("paypal", Environment::Live),
    );
    chosen(&other, "approve");
    let news: CallbackRequest = other.next_callback();
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Forged(_))));
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
    w.query(&attempt, Some(&started.reference), QueryPurpose::Capture)
        .unwrap();
    assert_eq!(notice(w.callback(&w.next_callback())).report, None);
    w.advance(1_000);
    // The host knows a later status by now: an approval does not undo the capture.
    let older = notice(w.callback(&w.next_callback())).report.unwrap();
    assert_eq!(
        (older.status, older.received.amount),
        (Status::Processing, 0)
    );
}

#[test]
fn an_approval_after_the_host_closed_the_order_is_no_money() {
    let w = world();
    let attempt = w.attempt("paypal", "EUR");
    let started = open(w.start(&attempt));
    w.query(&attempt, Some(&started.reference), QueryPurpose::Cancel)
        .unwrap();
    w.choose(&started, "approve");
    let told = notice(w.callback(&w.next_callback()));
    assert_eq!(
        (told.about, told.report),
        (Subject::Attempt(attempt.id.clone()), None)
    );
    let asked = w.query(&attempt, Some(&started.reference), QueryPurpose::Sync);
    assert_eq!(asked.unwrap().status, Status::Declined);
}

#[test]
fn while_paypal_is_down_news_is_read_once_its_certificate_is_known() {
    let w = world();
    let (id, _) = chosen(&w, "approve");
    let news = w.next_callback();
    w.fault(Fault::Down);
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Later(_))));
    w.sim.clear_faults(w.id()).unwrap();
    notice(w.callback(&news));
    w.fault(Fault::Down);
    assert_eq!(notice(w.callback(&news)).about, Subject::Attempt(id));
}
