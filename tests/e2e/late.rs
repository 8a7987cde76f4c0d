//! Money that arrives late: from a second tab, for an ended attempt, or for a payment that has ended.

use serde_json::{Value, json};

use crate::browser::Form;
use crate::harness::Server;

/// A hosted payment whose payer first chose a card, and then iDEAL in a tab opened earlier. Returns the payment,
/// the card page's form and the address of iDEAL's page.
async fn two_tabs(server: &Server) -> (Value, Form, String) {
    let payment = server.create(server.test_key(), json!({})).await;
    let url = payment["checkout_url"].as_str().unwrap();
    let other_tab = server.open(url).await.expect(200);
    let card = server.chosen(&payment, "credit_card").await;
    let card_form = server.payer_form(&card).await;
    let form = Form::first(&other_tab.text, url);
    server
        .submit(&form, &[("payment_method", "ideal")])
        .await
        .expect(303);
    let page = server.open(&format!("{url}/go")).await.expect(200);
    let ideal = crate::browser::primary_link(&page.text).unwrap();
    (payment, card_form, ideal)
}

fn states(list: &[Value]) -> Vec<&str> {
    list.iter()
        .map(|each| each["state"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn choosing_another_method_closes_the_first_so_that_only_one_can_be_paid() {
    let server = Server::fresh().await;
    let (payment, card, ideal) = two_tabs(&server).await;
    assert_eq!(states(&server.attempts(&payment).await), ["closed", "open"]);
    assert_eq!(
        server.press(&card, "approve").await.status,
        409,
        "the one he left"
    );
    server.pay(&ideal, "approve").await.expect(303);
    let completed = server.until(server.test_key(), &payment, "completed").await;
    assert_eq!(completed["payment_method"], "ideal");
    let mut entries = server.entries(&payment).await;
    entries.sort_by_key(|entry| entry["captured_times"].as_u64());
    assert_eq!(states(&entries), ["closed", "captured"]);
    assert!(server.work(&payment).await.is_empty());
    assert_eq!(
        server.moves(&payment).await,
        [
            "created>pending",
            "pending>created",
            "created>pending",
            "pending>completed"
        ]
    );
}

#[tokio::test]
async fn a_payer_who_paid_the_first_before_it_was_closed_has_paid() {
    let server = Server::fresh().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let url = payment["checkout_url"].as_str().unwrap();
    let other_tab = Form::first(&server.open(url).await.expect(200).text, url);
    let card = server.chosen(&payment, "credit_card").await;
    server.fault("sandbox-test", "callback-never", 1).await;
    server.pay(&card, "approve").await.expect(303);
    let answer = server
        .submit(&other_tab, &[("payment_method", "ideal")])
        .await;
    assert!([303, 409].contains(&answer.status), "{}", answer.status);
    server.until(server.test_key(), &payment, "completed").await;
    assert_eq!(
        states(&server.attempts(&payment).await),
        ["captured"],
        "no second attempt was opened"
    );
    assert_eq!(server.entries(&payment).await.len(), 1);
}

#[tokio::test]
async fn the_first_stays_where_the_vendor_is_not_sure_that_it_is_closed() {
    let server = Server::fresh().await;
    for fault in ["status-500", "malformed", "truncated", "down"] {
        let payment = server.create(server.test_key(), json!({})).await;
        let url = payment["checkout_url"].as_str().unwrap();
        let other_tab = Form::first(&server.open(url).await.expect(200).text, url);
        let card = server.chosen(&payment, "credit_card").await;
        server.fault("sandbox-test", fault, 3).await;
        let answer = server
            .submit(&other_tab, &[("payment_method", "ideal")])
            .await
            .expect(409);
        assert!(
            answer.text.contains("could not be closed for certain"),
            "{}",
            answer.text
        );
        let attempts = server.attempts(&payment).await;
        assert_eq!(
            (attempts.len(), &attempts[0]["payment_method"]),
            (1, &json!("credit_card")),
            "{fault}"
        );
        server.fault("sandbox-test", "none", 1).await;
        // Whether or not the close succeeded, the payer who continues with the card pays at most once.
        let pressed = match server.open(&card).await.text.contains("value=\"approve\"") {
            true => server.pay(&card, "approve").await.status,
            false => 409,
        };
        let expected = if pressed == 303 {
            "completed"
        } else {
            "created"
        };
        server
            .wait_for(expected, async || {
                server.advance(60).await;
                (server.payment(server.test_key(), &payment).await["status"] == expected)
                    .then_some(())
            })
            .await;
    }
}

#[tokio::test]
async fn money_on_an_attempt_that_was_left_is_surplus_and_on_the_work_list() {
    let server = Server::fresh().await;
    let (payment, _, ideal) = two_tabs(&server).await;
    server.pay(&ideal, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
    let left = server.attempts(&payment).await[0].clone();
    server.tell(&left, "captured", "49.90").await.expect(200);
    let now = server.payment(server.test_key(), &payment).await;
    assert_eq!(
        (&now["status"], &now["settlement_status"]),
        (&json!("completed"), &json!("confirmed"))
    );
    assert_eq!(
        states(&server.attempts(&payment).await),
        ["surplus", "captured"]
    );
    let work = server.work(&payment).await;
    assert_eq!(work.len(), 1);
    assert_eq!(work[0]["kind"], "surplus");
    assert_eq!(work[0]["attempt_id"], left["attempt_id"]);
    assert_eq!(
        (&work[0]["amount"], &work[0]["currency"]),
        (&json!("49.90"), &json!("EUR"))
    );
    server.tell(&left, "captured", "49.90").await.expect(200);
    assert_eq!(
        server.work(&payment).await.len(),
        1,
        "told twice, listed once"
    );
    let events = server.events(&payment).await;
    assert_eq!(
        events
            .iter()
            .filter(|event| *event == "payment.completed")
            .count(),
        1
    );
}

#[tokio::test]
async fn money_on_an_attempt_that_was_left_sends_an_unfinished_payment_to_review() {
    let server = Server::fresh().await;
    let (payment, _, ideal) = two_tabs(&server).await;
    let form = server.payer_form(&ideal).await;
    let left = server.attempts(&payment).await[0].clone();
    server.tell(&left, "captured", "49.90").await.expect(200);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "review"
    );
    // The other attempt is closed, so that the payer cannot pay a second time.
    server
        .wait_for("the close", async || {
            let states: Vec<Value> = server
                .attempts(&payment)
                .await
                .iter()
                .map(|each| each["state"].clone())
                .collect();
            (states == ["surplus", "closed"]).then_some(())
        })
        .await;
    assert_eq!(server.press(&form, "approve").await.status, 409);
    server
        .decide(&payment, "approve", json!({}))
        .await
        .expect(200);
    let now = server.payment(server.test_key(), &payment).await;
    assert_eq!(
        (&now["status"], &now["settlement_status"]),
        (&json!("completed"), &json!("confirmed"))
    );
    let work = server.work(&payment).await;
    assert!(
        work.iter().all(|line| line["done_at"].is_string()),
        "decided: {work:?}"
    );
}

#[tokio::test]
async fn a_late_authorisation_of_an_attempt_that_was_left_is_never_captured() {
    let server = Server::fresh().await;
    let (payment, _, ideal) = two_tabs(&server).await;
    server.pay(&ideal, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
    let left = server.attempts(&payment).await[0].clone();
    server.tell(&left, "authorised", "0.00").await.expect(200);
    server.advance(301).await;
    let taken = |entries: Vec<Value>| {
        entries
            .iter()
            .map(|entry| entry["captured_times"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(taken(server.entries(&payment).await), 1);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "completed"
    );
}

/// A payment that has ended without money: cancelled, expired or failed.
async fn ended(server: &Server, how: &str) -> Value {
    let key = server.test_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    match how {
        "cancelled" => drop(server.cancel(&payment).await.expect(200)),
        "expired" => {
            server.advance(3601).await;
            server.advance(24 * 3600).await;
        }
        _ => {
            server.pay(&url, "decline").await.expect(303);
            server.until(key, &payment, "created").await;
            for _ in 0..4 {
                let url = server
                    .start(key, &payment, "ideal")
                    .await
                    .expect(200)
                    .json()["redirect_url"]
                    .clone();
                server
                    .pay(url.as_str().unwrap(), "decline")
                    .await
                    .expect(303);
                server
                    .wait_for("the decline", async || {
                        (server.payment(key, &payment).await["status"] != "pending").then_some(())
                    })
                    .await;
            }
        }
    }
    assert_eq!(server.payment(key, &payment).await["status"], how);
    payment
}

#[tokio::test]
async fn money_for_a_payment_that_is_over_sends_it_to_review_and_on_the_work_list() {
    let server = Server::fresh().await;
    let key = server.test_key();
    for how in ["failed", "cancelled", "expired"] {
        for (status, received) in [("captured", "49.90"), ("in_review", "49.90")] {
            let payment = ended(&server, how).await;
            let attempt = server.attempts(&payment).await[0].clone();
            server.tell(&attempt, status, received).await.expect(200);
            let now = server.payment(key, &payment).await;
            assert_eq!(
                (&now["status"], &now["settlement_status"]),
                (&json!("review"), &json!("pending")),
                "{how}"
            );
            let work = server.work(&payment).await;
            assert_eq!(
                (work.len(), &work[0]["kind"]),
                (1, &json!("late")),
                "{how} {status}"
            );
            server
                .decide(&payment, "decline", json!({}))
                .await
                .expect(200);
            assert_eq!(server.payment(key, &payment).await["status"], "failed");
            let open = server.work(&payment).await;
            assert!(
                open.iter().any(|line| line["done_at"].is_null()),
                "still to be refunded: {open:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_late_authorisation_for_a_payment_that_is_over_goes_to_review_too() {
    let server = Server::fresh().await;
    let payment = ended(&server, "cancelled").await;
    let attempt = server.attempts(&payment).await[0].clone();
    server
        .tell(&attempt, "authorised", "0.00")
        .await
        .expect(200);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "review"
    );
}
