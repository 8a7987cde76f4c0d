//! One connection: its peer, and how long it may take.

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

/// How long a request's head may take from its first byte, the first one from the connection, and the
/// handshake of TLS before it.
const HEAD: Duration = Duration::from_secs(10);
/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(10);
/// How long a connection may stay without a request.
const IDLE: Duration = Duration::from_secs(60);
/// Concurrent streams of one HTTP/2 connection.
const STREAMS: u32 = 100;
/// Requests under way on an HTTP/2 connection beyond which one whose sender holds too many bytes is not
/// answered but refused as a stream.
pub(crate) const OVER_BUDGET_STREAMS: usize = 4;
/// Most bytes of a request's head, which no budget counts until it is whole.
pub(crate) const HEAD_BYTES: usize = OWN;
/// What a request takes beside its head and body, its stream and its task included.
pub(crate) const REQUEST_BYTES: usize = 4 << 10;
/// Bytes of bodies that one HTTP/2 stream, and one connection, may send before they are read.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
/// Answers up to this are given whatever their sender holds, and on HTTP/1 fit the socket's buffer.
const SMALL_ANSWER: u64 = 16 << 10;

/// Frames of an HTTP/2 connection that carry no body: so many at once, and so many a second. A peer's
/// pings, settings and window updates are a fraction; a flood of them is read slowly.
pub(crate) const SPARE: i64 = 256;
pub(crate) const SPARE_PER_SECOND: i64 = 32;
/// Those of a request: its head, and what may belong to it.
const REQUEST_FRAMES: i64 = 3;
/// What a refused request uses up of them: four a second are read in the long run.
const REFUSAL: i64 = SPARE_PER_SECOND / 4 + REQUEST_FRAMES;
/// How often it is looked whether more may be read.
pub(crate) const PACE: Duration = Duration::from_millis(25);

/// How long a peer may take nothing of what we write.
const WRITE: Duration = Duration::from_secs(30);
/// How long what a peer still sends is read and thrown away once it has been answered and told that
/// the connection ends. Closing at once would reset it, and the peer might never see the answer.
const LINGER: Duration = Duration::from_secs(5);

/// Bytes of it that are read where HTTP/2 was spoken: what a peer has on the way that is about to close.
/// A peer that sends more waits on its own side.
const HTTP2_WASTE: usize = 64 << 10;

/// How long a connection is not read whose request was refused for want of room. A client that follows
/// `Retry-After` does not notice; one that sends on regardless waits on its own side, at no cost to the
/// clients that are served, where each refusal costs as much as a small answer.
const PAUSE: Duration = Duration::from_millis(250);

/// The other end of a connection, and what it holds.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) proxies: Proxies,
    pub(super) connection: ConnectionBudget,
    /// The listener has been told to stop.
    pub(super) stop: CancellationToken,
}

impl Peer {
    /// What a request holds: nothing yet.
    fn reservation(&self, request: &Request<Incoming>) -> Reservation {
        let client = self.proxies.client(self.address.ip(), request.headers());
        self.connection.reservation(client, true)
    }
}

fn whole(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes of a request without its body.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len());
    let target = request.uri().path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    fields.sum::<usize>() + target + REQUEST_BYTES
}

/// What a peer may be too slow with: sending a head, sending a request, taking an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Head,
    Request,
    Answer,
}

/// How long a connection may take for what. Constants, but for tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// A request's head from its first byte, the first one from the connection, a handshake of TLS.
    pub(crate) head: Duration,
    /// A request's body.
    pub(crate) body: Duration,
    /// Without a request.
    pub(crate) idle: Duration,
    /// Without a byte taken of an answer.
    pub(crate) write: Duration,
    /// With the rest of a body that no handler reads.
    pub(crate) linger: Duration,
    /// Until it is read again after an answer with [`PauseReading`].
    pub(crate) pause: Duration,
}

impl Timeouts {
    /// Those of every listener.
    pub(crate) const USUAL: Self = Self {
        head: HEAD,
        body: BODY,
        idle: IDLE,
        write: WRITE,
        linger: LINGER,
        pause: PAUSE,
    };
}

/// Serves one connection to its end.
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
        // On HTTP/1 there is one head at a time, and no more than the connection has of its own.
        let over_budget = (!bodiless || open_stream.is_some()) && {
            let head = head_bytes(&request);
            reservation.reserve(head).is_err()
        };
        // Where there is no body nothing has to be timed.
        let body = |body: Incoming| match bodiless {
            true => Body::empty(),
            false => {
                let (reservation, phase) = (Arc::clone(&reservation), Arc::clone(&phase));
                Body::new(TimedBody::new(body, times.body, phase, reservation))
            }
        };
        // Answers that it does not take would be kept for it, however small.
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
        // Of its own it would set a timer for each request; [`Timed`] has one for all of them.
        .header_read_timeout(None)
        // Answers are small: copying a body behind its head is cheaper than telling of two pieces.
        .writev(false)
        .max_buf_size(HEAD_BYTES)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Some(IDLE / 2))
        .keep_alive_timeout(IDLE / 2);
    // An error here is the peer's going away or misbehaving; no peer is left to tell.
    let _ = watcher.watch(builder.serve_connection(io, service)).await;
}

/// What a connection is doing, as far as its time-outs care, and since when.
pub(super) struct Phase {
    now: AtomicU8,
    /// Milliseconds from `opened` to its begin; kept for phases that end by themselves.
    since: AtomicU64,
    opened: Instant,
    /// The last request was answered without its whole body having been read.
    unread: AtomicBool,
    /// The requests under way where HTTP/2 is spoken.
    streams: OpenStreams,
    /// Frames without a body that may still be read, where HTTP/2 is spoken.
    spare: AtomicI64,
    /// What a large answer on HTTP/1 holds until it is sent.
    unsent: Mutex<Option<Arc<Reservation>>>,
    /// The listener has been told to stop.
    stop: CancellationToken,
}

impl Phase {
    /// Nothing has arrived yet: the first head's time runs.
    const FIRST: u8 = 0;
    /// A request is being answered.
    const ANSWERING: u8 = 1;
    /// Answered; the next byte begins the next head.
    const IDLE: u8 = 2;
    /// Bytes of a head have arrived.
    const HEAD: u8 = 3;
    /// A first request of HTTP/2 has arrived: many share the connection, and [`OpenStreams`] times them.
    const HTTP2: u8 = 4;
    /// Refused; what comes next has to wait.
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

    /// So many more frames may be read, up to what a new connection may send.
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

    /// When the phase began.
    fn since(&self) -> Instant {
        self.opened + Duration::from_millis(self.since.load(Ordering::Relaxed))
    }
}

/// A stream that fails once its peer is too slow: a byte a second must not hold a connection.
struct Timed<S> {
    stream: S,
    phase: Arc<Phase>,
    times: Timeouts,
    reading: Alarm,
    /// Since when nothing of what we write is taken.
    stuck: Option<Instant>,
    writing: Option<Alarm>,
    /// Since when our side is closed.
    closed: Option<Instant>,
    lingering: Option<Alarm>,
    /// Bytes that were thrown away since.
    wasted: usize,
    pausing: Option<Alarm>,
    frames: Frames,
    /// When frames that carry no body were last granted.
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

    /// Ready once more frames may be read that carry no body.
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

    /// Ready once the pause is over, where there is one.
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

    /// Fails where the peer sends nothing although it is its turn, for too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (due, wait) = match self.phase.get() {
            Phase::HTTP2 => {
                let write = self.write_time();
                let times = Timeouts {
                    write,
                    ..self.times
                };
                let late = self.phase.streams.late_at(&times);
                // Where it is our turn the alarm looks again.
                late.unwrap_or_else(|| (Instant::now() + write, Wait::Answer))
            }
            Phase::FIRST | Phase::HEAD => (self.phase.since() + self.times.head, Wait::Head),
            Phase::IDLE => (self.phase.since() + self.times.idle, Wait::Request),
            // It is our turn. The stream is not read again once the answer is given, so the alarm that will go
            // off in the idle time is set already.
            _ => (Instant::now() + self.times.idle, Wait::Request),
        };
        self.reading.poll(cx, due).map(|()| late(wait))
    }

    /// How long a peer may take nothing. A stop waits less for one who has taken nothing for a while.
    fn write_time(&self) -> Duration {
        match self.phase.stop.is_cancelled() {
            true => self.times.write.min(self.times.linger),
            false => self.times.write,
        }
    }

    /// What a write has come to; fails where the peer has taken nothing for too long.
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
    /// Reads and throws away so many bytes, until the peer has ended too, for a while.
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

/// The error of a peer that took too long to send a head or a request, or to take an answer.
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

/// A timer whose time is mostly put off before it comes. It is only set anew once it has gone off, or
/// for an earlier time: setting one takes a lock that all connections share.
struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    fn at(due: Instant) -> Self {
        Self(Box::pin(sleep_until(due)))
    }

    /// Ready once `due` has come.
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
            // What was buffered before is with the system now.
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
            // One that broke the protocol sends on; if it were closed at once, it would be opened at once again.
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
