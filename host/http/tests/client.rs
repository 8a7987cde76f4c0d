//! The guarded client against real listeners.
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

use kassette_http::{
    Client, Guard, HostPattern, Method, NoAnswer, NotSent, Request, Response, SendError,
};
use support::script::{OK, Server, dev, request};
use tokio::net::TcpListener;

#[tokio::test]
async fn an_answer_is_read_and_its_connection_used_again() {
    let server = Server::start(&[OK, OK, OK]).await;
    let client = dev();
    for _ in 0..3 {
        let Response {
            status,
            body,
            truncated,
            ..
        } = client
            .send(request(Method::GET, server.url("/a?b=c")))
            .await
            .unwrap();
        assert_eq!(
            (status.as_u16(), &body[..], truncated),
            (200, &b"ok"[..], false)
        );
        // The connection returns to the pool shortly after the response.
        tokio::task::yield_now().await;
    }
    assert_eq!(server.seen().1, 3);
}

#[tokio::test]
async fn nothing_leaves_once_its_time_is_over_though_a_connection_stands() {
    let server = Server::start(&[OK, OK]).await;
    let client = dev();
    let post = || request(Method::POST, server.url("/"));
    client.send(post()).await.unwrap();
    // The connection returns to the pool shortly after the response.
    tokio::task::yield_now().await;
    let late = Request {
        deadline: Duration::ZERO,
        ..post()
    };
    let error = client.send(late).await.unwrap_err();
    assert_eq!(error, SendError::NotSent(NotSent::Deadline));
    client.send(post()).await.unwrap();
    assert_eq!(server.seen().1, 2);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let trap = Server::start(&[OK]).await;
    let answer = format!(
        "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
        trap.url("/")
    );
    let server = Server::start(Box::leak(Box::new([&*answer.leak()]))).await;
    let response = dev()
        .send(request(Method::GET, server.url("/")))
        .await
        .unwrap();
    assert_eq!(response.status.as_u16(), 302);
    assert_eq!(trap.seen(), (0, 0));
}

#[tokio::test]
async fn without_the_development_setting_loopback_sees_no_connection() {
    let trap = Server::start(&[OK]).await;
    let port = trap.address.port();
    let client = Client::new(Guard::default());
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "０x7f.1",
        "127。0。0。1",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/").parse().unwrap();
            let refused = client.send(request(Method::POST, url)).await;
            assert!(
                matches!(refused, Err(SendError::NotSent(NotSent::Refused(_)))),
                "{host} {refused:?}"
            );
        }
    }
    assert_eq!(trap.seen(), (0, 0));
}

#[tokio::test]
async fn a_host_that_is_not_listed_sees_no_connection() {
    let trap = Server::start(&[OK]).await;
    let listed: Vec<HostPattern> = vec!["api.vendor.example".parse().unwrap()];
    let refused = dev()
        .send(Request {
            hosts: Some(&listed),
            ..request(Method::GET, trap.url("/"))
        })
        .await;
    assert_eq!(
        refused.unwrap_err(),
        SendError::NotSent(NotSent::NotAllowed)
    );
    assert_eq!(trap.seen(), (0, 0));
}

#[tokio::test]
async fn a_refused_connection_was_surely_not_sent() {
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let url = format!("http://{gone}/").parse().unwrap();
    let error = dev().send(request(Method::POST, url)).await.unwrap_err();
    assert!(
        matches!(error, SendError::NotSent(NotSent::NoConnection(_))),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_was_surely_not_sent_to() {
    let server = Server::start(&[OK]).await;
    let url = format!("https://{}/", server.address).parse().unwrap();
    let quick = Request {
        deadline: Duration::from_millis(500),
        ..request(Method::POST, url)
    };
    let error = dev().send(quick).await.unwrap_err();
    assert!(
        matches!(
            error,
            SendError::NotSent(NotSent::NoTls(_) | NotSent::Deadline)
        ),
        "{error:?}"
    );
    assert_eq!(server.seen().1, 0);
}

#[tokio::test]
async fn silence_after_the_request_is_no_answer() {
    let server = Server::start(&[""]).await;
    let quick = Request {
        deadline: Duration::from_millis(200),
        ..request(Method::POST, server.url("/"))
    };
    assert_eq!(
        dev().send(quick).await.unwrap_err(),
        SendError::NoAnswer(NoAnswer::Deadline)
    );
    assert_eq!(server.seen().1, 1);
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    let server = Server::start(&["HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf"]).await;
    let error = dev()
        .send(request(Method::POST, server.url("/")))
        .await
        .unwrap_err();
    assert_eq!(error, SendError::NoAnswer(NoAnswer::Broken));
}

#[tokio::test]
async fn a_long_body_is_cut_and_said_to_be() {
    let server =
        Server::start(&["HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nhello, world"]).await;
    let short = Request {
        max_response: 5,
        ..request(Method::GET, server.url("/"))
    };
    let response = dev().send(short).await.unwrap();
    assert_eq!(
        (&response.body[..], response.truncated),
        (&b"hello"[..], true)
    );
}

#[tokio::test]
async fn endless_headers_are_no_answer() {
    let answer = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(1 << 20));
    let server = Server::start(Box::leak(Box::new([&*answer.leak()]))).await;
    let error = dev()
        .send(request(Method::GET, server.url("/")))
        .await
        .unwrap_err();
    assert_eq!(error, SendError::NoAnswer(NoAnswer::Broken));
}

#[tokio::test]
async fn a_changing_request_is_never_sent_twice() {
    // Each connection answers once and breaks at the second request.
    let server = Server::start(&[OK, "nonsense\r\n\r\n"]).await;
    let client = dev();
    client
        .send(request(Method::POST, server.url("/")))
        .await
        .unwrap();
    let mut sent = 1;
    // Until the connection is back in the pool, a request uses a new one, which answers.
    loop {
        sent += 1;
        let outcome = client.send(request(Method::POST, server.url("/"))).await;
        assert_eq!(server.seen().1, sent);
        match outcome {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => {
                assert_eq!(error, SendError::NoAnswer(NoAnswer::Broken));
                break;
            }
        }
    }
}

#[tokio::test]
async fn headers_that_steer_the_connection_are_refused() {
    let trap = Server::start(&[OK]).await;
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "upgrade",
    ] {
        let mut smuggled = request(Method::POST, trap.url("/"));
        smuggled.headers.insert(name, "1".parse().unwrap());
        let error = dev().send(smuggled).await.unwrap_err();
        assert!(
            matches!(error, SendError::NotSent(NotSent::Malformed(_))),
            "{name}"
        );
    }
    assert_eq!(trap.seen(), (0, 0));
}
