//! Refunds through our API at every provider: executed once, never too much, and with lost responses. Checked
//! against the books.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::harness::Answer;
use crate::visit::Visit;
use crate::world::{Desk, World, hurried};

const DAY: u64 = 86_400;
/// Number of days on which the gateway queries a refund, once a day. No provider takes longer.
const DAYS: usize = 35;

impl Visit {
    async fn refund(&self, more: Value) -> Answer {
        let key = self.desk.key();
        self.server().refund(key, &self.payment, more).await
    }

    /// Amount that the provider has refunded, from its books.
    async fn gone(&self) -> String {
        let entries = self.entries().await;
        let paid = entries.iter().find(|entry| entry["captured_times"] != 0);
        paid.unwrap()["refunded"].as_str().unwrap().to_owned()
    }

    async fn look(&self, refund: &Value) -> Value {
        let id = refund["refund_id"].as_str().unwrap();
        let path = format!("/api/v1/refunds/{id}");
        let found = self.server().get(self.desk.key(), &path).await;
        found.expect(200).json()
    }

    /// Claims the refund as the payer, if it must be claimed and is pending. It may have failed in the meantime.
    async fn claim(&self, refund: &Value) {
        if refund["status"] == "pending" && refund["claim_url"].is_string() {
            let pressed = self.press("claim").await;
            assert!([200, 409].contains(&pressed.status), "{}", pressed.text);
        }
    }

    /// Number of `payment.refunded` events.
    async fn told(&self) -> usize {
        let events = self.events().await;
        events
            .iter()
            .filter(|kind| *kind == "payment.refunded")
            .count()
    }
}

/// A payment with a requested refund.
struct Asked {
    visit: Visit,
    refund: Value,
}

/// Advances the clock day by day until each refund has ended. Returns the refunds.
async fn ended(world: &World, asked: &[Asked]) -> Vec<Value> {
    for _ in 0..DAYS {
        let now = join_all(asked.iter().map(|one| one.visit.look(&one.refund))).await;
        if now.iter().all(|refund| refund["status"] != "pending") {
            return now;
        }
        for (one, refund) in asked.iter().zip(&now) {
            one.visit.claim(refund).await;
        }
        world.server.advance(DAY).await;
    }
    join_all(asked.iter().map(|one| one.visit.look(&one.refund))).await
}

/// Requests refunds at each provider: with each of its methods or, with a fault, with one.
async fn ask_all(world: &'static World, fault: Option<&str>, more: &Value) -> Vec<Asked> {
    let all = Mutex::new(Vec::new());
    let each = async |desk: Desk| {
        let methods = &desk.module.methods;
        let tried = fault.map_or(methods.len(), |_| 1);
        for method in &methods[..tried] {
            let visit = desk.paid(method).await;
            if let Some(fault) = fault {
                desk.fault(fault).await;
            }
            let answer = visit.refund(more.clone()).await.expect(201);
            desk.no_fault().await;
            let refund = answer.json();
            all.lock().await.push(Asked { visit, refund });
        }
    };
    world.each(each).await;
    all.into_inner()
}

#[tokio::test]
async fn all_of_the_money_is_given_back_once_and_then_nothing_is_left() {
    let (world, _turn) = hurried().await;
    let asked = ask_all(world, None, &json!({})).await;
    let refunds = ended(world, &asked).await;
    for (one, refund) in asked.iter().zip(&refunds) {
        let (visit, name) = (&one.visit, one.visit.desk.account());
        assert_eq!(refund["status"], "succeeded", "{name}: {refund}");
        assert_eq!(refund["amount"], visit.payment["amount"], "{name}");
        assert_eq!(refund["currency"], visit.payment["currency"], "{name}");
        assert_eq!(visit.gone().await, visit.payment["amount"], "{name}");
        assert_eq!(visit.told().await, 1, "{name}");
        visit.refund(json!({ "amount": "0.01" })).await.expect(422);
        let now = visit.now().await;
        let paid = (&now["status"], &now["settlement_status"]);
        assert_eq!(paid, (&json!("completed"), &json!("confirmed")), "{name}");
    }
}

#[tokio::test]
async fn a_part_is_given_back_and_then_the_rest() {
    let (world, _turn) = hurried().await;
    let asked = ask_all(world, None, &json!({ "amount": "10.00" })).await;
    ended(world, &asked).await;
    let mut rest = Vec::new();
    for Asked { visit, .. } in asked {
        let name = visit.desk.account();
        assert_eq!(visit.gone().await, "10.00", "{name}");
        let refund = visit.refund(json!({})).await.expect(201).json();
        assert_eq!(refund["amount"], "39.90", "{name}");
        rest.push(Asked { visit, refund });
    }
    ended(world, &rest).await;
    for Asked { visit, .. } in &rest {
        let name = visit.desk.account();
        assert_eq!(visit.gone().await, "49.90", "{name}");
        assert_eq!(visit.told().await, 2, "{name}");
    }
}

#[tokio::test]
async fn of_many_requests_for_all_the_money_at_once_one_is_made() {
    let (world, _turn) = hurried().await;
    let each = async |desk: Desk| {
        let visit = desk.paid(desk.any_method()).await;
        let answers = join_all((0..32).map(|_| visit.refund(json!({})))).await;
        let of = |status| {
            answers
                .iter()
                .filter(|answer| answer.status == status)
                .count()
        };
        assert_eq!((of(201), of(422)), (1, 31), "{}", desk.module.name);
        let made = answers.iter().find(|answer| answer.status == 201).unwrap();
        let asked = [Asked {
            refund: made.json(),
            visit,
        }];
        ended(world, &asked).await;
        assert_eq!(asked[0].visit.gone().await, "49.90", "{}", desk.module.name);
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_refund_whose_answer_is_lost_is_made_once() {
    let (world, _turn) = hurried().await;
    for fault in [
        "timeout-after-effect",
        "timeout-before-effect",
        "status-500",
        "status-429",
        "malformed",
        "truncated",
    ] {
        let asked = ask_all(world, Some(fault), &json!({})).await;
        for _ in 0..30 {
            world.server.advance(60).await;
        }
        let refunds = ended(world, &asked).await;
        for (one, refund) in asked.iter().zip(&refunds) {
            let name = one.visit.desk.account();
            assert_eq!(refund["status"], "succeeded", "{fault} {name}: {refund}");
            assert_eq!(one.visit.gone().await, "49.90", "{fault} {name}");
            assert_eq!(one.visit.told().await, 1, "{fault} {name}");
        }
    }
}

#[tokio::test]
async fn a_refund_that_fails_frees_its_money_and_is_made_again() {
    let (world, _turn) = hurried().await;
    for fault in ["refund-refused", "refund-fails"] {
        let asked = ask_all(world, Some(fault), &json!({})).await;
        let refunds = ended(world, &asked).await;
        let mut again = Vec::new();
        for (one, refund) in asked.into_iter().zip(refunds) {
            let visit = one.visit;
            let name = visit.desk.account();
            // BTCPay's API does not show the outcome of an archived pull payment, so nothing proves that the payer
            // got nothing.
            if fault == "refund-fails" && name.starts_with("btcpay") {
                assert_eq!(refund["status"], "pending", "{refund}");
                assert_eq!(visit.gone().await, "0.00");
                continue;
            }
            assert_eq!(refund["status"], "failed", "{fault} {name}: {refund}");
            assert_eq!(visit.gone().await, "0.00", "{fault} {name}");
            assert_eq!(visit.told().await, 0, "{fault} {name}");
            let lines = visit.work().await;
            let lines = lines.iter().filter(|line| line["kind"] == "refund").count();
            assert_eq!(lines, 1, "{fault} {name}");
            let refund = visit.refund(json!({})).await.expect(201).json();
            again.push(Asked { visit, refund });
        }
        ended(world, &again).await;
        for Asked { visit, .. } in &again {
            assert_eq!(
                visit.gone().await,
                "49.90",
                "{fault} {}",
                visit.desk.account()
            );
        }
    }
}
