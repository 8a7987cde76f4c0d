//! Partial refunds that fail afterwards, and disputes with an end.
use kassette_sim::State;
use reqwest::Response;
use serde_json::{Value, json};

use crate::world::{Receiver, TEST, World, id, token_of};

async fn paid() -> (World, Receiver, Value) {
    let w = World::new().await;
    let mut receiver = Receiver::new().await;
    w.sim.set_callback_url(TEST, &receiver.url).unwrap();
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    receiver.next().await;
    (w, receiver, session)
}

#[tokio::test]
async fn refunds_in_parts_have_ids_of_their_own_and_a_failed_one_gives_its_amount_back() {
    let (w, mut receiver, session) = paid().await;
    let (sim, reference) = (&w.sim, id(&session));
    let first = sim.refund_part(TEST, reference, 1_000).await.unwrap();
    let second = sim.refund_part(TEST, reference, 1_000).await.unwrap();
    assert_ne!(first, second);
    for (known, returned) in [(1, "10.00"), (2, "20.00")] {
        let told = receiver.next().await.body;
        assert_eq!(told["type"], "refunded");
        assert_eq!(told["session"]["refunds"].as_array().unwrap().len(), known);
        assert_eq!(told["session"]["returned"]["value"], returned);
    }
    assert!(sim.refund_part(TEST, reference, 2_991).await.is_err());
    assert!(sim.refund_part(TEST, reference, 0).await.is_err());
    sim.refund(TEST, reference).await.unwrap();
    receiver.next().await;
    assert_eq!(
        (w.entry().state, w.entry().refunded.as_str()),
        (State::Refunded, "49.90")
    );

    sim.fail_refund(TEST, reference, &first).await.unwrap();
    let told = receiver.next().await.body;
    assert_eq!(told["type"], "refund_failed");
    let failed = &told["session"]["refunds"][0];
    assert_eq!(
        (&failed["id"], &failed["status"]),
        (&json!(first), &json!("failed"))
    );
    assert_eq!(
        failed["amount"],
        json!({ "value": "10.00", "currency": "EUR" })
    );
    assert_eq!(
        (w.entry().state, w.entry().refunded.as_str()),
        (State::Captured, "39.90")
    );
    assert!(sim.fail_refund(TEST, reference, &first).await.is_err());
    assert!(sim.fail_refund(TEST, reference, "another").await.is_err());
}

#[tokio::test]
async fn a_dispute_is_told_twice_under_one_id_and_won_or_lost_once() {
    for (won, kind, refunded) in [
        (true, "dispute_won", "0.00"),
        (false, "dispute_lost", "49.90"),
    ] {
        let (w, mut receiver, session) = paid().await;
        let (sim, reference) = (&w.sim, id(&session));
        assert!(sim.end_dispute(TEST, reference, won).await.is_err());
        let dispute = sim.dispute(TEST, reference).await.unwrap();
        assert_eq!(sim.dispute(TEST, reference).await.unwrap(), dispute);
        let (first, second) = (receiver.next().await.body, receiver.next().await.body);
        assert_ne!(first["id"], second["id"], "two pieces of news");
        for told in [first, second] {
            assert_eq!(told["type"], "disputed");
            let told = &told["session"]["disputes"][0];
            assert_eq!(
                (&told["id"], &told["status"]),
                (&json!(dispute), &json!("open"))
            );
            assert!(told["reason"].is_string() && told["respond_by"].is_u64());
        }
        sim.end_dispute(TEST, reference, won).await.unwrap();
        assert_eq!(receiver.next().await.body["type"], kind);
        assert!(sim.end_dispute(TEST, reference, won).await.is_err());
        assert_eq!(
            (w.entry().state, w.entry().refunded.as_str()),
            (State::Captured, refunded)
        );
    }
}

/// Submits the page's form with an amount.
async fn refund(w: &World, session: &Value, amount: &str) -> Response {
    let url = format!("http://{}/{TEST}/pay", w.sim.addr());
    let form = [
        ("session", token_of(session)),
        ("outcome", "refund"),
        ("amount", amount),
    ];
    w.http.post(url).form(&form).send().await.unwrap()
}

#[tokio::test]
async fn the_page_refunds_in_parts_lets_refunds_fail_and_decides_disputes() {
    let (w, _, session) = paid().await;
    for (amount, status, refunded) in [
        ("10.00", 200, "10.00"),
        ("1e1", 422, "10.00"),
        ("40.00", 409, "10.00"),
        ("", 200, "49.90"),
    ] {
        assert_eq!(
            refund(&w, &session, amount).await.status(),
            status,
            "{amount}"
        );
        assert_eq!(w.entry().refunded, refunded, "{amount}");
    }
    for (outcome, status, refunded) in [
        ("dispute", 409, "49.90"),
        ("refund_fails", 200, "10.00"),
        ("dispute_won", 409, "10.00"),
        ("dispute", 200, "10.00"),
        ("dispute", 200, "10.00"),
        ("dispute_won", 200, "10.00"),
        ("dispute", 200, "10.00"),
        ("dispute_lost", 200, "49.90"),
        ("dispute_lost", 409, "49.90"),
    ] {
        assert_eq!(
            w.choose(&session, outcome).await.status(),
            status,
            "{outcome}"
        );
        assert_eq!(w.entry().refunded, refunded, "{outcome}");
    }
}

#[tokio::test]
async fn the_page_offers_what_can_happen_next() {
    let (w, _, session) = paid().await;
    let url = session["next_action"]["url"].as_str().unwrap();
    let page = async || w.http.get(url).send().await.unwrap().text().await.unwrap();
    let offers = |page: &str, outcome: &str| page.contains(&format!("value=\"{outcome}\""));
    let before = page().await;
    assert!(before.contains("name=\"amount\"") && before.contains("placeholder=\"49.90\""));
    assert!(offers(&before, "refund") && offers(&before, "dispute"));
    assert!(!offers(&before, "dispute_won"));
    w.choose(&session, "dispute").await;
    let disputed = page().await;
    assert!(offers(&disputed, "dispute_won") && offers(&disputed, "dispute_lost"));
    w.choose(&session, "refund").await;
    let refunded = page().await;
    assert!(offers(&refunded, "refund_fails") && !refunded.contains("name=\"amount\""));
}
