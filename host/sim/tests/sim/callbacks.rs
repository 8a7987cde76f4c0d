//! Callbacks: content, signatures and retries.
use std::time::Duration;

use kassette_sim::Fault;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::world::{Arrived, Receiver, START_MS, TEST, World, id, is_signed};

const SECRET: &str = "callback-secret-of-sandbox-test";

async fn world() -> (World, Receiver, Value) {
    let w = World::new().await;
    let receiver = Receiver::new().await;
    w.sim.set_callback_url(TEST, &receiver.url).unwrap();
    let session = w.create("attempt-1").await;
    (w, receiver, session)
}

fn signed_now(arrived: &Arrived) -> bool {
    is_signed(arrived, SECRET, START_MS / 1_000)
}

#[tokio::test]
async fn every_outcome_but_pending_is_told_and_signed() {
    for (outcome, kind, received) in [
        ("approve", "captured", "49.90"),
        ("decline", "declined", "0.00"),
        ("review", "in_review", "49.90"),
    ] {
        let (w, mut receiver, session) = world().await;
        w.choose(&session, outcome).await;
        let arrived = receiver.next().await;
        assert!(signed_now(&arrived), "{outcome}");
        assert!(!is_signed(&arrived, "another secret", START_MS / 1_000));
        let told = &arrived.body["session"];
        assert_eq!(
            (&arrived.body["type"], &told["status"]),
            (&json!(kind), &json!(kind))
        );
        assert_eq!(
            told["received"],
            json!({ "value": received, "currency": "EUR" })
        );
        assert_eq!(told, &w.read(&session).await);
    }
}

#[tokio::test]
async fn pending_sends_no_news() {
    let (w, mut receiver, session) = world().await;
    w.choose(&session, "pending").await;
    // The next callback is about the later approval: there was none before it.
    w.choose(&session, "approve").await;
    assert_eq!(receiver.next().await.body["type"], "captured");
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn news_that_is_not_taken_comes_again_with_the_same_bytes_and_a_new_signature() {
    let (w, mut receiver, session) = world().await;
    receiver.answer(503);
    receiver.answer(401);
    w.choose(&session, "approve").await;
    let first = receiver.next().await;
    let again = next_after(&w, &mut receiver).await;
    assert_eq!(first.bytes, again.bytes);
    assert_ne!(first.signature, again.signature);
    let third = next_after(&w, &mut receiver).await;
    assert_eq!(first.bytes, third.bytes);
    for arrived in [&first, &again, &third] {
        assert!(is_signed(arrived, SECRET, seconds(arrived)));
    }
    assert_eq!(first.body["session"]["id"], id(&session));
}

/// The failure is recorded a moment after its answer, so the clock is moved until a callback arrives.
async fn next_after(w: &World, receiver: &mut Receiver) -> Arrived {
    loop {
        w.clock.advance(1_000);
        w.sim.clock_moved();
        if let Ok(arrived) = timeout(Duration::from_millis(50), receiver.next()).await {
            return arrived;
        }
    }
}

fn seconds(arrived: &Arrived) -> u64 {
    let text = arrived.signature.strip_prefix("t=").unwrap();
    text.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn refunds_disputes_and_captures_are_told() {
    let (w, mut receiver, session) = world().await;
    w.sim.set_fault(TEST, Fault::NeedsCapture, 1).unwrap();
    w.choose(&session, "approve").await;
    assert_eq!(receiver.next().await.body["type"], "authorised");
    let path = format!("/v1/sessions/{}/capture", id(&session));
    w.post(&path, "capture-1", &json!({ "amount": session["amount"] }))
        .send()
        .await
        .unwrap();
    assert_eq!(receiver.next().await.body["type"], "captured");
    w.sim.dispute(TEST, id(&session)).await.unwrap();
    assert_eq!(receiver.next().await.body["session"]["status"], "disputed");
    w.sim.refund(TEST, id(&session)).await.unwrap();
    let refunded = receiver.next().await;
    assert_eq!(refunded.body["session"]["returned"]["value"], "49.90");
    assert!(w.sim.refund(TEST, id(&session)).await.is_err());
}

#[tokio::test]
async fn twice_means_the_same_event_two_times() {
    let (w, mut receiver, session) = world().await;
    w.sim.set_fault(TEST, Fault::CallbackTwice, 1).unwrap();
    w.choose(&session, "approve").await;
    let (first, second) = (receiver.next().await, receiver.next().await);
    assert_eq!(first.bytes, second.bytes);
    assert!(signed_now(&first) && signed_now(&second));
}

#[tokio::test]
async fn late_means_ten_seconds_of_the_injected_clock() {
    let (w, mut receiver, session) = world().await;
    w.sim.set_fault(TEST, Fault::CallbackLate, 1).unwrap();
    w.choose(&session, "decline").await;
    w.choose(&session, "approve").await;
    assert_eq!(receiver.next().await.body["type"], "captured");
    w.clock.advance(10_000);
    w.sim.clock_moved();
    assert_eq!(receiver.next().await.body["type"], "declined");
}

#[tokio::test]
async fn reordered_means_older_news_after_newer() {
    let (w, mut receiver, session) = world().await;
    w.sim.set_fault(TEST, Fault::CallbackReordered, 1).unwrap();
    w.choose(&session, "approve").await;
    let newer = receiver.next().await;
    w.clock.advance(500);
    w.sim.clock_moved();
    let older = receiver.next().await;
    assert_eq!(
        (&newer.body["type"], &older.body["type"]),
        (&json!("captured"), &json!("authorised"))
    );
    assert!(older.body["created_at"].as_u64() < newer.body["created_at"].as_u64());
    assert_eq!(older.body["session"]["received"]["value"], "0.00");
}

#[tokio::test]
async fn never_means_never() {
    let (w, mut receiver, session) = world().await;
    w.sim.set_fault(TEST, Fault::CallbackNever, 1).unwrap();
    w.choose(&session, "decline").await;
    w.choose(&session, "approve").await;
    assert_eq!(receiver.next().await.body["type"], "captured");
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn forged_means_a_claim_under_a_wrong_signature_that_is_not_repeated() {
    let (w, mut receiver, session) = world().await;
    receiver.answer(401);
    w.sim.set_fault(TEST, Fault::CallbackForged, 1).unwrap();
    w.choose(&session, "decline").await;
    let forged = receiver.next().await;
    assert_eq!(forged.body["session"]["status"], "captured");
    assert!(!signed_now(&forged));
    w.choose(&session, "approve").await;
    assert!(signed_now(&receiver.next().await));
    // Far beyond every pause: a retry would arrive before the next callback.
    w.clock.advance(3_600_000);
    w.sim.refund(TEST, id(&session)).await.unwrap();
    assert_eq!(receiver.next().await.body["type"], "refunded");
    assert!(receiver.is_empty());
}
