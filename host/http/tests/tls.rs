//! Complete exchanges over TLS with HTTP/1.1 and HTTP/2, using a test certificate authority.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kassette_http::{
    Client, Dialing, Guard, Network, NoAnswer, NoTls, NotSent, Request, Resolving, SendError, Trust,
};
use rcgen::{CertificateParams, KeyPair};
use support::{Authority, GOOD, H1, H2, NAME, NO_ANSWER, Shop, World, in_time, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

type Answer = http::Response<BoxBody<Bytes, Infallible>>;

/// Serves HTTP on a connection, in the negotiated version.
async fn answer<F>(stream: TlsStream<TcpStream>, service: F)
where
    F: Fn(http::Request<Incoming>) -> Answer + Send + Sync + 'static,
{
    let h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let service = Arc::new(service);
    let service = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service(request)) }
    });
    let stream = TokioIo::new(stream);
    // Ignore how a connection ends: some clients of the tests break it off.
    if h2 {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .max_header_list_size(1 << 20)
            .serve_connection(stream, service)
            .await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(stream, service)
            .await;
    }
}

fn reply(status: u16, body: &'static str) -> Answer {
    let body = http_body_util::Full::new(Bytes::from_static(body.as_bytes())).boxed();
    http::Response::builder().status(status).body(body).unwrap()
}

/// A body that never ends. Counts how many frames were requested.
struct Endless(Arc<AtomicUsize>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let frame = Frame::data(Bytes::from_static(&[b'a'; 1024]));
        Poll::Ready(Some(Ok(frame)))
    }
}

/// A body that yields one byte per interval.
struct Drip(tokio::time::Interval);

impl Body for Drip {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_tick(context)
            .map(|_| Some(Ok(Frame::data(Bytes::from_static(b"a")))))
    }
}

/// A text with the received version, method, host, path and one header.
fn mirror(request: &http::Request<Incoming>) -> String {
    let host = request
        .headers()
        .get("host")
        .map(|value| value.to_str().unwrap());
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    format!(
        "{:?} {} {} {} {}",
        request.version(),
        request.method(),
        host.or(authority).unwrap(),
        request.uri().path_and_query().unwrap(),
        request.headers()["x-service-event-id"].to_str().unwrap(),
    )
}

#[tokio::test]
async fn the_version_of_http_is_agreed_on_in_the_handshake() {
    for (protocols, version) in [
        (&[H2, H1][..], "HTTP/2.0"),
        (&[H2][..], "HTTP/2.0"),
        (&[H1][..], "HTTP/1.1"),
        (&[][..], "HTTP/1.1"),
    ] {
        let world = World::new(protocols, |stream| {
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            assert_eq!(name.as_deref(), Some(NAME));
            answer(stream, |request| {
                let said = mirror(&request);
                let body = http_body_util::Full::new(Bytes::from(said)).boxed();
                http::Response::new(body)
            })
        })
        .await;
        let response = world.send(post("/hook?a=b%20c")).await.unwrap();
        assert_eq!(response.status.as_u16(), 200);
        assert_eq!(
            std::str::from_utf8(&response.body).unwrap(),
            format!("{version} POST {NAME} /hook?a=b%20c 0123")
        );
        assert!(!response.truncated);
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_believed_gets_no_request() {
    let ours = Authority::named("ours");
    let theirs = Authority::named("theirs");
    let impostor = Authority::named("ours");
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([NAME.to_owned()]).unwrap();
    let own = params.self_signed(&key).unwrap();
    let own = (
        vec![own.der().clone()],
        PrivatePkcs8KeyDer::from(key.serialize_der()),
    );
    for (identity, why) in [
        (ours.signs(NAME, (2000, 2001)), NoTls::Expired),
        (ours.signs(NAME, (4000, 4001)), NoTls::NotYetValid),
        (ours.signs("other.example", GOOD), NoTls::WrongName),
        (ours.signs("x.shop.example", GOOD), NoTls::WrongName),
        (ours.signs("*.shop.example", GOOD), NoTls::WrongName),
        (ours.signs("*.example", (2000, 2001)), NoTls::Expired),
        (theirs.signs(NAME, GOOD), NoTls::UnknownAuthority),
        (impostor.signs(NAME, GOOD), NoTls::Certificate),
        (own, NoTls::UnknownAuthority),
    ] {
        let world = World::with(identity, ours.trusted(), &[H2, H1], |stream| {
            answer(stream, |_| panic!("a request arrived"))
        })
        .await;
        let error = world.send(post("/")).await.unwrap_err();
        assert_eq!(error, SendError::NotSent(NotSent::NoTls(why)));
    }
    // The public authorities do not include the test authority.
    let world = World::with(ours.signs(NAME, GOOD), Trust::Public, &[H1], |stream| {
        answer(stream, |_| panic!("a request arrived"))
    })
    .await;
    let error = world.send(post("/")).await.unwrap_err();
    let unknown = NotSent::NoTls(NoTls::UnknownAuthority);
    assert_eq!(error, SendError::NotSent(unknown));
}

#[tokio::test]
async fn a_kept_connection_carries_the_next_request() {
    for protocols in [&[H2][..], &[H1][..]] {
        let world = World::new(protocols, |stream| answer(stream, |_| reply(200, "ok"))).await;
        world.send(post("/")).await.unwrap();
        // The first connection returns to the pool shortly after its response. After that the client opens no other.
        let mut before = 0;
        while before != world.secured() {
            before = world.secured();
            world.send(post("/")).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(world.secured() < 10, "{}", world.secured());
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    for protocols in [&[H2][..], &[H1][..]] {
        for status in [300, 301, 302, 303, 305, 307, 308] {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let world = World::new(protocols, move |stream| {
                let count = Arc::clone(&count);
                answer(stream, move |_| {
                    count.fetch_add(1, Ordering::SeqCst);
                    let mut answer = reply(status, "elsewhere");
                    let to = format!("https://{NAME}/elsewhere").parse().unwrap();
                    answer.headers_mut().insert("location", to);
                    answer
                })
            })
            .await;
            let response = world.send(post("/")).await.unwrap();
            assert_eq!(response.status.as_u16(), status);
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_where_the_limit_is_and_read_no_further() {
    for protocols in [&[H2][..], &[H1][..]] {
        let given = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&given);
        let world = World::new(protocols, move |stream| {
            let count = Arc::clone(&count);
            answer(stream, move |_| {
                http::Response::new(Endless(Arc::clone(&count)).boxed())
            })
        })
        .await;
        let began = Instant::now();
        let response = world.send(post("/")).await.unwrap();
        assert_eq!((response.body.len(), response.truncated), (4096, true));
        assert!(began.elapsed() < post("/").deadline);
        // After the client has closed the connection, only bytes already in transit are produced.
        let mut before = 0;
        loop {
            let now = given.load(Ordering::SeqCst);
            if now == before {
                break;
            }
            before = now;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(before < 64 * 1024, "{before} KiB were taken");
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    for protocols in [&[H2][..], &[H1][..]] {
        let world = World::new(protocols, |stream| answer(stream, |_| reply(200, "12345"))).await;
        for (limit, whole) in [(5, true), (4, false), (0, false)] {
            let request = Request {
                max_response: limit,
                ..post("/")
            };
            let response = world.send(request).await.unwrap();
            assert_eq!((response.body.len(), !response.truncated), (limit, whole));
        }
    }
}

#[tokio::test]
async fn headers_beyond_their_limit_are_no_answer() {
    for protocols in [&[H2][..], &[H1][..]] {
        for (number, bytes) in [(1, 200_000), (90, 2_000), (500, 200)] {
            let world = World::new(protocols, move |stream| {
                answer(stream, move |_| {
                    let mut answer = reply(200, "ok");
                    let value = http::HeaderValue::from_str(&"a".repeat(bytes)).unwrap();
                    for nth in 0..number {
                        let name = format!("x-{nth}").parse::<http::HeaderName>().unwrap();
                        answer.headers_mut().insert(name, value.clone());
                    }
                    answer
                })
            })
            .await;
            let error = world.send(post("/")).await.unwrap_err();
            assert_eq!(
                error,
                SendError::NoAnswer(NoAnswer::Broken),
                "{number} × {bytes}"
            );
        }
    }
}

#[tokio::test]
async fn the_deadline_spans_headers_and_body() {
    for protocols in [&[H2][..], &[H1][..]] {
        let silent = World::new(protocols, |stream| async move {
            let _held = stream;
            std::future::pending::<()>().await;
        })
        .await;
        assert_eq!(in_time(&silent).await, NO_ANSWER, "nothing");

        let dripping = World::new(protocols, |stream| {
            answer(stream, |_| {
                let every = tokio::time::interval(Duration::from_millis(20));
                http::Response::new(Drip(every).boxed())
            })
        })
        .await;
        assert_eq!(in_time(&dripping).await, NO_ANSWER, "a slow body");
    }
    let slow_head = World::new(&[H1], |mut stream| async move {
        let mut heard = [0; 4096];
        assert!(stream.read(&mut heard).await.unwrap() > 0);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
        while stream.write_all(b"a").await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(in_time(&slow_head).await, NO_ANSWER, "slow headers");
    let interim = World::new(&[H1], |mut stream| async move {
        let mut heard = [0; 4096];
        assert!(stream.read(&mut heard).await.unwrap() > 0);
        while stream
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\n")
            .await
            .is_ok()
        {
            let _ = stream.flush().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(
        in_time(&interim).await,
        NO_ANSWER,
        "interim answers without end"
    );
}

/// A network that never finishes one step before TLS.
enum Stuck {
    Resolving,
    Dialling,
}

impl Network for Stuck {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        match self {
            Self::Resolving => Box::pin(std::future::pending()),
            Self::Dialling => Box::pin(async { Ok(vec!["93.184.215.14".parse().unwrap()]) }),
        }
    }

    fn dial(&self, _: SocketAddr) -> Dialing<'_> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn the_deadline_spans_name_connection_and_handshake() {
    let hung = |network: Arc<dyn Network>| World {
        client: Client::over(Guard::default(), network, Trust::Public),
        secured: Arc::default(),
    };
    // Never accepts: the operating system completes the connection, but no TLS handshake follows.
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for network in [
        Arc::new(Stuck::Resolving) as Arc<dyn Network>,
        Arc::new(Stuck::Dialling),
        Arc::new(Shop(deaf.local_addr().unwrap())),
    ] {
        let error = in_time(&hung(network)).await;
        assert_eq!(error, SendError::NotSent(NotSent::Deadline));
    }
}

#[tokio::test]
async fn a_server_that_breaks_off_is_told_apart_from_one_that_cannot_be_trusted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let client = Client::over(Guard::default(), Arc::new(Shop(address)), Trust::Public);
    let error = client.send(post("/")).await.unwrap_err();
    assert_eq!(error, SendError::NotSent(NotSent::NoTls(NoTls::Handshake)));

    let hung_up = World::new(&[H1], |mut stream| async move {
        let mut heard = [0; 4096];
        assert!(stream.read(&mut heard).await.unwrap() > 0);
    })
    .await;
    let error = hung_up.send(post("/")).await.unwrap_err();
    assert_eq!(error, SendError::NoAnswer(NoAnswer::Broken));
}

#[tokio::test]
async fn a_peer_that_went_silent_does_not_hold_its_shared_connection_for_ever() {
    // The first connection answers once and then never again. Later connections answer.
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let world = World::new(&[H2], move |stream| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let asked = Arc::new(AtomicUsize::new(0));
        answer(stream, move |_| {
            if first && asked.fetch_add(1, Ordering::SeqCst) > 0 {
                let never = tokio::time::interval_at(
                    tokio::time::Instant::now() + Duration::from_secs(3600),
                    Duration::from_secs(3600),
                );
                return http::Response::new(Drip(never).boxed());
            }
            reply(200, "ok")
        })
    })
    .await;
    world.send(post("/")).await.unwrap();
    let mut failed = 0;
    while world
        .send(Request {
            deadline: Duration::from_millis(700),
            ..post("/")
        })
        .await
        .is_err()
    {
        failed += 1;
        assert!(failed < 12, "the silent connection is used again and again");
    }
}
