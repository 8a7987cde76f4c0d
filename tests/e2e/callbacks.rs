//! Provider callbacks from strangers, from providers, and from strangers at a known address.

use serde_json::{Value, json};

use crate::harness::{Server, shared};
use crate::steps::session;

async fn open(server: &Server) -> (Value, Value) {
    let (payment, _) = server.started(server.test_key(), "ideal", json!({})).await;
    let attempt = server.attempts(&payment).await[0].clone();
    (payment, attempt)
}

/// Body of an event that reports the attempt as captured.
fn captured(attempt: &Value) -> String {
    json!({ "id": "evt_1", "type": "captured", "created_at": 1, "session": session(attempt, "captured", "49.90") })
        .to_string()
}

async fn status(server: &Server, payment: &Value) -> Value {
    server.payment(server.test_key(), payment).await["status"].clone()
}

#[tokio::test]
async fn signed_news_is_stored_before_it_is_acknowledged() {
    let server = shared().await;
    let (payment, attempt) = open(server).await;
    let answer = server.tell(&attempt, "captured", "49.90").await.expect(200);
    assert_eq!(answer.text, "[accepted]");
    assert!(answer.header("x-request-id").is_some());
    assert_eq!(status(server, &payment).await, "completed");
}

#[tokio::test]
async fn a_wrong_signature_is_refused_and_believed_in_nothing() {
    let server = shared().await;
    let (payment, attempt) = open(server).await;
    let body = captured(&attempt);
    let now = server.now().await;
    let good = server.signature("sandbox-test", now, &body);
    let foreign = server.signature("sandbox-live", now, &body);
    let old = server.signature("sandbox-test", now - 400, &body);
    let other_body = server.signature("sandbox-test", now, "{}");
    for signature in [
        "",
        "t=1,v1=00",
        &foreign,
        &old,
        &other_body,
        &good.replace("v1=", "v2="),
    ] {
        server
            .callback("sandbox-test", signature, body.clone())
            .await
            .expect(401);
    }
    let url = format!("{}/callbacks/sandbox-test", server.base());
    server
        .send(server.http.post(&url).body(body.clone()))
        .await
        .expect(401);
    let changed = body.replace("49.90", "49.91");
    server
        .callback("sandbox-test", &good, changed)
        .await
        .expect(401);
    assert_eq!(status(server, &payment).await, "pending");
    server
        .callback("sandbox-test", &good, body)
        .await
        .expect(200);
    assert_eq!(status(server, &payment).await, "completed");
}

#[tokio::test]
async fn an_unknown_account_is_not_found() {
    let server = shared().await;
    for path in [
        "/callbacks/nobody",
        "/callbacks/",
        "/callbacks",
        "/callbacks/sandbox",
        "/callbacks/SANDBOX-TEST",
    ] {
        let url = format!("{}{path}", server.base());
        server
            .send(server.http.post(url).body("{}"))
            .await
            .expect(404)
            .error();
    }
}

#[tokio::test]
async fn a_callback_may_be_256_kib_and_no_byte_more() {
    let server = shared().await;
    let most = 256 * 1024;
    server
        .callback("sandbox-test", "t=1,v1=00", "x".repeat(most + 1))
        .await
        .expect(413);
    let (payment, attempt) = open(server).await;
    let body = captured(&attempt);
    let padded = format!("{}{body}", " ".repeat(most - body.len()));
    let signature = server.signature("sandbox-test", server.now().await, &padded);
    server
        .callback("sandbox-test", &signature, padded)
        .await
        .expect(200);
    assert_eq!(status(server, &payment).await, "completed");
}

#[tokio::test]
async fn signed_nonsense_is_acknowledged_and_signed_news_about_strangers_ignored() {
    let server = shared().await;
    let now = server.now().await;
    for nonsense in ["", "{}", "not json", "{\"session\":{}}"] {
        let signature = server.signature("sandbox-test", now, nonsense);
        server
            .callback("sandbox-test", &signature, nonsense.to_owned())
            .await
            .expect(200);
    }
    let (payment, attempt) = open(server).await;
    let mut stranger = attempt.clone();
    for id in ["0".repeat(32), "not-an-attempt".into()] {
        stranger["attempt_id"] = json!(id);
        stranger["reference"] = json!("sbx_stranger");
        let answer = server.tell(&stranger, "captured", "49.90").await;
        assert!(
            answer.status < 500,
            "a vendor must not repeat it: {} {}",
            answer.status,
            answer.text
        );
    }
    assert_eq!(status(server, &payment).await, "pending");
}

#[tokio::test]
async fn a_capture_without_an_amount_is_not_believed() {
    let server = Server::fresh().await;
    let (payment, attempt) = open(&server).await;
    // The callback is authentic, but reports a captured amount of zero and changes nothing.
    server.tell(&attempt, "captured", "0.00").await.expect(200);
    server.advance(6).await;
    assert_eq!(
        status(&server, &payment).await,
        "pending",
        "nothing was taken"
    );
    assert!(server.work(&payment).await.is_empty());
}

#[tokio::test]
async fn a_reference_of_another_attempt_is_refused() {
    let server = shared().await;
    let (first, first_attempt) = open(server).await;
    let (second, second_attempt) = open(server).await;
    let mut stolen = session(&second_attempt, "captured", "49.90");
    stolen["id"] = first_attempt["reference"].clone();
    let answer = server.tell_exactly("sandbox-test", &stolen).await;
    assert!(answer.status < 500, "{}", answer.text);
    for payment in [&first, &second] {
        assert_eq!(status(server, payment).await, "pending");
    }
}
