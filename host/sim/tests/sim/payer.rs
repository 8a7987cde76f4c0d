//! The payer page and its buttons.
use kassette_sim::{Fault, State};
use reqwest::Response;

use crate::world::{TEST, World, id, payment, token_of};

fn location(answer: &Response) -> &str {
    assert_eq!(answer.status(), 303);
    answer.headers()["location"].to_str().unwrap()
}

#[tokio::test]
async fn the_page_is_a_plain_form_that_says_it_is_a_simulator() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let url = session["next_action"]["url"].as_str().unwrap();
    let answer = w.http.get(url).send().await.unwrap();
    let policy = answer.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("form-action"));
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let html = answer.text().await.unwrap();
    for outcome in ["approve", "decline", "review", "pending", "cancel"] {
        assert!(
            html.contains(&format!("name=\"outcome\" value=\"{outcome}\"")),
            "{outcome}"
        );
    }
    let action = format!(
        "<form method=\"post\" action=\"http://{}/{TEST}/pay\">",
        w.sim.addr()
    );
    assert!(html.contains(&action));
    let hidden = format!(
        "<input type=\"hidden\" name=\"session\" value=\"{}\">",
        token_of(&session)
    );
    assert!(html.contains(&hidden));
    assert!(html.contains("No money moves") && html.contains("49.90"));
    assert!(!html.contains("<script"));
    assert!(html.contains("Demo &#60;shop&#62;"), "names are escaped");
    let style = w
        .http
        .get(format!("http://{}/payer.css", w.sim.addr()))
        .send()
        .await
        .unwrap();
    assert_eq!(style.headers()["content-type"], "text/css; charset=utf-8");
}

#[tokio::test]
async fn each_outcome_leads_back_and_into_the_books() {
    for (outcome, state, captured, target) in [
        (
            "approve",
            State::Captured,
            1,
            "http://127.0.0.1:1/return/abc?session=",
        ),
        (
            "decline",
            State::Declined,
            0,
            "http://127.0.0.1:1/cancel/abc?x=1&session=",
        ),
        (
            "review",
            State::Captured,
            1,
            "http://127.0.0.1:1/return/abc?session=",
        ),
        (
            "pending",
            State::Open,
            0,
            "http://127.0.0.1:1/return/abc?session=",
        ),
    ] {
        let w = World::new().await;
        let session = w.create("attempt-1").await;
        let answer = w.choose(&session, outcome).await;
        assert_eq!(
            location(&answer),
            format!("{target}{}", id(&session)),
            "{outcome}"
        );
        let entry = w.entry();
        assert_eq!(
            (entry.state, entry.captured_times),
            (state, captured),
            "{outcome}"
        );
    }
}

#[tokio::test]
async fn some_amounts_press_their_button_themselves_and_once() {
    for (amount, state, target) in [
        ("7001.01", State::Captured, "http://127.0.0.1:1/return/abc?"),
        ("7001.02", State::Declined, "http://127.0.0.1:1/cancel/abc?"),
        ("7001.03", State::Captured, "http://127.0.0.1:1/return/abc?"),
        ("7001.04", State::Open, "http://127.0.0.1:1/return/abc?"),
    ] {
        let w = World::new().await;
        let mut body = payment("attempt-1");
        body["amount"]["value"] = amount.into();
        let made = w.post("/v1/sessions", "attempt-1", &body).send().await;
        let session: serde_json::Value = made.unwrap().json().await.unwrap();
        assert_eq!(w.entry().state, State::Open, "until the payer comes");
        let url = session["next_action"]["url"].as_str().unwrap();
        let opened = w.http.get(url).send().await.unwrap();
        assert!(location(&opened).starts_with(target), "{amount}");
        assert_eq!(w.entry().state, state, "{amount}");
        if state != State::Open {
            let again = w.http.get(url).send().await.unwrap();
            assert_eq!((again.status().as_u16(), w.entry().state), (200, state));
        }
    }
}

#[tokio::test]
async fn a_second_click_changes_nothing_and_another_choice_is_refused() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    for _ in 0..2 {
        assert_eq!(w.choose(&session, "approve").await.status(), 303);
    }
    assert_eq!(w.choose(&session, "decline").await.status(), 409);
    assert_eq!(w.choose(&session, "pending").await.status(), 409);
    let entry = w.entry();
    assert_eq!((entry.state, entry.captured_times), (State::Captured, 1));
}

#[tokio::test]
async fn concurrent_approvals_take_the_money_once() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    futures_util::future::join_all((0..16).map(|_| w.choose(&session, "approve"))).await;
    assert_eq!(w.entry().captured_times, 1);
}

#[tokio::test]
async fn a_declined_payer_may_come_back_and_pay() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    w.choose(&session, "decline").await;
    assert_eq!(w.read(&session).await["payable"], true);
    assert_eq!(w.choose(&session, "approve").await.status(), 303);
    assert_eq!(w.entry().state, State::Captured);
}

#[tokio::test]
async fn a_paid_session_can_be_refunded_and_disputed_on_the_page() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    assert_eq!(w.choose(&session, "refund").await.status(), 409);
    w.choose(&session, "approve").await;
    assert_eq!(w.choose(&session, "dispute").await.status(), 200);
    assert_eq!(w.read(&session).await["status"], "disputed");
    assert_eq!(w.choose(&session, "refund").await.status(), 200);
    assert_eq!(w.entry().state, State::Refunded);
}

#[tokio::test]
async fn a_held_payment_can_be_let_go_on_the_page() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    w.choose(&session, "review").await;
    assert_eq!(w.read(&session).await["status"], "in_review");
    assert_eq!(w.choose(&session, "approve").await.status(), 303);
    assert_eq!(w.read(&session).await["status"], "captured");
    assert_eq!(w.entry().captured_times, 1);
}

#[tokio::test]
async fn unknown_tokens_accounts_and_outcomes_change_nothing() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let base = format!("http://{}", w.sim.addr());
    for path in ["/sandbox-test/pay/0", "/nobody/pay/0", "/"] {
        assert_eq!(
            w.http
                .get(format!("{base}{path}"))
                .send()
                .await
                .unwrap()
                .status(),
            404,
            "{path}"
        );
    }
    let live = format!("{base}/sandbox-live/pay/{}", token_of(&session));
    assert_eq!(w.http.get(live).send().await.unwrap().status(), 404);
    assert!(w.choose(&session, "steal").await.status().is_client_error());
    assert_eq!(w.entry().state, State::Open);
}

#[tokio::test]
async fn looking_at_the_page_changes_nothing() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let url = format!(
        "{}?outcome=approve",
        session["next_action"]["url"].as_str().unwrap()
    );
    w.http.get(url).send().await.unwrap();
    assert_eq!(w.entry().state, State::Open);
}

#[tokio::test]
async fn the_pages_can_be_mounted_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = crate::world::config(folder.path(), &crate::world::Clock::new());
    for account in &mut config.accounts {
        account.public_base = Some("https://pay.shop.example/sandbox/".into());
    }
    let sim = kassette_sim::Sim::start(config).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/sandbox", listener.local_addr().unwrap());
    let routes = axum::Router::new().nest("/sandbox", sim.payer_routes());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let http = crate::world::client();
    let bearer = crate::world::token(&http, &sim, TEST).await;
    let session: serde_json::Value = http
        .post(format!(
            "http://{}/v1/sessions",
            sim.api_addr(TEST).unwrap()
        ))
        .bearer_auth(bearer)
        .header("idempotency-key", "attempt-1")
        .json(&payment("attempt-1"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let url = session["next_action"]["url"].as_str().unwrap();
    let path = url
        .strip_prefix("https://pay.shop.example/sandbox")
        .unwrap();
    let html = http
        .get(format!("{base}{path}"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(html.contains("action=\"https://pay.shop.example/sandbox/sandbox-test/pay\""));
    assert!(html.contains("href=\"/sandbox/payer.css\""));
    let style = http.get(format!("{base}/payer.css")).send().await.unwrap();
    assert_eq!(style.status(), 200);
}

/// A payment of an amount whose page was opened, and the target of the redirect.
async fn opened(w: &World, amount: &str) -> (serde_json::Value, String) {
    let mut body = payment("attempt-1");
    body["amount"]["value"] = amount.into();
    let made = w.post("/v1/sessions", "attempt-1", &body).send().await;
    let session: serde_json::Value = made.unwrap().json().await.unwrap();
    let url = session["next_action"]["url"].as_str().unwrap();
    let answer = w.http.get(url).send().await.unwrap();
    let target = location(&answer).to_owned();
    (w.read(&session).await, target)
}

#[tokio::test]
async fn amounts_of_the_sandbox_end_an_attempt_with_each_decline_code() {
    for (amount, status, reason) in [
        ("7002.01", "declined", Some("declined")),
        ("7002.02", "declined", Some("insufficient_funds")),
        ("7002.03", "declined", Some("card_expired")),
        ("7002.04", "declined", Some("authentication_failed")),
        ("7002.05", "declined", Some("limit_exceeded")),
        ("7002.06", "cancelled", None),
        ("7002.08", "failed", None),
    ] {
        let w = World::new().await;
        let (session, target) = opened(&w, amount).await;
        assert_eq!(
            (session["status"].as_str(), session["reason"].as_str()),
            (Some(status), reason)
        );
        assert!(
            target.starts_with("http://127.0.0.1:1/cancel/abc?"),
            "{amount}"
        );
        assert_eq!(w.entry().captured_times, 0, "{amount}");
    }
    let w = World::new().await;
    let mut body = payment("attempt-1");
    body["amount"]["value"] = "7002.07".into();
    let refused = w
        .post("/v1/sessions", "attempt-1", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 422);
}

#[tokio::test]
async fn amounts_of_the_sandbox_wait_for_the_clock_to_be_moved() {
    for (amount, status) in [("7003.01", "capturing"), ("7003.02", "verifying")] {
        let w = World::new().await;
        let (session, target) = opened(&w, amount).await;
        assert_eq!(session["status"], status);
        assert!(
            target.starts_with("http://127.0.0.1:1/return/abc?"),
            "{amount}"
        );
        w.sim.clock_moved();
        assert_eq!(w.read(&session).await["status"], "captured", "{amount}");
    }
}

#[tokio::test]
async fn amounts_of_the_sandbox_are_disputed_by_themselves() {
    for (amount, end, withdrawn) in [("7004.02", "won", "0.00"), ("7004.03", "lost", "7004.03")] {
        let w = World::new().await;
        let (session, _) = opened(&w, amount).await;
        assert_eq!(
            (&session["status"], &session["disputes"]),
            (&"captured".into(), &serde_json::json!([]))
        );
        w.clock.advance(3_000);
        w.sim.clock_moved();
        assert_eq!(w.read(&session).await["disputes"][0]["status"], "open");
        w.clock.advance(3_000);
        w.sim.clock_moved();
        let ended = w.read(&session).await;
        assert_eq!(ended["disputes"][0]["status"], end);
        assert_eq!(ended["disputes"][0]["withdrawn"]["value"], withdrawn);
        let kinds: Vec<String> = w
            .entry()
            .movements
            .into_iter()
            .map(|moved| moved.kind)
            .collect();
        let lost = (end == "lost").then(|| "funds_withdrawn".to_owned());
        let expected = ["captured", "provider_fee"]
            .map(str::to_owned)
            .into_iter()
            .chain(lost);
        assert_eq!(kinds, expected.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_inquiry_becomes_a_dispute_and_giving_up_ends_a_payment() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    for (outcome, kind) in [("inquiry", "inquiry"), ("dispute", "dispute")] {
        assert_eq!(w.choose(&session, outcome).await.status(), 200);
        assert_eq!(w.read(&session).await["disputes"][0]["kind"], kind);
    }
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let left = w.choose(&session, "cancel").await;
    assert!(location(&left).starts_with("http://127.0.0.1:1/cancel/abc?"));
    assert_eq!(
        (w.read(&session).await["status"].as_str(), w.entry().state),
        (Some("cancelled"), State::Closed)
    );
    assert_eq!(w.choose(&session, "approve").await.status(), 409);
}

#[tokio::test]
async fn a_capture_that_fails_afterwards_is_told_and_stands_in_the_books() {
    let w = World::new().await;
    w.sim.set_fault(TEST, Fault::CaptureFails, 1).unwrap();
    let session = w.create("attempt-1").await;
    w.choose(&session, "approve").await;
    assert_eq!(w.read(&session).await["status"], "captured");
    w.clock.advance(2_000);
    w.sim.clock_moved();
    assert_eq!(w.read(&session).await["status"], "capture_failed");
    let last = w.entry().movements.pop().unwrap();
    assert_eq!(
        (last.kind.as_str(), last.amount.as_str()),
        ("capture_reversed", "49.90")
    );
}
