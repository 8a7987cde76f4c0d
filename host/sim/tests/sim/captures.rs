//! Captures that are refused, short or late; approvals that the provider voids; orders that it forgets.
use kassette_sim::{Fault, State};
use reqwest::Response;
use serde_json::{Value, json};

use crate::world::{Receiver, TEST, World, id};

/// An approved session that the merchant has to capture.
async fn approved(w: &World) -> Value {
    let session = w.create("attempt-1").await;
    w.sim.set_fault(TEST, Fault::NeedsCapture, 1).unwrap();
    w.choose(&session, "approve").await;
    assert_eq!(w.entry().state, State::Authorised);
    session
}

async fn capture(w: &World, session: &Value, key: &str) -> Response {
    let path = format!("/v1/sessions/{}/capture", id(session));
    let body = json!({ "amount": session["amount"] });
    w.post(&path, key, &body).send().await.unwrap()
}

#[tokio::test]
async fn a_refused_capture_takes_nothing_and_can_be_tried_again() {
    let w = World::new().await;
    let session = approved(&w).await;
    w.sim.set_fault(TEST, Fault::CaptureRefused, 1).unwrap();
    let refused = capture(&w, &session, "capture-1").await;
    assert_eq!(refused.status(), 422);
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["error"]["code"], "payment_refused");
    assert_eq!(w.entry().state, State::Authorised);
    assert_eq!(capture(&w, &session, "capture-1").await.status(), 200);
    assert_eq!(w.entry().captured_times, 1);
}

#[tokio::test]
async fn a_short_capture_takes_one_less_from_any_caller() {
    for by_merchant in [true, false] {
        let w = World::new().await;
        let order = |fault| w.sim.set_fault(TEST, fault, 1).unwrap();
        if by_merchant {
            let session = approved(&w).await;
            order(Fault::CaptureShort);
            capture(&w, &session, "capture-1").await;
        } else {
            let session = w.create("attempt-1").await;
            order(Fault::CaptureShort);
            w.choose(&session, "approve").await;
        }
        let entry = w.entry();
        assert_eq!(
            (entry.state, entry.amount.as_str()),
            (State::Captured, "48.90")
        );
    }
}

#[tokio::test]
async fn a_late_capture_is_taken_in_and_confirmed_when_the_clock_is_moved() {
    let w = World::new().await;
    let mut receiver = Receiver::new().await;
    w.sim.set_callback_url(TEST, &receiver.url).unwrap();
    let session = approved(&w).await;
    assert_eq!(receiver.next().await.body["type"], "authorised");
    w.sim.set_fault(TEST, Fault::CaptureLate, 1).unwrap();
    for _ in 0..2 {
        let answer = capture(&w, &session, "capture-1").await;
        assert_eq!(answer.status(), 200);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["status"], "capturing");
        assert_eq!(body["received"]["value"], "0.00");
    }
    assert_eq!(capture(&w, &session, "capture-2").await.status(), 409);
    let path = format!("/v1/sessions/{}/close", id(&session));
    let close = w.post(&path, "close-key", &json!({})).send().await.unwrap();
    assert_eq!(close.status(), 409, "what is taken in is not called off");
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Authorised, 0)
    );
    w.clock.advance(1);
    w.sim.clock_moved();
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Captured, 1)
    );
    assert_eq!(receiver.next().await.body["type"], "captured");
}

#[tokio::test]
async fn an_approval_that_the_vendor_voids_was_told_first_and_is_never_captured() {
    let w = World::new().await;
    let mut receiver = Receiver::new().await;
    w.sim.set_callback_url(TEST, &receiver.url).unwrap();
    w.sim.set_fault(TEST, Fault::VoidsApproval, 1).unwrap();
    let session = approved(&w).await;
    assert_eq!(receiver.next().await.body["type"], "authorised");
    assert_eq!(w.read(&session).await["status"], "authorised");
    w.clock.advance(2_000);
    w.sim.clock_moved();
    let voided = receiver.next().await.body;
    assert_eq!(
        (&voided["type"], &voided["session"]["status"]),
        (&json!("voided"), &json!("closed"))
    );
    assert_eq!(capture(&w, &session, "capture-1").await.status(), 409);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Closed, 0)
    );
}

#[tokio::test]
async fn what_the_vendor_forgets_is_unknown_to_merchant_and_payer_even_after_a_kill() {
    let mut w = World::new().await;
    let session = approved(&w).await;
    w.sim.set_fault(TEST, Fault::Forgets, 1).unwrap();
    for restart in [false, true] {
        if restart {
            w.kill_and_restart().await;
        }
        let read = w.get(&format!("/v1/sessions/{}", id(&session)));
        assert_eq!(read.send().await.unwrap().status(), 404);
        assert_eq!(capture(&w, &session, "capture-1").await.status(), 404);
        let find = w.get("/v1/sessions?merchant_reference=attempt-1");
        let found: Value = find.send().await.unwrap().json().await.unwrap();
        assert_eq!(found, json!({ "sessions": [] }));
        assert_eq!(w.choose(&session, "approve").await.status(), 404);
        assert_eq!(
            (w.entry().state, w.entry().captured_times),
            (State::Authorised, 0)
        );
    }
    let other = w.create("attempt-2").await;
    assert_eq!(w.read(&other).await["status"], "open");
}
