//! Payers' visits: questions, forms, instructions, and returns.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::{Form, primary_link};
use crate::harness::{Answer, Server, shared};
use crate::pages::url;

/// When and where a page goes on by itself in a browser without scripts: by its header, or by an element if its script
/// follows the payment.
fn refresh(answer: &Answer) -> Option<&str> {
    let element = || {
        let (_, rest) = answer
            .text
            .split_once("<meta http-equiv=\"refresh\" content=\"")?;
        Some(rest.split_once('"')?.0)
    };
    answer.header("refresh").or_else(element)
}

#[tokio::test]
async fn what_a_provider_asks_is_answered_on_our_page_and_passed_on() {
    let server = Server::fresh().await;
    let key = server.test_key();
    server.fault("sandbox-test", "ask", 1).await;
    let payment = server.create(key, json!({})).await;
    let answer = server.choose(&payment, "ideal").await.expect(303);
    assert!(!answer.header("location").unwrap().ends_with("/go"));
    let page = server.open(url(&payment)).await.expect(200);
    for name in ["email", "given-name", "family-name"] {
        assert!(
            page.text.contains(&format!("name=\"{name}\"")),
            "{name}: {}",
            page.text
        );
    }
    assert!(page.text.contains("<label for="));
    assert!(
        server.entries(&payment).await.is_empty(),
        "nothing is at the vendor yet"
    );
    let form = Form::first(&page.text, url(&payment));
    let missing = server
        .submit(&form, &[("email", "nobody"), ("given-name", "Ann")])
        .await
        .expect(422);
    assert!(
        missing.text.contains("aria-invalid=\"true\"") && missing.text.contains("value=\"Ann\"")
    );
    let answers = [
        ("email", "ann@example.com"),
        ("given-name", "Ann"),
        ("family-name", "Bee"),
        ("card", "4242"),
    ];
    let on = server.submit(&form, &answers).await.expect(303);
    assert!(on.header("location").unwrap().ends_with("/go"));
    assert_eq!(
        server.attempts(&payment).await.len(),
        1,
        "the same attempt goes on"
    );
    let go = server
        .open(&format!("{}/go", url(&payment)))
        .await
        .expect(200);
    server
        .pay(&primary_link(&go.text).unwrap(), "approve")
        .await
        .expect(303);
    server.until(key, &payment, "completed").await;
}

#[tokio::test]
async fn a_direct_payment_whose_provider_asks_leads_to_our_own_page() {
    let server = Server::fresh().await;
    let key = server.test_key();
    server.fault("sandbox-test", "ask", 1).await;
    let (payment, to) = server
        .started(key, "ideal", json!({ "customer_email": "ann@example.com" }))
        .await;
    assert_eq!(to, url(&payment));
    assert_eq!(
        server
            .start(key, &payment, "ideal")
            .await
            .expect(200)
            .json()["redirect_url"],
        to.as_str()
    );
    let page = server.open(&to).await.expect(200);
    assert!(
        !page.text.contains("name=\"email\""),
        "what the merchant told is not asked"
    );
    assert!(!page.text.contains("ann@example.com"));
    let form = Form::first(&page.text, &to);
    server
        .submit(&form, &[("given-name", "Ann"), ("family-name", "Bee")])
        .await
        .expect(303);
    let go = server.open(&format!("{to}/go")).await.expect(200);
    server
        .pay(&primary_link(&go.text).unwrap(), "approve")
        .await
        .expect(303);
    server.until(key, &payment, "completed").await;
}

#[tokio::test]
async fn who_is_asked_can_choose_another_way() {
    let server = Server::fresh().await;
    server.fault("sandbox-test", "ask", 1).await;
    let payment = server.create(server.test_key(), json!({})).await;
    server.choose(&payment, "ideal").await.expect(303);
    let form = Form {
        action: format!("{}/abandon", url(&payment)),
        hidden: vec![],
    };
    server.submit(&form, &[]).await.expect(303);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
    let page = server.chosen(&payment, "paypal").await;
    server.pay(&page, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
}

#[tokio::test]
async fn a_form_that_the_payer_must_post_stands_on_our_page() {
    let server = shared().await;
    let key = server.test_key();
    for hosted in [true, false] {
        let payment = if hosted {
            let payment = server.create(key, json!({})).await;
            server.choose(&payment, "klarna").await.expect(303);
            payment
        } else {
            let (payment, to) = server.started(key, "klarna", json!({})).await;
            assert_eq!(to, url(&payment), "our own page");
            payment
        };
        let page = server.open(url(&payment)).await.expect(200);
        let csp = page.header("content-security-policy").unwrap();
        assert!(
            csp.contains("form-action 'self' https:"),
            "the provider's form may leave: {csp}"
        );
        let form = Form::first(&page.text, url(&payment));
        assert!(form.action.contains("/sandbox-test/pay"), "{}", form.action);
        let vendor = server
            .send(server.http.post(&form.action).form(&form.hidden))
            .await
            .expect(200);
        let choice = Form::first(&vendor.text, &form.action);
        server.press(&choice, "approve").await.expect(303);
        server.until(key, &payment, "completed").await;
    }
}

#[tokio::test]
async fn instructions_are_shown_with_a_code_a_link_and_a_way_to_check() {
    let server = shared().await;
    let key = server.test_key();
    for (method, currency, detail) in [
        ("crypto", "EUR", "sbx1q"),
        ("upi_imps", "INR", "sandbox@kassette"),
    ] {
        let (payment, to) = server
            .started(key, method, json!({ "currency": currency }))
            .await;
        assert_eq!(to, url(&payment));
        let page = server.open(&to).await.expect(200);
        assert!(
            page.text
                .contains("<svg class=\"qr\" role=\"img\" aria-label=")
                && page.text.contains(detail)
        );
        assert!(page.text.contains("49.90"));
        assert!(
            refresh(&page).is_some(),
            "the page sees by itself that it is paid"
        );
        let vendor = primary_link(&page.text).unwrap();
        server.pay(&vendor, "approve").await.expect(303);
        server.until(key, &payment, "completed").await;
        let page = server.open(&to).await.expect(200);
        assert!(page.text.contains("Payment complete") && refresh(&page).is_none());
    }
}

#[tokio::test]
async fn who_comes_back_sees_the_true_state_and_the_way_to_the_shop() {
    let server = shared().await;
    let key = server.test_key();
    let shop = "https://shop.example/done?order=7&x=%20";
    let payment = server.create(key, json!({ "return_url": shop })).await;
    let provider = server.chosen(&payment, "ideal").await;

    let back = server.pay(&provider, "pending").await.expect(303);
    let back = back.header("location").unwrap().to_owned();
    let page = server.open(&back).await.expect(200);
    assert!(page.text.contains("role=\"status\"") && page.text.contains("Waiting for "));
    assert!(
        page.text
            .contains("href=\"https://shop.example/done?order=7&#38;x=%20\""),
        "a plain link: {}",
        page.text
    );
    assert!(
        refresh(&page).is_some_and(|value| !value.contains("url=")),
        "it refreshes itself"
    );

    server.pay(&provider, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let page = server.open(&back).await.expect(200);
    assert!(page.text.contains("Payment complete") && page.text.contains("Back to merchant"));
    assert_eq!(
        refresh(&page),
        Some(format!("10; url={shop}").as_str()),
        "nothing is appended"
    );
    assert!(refresh(&server.open(url(&payment)).await).is_none());
}

#[tokio::test]
async fn a_domain_that_is_verified_no_longer_is_not_led_to() {
    let server = shared().await;
    let (id, key, _) = server.merchant(json!({})).await;
    let path = format!("/merchants/{id}/domains");
    server
        .admin("POST", &path, Some(&json!({ "domain": "gone.example" })))
        .await
        .expect(201);
    let (payment, provider) = server
        .started(
            &key,
            "ideal",
            json!({ "return_url": "https://gone.example/x" }),
        )
        .await;
    let back = server.pay(&provider, "approve").await.expect(303);
    server.until(&key, &payment, "completed").await;
    let back = back.header("location").unwrap();
    assert!(server.open(back).await.text.contains("gone.example"));
    server
        .admin("DELETE", &format!("{path}/gone.example"), None)
        .await
        .expect(204);
    let page = server.open(back).await.expect(200);
    assert!(!page.text.contains("gone.example") && refresh(&page).is_none());
}

#[tokio::test]
async fn without_a_return_url_our_page_is_the_end() {
    let server = shared().await;
    let (payment, provider) = server.started(server.test_key(), "ideal", json!({})).await;
    let back = server.pay(&provider, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
    let page = server
        .open(back.header("location").unwrap())
        .await
        .expect(200);
    assert!(page.text.contains("You can close this page now."));
    assert!(refresh(&page).is_none() && !page.text.contains("Back to merchant"));
}

#[tokio::test]
async fn a_declined_payer_is_told_so_and_can_choose_again() {
    let server = shared().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let provider = server.chosen(&payment, "ideal").await;
    let back = server.pay(&provider, "decline").await.expect(303);
    server.until(server.test_key(), &payment, "created").await;
    let page = server
        .open(back.header("location").unwrap())
        .await
        .expect(200);
    assert!(
        page.text.contains("The payment was declined")
            && page.text.contains("No money was taken for this try.")
    );
    let again = primary_link(&page.text).unwrap();
    assert!(url(&payment).ends_with(&again), "{again}");
    let provider = server.chosen(&payment, "paypal").await;
    server.pay(&provider, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
}

#[tokio::test]
async fn every_end_has_a_page_of_its_own() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let (reviewed, provider) = server.started(key, "ideal", json!({})).await;
    server.pay(&provider, "review").await.expect(303);
    server.until(key, &reviewed, "review").await;
    let page = server.open(url(&reviewed)).await.expect(200);
    assert!(
        page.text.contains("Your payment is being checked")
            && page.text.contains("do not pay again")
    );
    server
        .decide(&reviewed, "decline", json!({}))
        .await
        .expect(200);
    let failed = server.open(url(&reviewed)).await.expect(200);
    assert!(failed.text.contains("This payment did not go through"));

    let cancelled = server.create(key, json!({})).await;
    server.cancel(&cancelled).await.expect(200);
    assert!(
        server
            .open(url(&cancelled))
            .await
            .expect(200)
            .text
            .contains("This payment was called off")
    );

    let expired = server.create(key, json!({})).await;
    server.advance(24 * 3600).await;
    assert!(
        server
            .open(url(&expired))
            .await
            .expect(200)
            .text
            .contains("This payment has expired")
    );
    for payment in [&reviewed, &cancelled, &expired] {
        let form = Form {
            action: format!("{}/choose", url(payment)),
            hidden: vec![],
        };
        server
            .submit(&form, &[("payment_method", "ideal")])
            .await
            .expect(409);
    }
}

#[tokio::test]
async fn coming_back_asks_the_vendor_at_most_once_in_five_seconds() {
    let server = Server::fresh().await;
    let (payment, provider) = server.started(server.test_key(), "ideal", json!({})).await;
    let back = server.pay(&provider, "pending").await.expect(303);
    let back = back.header("location").unwrap().to_owned();
    let began = Instant::now();
    server.open(&back).await.expect(200);
    server.fault("sandbox-test", "callback-never", 1).await;
    server.pay(&provider, "approve").await.expect(303);
    for _ in 0..5 {
        server.open(&back).await.expect(200);
    }
    let soon = began.elapsed() < Duration::from_secs(5);
    let asked_again = server.payment(server.test_key(), &payment).await["status"] == "completed";
    server.advance(5).await;
    server.open(&back).await.expect(200);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "completed"
    );
    assert!(
        !(soon && asked_again),
        "five reloads within five seconds are one question"
    );
}
