//! Payments that end without money: they expire, an operator cancels them, or the payer chooses another method. An
//! ended attempt cannot be paid at the provider either.

use serde_json::{Value, json};

use crate::browser::Form;
use crate::table::{Has, currency, lacks};
use crate::visit::Visit;
use crate::world::{Desk, calm, hurried};

/// Lifetime of an attempt, in seconds.
const ATTEMPT: u64 = 60 * 60;
/// Lifetime of a payment, in seconds.
const PAYMENT: u64 = 24 * 60 * 60;

/// Asserts that the payer cannot pay at the provider any longer.
async fn is_shut(visit: &Visit) {
    if lacks(&visit.desk.module.name, Has::ShutPage).is_none() {
        for entry in visit.entries().await {
            let state = entry["state"].as_str().unwrap();
            assert!(["closed", "declined"].contains(&state), "{entry}");
        }
    }
    visit.approve_in_vain().await;
}

/// Whether the provider could cancel the attempt. If not, asserts that the cancel was refused and that the payment
/// can still be paid.
async fn is_closed(visit: &Visit, answered: u16) -> bool {
    if answered != 409 {
        return true;
    }
    let why = lacks(&visit.desk.module.name, Has::Close);
    assert!(why.is_some(), "it can be called off, but was not");
    assert_eq!(visit.now().await["status"], "pending");
    visit.press("approve").await.expect(303);
    visit.is_paid().await;
    false
}

#[tokio::test]
async fn time_ends_the_attempt_and_then_the_payment() {
    let (world, _turn) = hurried().await;
    let visits = tokio::sync::Mutex::new(Vec::new());
    let open = async |desk: Desk| {
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            visits.lock().await.push(visit);
        }
    };
    world.each(open).await;
    let visits = visits.into_inner();
    world.server.advance(ATTEMPT + 1).await;
    for visit in &visits {
        // If the provider cannot cancel, the attempt waits for its own end at the provider.
        if lacks(&visit.desk.module.name, Has::Close).is_none() {
            visit.until("created").await;
            is_shut(visit).await;
        }
    }
    world.server.advance(PAYMENT).await;
    // A provider keeps an attempt that it cannot cancel for at most two days.
    world.server.advance(PAYMENT).await;
    world.server.advance(PAYMENT).await;
    for visit in &visits {
        let over = visit.until("expired").await;
        assert_eq!(over["settlement_status"], "pending");
        is_shut(visit).await;
    }
}

#[tokio::test]
async fn an_operators_cancel_closes_the_payment_at_the_vendor() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            let answered = desk.server().cancel(&visit.payment).await;
            if is_closed(&visit, answered.status).await {
                answered.expect(200);
                assert_eq!(visit.now().await["status"], "cancelled", "{method}");
                is_shut(&visit).await;
            }
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_cancel_that_comes_after_the_money_is_refused_and_the_order_paid() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        desk.fault("callback-never").await;
        visit.press("approve").await.expect(303);
        let cancelled = desk.server().cancel(&visit.payment).await;
        if lacks(&desk.module.name, Has::LateMoney).is_some() && cancelled.status == 200 {
            // An authorization is not money: nothing is captured after the cancel.
            visit.until("cancelled").await;
            assert_eq!(visit.taken().await, 0);
            return;
        }
        cancelled.expect(409).error();
        if lacks(&desk.module.name, Has::AnswersAboutMoney).is_none() {
            visit.is_paid().await;
        } else {
            // The approval is known, but its amount comes only with a callback.
            visit.until("processing").await;
            visit.is_unpaid().await;
        }
    };
    world.each(each).await;
}

/// A hosted payment whose payer is on this module's page, and the choice form that is still open in another tab.
async fn hosted(desk: Desk, method: &str) -> (Visit, Form) {
    let payment = desk.create(json!({ "currency": currency(method) })).await;
    let url = payment["checkout_url"].as_str().unwrap();
    let choice = Form::first(&desk.server().open(url).await.expect(200).text, url);
    let it = [("payment_method", method)];
    let chosen = desk.server().submit(&choice, &it).await.expect(303);
    let to = format!(
        "{}{}",
        desk.server().base(),
        chosen.header("location").unwrap()
    );
    let (page, form) = desk.server().to_the_vendor(&to).await;
    let visit = Visit {
        desk,
        payment,
        begins: to,
        page,
        form,
    };
    (visit, choice)
}

/// Another method that takes this currency, at the sandbox if possible.
fn other_method(desk: &Desk, method: &str) -> &'static str {
    let fits: &[&'static str] = match currency(method) {
        "EUR" => &["ideal", "klarna", "credit_card", "paypal", "revolut"],
        _ => &["credit_card", "paypal"],
    };
    let own = &desk.module.methods;
    let elsewhere = fits.iter().find(|fit| !own.iter().any(|own| own == *fit));
    let other = elsewhere.or_else(|| fits.iter().find(|fit| **fit != method));
    other.copied().unwrap()
}

#[tokio::test]
async fn choosing_another_method_closes_the_one_that_was_left() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for method in &desk.module.methods {
            let other = other_method(&desk, method);
            let (left, choice) = hosted(desk, method).await;
            let server = desk.server();
            let other_one = [("payment_method", other)];
            let chosen = server.submit(&choice, &other_one).await;
            if !is_closed(&left, chosen.status).await {
                continue;
            }
            let chosen = chosen.expect(303);
            let to = format!("{}{}", server.base(), chosen.header("location").unwrap());
            let (_, form) = server.to_the_vendor(&to).await;
            let shut = lacks(&desk.module.name, Has::ShutPage).is_none();
            if shut {
                left.approve_in_vain().await;
            }
            server.press(&form, "approve").await.expect(303);
            let now = left.until("completed").await;
            if !shut {
                left.press("approve").await;
                assert_eq!(left.now().await["status"], "completed");
            }
            assert_eq!(now["payment_method"], json!(other));
            assert_eq!(left.attempts().await, ["closed", "captured"], "{method}");
            let mut taken = 0;
            let attempts = server.attempts(&left.payment).await;
            for account in [desk.account(), "sandbox-test"] {
                let books = server.books(account).await;
                let own = |entry: &&Value| {
                    let mut ids = attempts.iter().map(|attempt| &attempt["attempt_id"]);
                    entry["provider_id"] == account && ids.any(|id| *id == entry["attempt_id"])
                };
                let times = books
                    .iter()
                    .filter(own)
                    .map(|entry| &entry["captured_times"]);
                taken += times.map(|times| times.as_u64().unwrap()).sum::<u64>();
                if desk.account() == "sandbox-test" {
                    break;
                }
            }
            assert_eq!(taken, 1, "one of the two was paid");
        }
    };
    world.each(each).await;
}
