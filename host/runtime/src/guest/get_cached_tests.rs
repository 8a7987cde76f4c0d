use std::sync::Arc;

use kassette_http::{NoAnswer, SendError};

use super::super::send::tests::{Bench, answer, with_key};
use super::*;
use crate::access::AccountAccess;
use crate::fixtures::access;

const CERTIFICATE: &str = "https://api.vendor.example/certs/1";
const HOUR: u32 = 3600;

/// Access of a call that a stranger caused.
fn strange(access: AccountAccess) -> AccountAccess {
    AccountAccess {
        stranger: Some([192, 0, 2, 1].into()),
        ..access
    }
}

fn bench() -> Bench {
    Bench::new(strange(access()))
}

async fn get(bench: &mut Bench, url: &str) -> Result<wit::Response, wit::SendFailure> {
    bench
        .call
        .get_cached(&bench.identity, url.into(), HOUR)
        .await
}

/// Moves the time forward for a later call.
fn later(bench: &mut Bench, seconds: u64) {
    let account = &mut bench.call.access.account;
    account.now = account.now.after(Duration::from_secs(seconds));
}

fn not_sent(answered: &Result<wit::Response, wit::SendFailure>) -> bool {
    matches!(answered, Err(wit::SendFailure::NotSent(_)))
}

#[tokio::test]
async fn a_kept_answer_sends_nothing_until_its_life_is_over() {
    let mut bench = bench();
    bench.next(answer(200, "certificate"));
    let first = get(&mut bench, CERTIFICATE).await.unwrap();
    later(&mut bench, 3599);
    let second = get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!((second.status, &second.body), (200, &first.body));
    assert_eq!(bench.sent().len(), 1);
    later(&mut bench, 1);
    get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!(bench.sent().len(), 2);
}

#[tokio::test]
async fn one_request_a_minute_goes_out_for_a_stranger_whatever_it_asks_for() {
    let mut bench = bench();
    bench.next(answer(404, "no such certificate"));
    assert_eq!(get(&mut bench, CERTIFICATE).await.unwrap().status, 404);
    for seconds in [0, 59] {
        later(&mut bench, seconds);
        for url in [CERTIFICATE, "https://api.vendor.example/certs/2"] {
            let answered = get(&mut bench, url).await;
            assert!(not_sent(&answered), "{url} after {seconds} s");
        }
    }
    assert_eq!(bench.sent().len(), 1);
    later(&mut bench, 1);
    get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!(bench.sent().len(), 2);
}

#[tokio::test]
async fn another_account_has_a_minute_and_a_memory_of_its_own() {
    let mut bench = bench();
    get(&mut bench, CERTIFICATE).await.unwrap();
    bench.call.access = strange(access());
    get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!(bench.sent().len(), 2);
}

#[tokio::test]
async fn a_forger_keeps_nothing_from_known_callers() {
    let mut bench = bench();
    bench.next(answer(404, "no such certificate"));
    assert_eq!(get(&mut bench, CERTIFICATE).await.unwrap().status, 404);
    assert!(not_sent(&get(&mut bench, CERTIFICATE).await));
    bench.call.access.stranger = None;
    bench.next(answer(200, "certificate"));
    let found = get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!(found.body, b"certificate");
}

#[tokio::test]
async fn what_was_kept_serves_where_the_other_side_fails_and_until_it_says_otherwise() {
    let mut bench = bench();
    bench.next(answer(200, "certificate"));
    get(&mut bench, CERTIFICATE).await.unwrap();
    later(&mut bench, 3600);
    for failure in [answer(503, ""), Err(SendError::NoAnswer(NoAnswer::Broken))] {
        bench.next(failure);
        let found = get(&mut bench, CERTIFICATE).await.unwrap();
        assert_eq!(found.body, b"certificate");
        later(&mut bench, 60);
    }
    assert_eq!(bench.sent().len(), 3);
    bench.next(answer(404, "no such certificate"));
    assert_eq!(get(&mut bench, CERTIFICATE).await.unwrap().status, 404);
    assert!(not_sent(&get(&mut bench, CERTIFICATE).await));
}

#[tokio::test]
async fn failures_are_never_kept() {
    for failure in [
        answer(404, ""),
        answer(301, ""),
        answer(203, "changed on its way"),
        answer(503, ""),
        Err(SendError::NoAnswer(NoAnswer::Broken)),
        answer(200, "x").map(|whole| kassette_http::Response {
            truncated: true,
            ..whole
        }),
    ] {
        let mut bench = bench();
        bench.next(failure);
        let _failed = get(&mut bench, CERTIFICATE).await;
        later(&mut bench, 60);
        bench.next(answer(200, "certificate"));
        let found = get(&mut bench, CERTIFICATE).await.unwrap();
        assert_eq!(found.body, b"certificate");
        assert_eq!(bench.sent().len(), 2);
    }
}

#[tokio::test]
async fn an_answer_with_a_secret_in_it_is_redacted_and_not_kept() {
    let mut bench = Bench::new(strange(with_key()));
    bench.next(answer(200, "your key is sk_live_9f8e7d6c"));
    let seen = get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!(seen.body, b"your key is ***");
    assert!(not_sent(&get(&mut bench, CERTIFICATE).await));
    let mut header = answer(200, "").unwrap();
    let echo = "sk_live_9f8e7d6c".parse().unwrap();
    header.headers.insert("x-echo", echo);
    later(&mut bench, 60);
    bench.next(Ok(header));
    get(&mut bench, CERTIFICATE).await.unwrap();
    assert!(not_sent(&get(&mut bench, CERTIFICATE).await));
}

#[tokio::test]
async fn what_may_not_be_asked_for_uses_up_no_turn() {
    let mut bench = bench();
    for url in [
        "https://evil.example/certs/1",
        "http://api.vendor.example/certs/1",
        "https://api.vendor.example@evil.example/",
        "https://api.vendor.example/certs/1#fragment",
        "nonsense",
    ] {
        assert!(not_sent(&get(&mut bench, url).await), "{url}");
    }
    get(&mut bench, CERTIFICATE).await.unwrap();
    assert_eq!(bench.sent().len(), 1);
    // Cached responses count as requests of the call, so a loop ends at their limit.
    for _ in 0..10 {
        get(&mut bench, CERTIFICATE).await.unwrap();
    }
    assert!(not_sent(&get(&mut bench, CERTIFICATE).await));
    assert_eq!(bench.sent().len(), 1);
}

#[tokio::test]
async fn two_calls_that_want_the_same_send_one_request() {
    let mut one = bench();
    let mut other = bench();
    other.call.access.tokens = Arc::clone(&one.call.access.tokens);
    one.next(answer(200, "certificate"));
    let (first, second) = tokio::join!(get(&mut one, CERTIFICATE), get(&mut other, CERTIFICATE));
    assert_eq!(first.unwrap().body, second.unwrap().body);
    assert_eq!(one.sent().len() + other.sent().len(), 1);
    // Changed credentials clear the cache, but requests of the last minute still count.
    one.call.access.tokens.clear();
    assert!(not_sent(&get(&mut one, CERTIFICATE).await));
}
