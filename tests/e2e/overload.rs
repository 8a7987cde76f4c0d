//! Load above the capacity: excess requests are refused immediately with `Retry-After`, and have no effect.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, Server, new_payment};

const PAYMENTS: &str = "/api/v1/payments";

async fn server(limits: &str) -> Server {
    Server::configured(&format!("[limits.in_hand]\n{limits}\n")).await
}

/// Whether the response is a 503. Asserts that it has the headers and body that callers need.
fn is_refusal(answer: &Answer) -> bool {
    if answer.status != 503 {
        return false;
    }
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.header("x-request-id").is_some());
    assert!(!answer.text.is_empty());
    true
}

#[tokio::test]
async fn a_refused_create_has_done_nothing_and_can_be_repeated() {
    let server = Arc::new(server("writes = 1").await);
    let mut refused = 0;
    while refused == 0 {
        let bodies: Vec<Value> = (0..32).map(|_| new_payment()).collect();
        let posts = bodies
            .iter()
            .map(|body| server.post(server.test_key(), PAYMENTS, body));
        let answers = join_all(posts).await;
        for (body, answer) in bodies.iter().zip(answers) {
            if !is_refusal(&answer) {
                answer.expect(201);
                continue;
            }
            refused += 1;
            let again = async || {
                let answer = server.post(server.test_key(), PAYMENTS, body).await;
                (!is_refusal(&answer)).then_some(answer)
            };
            // 201 instead of the 200 of a replay proves that the refused request had written nothing.
            server.wait_for("a create", again).await.expect(201);
        }
    }
}

#[tokio::test]
async fn what_waits_for_a_vendor_holds_up_nobody_else() {
    let server = Arc::new(server("starts = 1").await);
    let mut starts = Vec::new();
    for _ in 0..8 {
        let mut body = new_payment();
        body["checkout_mode"] = "direct".into();
        body["payment_method"] = "ideal".into();
        let created = server.post(server.test_key(), PAYMENTS, &body).await;
        let id = created.expect(201).json()["payment_id"].clone();
        starts.push(json!({ "payment_id": id, "payment_method": "ideal" }));
    }
    // One start hangs until the provider deadline; other starts that find no place are refused.
    server
        .fault("sandbox-test", "timeout-before-effect", 1)
        .await;
    let path = "/api/v1/payments/start";
    let at_once = starts
        .iter()
        .map(|body| server.post(server.test_key(), path, body));
    let everything_else = async {
        let body = new_payment();
        let created = server.post(server.test_key(), PAYMENTS, &body).await;
        let id = created.expect(201).json()["payment_id"].clone();
        let read = format!("{PAYMENTS}/{}", id.as_str().unwrap());
        server.get(server.test_key(), &read).await.expect(200);
        server
            .get(server.test_key(), "/api/v1/methods")
            .await
            .expect(200);
        server.admin("GET", "/providers", None).await.expect(200);
        let ready = format!("{}/readyz", server.admin_root());
        server.send(server.http.get(ready)).await.expect(200);
        server.metrics().await;
    };
    let (answers, ()) = tokio::join!(join_all(at_once), everything_else);
    assert!(answers.iter().any(is_refusal), "{answers:?}");
    for body in &starts {
        let started = async || {
            let answer = server.post(server.test_key(), path, body).await;
            // 409 while the gateway determines the outcome of the start that hung.
            (answer.status == 200).then_some(answer)
        };
        server.wait_for("a start", started).await;
    }
    let shed = server.counted("kassette_http_shed_total", "class=\"starts\"");
    assert!(shed.await > 0);
}
