//! Payers' decisions on the provider's page, for every method of every module.

use serde_json::json;

use crate::table::{Has, is_over_with_one_try, lacks};
use crate::world::{Desk, calm};

#[tokio::test]
async fn an_approved_payment_is_a_paid_order_once_for_every_method() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            assert_eq!(visit.now().await["status"], "pending");
            let back = visit.press("approve").await.expect(303);
            visit.is_paid().await;
            visit.come_back(&back).await;
            assert_eq!(visit.attempts().await, ["captured"], "{method}");
            let mut left = visit.work().await;
            left.retain(|line| line["done_at"].is_null());
            assert!(left.is_empty(), "nothing is left to do: {left:?}");
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_declined_payer_can_begin_anew_and_never_pays_what_he_left() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            if !visit.decline().await {
                assert_eq!(visit.now().await["status"], "pending");
                visit.is_unpaid().await;
                // The provider reports each try to a query after the payer has come back.
                if desk.module.name == "razorpay" {
                    let path = format!(
                        "/api/v1/payments/{}/details",
                        visit.payment["payment_id"].as_str().unwrap()
                    );
                    let told = async || {
                        let details = desk
                            .server()
                            .get(desk.key(), &path)
                            .await
                            .expect(200)
                            .json();
                        details["attempts"][0]["last_decline"]
                            .is_string()
                            .then_some(())
                    };
                    desk.server()
                        .wait_for("the decline of the last try", told)
                        .await;
                }
                continue;
            }
            visit.until("created").await;
            visit.is_unpaid().await;
            // A payer who still has that page open cannot pay there.
            visit.approve_in_vain().await;
            if visit.hears_late_approvals(method) {
                // A person decides about the payment.
                visit.until("review").await;
                visit.decline_review().await;
                visit.until("failed").await;
                visit.is_unpaid().await;
                continue;
            }
            let again = desk.visit_of(visit.payment.clone()).await;
            assert_ne!(again.form.hidden, visit.form.hidden, "a page of its own");
            again.press("approve").await.expect(303);
            again.is_paid().await;
            let declines = lacks(&desk.module.name, Has::Declines).is_none();
            let first = if declines { "declined" } else { "expired" };
            assert_eq!(again.attempts().await, [first, "captured"], "{method}");
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_declined_payer_goes_on_at_a_page_that_stays_open_and_it_is_one_attempt() {
    let world = calm().await;
    let each = async |desk: Desk| {
        if lacks(&desk.module.name, Has::OneTry).is_none() {
            return;
        }
        for method in &desk.module.methods {
            if is_over_with_one_try(&desk.module.name, method) {
                continue;
            }
            let visit = desk.visit(method).await;
            // More often than a payment may have attempts.
            for _ in 0..6 {
                visit.press("decline").await.expect(303);
            }
            assert_eq!(visit.now().await["status"], "pending");
            visit.press("approve").await.expect(303);
            visit.is_paid().await;
            assert_eq!(visit.attempts().await, ["captured"], "{method}");
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn what_the_vendor_holds_for_review_waits_for_an_operator() {
    let world = calm().await;
    let each = async |desk: Desk| {
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            visit.press("review").await.expect(303);
            visit.until("review").await;
            let events = visit.events().await;
            assert!(
                !events.contains(&"payment.completed".to_owned()),
                "{events:?}"
            );
            visit.approve_review().await;
            visit.until("completed").await;
            assert_eq!(
                visit.taken().await,
                1,
                "{method}: {:?}",
                visit.entries().await
            );
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_payment_that_is_left_pending_can_still_be_paid() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        let back = visit.press("pending").await.expect(303);
        visit.come_back(&back).await;
        assert_eq!(visit.now().await["status"], "pending");
        visit.is_unpaid().await;
        assert_eq!(
            desk.start(&visit.payment).await,
            desk.start(&visit.payment).await
        );
        visit.press("approve").await.expect(303);
        visit.is_paid().await;
    };
    world.each(each).await;
}

#[tokio::test]
async fn what_is_only_authorised_is_captured_once_by_the_gateway() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let mut captured = 0;
        for method in &desk.module.methods {
            let visit = desk.visit(method).await;
            desk.fault("needs-capture").await;
            visit.press("approve").await.expect(303);
            visit.is_paid().await;
            desk.no_fault().await;
            let moves = desk.server().moves(&visit.payment).await;
            captured += usize::from(moves.contains(&"pending>processing".to_owned()));
        }
        match lacks(&desk.module.name, Has::Capture) {
            None => assert!(captured > 0, "no method has an authorised state"),
            Some(why) => assert_eq!(captured, 0, "{why}"),
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_method_is_offered_from_the_smallest_payment_on_that_the_provider_documents() {
    let world = calm().await;
    for (module, method, currency, least, less) in [
        ("stripe", "credit_card", "EUR", "0.50", "0.49"),
        ("razorpay", "upi_imps", "INR", "1.00", "0.99"),
    ] {
        let Some(module) = world.modules.iter().find(|of| of.name == module) else {
            continue;
        };
        let only = async |desk: Desk| {
            let offered = async |amount: &str| {
                let path = format!("/api/v1/methods?currency={currency}&amount={amount}");
                let listed = desk
                    .server()
                    .get(desk.key(), &path)
                    .await
                    .expect(200)
                    .json();
                let mut methods = listed["methods"].as_array().unwrap().iter();
                methods.any(|each| each["id"] == method)
            };
            // A listing leaves out a method that is late once.
            let taken = async || offered(least).await.then_some(());
            desk.server().wait_for(method, taken).await;
            assert!(!offered(less).await, "{currency} {least} at least");
        };
        world.one(module, only).await;
    }
}

#[tokio::test]
async fn what_the_vendor_must_know_is_asked_on_our_page_first() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let mut asked = 0;
        for method in &desk.module.methods {
            desk.fault("ask").await;
            let fields = json!({
                "checkout_mode": "direct", "payment_method": method,
                "currency": crate::table::currency(method), "customer_email": null,
            });
            let payment = desk.create(fields).await;
            let url = desk.start(&payment).await;
            let first = desk.server().open(&url).await;
            asked += usize::from(first.text.contains("class=\"questions\""));
            let visit = desk.visit_of(payment).await;
            visit.press("approve").await.expect(303);
            visit.is_paid().await;
            desk.no_fault().await;
        }
        match lacks(&desk.module.name, Has::Questions) {
            None => assert!(asked > 0, "nothing was asked"),
            Some(why) => assert_eq!(asked, 0, "{why}"),
        }
    };
    world.each(each).await;
}
