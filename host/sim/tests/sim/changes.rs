//! Capturing, closing and refunding through the sandbox's API.
use kassette_sim::{Fault, State};
use serde_json::{Value, json};

use crate::world::{TEST, World, id};

#[tokio::test]
async fn an_authorisation_is_captured_once_whatever_is_repeated() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let path = format!("/v1/sessions/{}/capture", id(&session));
    let body = json!({ "amount": session["amount"] });
    assert_eq!(
        w.post(&path, "attempt-1-capture", &body)
            .send()
            .await
            .unwrap()
            .status(),
        409
    );
    w.sim.set_fault(TEST, Fault::NeedsCapture, 1).unwrap();
    w.choose(&session, "approve").await;
    assert_eq!(w.entry().state, State::Authorised);
    let part = json!({ "amount": { "value": "49.89", "currency": "EUR" } });
    assert_eq!(
        w.post(&path, "attempt-1-capture", &part)
            .send()
            .await
            .unwrap()
            .status(),
        422
    );
    for _ in 0..2 {
        let answer = w
            .post(&path, "attempt-1-capture", &body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.json::<Value>().await.unwrap()["status"], "captured");
    }
    assert_eq!(
        w.post(&path, "another-capture", &body)
            .send()
            .await
            .unwrap()
            .status(),
        409
    );
    assert_eq!(w.entry().captured_times, 1);
}

#[tokio::test]
async fn closing_ends_an_open_session_and_an_authorisation_but_no_capture() {
    let w = World::new().await;
    let open = w.create("attempt-1").await;
    let authorised = w.create("attempt-2").await;
    let captured = w.create("attempt-3").await;
    w.sim.set_fault(TEST, Fault::NeedsCapture, 1).unwrap();
    w.choose(&authorised, "approve").await;
    w.choose(&captured, "approve").await;
    let close = async |session: &Value| {
        let path = format!("/v1/sessions/{}/close", id(session));
        w.post(&path, "close-key", &json!({})).send().await.unwrap()
    };
    for session in [&open, &open, &authorised] {
        let answer = close(session).await;
        assert_eq!(answer.status(), 200);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(
            (&body["status"], &body["payable"]),
            (&json!("closed"), &json!(false))
        );
    }
    assert_eq!(close(&captured).await.status(), 409);
    assert_eq!(w.choose(&open, "approve").await.status(), 409);
    let times: Vec<u32> = w
        .sim
        .books(TEST)
        .unwrap()
        .iter()
        .map(|e| e.captured_times)
        .collect();
    assert_eq!(times, [0, 0, 1]);
}

#[tokio::test]
async fn refunds_are_repeatable_and_never_exceed_what_was_taken() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let path = format!("/v1/sessions/{}/refunds", id(&session));
    let of =
        |value: &str, currency: &str| json!({ "amount": { "value": value, "currency": currency } });
    let refund =
        async |key: &str, body: Value| w.post(&path, key, &body).send().await.unwrap().status();
    assert_eq!(refund("refund-1", of("1.00", "EUR")).await, 409);
    w.choose(&session, "approve").await;
    assert_eq!(refund("refund-1", of("9.90", "EUR")).await, 201);
    assert_eq!(refund("refund-1", of("9.90", "EUR")).await, 200);
    assert_eq!(refund("refund-1", of("9.91", "EUR")).await, 409);
    assert_eq!(refund("refund-2", of("1.00", "USD")).await, 422);
    assert_eq!(refund("refund-2", of("40.01", "EUR")).await, 422);
    assert_eq!(w.read(&session).await["returned"]["value"], "9.90");
    assert_eq!(refund("refund-3", of("40.00", "EUR")).await, 201);
    assert_eq!(w.entry().state, State::Refunded);
}

#[tokio::test]
async fn a_session_ends_with_its_time() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    w.clock.advance(3_600_000);
    assert_eq!(w.entry().state, State::Closed);
    assert_eq!(w.choose(&session, "approve").await.status(), 409);
    assert_eq!(w.entry().captured_times, 0);
}
