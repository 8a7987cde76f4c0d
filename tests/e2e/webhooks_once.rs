//! One event per change of a payment, no matter how many sources report it at the same time.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::Server;
use crate::receiver::Receiver;

/// Seconds that pass before the race. The first query is due after five minutes; a callback signed before the
/// clock moves must not expire.
const WAITED: u64 = 240;
/// Seconds from then until the first query is due.
const LEFT: u64 = 61;

#[derive(Clone, Copy)]
enum Way {
    Callback,
    Query,
    Operator,
    Return,
}

/// IDs of a payment's received events, by event type.
fn told(receiver: &Receiver, payment: &Value) -> BTreeMap<String, Vec<String>> {
    let mut told = BTreeMap::<String, Vec<String>>::new();
    for got in receiver.got() {
        if got.event()["data"]["payment_id"] == payment["payment_id"] {
            let ids = told.entry(got.kind()).or_default();
            ids.push(got.event_id().to_owned());
        }
    }
    told
}

#[tokio::test]
async fn a_completed_payment_is_told_exactly_once_whoever_learns_of_it_first() {
    use Way::{Callback, Operator, Query, Return};
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    for round in 0..6 {
        let (payment, url) = server.started(&key, "ideal", json!({})).await;
        let in_review = round % 2 == 0;
        server.fault("sandbox-test", "callback-never", 1).await;
        let back = server.pay(&url, "approve").await.expect(303);
        let back = back.header("location").unwrap().to_owned();
        let attempt = server.attempts(&payment).await[0].clone();
        if in_review {
            // The provider first reports a review, so that an operator's decision takes part in the race.
            server
                .tell(&attempt, "in_review", "49.90")
                .await
                .expect(200);
            server.until(&key, &payment, "review").await;
        }
        // Otherwise, if the clock moved past a lease, another node would repeat a delivery in flight.
        server.settled(&hook).await;
        server.advance(WAITED).await;
        let ways = [
            Callback, Operator, Query, Return, Callback, Operator, Return, Callback,
        ];
        join_all(ways.map(async |way| match way {
            Callback => drop(server.tell(&attempt, "captured", "49.90").await),
            Return => drop(server.open(&back).await),
            Query => server.advance(LEFT).await,
            Operator => {
                let confirmed = json!({ "settlement": "confirmed" });
                drop(server.decide(&payment, "approve", confirmed).await);
            }
        }))
        .await;
        server.until(&key, &payment, "completed").await;
        let events = server.events(&payment).await;
        let completed = events.iter().filter(|each| *each == "payment.completed");
        assert_eq!(completed.count(), 1, "{events:?}");
    }
    for delivery in server.settled(&hook).await {
        assert_eq!(delivery["status"], "delivered");
        let payment = json!({ "payment_id": delivery["payment_id"] });
        let told = told(&receiver, &payment);
        assert_eq!(told["payment.completed"].len(), 1, "{told:?}");
        assert!(told.values().all(|ids| ids.len() == 1), "{told:?}");
    }
}
