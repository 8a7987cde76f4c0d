//! Responses that start and do not end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::time::Duration;

use kassette_http::{Answer, Method, NoAnswer, Request, Response, SendError};
use support::script::{OK, Server, dev, request};

const HALF: &str = "HTTP/1.1 410 Gone\r\nretry-after: 7\r\ncontent-length: 99\r\n\r\nhalf of it";

/// Checks the received part of an incomplete response and returns the reason why it is incomplete.
fn half(answer: Answer) -> NoAnswer {
    let Response {
        status,
        headers,
        body,
        truncated,
    } = answer.response;
    assert_eq!((status.as_u16(), &body[..]), (410, &b"half of it"[..]));
    assert_eq!(headers["retry-after"], "7");
    assert!(!truncated);
    answer.unfinished.unwrap()
}

#[tokio::test]
async fn what_came_of_an_answer_that_broke_off_is_there_for_whoever_wants_its_head() {
    let server = Server::start(&[HALF]).await;
    let post = || request(Method::POST, server.url("/"));
    let answer = dev().send_for_head(post()).await.unwrap();
    assert_eq!(half(answer), NoAnswer::Broken);
    let strict = dev().send(post()).await.unwrap_err();
    assert_eq!(strict, SendError::NoAnswer(NoAnswer::Broken));
}

#[tokio::test]
async fn what_came_of_an_answer_that_stalled_is_there_at_the_deadline() {
    // The server waits for another request instead of completing its response.
    let server = Server::start(&[HALF, OK]).await;
    let client = dev();
    let post = || Request {
        deadline: Duration::from_millis(500),
        ..request(Method::POST, server.url("/"))
    };
    let answer = client.send_for_head(post()).await.unwrap();
    assert_eq!(half(answer), NoAnswer::Deadline);
    let strict = client.send(post()).await.unwrap_err();
    assert_eq!(strict, SendError::NoAnswer(NoAnswer::Deadline));
    assert_eq!(server.seen(), (2, 2), "such a connection is not kept");
}

#[tokio::test]
async fn without_a_head_there_is_no_answer() {
    let silent = Server::start(&[""]).await;
    let broken = Server::start(&["HTTP/1.1 200 OK\r\nretry-after: 7\r\n"]).await;
    for (server, deadline_ms, why) in [
        (silent, 200, NoAnswer::Deadline),
        (broken, 10_000, NoAnswer::Broken),
    ] {
        let request = Request {
            deadline: Duration::from_millis(deadline_ms),
            ..request(Method::POST, server.url("/"))
        };
        let error = dev().send_for_head(request).await.unwrap_err();
        assert_eq!(error, SendError::NoAnswer(why));
    }
}

#[tokio::test]
async fn a_whole_answer_is_not_unfinished() {
    let server = Server::start(&[OK]).await;
    let post = request(Method::POST, server.url("/"));
    let answer = dev().send_for_head(post).await.unwrap();
    assert_eq!(answer.unfinished, None);
    assert_eq!(&answer.response.body[..], b"ok");
}

#[tokio::test]
async fn a_safe_request_whose_kept_connection_breaks_within_the_answer_is_sent_again() {
    let server = Server::start(&[OK, HALF]).await;
    let client = dev();
    let mut sent = 0;
    // Until the connection is back in the pool, a request uses a new one, which answers.
    while server.seen().1 == sent {
        sent += 1;
        let get = request(Method::GET, server.url("/"));
        let response = client.send(get).await.unwrap();
        assert_eq!(&response.body[..], b"ok");
        tokio::task::yield_now().await;
    }
    assert_eq!(server.seen().1, sent + 1);
}

#[tokio::test]
async fn an_answer_that_is_announced_to_be_longer_is_cut_without_waiting_for_more() {
    let server = Server::start(&[HALF, OK]).await;
    for limit in [4, 10] {
        let short = Request {
            max_response: limit,
            ..request(Method::POST, server.url("/"))
        };
        let response = dev().send(short).await.unwrap();
        assert_eq!(&response.body[..], &b"half of it"[..limit]);
        assert!(response.truncated);
    }
}

#[tokio::test]
async fn an_answer_of_unknown_length_is_not_called_longer_than_it_is() {
    const CHUNK: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n";
    let server = Server::start(&[CHUNK, OK]).await;
    let full = Request {
        max_response: 4,
        deadline: Duration::from_millis(500),
        ..request(Method::POST, server.url("/"))
    };
    let answer = dev().send_for_head(full).await.unwrap();
    assert_eq!(&answer.response.body[..], b"four");
    assert!(!answer.response.truncated);
    assert_eq!(answer.unfinished, Some(NoAnswer::Deadline));
}
