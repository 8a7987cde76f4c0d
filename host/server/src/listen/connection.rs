//! One connection: its peer and its timeouts.

mod body;
mod streams;

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use futures_util::future::Either;
use h2::Reason;
use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use self::body::TimedBody;
#[cfg(test)]
pub(crate) use self::streams::LEAST_TAKEN;
use self::streams::{Answer, OpenStream, OpenStreams};
use super::frames::Frames;
use crate::proxies::Proxies;
use crate::web::budget::{ConnectionBudget, OWN, Reservation};
use crate::web::marks::{OverBudget, PauseReading};

/// Timeout of a request's head from its first byte, of the first head from the start of the connection, and of the
/// TLS handshake before it.
const HEAD: Duration = Duration::from_secs(10);
/// Timeout of a request's body.
const BODY: Duration = Duration::from_secs(10);
/// Time that a connection may stay open without a request. Longer than the 60 s that most load balancers use, so
/// that none sends a request over a connection that is being closed.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
/// Time without a frame after which an HTTP/2 peer is pinged, and time that the peer has to respond.
const QUIET: Duration = Duration::from_secs(30);
/// Maximum number of concurrent streams of an HTTP/2 connection.
const STREAMS: u32 = 100;
/// Number of concurrent requests on an HTTP/2 connection above which a request over budget is rejected with
/// `REFUSED_STREAM` instead of a response.
pub(crate) const OVER_BUDGET_STREAMS: usize = 4;
/// Maximum size of a request's head, in bytes. No budget counts a head before it is complete.
pub(crate) const HEAD_BYTES: usize = OWN;
/// Bytes that a request uses besides its head and body, including its stream and task.
pub(crate) const REQUEST_BYTES: usize = 4 << 10;
/// Bytes of bodies that an HTTP/2 stream or connection may send before the server has read them.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
/// Maximum size of responses, in bytes, that are sent regardless of the sender's budget. On HTTP/1, they fit into
/// the socket's buffer.
const SMALL_ANSWER: u64 = 16 << 10;

/// HTTP/2 frames without body data that are allowed at once, and per second. Normal pings, settings and window
/// updates need a fraction; a flood is read slowly.
pub(crate) const SPARE: i64 = 256;
pub(crate) const SPARE_PER_SECOND: i64 = 32;
/// Frames that a request may use: its head and what belongs to it.
const REQUEST_FRAMES: i64 = 3;
/// Frames that a rejected request costs. In the long run, four rejected requests per second are read.
const REFUSAL: i64 = SPARE_PER_SECOND / 4 + REQUEST_FRAMES;
/// Interval for checks whether more frames may be read.
pub(crate) const PACE: Duration = Duration::from_millis(25);

/// Time within which a peer must read some of the data that the server writes.
const WRITE: Duration = Duration::from_secs(30);
/// Time for which the server reads and discards further data from the peer after the response and the end of the
/// connection. Closing immediately would reset the connection, and the peer might not receive the response.
const LINGER: Duration = Duration::from_secs(5);

/// Bytes that are discarded this way on HTTP/2: about as much as is in transit. A peer that sends more waits.
const HTTP2_WASTE: usize = 64 << 10;

/// Time for which a connection is not read after a request was rejected for lack of capacity. A client that obeys
/// `Retry-After` does not notice. Other clients are not slowed down by rejections, each of which costs as much as a
/// small response.
const PAUSE: Duration = Duration::from_millis(250);

/// The other end of a connection, with its byte budget.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) proxies: Proxies,
    pub(super) connection: ConnectionBudget,
    /// Cancelled when the listener stops.
    pub(super) stop: CancellationToken,
}

impl Peer {
    /// A reservation for a request that does not hold any bytes yet.
    fn reservation(&self, request: &Request<Incoming>) -> Reservation {
        let client = self.proxies.client(self.address.ip(), request.headers());
        self.connection.reservation(client, true)
    }
}

fn whole(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Size of a request without its body, in bytes, including [`REQUEST_BYTES`].
fn head_bytes(request: &Request<Incoming>) -> usize {
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len());
    let target = request.uri().path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    fields.sum::<usize>() + target + REQUEST_BYTES
}

/// The action that a peer is too slow with: sending a head, sending a request, or reading a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Head,
    Request,
    Answer,
}

/// Timeouts of a connection. Constant, except in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For a request's head from its first byte, the first head from the start of the connection, and a TLS
    /// handshake.
    pub(crate) head: Duration,
    /// For a request's body.
    pub(crate) body: Duration,
    /// For a connection without a request.
    pub(crate) idle: Duration,
    /// For a peer that reads nothing of a response.
    pub(crate) write: Duration,
    /// For discarding the rest of a body that no handler reads.
    pub(crate) linger: Duration,
    /// Pause before the connection is read again after a response with [`PauseReading`].
    pub(crate) pause: Duration,
}

impl Timeouts {
    /// Timeouts of all listeners.
    pub(crate) const USUAL: Self = Self {
        head: HEAD,
        body: BODY,
        idle: IDLE,
        write: WRITE,
        linger: LINGER,
        pause: PAUSE,
    };
}

/// Serves a connection until it ends.
pub(super) async fn run<S>(stream: S, peer: Peer, router: Router, watcher: Watcher, times: Timeouts)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let phase = Arc::new(Phase::first(peer.stop.clone()));
    let io = TokioIo::new(Timed::new(stream, Arc::clone(&phase), times));
    let service = service_fn(move |request: Request<Incoming>| {
        let open_stream = match request.version() {
            Version::HTTP_2 => {
                phase.set(Phase::HTTP2);
                phase.grant(REQUEST_FRAMES);
                Some(OpenStream::begin(&phase))
            }
            _ => {
                phase.set(Phase::ANSWERING);
                None
            }
        };
        phase.unread.store(false, Ordering::Relaxed);
        let bodiless = request.body().is_end_stream();
        let reservation = Arc::new(peer.reservation(&request));
        // HTTP/1 has one head at a time, which fits into the connection's own bytes.
        let over_budget = (!bodiless || open_stream.is_some()) && {
            let head = head_bytes(&request);
            reservation.reserve(head).is_err()
        };
        // Without a body, no timeout is needed.
        let body = |body: Incoming| match bodiless {
            true => Body::empty(),
            false => {
                let (reservation, phase) = (Arc::clone(&reservation), Arc::clone(&phase));
                Body::new(TimedBody::new(body, times.body, phase, reservation))
            }
        };
        // The peer does not read its responses, which would have to be kept in memory, even small ones.
        if over_budget && phase.streams.open() > OVER_BUDGET_STREAMS {
            phase.grant(-REFUSAL);
            return Either::Left(ready(Err(Reason::REFUSED_STREAM.into())));
        }
        let refused = super::head::refusal(&request);
        let mut request = request.map(body);
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(peer.address));
        extensions.insert(Arc::clone(&reservation));
        if over_budget {
            extensions.insert(OverBudget);
        }
        // A router is always ready.
        let (answer, phase) = (router.clone().call(request), Arc::clone(&phase));
        Either::Right(async move {
            let Ok(mut response): Result<Response<Body>, Infallible> = match refused {
                Some(response) => Ok(response),
                None => answer.await,
            };
            let bytes = response.body().size_hint().lower();
            if bytes > SMALL_ANSWER {
                if reservation.reserve(whole(bytes)).is_err() {
                    response = super::head::over_budget(&response);
                }
            } else if open_stream.is_some() {
                reservation.charge(whole(bytes));
            }
            let pause = response.extensions().get::<PauseReading>().is_some();
            let Some(open_stream) = open_stream else {
                if bytes > SMALL_ANSWER {
                    *phase.unsent.lock() = Some(reservation);
                }
                if response.body().size_hint().exact().is_none() {
                    return Ok(response.map(|body| Answer::streamed(body, phase)));
                }
                phase.set(if pause { Phase::REFUSED } else { Phase::IDLE });
                return Ok::<_, h2::Error>(response.map(Answer::whole));
            };
            if pause {
                phase.grant(-REFUSAL);
            }
            Ok(response.map(|body| Answer::shared(body, open_stream, reservation)))
        })
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        // hyper would set a timer per request. [`Timed`] has one for all requests.
        .header_read_timeout(None)
        // Responses are small: copying a body behind its head is cheaper than a vectored write.
        .writev(false)
        .max_buf_size(HEAD_BYTES)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Some(QUIET))
        .keep_alive_timeout(QUIET);
    // An error means that the peer closed the connection or violated the protocol. It cannot be reported to the
    // peer.
    let _ = watcher.watch(builder.serve_connection(io, service)).await;
}

/// State of a connection for its timeouts, and the time since when.
pub(super) struct Phase {
    now: AtomicU8,
    /// Milliseconds from `opened` to the start of the phase. Set only for phases that have a timeout.
    since: AtomicU64,
    opened: Instant,
    /// Whether the body of the last request was not read to its end.
    unread: AtomicBool,
    /// Requests in flight on HTTP/2.
    streams: OpenStreams,
    /// Frames without body data that may still be read on HTTP/2.
    spare: AtomicI64,
    /// Reservation of a large response on HTTP/1 until it is sent.
    unsent: Mutex<Option<Arc<Reservation>>>,
    /// Cancelled when the listener stops.
    stop: CancellationToken,
}

impl Phase {
    /// No data yet. The timeout of the first head runs.
    const FIRST: u8 = 0;
    /// A request is being processed.
    const ANSWERING: u8 = 1;
    /// The response is complete. The next byte starts the next head.
    const IDLE: u8 = 2;
    /// Bytes of a head have arrived.
    const HEAD: u8 = 3;
    /// A first HTTP/2 request has arrived. From now on, [`OpenStreams`] provides the timeouts.
    const HTTP2: u8 = 4;
    /// A request was rejected. Reading pauses.
    const REFUSED: u8 = 5;

    fn first(stop: CancellationToken) -> Self {
        Self {
            stop,
            now: AtomicU8::new(Self::FIRST),
            since: AtomicU64::new(0),
            opened: Instant::now(),
            unread: AtomicBool::new(false),
            streams: OpenStreams::none(),
            spare: AtomicI64::new(SPARE),
            unsent: Mutex::new(None),
        }
    }

    /// Allows more frames to be read, up to the allowance of a new connection. Negative numbers take frames away.
    pub(super) fn grant(&self, frames: i64) {
        let granted = |now: i64| Some(now.saturating_add(frames).min(SPARE));
        let _always = (self.spare).fetch_update(Ordering::Relaxed, Ordering::Relaxed, granted);
    }

    fn get(&self) -> u8 {
        self.now.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        if self.get() == Self::HTTP2 {
            return;
        }
        if matches!(phase, Self::HEAD | Self::IDLE | Self::REFUSED) {
            let since = self.opened.elapsed().as_millis();
            let since = u64::try_from(since).unwrap_or(u64::MAX);
            self.since.store(since, Ordering::Relaxed);
        }
        self.now.store(phase, Ordering::Relaxed);
    }

    /// Start of the phase.
    fn since(&self) -> Instant {
        self.opened + Duration::from_millis(self.since.load(Ordering::Relaxed))
    }
}

/// A stream that fails when its peer is too slow. A peer must not hold a connection with a byte per second.
struct Timed<S> {
    stream: S,
    phase: Arc<Phase>,
    times: Timeouts,
    reading: Alarm,
    /// Start of the current period in which the peer reads nothing. `None` if it reads.
    stuck: Option<Instant>,
    writing: Option<Alarm>,
    /// Time at which the server's side was closed.
    closed: Option<Instant>,
    lingering: Option<Alarm>,
    /// Bytes discarded since then.
    wasted: usize,
    pausing: Option<Alarm>,
    frames: Frames,
    /// Time at which frames without body data were last granted.
    granted: Instant,
    pacing: Option<Alarm>,
}

impl<S> Timed<S> {
    fn new(stream: S, phase: Arc<Phase>, times: Timeouts) -> Self {
        Self {
            stream,
            reading: Alarm::at(phase.opened + times.head),
            phase,
            times,
            stuck: None,
            writing: None,
            closed: None,
            lingering: None,
            wasted: 0,
            pausing: None,
            frames: Frames::new(),
            granted: Instant::now(),
            pacing: None,
        }
    }

    /// Ready when more frames without body data may be read.
    fn poll_pace(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let used_up = || self.phase.spare.load(Ordering::Relaxed) < 0;
        let proxy = self.times.pause.is_zero();
        if proxy || !used_up() {
            return Poll::Ready(());
        }
        let passed = i64::try_from(self.granted.elapsed().as_millis()).unwrap_or(i64::MAX);
        let frames = passed.saturating_mul(SPARE_PER_SECOND) / 1000;
        if frames > 0 {
            self.granted = Instant::now();
            self.phase.grant(frames);
        }
        if !used_up() {
            return Poll::Ready(());
        }
        metrics::counter!("kassette_http2_pauses_total").increment(1);
        let due = Instant::now() + PACE;
        let alarm = self.pacing.insert(Alarm::at(due));
        alarm.poll(cx, due)
    }

    /// Ready when the pause is over, or if there is none.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.phase.get() != Phase::REFUSED {
            return Poll::Ready(());
        }
        let due = self.phase.since() + self.times.pause;
        let alarm = self.pausing.get_or_insert_with(|| Alarm::at(due));
        ready!(alarm.poll(cx, due));
        self.phase.set(Phase::IDLE);
        Poll::Ready(())
    }

    /// Ready with an error when the peer has been too slow for longer than the timeout of the current phase.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (due, wait) = match self.phase.get() {
            Phase::HTTP2 => {
                let write = self.write_time();
                let times = Timeouts {
                    write,
                    ..self.times
                };
                let late = self.phase.streams.late_at(&times);
                // It is the server's turn. The alarm checks again later.
                late.unwrap_or_else(|| (Instant::now() + write, Wait::Answer))
            }
            Phase::FIRST | Phase::HEAD => (self.phase.since() + self.times.head, Wait::Head),
            Phase::IDLE => (self.phase.since() + self.times.idle, Wait::Request),
            // It is the server's turn. The stream is not read again after the response, so the alarm for the idle
            // timeout is set now.
            _ => (Instant::now() + self.times.idle, Wait::Request),
        };
        self.reading.poll(cx, due).map(|()| late(wait))
    }

    /// Time that a peer may read nothing. Shorter during a stop.
    fn write_time(&self) -> Duration {
        match self.phase.stop.is_cancelled() {
            true => self.times.write.min(self.times.linger),
            false => self.times.write,
        }
    }

    /// Handles the result of a write. Fails if the peer has read nothing for too long.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stuck = None;
            return outcome;
        }
        let since = *self.stuck.get_or_insert_with(Instant::now);
        let due = since + self.write_time();
        let alarm = self.writing.get_or_insert_with(|| Alarm::at(due));
        alarm.poll(cx, due).map(|()| Err(late(Wait::Answer)))
    }
}

impl<S: AsyncRead + Unpin> Timed<S> {
    /// Reads and discards up to `most` bytes until the peer closes its side, but not after `due`.
    fn poll_waste(&mut self, cx: &mut Context<'_>, due: Instant, most: usize) -> Poll<()> {
        let mut waste = [0; 16 << 10];
        while Instant::now() < due && self.wasted < most {
            let mut buffer = ReadBuf::new(&mut waste);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.wasted = self.wasted.saturating_add(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        let alarm = self.lingering.get_or_insert_with(|| Alarm::at(due));
        alarm.poll(cx, due)
    }
}

/// Counts a timeout and returns its error.
pub(super) fn late(wait: Wait) -> io::Error {
    let waited_for = match wait {
        Wait::Head => "head",
        Wait::Request => "request",
        Wait::Answer => "answer",
    };
    metrics::counter!("kassette_connections_timed_out_total", "waited_for" => waited_for)
        .increment(1);
    io::ErrorKind::TimedOut.into()
}

/// A timer that is usually postponed before it expires. It is reset only after it has expired, or for an earlier
/// time, because setting a timer takes a lock that all connections share.
struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    fn at(due: Instant) -> Self {
        Self(Box::pin(sleep_until(due)))
    }

    /// Ready at `due`.
    fn poll(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        if self.0.deadline() > due {
            self.0.as_mut().reset(due);
        }
        while self.0.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.0.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_pause(cx));
        if self.poll_pace(cx).is_pending() {
            return self.poll_late(cx).map(Err);
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let read = &buffer.filled()[before..];
                if self.phase.get() == Phase::IDLE && !read.is_empty() {
                    self.phase.set(Phase::HEAD);
                }
                let frames = self.frames.count(read);
                if frames > 0 {
                    self.phase.spare.fetch_sub(frames, Ordering::Relaxed);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_late(cx).map(Err),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        let flushed = self.written(cx, outcome);
        if flushed.is_ready() {
            // All buffered data has been passed to the operating system.
            self.phase.unsent.lock().take();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closed.is_none() {
            let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
            match self.written(cx, outcome) {
                Poll::Ready(Ok(())) => self.closed = Some(Instant::now()),
                other => return other,
            }
        }
        let phase = &self.phase;
        let most = match phase.get() {
            // A peer that violated the protocol may keep sending. If the connection were closed immediately, the
            // peer would open another one immediately.
            Phase::HTTP2 if !phase.stop.is_cancelled() => HTTP2_WASTE,
            Phase::HTTP2 => return Poll::Ready(Ok(())),
            _ if phase.unread.load(Ordering::Relaxed) => usize::MAX,
            _ => return Poll::Ready(Ok(())),
        };
        let due = self
            .closed
            .map_or_else(Instant::now, |at| at + self.times.linger);
        self.poll_waste(cx, due, most).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
