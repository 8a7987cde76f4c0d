//! Unexpected money: wrong amounts, late money, refunds and disputes, and the work items about them.

use std::process::Command;

use serde_json::{Value, json};

use crate::table::{Has, lacks};
use crate::visit::Visit;
use crate::world::{Desk, calm, hurried};

/// Waits for a work item of this kind about a payment.
async fn line(visit: &Visit, kind: &str) -> Value {
    let ask = async || {
        let work = visit.work().await;
        work.into_iter().find(|line| line["kind"] == kind)
    };
    let line = visit.server().wait_for(kind, ask).await;
    assert_eq!(line["provider_id"], visit.desk.account());
    assert_eq!(line["payment_id"], visit.payment["payment_id"]);
    assert!(line["done_at"].is_null());
    line
}

/// Waits for a refund that the provider has made. It needs no work item.
async fn refund_of_the_provider(visit: &Visit) -> Value {
    let ask = async || {
        let inside = visit.inside().await;
        let mut refunds = inside["refunds"].as_array()?.iter();
        refunds
            .find(|refund| refund["status"] == "succeeded")
            .cloned()
    };
    let refund = visit.server().wait_for("the refund", ask).await;
    assert_eq!(refund["origin"], "provider");
    let work = visit.work().await;
    assert!(work.iter().all(|line| line["kind"] != "refund"), "{work:?}");
    refund
}

/// JSON output of `kassette work …`.
fn work(visit: &Visit, words: &[&str]) -> Value {
    let ran = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .arg("work")
        .args(words)
        .args(["--json", "--admin-url", visit.server().admin_base()])
        .env("KASSETTE_OPERATOR_TOKEN", visit.server().operator_token())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{words:?}: {told}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Lists, reads and completes a work item with the command, as operators do.
fn done_by_command(visit: &Visit, line: &Value) {
    let listed = || {
        let listed = work(visit, &["list", "--limit", "100"]);
        let lines = listed["work"].as_array().unwrap();
        lines.iter().any(|each| each["id"] == line["id"])
    };
    assert!(listed(), "{line} is on the command's list");
    let id = line["id"].as_str().unwrap();
    let done = work(
        visit,
        &["done", id, "--actor", "ann", "--reason", "refunded by hand"],
    );
    assert!(done["done_at"].is_string(), "{done}");
    assert!(!listed(), "what is done is no longer listed");
}

#[tokio::test]
async fn money_of_another_amount_or_currency_waits_for_an_operator() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for (fault, has) in [
            ("wrong-amount", Has::OtherAmount),
            ("wrong-currency", Has::OtherCurrency),
        ] {
            for method in &desk.module.methods {
                let visit = desk.visit(method).await;
                desk.fault(fault).await;
                visit.press("approve").await.expect(303);
                if lacks(&desk.module.name, has).is_some() {
                    visit.is_paid().await;
                } else {
                    visit.until("review").await;
                    let entry = &visit.entries().await[0];
                    let same = (&entry["amount"], &entry["currency"])
                        == (&visit.payment["amount"], &visit.payment["currency"]);
                    assert!(!same, "{fault} {method}: {entry}");
                    let events = visit.events().await;
                    let completed = events.contains(&"payment.completed".to_owned());
                    assert!(!completed, "{fault} {method}: {events:?}");
                }
                desk.no_fault().await;
            }
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn refunds_and_disputes_are_told_and_listed_and_take_nothing_back() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for (outcome, event, has) in [
            ("refund", "payment.refunded", Has::Refunds),
            ("dispute", "payment.disputed", Has::Disputes),
        ] {
            if lacks(&desk.module.name, has).is_some() {
                continue;
            }
            for method in &desk.module.methods {
                let paid = desk.paid(method).await;
                paid.press(outcome).await.expect(200);
                let told = match outcome {
                    "refund" => refund_of_the_provider(&paid).await,
                    _ => line(&paid, outcome).await,
                };
                assert_eq!(told["amount"], paid.payment["amount"], "{method}");
                assert_eq!(told["currency"], paid.payment["currency"], "{method}");
                let now = paid.now().await;
                assert_eq!(now["status"], "completed");
                assert_eq!(now["settlement_status"], "confirmed");
                let events = paid.events().await;
                let sent = events.iter().filter(|sent| *sent == event).count();
                assert_eq!(sent, 1, "{method}: {event} once");
                assert_eq!(paid.taken().await, 1);
                if outcome != "refund" {
                    done_by_command(&paid, &told);
                }
            }
        }
    };
    world.each(each).await;
}

/// Ends a payment whose payer then pays anyway.
async fn end(visit: &Visit, how: &str) {
    match how {
        "cancelled" => {
            // A provider that cannot cancel an open attempt can cancel a declined one.
            if lacks(&visit.desk.module.name, Has::Close).is_some() {
                visit.decline().await;
                visit.until("created").await;
            }
            visit.server().cancel(&visit.payment).await.expect(200);
        }
        // Five declines.
        _ => {
            visit.decline().await;
            visit.until("created").await;
            for _ in 0..4 {
                let again = visit.desk.visit_of(visit.payment.clone()).await;
                again.decline().await;
                let ended = async || (again.now().await["status"] != "pending").then_some(());
                visit.server().wait_for("the decline", ended).await;
            }
        }
    }
    assert_eq!(visit.now().await["status"], how);
}

/// Asserts that money captured after a cancel is reviewed, and that its work item remains until an operator
/// completes it.
async fn comes_late(visit: &Visit) {
    let desk = visit.desk;
    if lacks(&desk.module.name, Has::LateMoney).is_some() {
        visit.approve_in_vain().await;
        return;
    }
    desk.fault("late-money").await;
    visit.press("approve").await.expect(303);
    visit.until("review").await;
    let events = visit.events().await;
    assert!(
        !events.contains(&"payment.completed".to_owned()),
        "{events:?}"
    );
    if lacks(&desk.module.name, Has::TakesAtOnce).is_some() {
        // An authorization waits for the review's decision and is voided.
        assert_eq!(visit.taken().await, 0);
        visit.decline_review().await;
        visit.until("failed").await;
        visit.is_unpaid().await;
        return;
    }
    assert_eq!(visit.taken().await, 1);
    let late = line(visit, "late").await;
    assert_eq!(late["amount"], visit.payment["amount"]);
    visit.decline_review().await;
    visit.until("failed").await;
    done_by_command(visit, &line(visit, "late").await);
}

#[tokio::test]
async fn a_payment_its_refund_and_its_dispute_are_read_in_odd_answers() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for (outcome, has) in [("refund", Has::Refunds), ("dispute", Has::Disputes)] {
            let visit = desk.visit(desk.any_method()).await;
            desk.fault("odd-answers").await;
            visit.press("approve").await.expect(303);
            visit.is_paid().await;
            if lacks(&desk.module.name, has).is_none() {
                visit.press(outcome).await.expect(200);
                let told = match outcome {
                    "refund" => refund_of_the_provider(&visit).await,
                    _ => line(&visit, outcome).await,
                };
                assert_eq!(told["amount"], visit.payment["amount"], "{outcome}");
            }
            desk.no_fault().await;
            // Start a payment and refund it through the API while responses are unusual.
            desk.fault("odd-answers").await;
            let paid = desk.paid(desk.any_method()).await;
            let key = desk.key();
            let asked = desk
                .server()
                .refund(key, &paid.payment, json!({ "amount": "10.00" }));
            asked.await.expect(201);
            desk.no_fault().await;
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn money_for_a_payment_that_was_called_off_or_has_failed_is_reviewed() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for how in ["cancelled", "failed"] {
            let never_fails = [Has::Declines, Has::CountedDeclines, Has::Leaving]
                .iter()
                .any(|has| lacks(&desk.module.name, *has).is_some());
            if how == "failed" && never_fails {
                continue;
            }
            let visit = desk.visit(desk.any_method()).await;
            end(&visit, how).await;
            comes_late(&visit).await;
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn money_for_a_payment_whose_time_is_over_is_reviewed() {
    let (world, _turn) = hurried().await;
    let visits = tokio::sync::Mutex::new(Vec::new());
    let open = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        visits.lock().await.push(visit);
    };
    world.each(open).await;
    world.server.advance(3601).await;
    for _ in 0..3 {
        world.server.advance(24 * 3600).await;
    }
    for visit in visits.into_inner() {
        visit.until("expired").await;
        comes_late(&visit).await;
    }
}

#[tokio::test]
async fn money_on_an_attempt_that_was_left_is_surplus() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let left = desk.visit(desk.any_method()).await;
        if !left.decline().await {
            return;
        }
        left.until("created").await;
        let paid = desk.visit_of(left.payment.clone()).await;
        paid.press("approve").await.expect(303);
        paid.is_paid().await;
        let by_us = [Has::LateMoney, Has::TakesAtOnce];
        if by_us
            .iter()
            .any(|has| lacks(&desk.module.name, *has).is_some())
        {
            desk.fault("late-money").await;
            left.press("approve").await;
            paid.is_paid().await;
            assert_eq!(left.taken().await, 1);
            return;
        }
        desk.fault("late-money").await;
        left.press("approve").await.expect(303);
        let surplus = line(&left, "surplus").await;
        assert_eq!(surplus["amount"], left.payment["amount"]);
        assert_eq!(left.now().await["status"], "completed");
        assert_eq!(left.attempts().await, ["surplus", "captured"]);
        assert_eq!(left.taken().await, 2, "both by the vendor's own books");
        let told = left.events().await;
        let told = told.iter().filter(|told| *told == "payment.completed");
        assert_eq!(told.count(), 1);
        done_by_command(&left, &surplus);
    };
    world.each(each).await;
}
