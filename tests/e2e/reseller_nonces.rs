//! A nonce is valid for one request: with concurrent requests, after a kill, and for ten minutes.

use std::process::Command;
use std::sync::Arc;

use futures_util::future::{join_all, select_all};
use serde_json::json;

use crate::disk::limit_files;
use crate::harness::{Answer, Server, fresh_folder, shared};
use crate::reseller_calls::{MERCHANTS, PAYMENTS, START, Signed, delegated, now};

const AT_ONCE: usize = 64;

/// Sends the same request [`AT_ONCE`] times concurrently and returns the statuses.
async fn at_once(server: &Server, signed: &Signed) -> Vec<u16> {
    let asked = (0..AT_ONCE).map(|_| async { server.ask(signed).await.status });
    join_all(asked).await
}

#[track_caller]
fn assert_one_accepted(statuses: &[u16]) {
    let accepted = statuses.iter().filter(|status| **status == 200).count();
    let replayed = statuses.iter().filter(|status| **status == 409).count();
    assert_eq!((accepted, replayed), (1, AT_ONCE - 1), "{statuses:?}");
}

#[tokio::test]
async fn of_sixty_four_requests_with_one_nonce_one_is_accepted() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let list = format!("{PAYMENTS}?merchant_id={merchant}");
    for _ in 0..5 {
        for signed in [
            Signed::get(&reseller.live, MERCHANTS),
            Signed::get(&reseller.live, &list),
            Signed::post(&reseller.live, PAYMENTS, &delegated(merchant, json!({}))),
        ] {
            assert_one_accepted(&at_once(server, &signed).await);
        }
    }
}

#[tokio::test]
async fn a_nonce_is_a_resellers_whatever_its_key_and_whatever_the_request() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let first = Signed::get(&reseller.live, MERCHANTS);
    server.ask(&first).await.expect(200);
    let body = json!({ "environment": "live" });
    let (_, second_key) = server.reseller_key(reseller.id, body).await;
    for signed in [
        Signed::get(&reseller.live, MERCHANTS).at(now() - 60),
        Signed::get(
            &reseller.live,
            &format!("{PAYMENTS}?merchant_id={merchant}"),
        ),
        Signed::post(&reseller.live, PAYMENTS, &delegated(merchant, json!({}))),
        Signed::post(&reseller.live, START, &json!({})),
        Signed::get(&second_key, MERCHANTS),
    ] {
        let signed = signed.with_nonce(&first.nonce);
        server.ask(&signed).await.expect(409).error();
    }
    // Nonces are case-sensitive, and each reseller has its own.
    let upper = Signed::get(&reseller.live, MERCHANTS).with_nonce(&first.nonce.to_uppercase());
    server.ask(&upper).await.expect(200);
    let other = server.reseller().await;
    let same = Signed::get(&other.live, MERCHANTS).with_nonce(&first.nonce);
    server.ask(&same).await.expect(200);
}

#[tokio::test]
async fn a_nonce_survives_a_kill_and_nobody_gets_it_twice() {
    let server = Server::fresh().await;
    let (reseller, merchant, _) = server.reselling().await;
    let used = Signed::get(&reseller.live, MERCHANTS);
    assert_one_accepted(&at_once(&server, &used).await);
    let create = Signed::post(&reseller.live, PAYMENTS, &delegated(merchant, json!({})));
    let created = server.ask(&create).await.expect(200).json();

    // Requests that are in flight when the server is killed. A full page counts as ten requests, so a thousand of
    // them would reach the rate limit on a fast machine.
    let server = Arc::new(server);
    let page = format!("{MERCHANTS}?limit=1");
    let flying: Vec<Signed> = (0..16)
        .map(|_| Signed::get(&reseller.live, &page))
        .collect();
    let mut asked = Vec::new();
    for each in 0..8 * flying.len() {
        let (server, signed) = (Arc::clone(&server), flying[each % flying.len()].clone());
        asked.push(tokio::spawn(async move {
            let headers = signed.headers();
            let answer = server.try_raw("GET", &signed.target, &headers, b"").await;
            answer.map_or(0, |answer| answer.status)
        }));
    }
    let (status, at) = {
        let (status, at, _others) = select_all(&mut asked).await;
        (status, at)
    };
    let mut accepted = vec![0; flying.len()];
    accepted[at % flying.len()] += u32::from(status.unwrap() == 200);
    let folder = server.kill();
    for (each, asked) in asked.into_iter().enumerate() {
        if each != at {
            accepted[each % flying.len()] += u32::from(asked.await.unwrap() == 200);
        }
    }

    let server = Server::in_folder(folder).await;
    let statuses = at_once(&server, &used).await;
    assert!(statuses.iter().all(|status| *status == 409), "{statuses:?}");
    server.ask(&create).await.expect(409);
    // With a new nonce, the same reference returns the acknowledged payment.
    let again = Signed::post(&reseller.live, PAYMENTS, &json!({}));
    let again = Signed {
        body: create.body.clone(),
        ..again
    };
    let again = server.ask(&again).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["payment_id"], created["payment_id"]);
    for (signed, mut accepted) in flying.iter().zip(accepted) {
        for status in at_once(&server, signed).await {
            assert!(matches!(status, 200 | 409), "{status}");
            accepted += u32::from(status == 200);
        }
        assert!(accepted <= 1, "{accepted} requests had one nonce");
    }
}

#[tokio::test]
async fn a_nonce_is_free_again_after_ten_minutes() {
    let server = Server::fresh().await;
    let reseller = server.reseller().await;
    let mut used = Vec::new();
    // The earliest and latest timestamps that are accepted, with a margin of ten seconds.
    for ahead in [-290, 0, 290] {
        let now = server.now().await;
        let signed = Signed::get(&reseller.live, MERCHANTS).at(now + ahead);
        server.ask(&signed).await.expect(200);
        used.push(signed);
    }
    for (advance, status) in [(200, 409), (300, 409), (110, 200)] {
        server.advance(advance).await;
        let now = server.now().await;
        for signed in &used {
            let again = signed.clone().at(now);
            server.ask(&again).await.expect(status).error_unless(200);
        }
    }
}

#[tokio::test]
async fn a_nonce_that_cannot_be_kept_lets_no_request_pass() {
    // A write beyond the limit fails, as on a full disk, instead of ending the process.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_kassette"));
    let server = Server::through(command, fresh_folder()).await;
    let reseller = server.reseller().await;
    limit_files(&server, Some(0));
    let signed = Signed::get(&reseller.live, MERCHANTS);
    server.ask(&signed).await.expect(503).error();
    limit_files(&server, None);
    let accepted = server.wait_for("the disk", async || {
        let status = server.ask(&signed).await.status;
        // The failed request may or may not have stored the nonce. Only one request can be accepted with it.
        (status != 503).then_some(status)
    });
    assert!(matches!(accepted.await, 200 | 409));
    server.ask(&signed).await.expect(409);
}

impl Answer {
    /// Asserts the shape of an error unless the response has this status.
    #[track_caller]
    fn error_unless(&self, status: u16) {
        if self.status != status {
            self.error();
        }
    }
}
