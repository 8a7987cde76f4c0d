//! Acknowledged operations survive `kill -9`, a graceful stop, and a second start on the same folder.

use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{Server, merge, new_payment};

/// Number of clients that send requests while the server ends.
const CLIENTS: usize = 8;

/// The payment with only the token of its checkout URL, because the listener's port differs between starts.
pub(crate) fn comparable(payment: &Value) -> Value {
    let mut payment = payment.clone();
    let token = payment["checkout_url"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned();
    payment["checkout_url"] = json!(token);
    payment
}

/// Responses that a client received before the server ended. `redirect_url` is `None` if the start had no
/// response.
#[derive(Clone, Debug)]
struct Told {
    request: Value,
    payment: Value,
    redirect_url: Option<String>,
}

/// Creates and starts payments until the server is gone, and records the acknowledged ones.
async fn press_on(server: &Server, told: &Mutex<Vec<Told>>) {
    loop {
        let mut request = new_payment();
        merge(
            &mut request,
            json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
        );
        let url = format!("{}/api/v1/payments", server.base());
        let Some(payment) = ask(server, &url, &request, 201).await else {
            return;
        };
        let start = json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
        let place = {
            let mut told = told.lock();
            told.push(Told {
                request,
                payment,
                redirect_url: None,
            });
            told.len() - 1
        };
        let Some(started) = ask(server, &format!("{url}/start"), &start, 200).await else {
            return;
        };
        told.lock()[place].redirect_url =
            Some(started["redirect_url"].as_str().unwrap().to_owned());
    }
}

/// The JSON body of a complete response. `None` if the server is gone or is stopping.
async fn ask(server: &Server, url: &str, body: &Value, status: u16) -> Option<Value> {
    let answer = server
        .http
        .post(url)
        .bearer_auth(server.test_key())
        .json(body)
        .send()
        .await
        .ok()?;
    let code = answer.status().as_u16();
    let text = answer.text().await.ok()?;
    (code == status).then(|| serde_json::from_str(&text).unwrap())
}

/// Loads a server until enough payments are acknowledged, ends it, and returns them with the server's folder.
async fn end_under_load(
    server: Server,
    end: impl AsyncFnOnce(Arc<Server>) -> Arc<tempfile::TempDir>,
) -> (Vec<Told>, Arc<tempfile::TempDir>) {
    let server = Arc::new(server);
    let told = Arc::new(Mutex::new(Vec::new()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (server, told) = (Arc::clone(&server), Arc::clone(&told));
            tokio::spawn(async move { press_on(&server, &told).await })
        })
        .collect();
    server
        .wait_for("some payments", async || {
            (told.lock().len() >= 100).then_some(())
        })
        .await;
    let folder = end(Arc::clone(&server)).await;
    join_all(clients).await;
    let told = told.lock().clone();
    (told, folder)
}

/// Asserts that a server on the same folder has everything that was acknowledged.
async fn assert_all_there(server: &Server, told: &[Told]) {
    let key = server.test_key();
    for each in told {
        let found = server.payment(key, &each.payment).await;
        let mut expected = comparable(&each.payment);
        let status = found["status"].as_str().unwrap();
        match each.redirect_url {
            Some(_) => assert_eq!(status, "pending"),
            None => assert!(["created", "pending"].contains(&status)),
        }
        expected["status"] = json!(status);
        assert_eq!(comparable(&found), expected);
        let replay = server
            .post(key, "/api/v1/payments", &each.request)
            .await
            .expect(200)
            .json();
        assert_eq!(comparable(&replay), expected);
        if let Some(url) = &each.redirect_url {
            let again = server
                .start(key, &each.payment, "ideal")
                .await
                .expect(200)
                .json();
            assert_eq!(&again["redirect_url"], url);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_acknowledged_survives_a_kill() {
    let first = Server::fresh().await;
    let keys = first.ready().clone();
    let (told, folder) = end_under_load(first, async |server| server.kill()).await;
    let second = Server::in_folder(folder).await;
    assert_eq!(
        second.ready()["merchants"],
        keys["merchants"],
        "the same keys"
    );
    assert_eq!(second.ready()["operator_token"], keys["operator_token"]);
    assert_all_there(&second, &told).await;

    // A start that the kill interrupted continues with the same attempt.
    let torn: Vec<&Told> = told
        .iter()
        .filter(|each| each.redirect_url.is_none())
        .collect();
    for each in torn {
        let before = second.attempts(&each.payment).await;
        let answer = second
            .wait_for("the start", async || {
                let answer = second
                    .start(second.test_key(), &each.payment, "ideal")
                    .await;
                (answer.status == 200).then_some(answer)
            })
            .await;
        let after = second.attempts(&each.payment).await;
        assert_eq!(after.len(), 1, "one attempt");
        if let Some(before) = before.first() {
            assert_eq!(after[0]["attempt_id"], before["attempt_id"]);
        }
        assert_eq!(
            second.entries(&each.payment).await.len(),
            1,
            "one session at the vendor"
        );
        let url = answer.json()["redirect_url"].as_str().unwrap().to_owned();
        second.pay(&url, "approve").await.expect(303);
        second
            .until(second.test_key(), &each.payment, "completed")
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_loses_nothing_and_ends_in_time() {
    let first = Server::fresh().await;
    let (told, folder) = end_under_load(first, async |server| server.stop().await).await;
    let second = Server::in_folder(folder).await;
    assert_all_there(&second, &told).await;
}

#[tokio::test]
async fn a_graceful_stop_finishes_what_has_begun_to_speak_to_a_vendor() {
    let first = Server::fresh().await;
    let key = first.test_key().to_owned();
    let payment = first
        .create(
            &key,
            json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
        )
        .await;
    first.fault("sandbox-test", "timeout-after-effect", 1).await;
    let first = Arc::new(first);
    let start = tokio::spawn({
        let (first, payment, key) = (Arc::clone(&first), payment.clone(), key.clone());
        async move { first.start(&key, &payment, "ideal").await }
    });
    first
        .wait_for("the vendor's session", async || {
            (!first.books("sandbox-test").await.is_empty()).then_some(())
        })
        .await;
    let folder = first.stop().await;
    let answer = start.await.unwrap();
    assert!(
        [200, 409].contains(&answer.status),
        "the caller had its answer: {}",
        answer.text
    );
    let second = Server::in_folder(folder).await;
    let attempts = second.attempts(&payment).await;
    assert_eq!(attempts.len(), 1);
    let again = second
        .start(&key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    second
        .pay(again["redirect_url"].as_str().unwrap(), "approve")
        .await
        .expect(303);
    second.until(&key, &payment, "completed").await;
    assert_eq!(second.entries(&payment).await.len(), 1);
}

#[tokio::test]
async fn a_start_that_a_kill_tore_in_two_goes_on_with_the_same_attempt() {
    let first = Server::fresh().await;
    let key = first.test_key().to_owned();
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = first.create(&key, fields).await;
    first.fault("sandbox-test", "timeout-after-effect", 1).await;
    let first = Arc::new(first);
    let start = tokio::spawn({
        let (first, payment, key) = (Arc::clone(&first), payment.clone(), key.clone());
        async move {
            let body = json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
            let url = format!("{}/api/v1/payments/start", first.base());
            first
                .http
                .post(url)
                .bearer_auth(&key)
                .json(&body)
                .send()
                .await
        }
    });
    first
        .wait_for("the vendor's session", async || {
            (!first.books("sandbox-test").await.is_empty()).then_some(())
        })
        .await;
    let attempt = first.attempts(&payment).await[0]["attempt_id"].clone();
    let folder = first.kill();
    assert!(start.await.unwrap().is_err(), "no answer");

    let second = Server::in_folder(folder).await;
    assert_eq!(second.payment(&key, &payment).await["status"], "pending");
    let started = second
        .wait_for("the start", async || {
            let answer = second.start(&key, &payment, "ideal").await;
            (answer.status == 200).then_some(answer)
        })
        .await;
    assert_eq!(second.attempts(&payment).await[0]["attempt_id"], attempt);
    second
        .pay(started.json()["redirect_url"].as_str().unwrap(), "approve")
        .await
        .expect(303);
    second.until(&key, &payment, "completed").await;
    let entries = second.entries(&payment).await;
    assert_eq!(
        (entries.len(), &entries[0]["captured_times"]),
        (1, &json!(1))
    );
}

#[tokio::test]
async fn money_taken_while_the_gateway_was_down_is_found() {
    let first = Server::fresh().await;
    let key = first.test_key().to_owned();
    let (payment, url) = first.started(&key, "ideal", json!({})).await;
    first.fault("sandbox-test", "callback-late", 1).await;
    first.pay(&url, "approve").await.expect(303);
    let folder = first.kill();
    let second = Server::in_folder(folder).await;
    assert_eq!(
        second.entries(&payment).await[0]["captured_times"],
        1,
        "the books survive a kill"
    );
    second.advance(11).await;
    second.until(&key, &payment, "completed").await;
    assert_eq!(
        second.events(&payment).await,
        ["payment.pending", "payment.completed"]
    );
}
