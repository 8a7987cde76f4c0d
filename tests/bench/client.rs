//! The load generator: keep-alive HTTP/1.1 over raw sockets with prepared requests. Floor and gateway get the same
//! load. It must be cheap, because it shares their cores.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Maximum length of a response in bytes.
const LONGEST: usize = 1 << 20;

/// Result of a run.
pub(crate) struct Measured {
    /// Duration of the run. Only responses that arrived within it count.
    pub(crate) took: Duration,
    /// Number of responses by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Durations of responses with a status below 400, in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// Durations of all other responses, in microseconds.
    pub(crate) refusals: Histogram<u64>,
}

impl Measured {
    fn new() -> Self {
        // Up to a minute, with three digits.
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
        Self {
            took: Duration::ZERO,
            statuses: BTreeMap::new(),
            latency: histogram(),
            refusals: histogram(),
        }
    }

    fn record(&mut self, status: u16, took: Duration) {
        *self.statuses.entry(status).or_insert(0) += 1;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let histogram = if status < 400 {
            &mut self.latency
        } else {
            &mut self.refusals
        };
        histogram.saturating_record(micros);
    }

    /// Responses per second with one of these statuses.
    pub(crate) fn rate(&self, statuses: &[u16]) -> f64 {
        let counted = self.statuses.iter();
        let counted = counted.filter(|(status, _)| statuses.contains(status));
        let answers: u64 = counted.map(|(_, answers)| answers).sum();
        answers as f64 / self.took.as_secs_f64()
    }

    /// A percentile of the latency, in milliseconds.
    pub(crate) fn percentile_ms(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1000.0
    }
}

/// Writes the next request into an empty buffer. Returns `false` if there is no further one.
pub(crate) type Requests = Box<dyn FnMut(&mut Vec<u8>) -> bool>;

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::try_open(address).await.unwrap()
    }

    /// Opens a connection to a server that may be gone.
    pub(crate) async fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            request: Vec::with_capacity(1024),
            answer: Vec::with_capacity(16 << 10),
        })
    }

    /// Sends the request that `fill` writes, and returns the status. `None` if `fill` has no request.
    pub(crate) async fn ask(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<u16> {
        self.request.clear();
        if !fill(&mut self.request) {
            return None;
        }
        Some(self.exchange().await.unwrap())
    }

    /// Sends a request to a server that may be gone, and returns the status.
    pub(crate) async fn try_ask(&mut self, request: Vec<u8>) -> io::Result<u16> {
        self.request = request;
        self.exchange().await
    }

    async fn exchange(&mut self) -> io::Result<u16> {
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await?;
            if read == 0 {
                let why = "the connection was closed instead of an answer";
                return Err(io::Error::other(why));
            }
            assert!(self.answer.len() < LONGEST, "an answer without end");
            if let Some(head) = head_end(&self.answer)
                && self.answer.len() >= head + content_length(&self.answer[..head])
            {
                return Ok(status(&self.answer));
            }
        }
    }

    /// A header of the last response. `name` is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(&self.answer[..head_end(&self.answer)?]).ok()?;
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// Body of the last response.
    pub(crate) fn body(&self) -> &[u8] {
        &self.answer[head_end(&self.answer).unwrap_or(self.answer.len())..]
    }
}

fn head_end(answer: &[u8]) -> Option<usize> {
    memchr::memmem::find(answer, b"\r\n\r\n").map(|at| at + 4)
}

fn content_length(head: &[u8]) -> usize {
    let name = b"\r\ncontent-length: ";
    let at = memchr::memmem::find(head, name).expect("an answer without content-length");
    let digits = head[at + name.len()..].iter();
    digits
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

fn status(answer: &[u8]) -> u16 {
    let digits = answer
        .get(9..12)
        .and_then(|text| std::str::from_utf8(text).ok());
    digits.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Runs a future on a single thread, as the load does.
pub(crate) fn alone<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, work)
}

/// Closed loop: each connection sends its next request after the response to the previous one, until the time has
/// passed or requests run out. `seen` gets each response.
pub(crate) fn closed(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    requests: Requests,
    seen: impl FnMut(u16, &[u8]) + 'static,
) -> Measured {
    closed_over(&[address], connections, time, requests, seen)
}

/// A closed loop over several servers, which share the connections equally.
pub(crate) fn closed_over(
    addresses: &[SocketAddr],
    connections: usize,
    time: Duration,
    requests: Requests,
    seen: impl FnMut(u16, &[u8]) + 'static,
) -> Measured {
    alone(async move {
        let requests = Rc::new(RefCell::new(requests));
        let seen = Rc::new(RefCell::new(seen));
        let measured = Rc::new(RefCell::new(Measured::new()));
        let mut open = Vec::with_capacity(connections);
        for address in addresses.iter().cycle().take(connections) {
            open.push(Connection::open(*address).await);
        }
        let began = Instant::now();
        let end = began + time;
        let tasks: Vec<_> = open
            .into_iter()
            .map(|mut connection| {
                let (requests, seen) = (Rc::clone(&requests), Rc::clone(&seen));
                let measured = Rc::clone(&measured);
                tokio::task::spawn_local(async move {
                    let mut sent = Instant::now();
                    loop {
                        let next = |request: &mut Vec<u8>| (requests.borrow_mut())(request);
                        let Some(status) = connection.ask(next).await else {
                            return sent;
                        };
                        let now = Instant::now();
                        (seen.borrow_mut())(status, connection.body());
                        if now > end {
                            return end;
                        }
                        measured.borrow_mut().record(status, now - sent);
                        sent = now;
                    }
                })
            })
            .collect();
        let mut last = began;
        for task in tasks {
            last = last.max(task.await.unwrap());
        }
        let measured = Rc::try_unwrap(measured).ok().unwrap().into_inner();
        Measured {
            took: last - began,
            ..measured
        }
    })
}

/// Open loop: a fixed rate of requests per second, each on a free connection. Latencies count from the time at
/// which a request was due, so that waiting for a connection is included.
pub(crate) fn open(
    address: SocketAddr,
    connections: usize,
    rate: f64,
    time: Duration,
    requests: Requests,
) -> Measured {
    /// Interval at which due requests are released.
    const TICK: Duration = Duration::from_millis(1);
    alone(async move {
        let requests = Rc::new(RefCell::new(requests));
        let measured = Rc::new(RefCell::new(Measured::new()));
        let due = Due::default();
        for _ in 0..connections {
            let mut connection = Connection::open(address).await;
            let (due, requests) = (due.clone(), Rc::clone(&requests));
            let measured = Rc::clone(&measured);
            tokio::task::spawn_local(async move {
                loop {
                    let at = due.next().await;
                    let next = |request: &mut Vec<u8>| (requests.borrow_mut())(request);
                    let Some(status) = connection.ask(next).await else {
                        return;
                    };
                    let now = Instant::now();
                    measured.borrow_mut().record(status, now - at);
                }
            });
        }
        let began = Instant::now();
        let mut handed = 0.0;
        let mut ticks = tokio::time::interval(TICK);
        while began.elapsed() < time {
            ticks.tick().await;
            let now = began.elapsed().as_secs_f64();
            while handed < now * rate {
                due.put(began + Duration::from_secs_f64(handed / rate));
                handed += 1.0;
            }
        }
        // Requests that are still waiting do not count.
        let took = began.elapsed();
        let measured = measured.replace(Measured::new());
        Measured { took, ..measured }
    })
}

/// Times at which requests are due, for the next free connection on the same thread.
#[derive(Clone, Default)]
struct Due {
    times: Rc<RefCell<VecDeque<Instant>>>,
    there: Rc<Notify>,
}

impl Due {
    fn put(&self, at: Instant) {
        self.times.borrow_mut().push_back(at);
        self.there.notify_one();
    }

    async fn next(&self) -> Instant {
        loop {
            if let Some(next) = self.times.borrow_mut().pop_front() {
                return next;
            }
            self.there.notified().await;
        }
    }
}

/// Sends one request on a new connection and returns status and body.
pub(crate) fn once(address: SocketAddr, request: &[u8]) -> (u16, Vec<u8>) {
    alone(async move {
        let mut connection = Connection::open(address).await;
        let fill = |buffer: &mut Vec<u8>| {
            buffer.extend_from_slice(request);
            true
        };
        let status = connection.ask(fill).await.unwrap_or(0);
        (status, connection.body().to_vec())
    })
}
