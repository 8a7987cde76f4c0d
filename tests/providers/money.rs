//! Money that is not what it should be, comes when the gateway no longer expects it, or goes back; and what
//! operators are told of it.

use std::process::Command;

use serde_json::Value;

use crate::table::{Has, lacks};
use crate::visit::Visit;
use crate::world::{Desk, calm, hurried};

/// Waits until a line of that kind about a payment is on the work list.
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

/// `kassette work …` as an operator types it; its JSON.
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

/// Finds a line with the command, looks at it and marks it done, as operators do.
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
                let line = line(&paid, outcome).await;
                assert_eq!(line["amount"], paid.payment["amount"], "{method}");
                assert_eq!(line["currency"], paid.payment["currency"], "{method}");
                let now = paid.now().await;
                assert_eq!(now["status"], "completed");
                assert_eq!(now["settlement_status"], "confirmed");
                let told = paid.events().await;
                let told = told.iter().filter(|told| *told == event).count();
                assert_eq!(told, 1, "{method}: {event} once");
                assert_eq!(paid.taken().await, 1);
                done_by_command(&paid, &line);
            }
        }
    };
    world.each(each).await;
}

/// How a payment ends whose payer pays all the same.
async fn end(visit: &Visit, how: &str) {
    match how {
        "cancelled" => {
            // Where an open one cannot be called off, one that was declined can.
            if lacks(&visit.desk.module.name, Has::Close).is_some() {
                visit.decline().await;
                visit.until("created").await;
            }
            visit.server().cancel(&visit.payment).await.expect(200);
        }
        // The fifth decline.
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

/// The vendor takes money for what it had called off: a person looks, the line stays until done.
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
        // An authorisation waits for a person, and is given back.
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
async fn money_for_a_payment_that_was_called_off_or_has_failed_is_reviewed() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for how in ["cancelled", "failed"] {
            let never_fails = [Has::Declines, Has::Leaving]
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
