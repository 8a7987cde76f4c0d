//! HTTP/2 peers that send single frames: they refuse requests, break off, delay and leave requests unprocessed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kassette_http::{NoAnswer, NotSent, Request, SendError};
use support::{H2, NO_ANSWER, World, in_time, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

// Frame types (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
// Flags.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
// Error codes.
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
/// A compressed head: `:status: 200`.
const STATUS_200: &[u8] = &[0x88];
/// `:status: 102`, uncompressed.
const STATUS_102: &[u8] = b"\x08\x03102";
/// `:status: 410`, uncompressed.
const STATUS_410: &[u8] = b"\x08\x03410";
/// `:status: 410` and `content-length: 4`.
const STATUS_410_OF_4: &[u8] = b"\x08\x03410\x0f\x0d\x014";
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// A connection, from the side of the peer.
struct Peer {
    stream: TlsStream<TcpStream>,
    /// Number of requests received on all connections.
    requests: Arc<AtomicUsize>,
}

impl Peer {
    async fn say(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }

    async fn greet(&mut self) -> io::Result<()> {
        self.stream.read_exact(&mut [0; 24]).await?;
        self.say(SETTINGS, 0, 0, &[]).await
    }

    async fn head(&mut self, stream: u32, fields: &[u8]) -> io::Result<()> {
        self.say(HEADERS, END_HEADERS, stream, fields).await
    }

    async fn whole(&mut self, stream: u32) -> io::Result<()> {
        let flags = END_HEADERS | END_STREAM;
        self.say(HEADERS, flags, stream, STATUS_200).await
    }

    async fn reset(&mut self, stream: u32, why: u32) -> io::Result<()> {
        self.say(RST_STREAM, 0, stream, &why.to_be_bytes()).await
    }

    async fn go_away(&mut self, last: u32, why: u32) -> io::Result<()> {
        let payload = [last.to_be_bytes(), why.to_be_bytes()].concat();
        self.say(GOAWAY, 0, 0, &payload).await
    }

    /// Stream of the next complete request.
    async fn request(&mut self) -> io::Result<u32> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await?;
            let (kind, flags) = (head[3], head[4]);
            if kind == SETTINGS && flags & ACK == 0 {
                self.say(SETTINGS, ACK, 0, &[]).await?;
            }
            if kind == HEADERS {
                self.requests.fetch_add(1, Ordering::SeqCst);
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return Ok(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
            }
        }
    }

    /// Answers every request.
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            let stream = self.request().await?;
            self.whole(stream).await?;
        }
    }

    /// Keeps the connection open without answering.
    async fn hold(&mut self) -> io::Result<()> {
        loop {
            self.request().await?;
        }
    }
}

/// A world in which `serve` handles each connection, given its number, and the count of requests.
async fn peers<F>(
    serve: impl Fn(Peer, usize) -> F + Send + Sync + 'static,
) -> (World, Arc<AtomicUsize>)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (serve, connections) = (Arc::new(serve), AtomicUsize::new(0));
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let world = World::new(&[H2], move |stream| {
        let (serve, requests) = (Arc::clone(&serve), Arc::clone(&count));
        let nth = connections.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut peer = Peer { stream, requests };
            if peer.greet().await.is_ok() {
                // Ends when the client closes the connection.
                let _ = serve(peer, nth).await;
            }
        }
    })
    .await;
    (world, requests)
}

/// What a peer does instead of answering a request or completing its answer.
#[derive(Clone, Copy, Debug)]
enum Instead {
    Reset(u32),
    /// Error code and last processed stream.
    GoAway(u32, u32),
    HangUp,
    Nothing,
}

impl Instead {
    async fn happens(self, peer: &mut Peer, stream: u32) -> io::Result<()> {
        match self {
            Self::Reset(why) => peer.reset(stream, why).await?,
            Self::GoAway(why, last) => {
                peer.go_away(last, why).await?;
                if last >= stream {
                    return Ok(());
                }
            }
            Self::HangUp => return Ok(()),
            Self::Nothing => {}
        }
        peer.hold().await
    }
}

/// Peers whose first connection answers one request and does this on the next. Later connections answer.
async fn answers_once_and_then(instead: Instead) -> (World, Arc<AtomicUsize>) {
    peers(move |mut peer, nth| async move {
        if nth > 0 {
            return peer.serve().await;
        }
        let first = peer.request().await?;
        peer.whole(first).await?;
        let second = peer.request().await?;
        instead.happens(&mut peer, second).await
    })
    .await
}

#[tokio::test]
async fn what_a_peer_left_undone_is_sent_once_more_on_a_new_connection() {
    for instead in [Instead::Reset(REFUSED_STREAM), Instead::GoAway(NO_ERROR, 1)] {
        let (world, requests) = answers_once_and_then(instead).await;
        world.send(post("/")).await.unwrap();
        let again = world.send(post("/")).await;
        assert_eq!(again.unwrap().status.as_u16(), 200, "{instead:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 3, "{instead:?}");
        assert_eq!(world.secured(), 2, "{instead:?}");
    }
}

#[tokio::test]
async fn a_new_connection_that_leaves_it_undone_as_well_is_the_last() {
    for instead in [Instead::Reset(REFUSED_STREAM), Instead::GoAway(NO_ERROR, 0)] {
        let (world, requests) = peers(move |mut peer, _| async move {
            let stream = peer.request().await?;
            instead.happens(&mut peer, stream).await
        })
        .await;
        let error = world.send(post("/")).await.unwrap_err();
        assert_eq!(error, SendError::NotSent(NotSent::Unusable), "{instead:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{instead:?}");
    }
}

#[tokio::test]
async fn what_a_peer_may_have_done_is_not_sent_again() {
    let (full, empty) = (post("/").body, Bytes::new());
    for (instead, body) in [
        (Instead::Reset(CANCEL), &full),
        (Instead::Reset(INTERNAL_ERROR), &full),
        (Instead::Reset(NO_ERROR), &full),
        (Instead::GoAway(NO_ERROR, 3), &full),
        (Instead::GoAway(INTERNAL_ERROR, 1), &full),
        (Instead::GoAway(ENHANCE_YOUR_CALM, 1), &full),
        (Instead::HangUp, &full),
        // It is unknown whether hyper had handed it over.
        (Instead::GoAway(NO_ERROR, 1), &empty),
    ] {
        let (world, requests) = answers_once_and_then(instead).await;
        world.send(post("/")).await.unwrap();
        let request = Request {
            body: body.clone(),
            ..post("/")
        };
        let error = world.send(request).await.unwrap_err();
        let broken = SendError::NoAnswer(NoAnswer::Broken);
        assert_eq!(error, broken, "{instead:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 2, "{instead:?}");
    }
}

/// Peers that send this head and `half`, and then do this.
async fn gives_half(fields: &'static [u8], instead: Instead) -> World {
    let serving = peers(move |mut peer, _| async move {
        let stream = peer.request().await?;
        peer.head(stream, fields).await?;
        peer.say(DATA, 0, stream, b"half").await?;
        instead.happens(&mut peer, stream).await
    });
    serving.await.0
}

#[tokio::test]
async fn an_answer_that_was_broken_off_is_not_whole_however_politely() {
    for (instead, why) in [
        (Instead::Reset(NO_ERROR), NoAnswer::Broken),
        (Instead::Reset(CANCEL), NoAnswer::Broken),
        (Instead::Reset(REFUSED_STREAM), NoAnswer::Broken),
        (Instead::GoAway(NO_ERROR, 0), NoAnswer::Broken),
        (Instead::HangUp, NoAnswer::Broken),
        (Instead::Nothing, NoAnswer::Deadline),
    ] {
        let world = gives_half(STATUS_410, instead).await;
        // Long enough to receive a head. Short, because the test waits for it only if the deadline is expected.
        let deadline = match why {
            NoAnswer::Deadline => Duration::from_secs(1),
            NoAnswer::Broken => post("/").deadline,
        };
        let request = || Request {
            deadline,
            ..post("/")
        };
        let answer = world.client.send_for_head(request()).await.unwrap();
        assert_eq!(answer.unfinished, Some(why), "{instead:?}");
        assert_eq!(answer.response.status.as_u16(), 410, "{instead:?}");
        assert_eq!(&answer.response.body[..], b"half", "{instead:?}");
        let strict = world.send(request()).await.unwrap_err();
        assert_eq!(strict, SendError::NoAnswer(why), "{instead:?}");
        assert_eq!(
            world.secured(),
            2,
            "{instead:?}: no such connection is kept"
        );
    }
}

#[tokio::test]
async fn an_answer_as_long_as_announced_and_allowed_needs_no_other_end() {
    for (limit, truncated) in [(4, false), (2, true)] {
        let world = gives_half(STATUS_410_OF_4, Instead::Nothing).await;
        let request = Request {
            max_response: limit,
            ..post("/")
        };
        let response = world.send(request).await.unwrap();
        assert_eq!(&response.body[..], &b"half"[..limit]);
        assert_eq!(response.truncated, truncated);
    }
}

#[tokio::test]
async fn an_answer_that_is_dragged_out_ends_at_the_deadline() {
    const PAUSE: Duration = Duration::from_millis(5);
    let (interim, _) = peers(|mut peer, _| async move {
        let stream = peer.request().await?;
        loop {
            peer.head(stream, STATUS_102).await?;
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
    assert_eq!(in_time(&interim).await, NO_ANSWER, "interim answers");

    let (dripping, _) = peers(|mut peer, _| async move {
        let stream = peer.request().await?;
        // Announces a head with the maximum size of a frame.
        let mut head = vec![0, 0x40, 0, HEADERS, END_HEADERS];
        head.extend(stream.to_be_bytes());
        peer.stream.write_all(&head).await?;
        loop {
            peer.stream.write_all(STATUS_200).await?;
            peer.stream.flush().await?;
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
    assert_eq!(in_time(&dripping).await, NO_ANSWER, "a slow head");
}

#[tokio::test]
async fn a_head_in_endless_pieces_is_no_answer() {
    let (world, _) = peers(|mut peer, _| async move {
        let stream = peer.request().await?;
        peer.say(HEADERS, 0, stream, STATUS_200).await?;
        loop {
            peer.say(CONTINUATION, 0, stream, &[]).await?;
        }
    })
    .await;
    let error = world.send(post("/")).await.unwrap_err();
    assert_eq!(error, SendError::NoAnswer(NoAnswer::Broken));
}

#[tokio::test]
async fn a_request_that_may_not_begin_ends_at_the_deadline() {
    let (world, requests) = peers(|mut peer, _| async move {
        let first = peer.request().await?;
        let mut none = MAX_CONCURRENT_STREAMS.to_be_bytes().to_vec();
        none.extend(0u32.to_be_bytes());
        peer.say(SETTINGS, 0, 0, &none).await?;
        peer.whole(first).await?;
        peer.hold().await
    })
    .await;
    world.send(post("/")).await.unwrap();
    assert_eq!(in_time(&world).await, NO_ANSWER);
    assert_eq!(requests.load(Ordering::SeqCst), 1, "nothing else was asked");
}
