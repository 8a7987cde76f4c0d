//! All faults of calls.
use std::time::Duration;

use kassette_sim::{Fault, State};
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::world::{Receiver, TEST, TEST_TIMEOUT, World, client, id, payment};

async fn try_create(w: &World, http: &Client) -> reqwest::Result<Response> {
    http.post(w.url("/v1/sessions"))
        .bearer_auth(&w.bearer)
        .header("idempotency-key", "attempt-1")
        .json(&payment("attempt-1"))
        .send()
        .await
}

async fn faulty(fault: Fault) -> World {
    let w = World::new().await;
    w.sim.set_fault(TEST, fault, 1).unwrap();
    w
}

/// A client with a short timeout.
fn hasty() -> Client {
    Client::builder()
        .no_proxy()
        .timeout(Duration::from_millis(300))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_call_that_times_out_before_its_effect_leaves_no_trace() {
    let w = faulty(Fault::TimeoutBeforeEffect).await;
    assert!(try_create(&w, &hasty()).await.unwrap_err().is_timeout());
    assert!(w.sim.books(TEST).unwrap().is_empty());
    assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 201);
}

#[tokio::test]
async fn a_call_that_times_out_after_its_effect_can_be_repeated() {
    let w = faulty(Fault::TimeoutAfterEffect).await;
    assert!(try_create(&w, &hasty()).await.unwrap_err().is_timeout());
    let reference = w.entry().reference;
    let again = try_create(&w, &w.http).await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(id(&again.json().await.unwrap()), reference);
}

#[tokio::test]
async fn a_capture_whose_answer_is_lost_is_made_once() {
    let w = faulty(Fault::NeedsCapture).await;
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    w.sim.set_fault(TEST, Fault::TimeoutAfterEffect, 1).unwrap();
    let path = format!("/v1/sessions/{}/capture", id(&session));
    let body = json!({ "amount": session["amount"] });
    let call = w
        .post(&path, "attempt-1-capture", &body)
        .timeout(Duration::from_millis(300));
    assert!(call.send().await.unwrap_err().is_timeout());
    let again = w
        .post(&path, "attempt-1-capture", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Captured, 1)
    );
}

#[tokio::test]
async fn refusals_of_the_vendor_leave_no_trace_and_end_by_themselves() {
    for (fault, status) in [(Fault::Status429, 429), (Fault::Status500, 500)] {
        let w = faulty(fault).await;
        let answer = try_create(&w, &w.http).await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
        assert!(answer.json::<Value>().await.unwrap()["error"]["code"].is_string());
        assert!(w.sim.books(TEST).unwrap().is_empty());
        assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 201);
    }
}

#[tokio::test]
async fn a_malformed_answer_comes_after_the_effect() {
    let w = faulty(Fault::Malformed).await;
    let answer = try_create(&w, &w.http).await.unwrap();
    assert_eq!(answer.status(), 201);
    assert!(answer.json::<Value>().await.is_err());
    assert_eq!(w.entry().state, State::Open);
    assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_truncated_answer_breaks_off_after_the_effect() {
    let w = faulty(Fault::Truncated).await;
    let broken = match try_create(&w, &w.http).await {
        Ok(answer) => answer.bytes().await.is_err(),
        Err(_) => true,
    };
    assert!(broken);
    assert_eq!(w.entry().state, State::Open);
    assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_refused_connection_is_really_refused_and_counted_where_it_is_told() {
    let w = World::new().await;
    let address = w.sim.api_addr(TEST).unwrap();
    w.sim.set_fault(TEST, Fault::RefuseConnection, 2).unwrap();
    for _ in 0..2 {
        refused(&w).await;
        w.sim.connection_refused(address);
    }
    // A new client, because the old one's pool contains connections to the closed listener.
    until_accepted(&w).await;
    assert_eq!(w.sim.books(TEST).unwrap().len(), 1);
}

#[tokio::test]
async fn clearing_the_faults_opens_the_port_again() {
    let w = World::new().await;
    w.sim.set_fault(TEST, Fault::RefuseConnection, 12).unwrap();
    refused(&w).await;
    assert_eq!(
        w.http
            .get(format!("http://{}/payer.css", w.sim.addr()))
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    w.sim.clear_faults(TEST).unwrap();
    until_accepted(&w).await;
}

/// Waits until the port is closed, a moment after the order.
async fn refused(w: &World) {
    let refused = async {
        loop {
            match try_create(w, &client()).await {
                Err(error) if error.is_connect() => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, refused).await.unwrap();
}

async fn until_accepted(w: &World) {
    let accepted = async {
        while try_create(w, &client()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, accepted).await.unwrap();
}

#[tokio::test]
async fn down_answers_nothing_until_it_is_cleared() {
    let w = faulty(Fault::Down).await;
    for _ in 0..3 {
        assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 503);
        assert_eq!(w.get("/v1/account").send().await.unwrap().status(), 503);
    }
    let token = w.http.post(w.url("/oauth/token")).send().await.unwrap();
    assert_eq!(token.status(), 503);
    w.sim.clear_faults(TEST).unwrap();
    assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 201);
}

#[tokio::test]
async fn probes_and_tokens_do_not_use_up_what_was_ordered_for_a_payment() {
    let w = faulty(Fault::Status500).await;
    assert_eq!(w.get("/v1/account").send().await.unwrap().status(), 200);
    crate::world::token(&w.http, &w.sim, TEST).await;
    assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 500);
}

#[tokio::test]
async fn faults_are_one_accounts_alone() {
    let w = World::new().await;
    w.sim.set_fault(crate::world::LIVE, Fault::Down, 1).unwrap();
    assert_eq!(try_create(&w, &w.http).await.unwrap().status(), 201);
}

#[tokio::test]
async fn ask_names_what_is_missing_and_is_satisfied_by_answers() {
    let w = faulty(Fault::Ask).await;
    let mut body = payment("attempt-1");
    body["payer"] = json!({ "email": "payer@shop.example" });
    let answer = w
        .post("/v1/sessions", "attempt-1", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 422);
    let error = &answer.json::<Value>().await.unwrap()["error"];
    assert_eq!(error["code"], "payer_details_required");
    assert_eq!(error["fields"], json!(["given_name", "family_name"]));
    assert!(w.sim.books(TEST).unwrap().is_empty());
    body["payer"] =
        json!({ "email": "payer@shop.example", "given_name": "Ada", "family_name": "L" });
    w.sim.set_fault(TEST, Fault::Ask, 1).unwrap();
    let answer = w
        .post("/v1/sessions", "attempt-1", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 201);
}

#[tokio::test]
async fn needs_capture_leaves_the_money_until_the_merchant_takes_it() {
    let w = faulty(Fault::NeedsCapture).await;
    let mut receiver = Receiver::new().await;
    w.sim.set_callback_url(TEST, &receiver.url).unwrap();
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Authorised, 0)
    );
    assert_eq!(
        receiver.next().await.body["session"]["status"],
        "authorised"
    );
}

#[tokio::test]
async fn wrong_amount_and_currency_are_what_the_vendor_took() {
    let w = faulty(Fault::WrongAmount).await;
    w.sim.set_fault(TEST, Fault::WrongCurrency, 1).unwrap();
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    let told = w.read(&session).await;
    assert_eq!(
        told["received"],
        json!({ "value": "49.89", "currency": "USD" })
    );
    assert_eq!(told["amount"], session["amount"]);
    assert_eq!(
        (w.entry().amount.as_str(), w.entry().currency.as_str()),
        ("49.89", "USD")
    );
}
