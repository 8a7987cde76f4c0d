//! One connection: who is at the other end, and how long it may take.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tower::ServiceExt as _;

/// How long a request's head may take from its first byte, and the first one from the connection.
pub(super) const HEAD: Duration = Duration::from_secs(10);
/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(10);
/// How long a connection may stay without a request.
const IDLE: Duration = Duration::from_secs(60);
/// Concurrent streams of one HTTP/2 connection.
const STREAMS: u32 = 100;
/// Most bytes of a request's head.
const HEAD_BYTES: usize = 32 << 10;

/// Serves one connection to its end.
pub(super) async fn run<S>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
    head: Duration,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let phase = Arc::new(Phase::default());
    let io = TokioIo::new(Timed::new(stream, Arc::clone(&phase), head));
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, phase) = (router.clone(), Arc::clone(&phase));
        async move {
            phase.set(Phase::ANSWERING);
            let mut request = request.map(|body| Body::new(TimedBody::new(body)));
            request.extensions_mut().insert(ConnectInfo(peer));
            let response: Result<Response<Body>, Infallible> = router.oneshot(request).await;
            phase.set(Phase::IDLE);
            response
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD_BYTES)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .keep_alive_interval(Some(IDLE / 2))
        .keep_alive_timeout(IDLE / 2);
    // An error here is the peer's going away or misbehaving; there is nobody left to tell.
    let _ = watcher.watch(builder.serve_connection(io, service)).await;
}

/// What a connection is doing, as far as its time-outs care.
#[derive(Default)]
struct Phase(AtomicU8);

impl Phase {
    /// Nothing has arrived yet: the first head's time runs.
    const FIRST: u8 = 0;
    /// A request is being answered.
    const ANSWERING: u8 = 1;
    /// Answered; the next byte begins the next head.
    const IDLE: u8 = 2;
    /// Bytes of a head have arrived.
    const HEAD: u8 = 3;
    /// HTTP/2 has begun: many requests share the connection, and its own pings watch it.
    const HTTP2: u8 = 4;

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        if self.get() != Self::HTTP2 {
            self.0.store(phase, Ordering::Relaxed);
        }
    }
}

/// A stream that fails once a head takes too long: a byte a second must not hold a connection.
struct Timed<S> {
    stream: S,
    phase: Arc<Phase>,
    deadline: Pin<Box<Sleep>>,
    head: Duration,
    fresh: bool,
}

impl<S> Timed<S> {
    fn new(stream: S, phase: Arc<Phase>, head: Duration) -> Self {
        Self {
            stream,
            phase,
            deadline: Box::pin(sleep(head)),
            head,
            fresh: true,
        }
    }

    /// Notes that bytes have arrived.
    fn arrived(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.fresh) && bytes.starts_with(b"PRI ") {
            self.phase.set(Phase::HTTP2);
        } else if self.phase.get() == Phase::IDLE {
            self.phase.set(Phase::HEAD);
            self.deadline
                .as_mut()
                .reset(tokio::time::Instant::now() + self.head);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let bytes = &buffer.filled()[before..];
                if !bytes.is_empty() {
                    self.arrived(bytes);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if matches!(self.phase.get(), Phase::FIRST | Phase::HEAD) => {
                match self.deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A request's body that fails once it takes too long.
struct TimedBody {
    body: Incoming,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    const fn new(body: Incoming) -> Self {
        Self {
            body,
            deadline: None,
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
            Poll::Pending => {
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(BODY)));
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
