//! Data that survives a kill.
use kassette_sim::{Fault, Sim, SimError, State};
use serde_json::json;

use crate::world::{Clock, Receiver, TEST, World, account, payment, start};

#[tokio::test]
async fn a_kill_loses_no_payment_and_no_idempotency_key() {
    let mut w = World::new().await;
    let paid = w.create("attempt-1").await;
    w.create("attempt-2").await;
    w.choose(&paid, "approve").await;
    let before = w.sim.books(TEST).unwrap();
    w.kill_and_restart().await;
    assert_eq!(w.sim.books(TEST).unwrap(), before);
    assert_eq!(
        before.iter().map(|e| e.state).collect::<Vec<_>>(),
        [State::Captured, State::Open]
    );
    let again = w
        .post("/v1/sessions", "attempt-2", &payment("attempt-2"))
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(w.sim.books(TEST).unwrap(), before);
}

#[tokio::test]
async fn a_kill_loses_no_news() {
    let mut w = World::new().await;
    let session = w.create("attempt-1").await;
    // The callback address is not set yet, so the callback waits.
    w.choose(&session, "approve").await;
    w.kill_and_restart().await;
    let mut receiver = Receiver::new().await;
    w.sim.set_callback_url(TEST, &receiver.url).unwrap();
    assert_eq!(receiver.next().await.body["type"], "captured");
}

#[tokio::test]
async fn addresses_of_the_last_run_hold_after_a_restart() {
    let mut w = World::new().await;
    let session = w.create("attempt-1").await;
    let (payer, api) = (w.sim.addr(), w.sim.api_addr(TEST).unwrap());
    w.kill_and_restart().await;
    assert_eq!((w.sim.addr(), w.sim.api_addr(TEST).unwrap()), (payer, api));
    assert_eq!(w.choose(&session, "approve").await.status(), 303);
}

#[tokio::test]
async fn damaged_books_are_refused_and_a_torn_line_is_not() {
    let w = World::new().await;
    w.create("attempt-1").await;
    let file = w.folder.path().join("sandbox-test.jsonl");
    w.sim.shutdown().await;
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{whole}{{\"session\":")).unwrap();
    let sim = start(w.folder.path(), &w.clock).await;
    assert_eq!(sim.books(TEST).unwrap().len(), 1);
    sim.shutdown().await;
    std::fs::write(&file, format!("gibberish\n{whole}")).unwrap();
    let refused = Sim::start(crate::world::config(w.folder.path(), &w.clock)).await;
    assert!(matches!(refused, Err(SimError::Damaged { line: 1, .. })));
}

#[tokio::test]
async fn a_book_entry_has_the_documented_form() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    let reference = session["id"].as_str().unwrap();
    let refund = w.sim.refund_part(TEST, reference, 990).await.unwrap();
    assert_eq!(
        serde_json::to_value(w.entry()).unwrap(),
        json!({
            "provider_id": "sandbox-test", "attempt_id": "attempt-1", "reference": session["id"],
            "state": "captured", "amount": "49.90", "currency": "EUR", "captured_times": 1,
            "refunded": "9.90",
            "refunds": [{
                "id": refund, "refund_id": null, "amount": "9.90", "state": "succeeded",
            }],
            "movements": [
                {
                    "kind": "captured", "id": reference, "amount": "49.90", "currency": "EUR",
                    "at": "2027-01-15T08:00:00Z",
                },
                {
                    "kind": "provider_fee", "id": reference, "amount": "0.99", "currency": "EUR",
                    "at": "2027-01-15T08:00:00Z",
                },
                {
                    "kind": "refunded", "id": refund, "amount": "9.90", "currency": "EUR",
                    "at": "2027-01-15T08:00:00Z",
                },
            ],
        })
    );
}

#[tokio::test]
async fn accounts_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = account(TEST, kassette_sim::Environment::Test);
    let twice = vec![good.clone(), good.clone()];
    let escape = vec![kassette_sim::SimAccount {
        provider_id: "../x".into(),
        ..good.clone()
    }];
    let vendor = vec![kassette_sim::SimAccount {
        module: "unheard-of".into(),
        ..good.clone()
    }];
    let news = Some("http://shop.example/callbacks/x".to_owned());
    let afar = vec![kassette_sim::SimAccount {
        callback_url: news,
        ..good
    }];
    for accounts in [twice, escape, vendor, afar] {
        let config = crate::world::config(folder.path(), &Clock::new());
        let refused = Sim::start(kassette_sim::SimConfig { accounts, ..config }).await;
        assert!(matches!(refused, Err(SimError::Account { .. })));
    }
}

#[tokio::test]
async fn orders_that_make_no_sense_are_refused() {
    let w = World::new().await;
    assert!(matches!(
        w.sim.set_fault("nobody", Fault::Ask, 1),
        Err(SimError::UnknownAccount(_))
    ));
    assert!(matches!(
        w.sim.set_fault(TEST, Fault::Ask, 0),
        Err(SimError::Times { .. })
    ));
    assert!(w.sim.set_callback_url(TEST, "https://127.0.0.1/").is_err());
    assert!(w.sim.set_callback_url(TEST, "http://192.0.2.1/").is_err());
}
