//! Attacks on a listener by one sender with a few addresses, for benchmarks and end-to-end tests. Each runs on a
//! separate thread and opens connections again that the listener has closed.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio_util::sync::CancellationToken;

/// Bytes of an incomplete request head, less than the listener's limit.
const HEAD: usize = 15 << 10;
/// Delay before a connection is opened again.
const AGAIN: Duration = Duration::from_millis(20);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 2,000 connections that never complete a request.
    Held,
    /// 200 connections that send requests and do not read the responses.
    Unread,
    /// 50 connections, each with a hundred requests whose bodies do not end: callbacks, exchanges of a connecting
    /// shop, and creations of payments.
    Unended,
    /// 2,000 forged callbacks per second from 40 addresses, which exceeds the limit of an account for strangers.
    Forged,
    /// 16 connections that send one kind of HTTP/2 frame continuously.
    Frames(Frame),
    /// 64 connections that start payments. The vendor must be one that hangs.
    Hanging,
}

/// Frame that is sent continuously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Ping,
    Settings,
    WindowUpdate,
    Priority,
    EmptyData,
    Continuation,
    /// A request that is reset at once.
    Reset,
    /// A request whose body never starts.
    Head,
    /// Resets of one and the same request.
    BareReset,
    GoAway,
    PushPromise,
    /// Acknowledgements of pings and settings that were never sent.
    Acknowledged,
    /// A type that HTTP/2 does not define.
    Unknown,
}

impl Frame {
    const ALL: [Self; 13] = [
        Self::Ping,
        Self::Settings,
        Self::WindowUpdate,
        Self::Priority,
        Self::EmptyData,
        Self::Continuation,
        Self::Reset,
        Self::Head,
        Self::BareReset,
        Self::GoAway,
        Self::PushPromise,
        Self::Acknowledged,
        Self::Unknown,
    ];
}

impl Kind {
    /// All kinds except [`Self::Hanging`].
    pub(crate) fn all() -> Vec<Self> {
        let frames = Frame::ALL.map(Self::Frames);
        let others = [Self::Held, Self::Unread, Self::Unended, Self::Forged];
        others.into_iter().chain(frames).collect()
    }
}

/// Target of an attack.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    pub(crate) listener: SocketAddr,
    /// Account to which forged callbacks are sent.
    pub(crate) account: String,
    /// Merchant key for requests that need one.
    pub(crate) key: String,
}

/// A running attack. Dropping it ends the attack.
pub(crate) struct Attack {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
    opened: Arc<AtomicU64>,
}

impl Attack {
    /// Starts an attack and waits until its connections are open.
    pub(crate) fn begin(kind: Kind, aim: &Aim) -> Self {
        raise_descriptors();
        let (stop, opened) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let (ended, counted, aim) = (stop.clone(), Arc::clone(&opened), aim.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let work = ended.run_until_cancelled(run(kind, aim, counted));
            LocalSet::new().block_on(&runtime, work);
        });
        let attack = Self {
            stop,
            thread: Some(thread),
            opened,
        };
        while attack.opened() < connections(kind) as u64 {
            std::thread::yield_now();
        }
        attack
    }

    /// Number of connections so far, including repeated ones.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Raises this process's limit of open files to the maximum.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Number of addresses from which an attack comes.
const fn addresses(kind: Kind) -> usize {
    match kind {
        Kind::Forged => 40,
        _ => 4,
    }
}

const fn connections(kind: Kind) -> usize {
    match kind {
        Kind::Held => 2000,
        Kind::Unread => 200,
        Kind::Unended => 50,
        Kind::Forged | Kind::Hanging => 64,
        Kind::Frames(_) => 16,
    }
}

async fn run(kind: Kind, aim: Aim, opened: Arc<AtomicU64>) {
    let mut all = JoinSet::new();
    for number in 0..connections(kind) {
        let (aim, opened) = (aim.clone(), Arc::clone(&opened));
        let from = Ipv4Addr::new(127, 0, 0, 11 + (number % addresses(kind)) as u8);
        all.spawn_local(async move {
            loop {
                if let Ok(stream) = connect(from, aim.listener).await {
                    opened.fetch_add(1, Ordering::Relaxed);
                    // When the listener has closed the connection, it is opened again.
                    let _closed = one(kind, &aim, number, stream).await;
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
    while all.join_next().await.is_some() {}
}

async fn connect(from: Ipv4Addr, listener: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(listener).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Runs the attack on one connection until it ends.
async fn one(kind: Kind, aim: &Aim, number: usize, stream: TcpStream) -> std::io::Result<()> {
    match kind {
        Kind::Held => hold(number, stream).await,
        Kind::Unread => unread(aim, stream).await,
        Kind::Unended => unended(aim, stream).await,
        Kind::Forged => forged(aim, stream).await,
        Kind::Frames(frame) => flood(frame, stream).await,
        Kind::Hanging => hanging(aim, stream).await,
    }
}

/// Sends at most a part of a preface or request, then keeps the connection open.
async fn hold(number: usize, mut stream: TcpStream) -> std::io::Result<()> {
    let filler = [b'x'; HEAD];
    let begin = match (number / addresses(Kind::Held)) % 5 {
        0 => b"PRI ".to_vec(),
        1 => [b"GET / HTTP/1.1\r\nhost: ", &filler[..]].concat(),
        2 => vec![],
        3 => [PREFACE, &frame(4, 0, 0, &[])].concat(),
        _ => [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 0, 1, &filler)].concat(),
    };
    stream.write_all(&begin).await?;
    let mut waste = [0; 1024];
    while stream.read(&mut waste).await? > 0 {}
    Ok(())
}

/// Sends a hundred requests with a window of one byte that never grows. Pings keep the connection alive.
async fn unread(aim: &Aim, mut stream: TcpStream) -> std::io::Result<()> {
    let no_window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]);
    let mut begin = [PREFACE, &no_window].concat();
    for stream in (1..=199).step_by(2) {
        let path: &[u8] = match stream % 3 {
            0 => b"/openapi.json",
            _ => b"/api/v1/methods?currency=EUR",
        };
        let mut head = vec![0x82, 0x86, 0x41, 1, b'x', 0x44, path.len() as u8];
        head.extend_from_slice(path);
        let bearer = format!("Bearer {}", aim.key);
        head.extend_from_slice(&[0x0f, 0x08, bearer.len() as u8]);
        head.extend_from_slice(bearer.as_bytes());
        begin.extend(frame(1, 0x05, stream, &head));
    }
    stream.write_all(&begin).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.write_all(&frame(6, 0, 0, &[0; 8])).await?;
    }
}

/// Sends a hundred requests with bodies of 240 KiB whose streams are never ended.
async fn unended(aim: &Aim, stream: TcpStream) -> std::io::Result<()> {
    const BODY: usize = 240 << 10;
    let failed = std::io::Error::other::<h2::Error>;
    let (send, connection) = h2::client::handshake(stream).await.map_err(failed)?;
    let paths = [
        &format!("/callbacks/{}", aim.account),
        "/api/v1/connect/exchange",
        "/api/v1/payments",
    ];
    let sends = async {
        let mut bodies = JoinSet::new();
        for path in paths.iter().cycle().take(100) {
            let Ok(mut ready) = send.clone().ready().await else {
                break;
            };
            let request = Request::post(format!("http://x{path}"))
                .header("authorization", format!("Bearer {}", aim.key))
                .header("content-type", "application/json")
                .body(())
                .unwrap();
            let Ok((_answer, mut body)) = ready.send_request(request, false) else {
                break;
            };
            bodies.spawn_local(async move {
                let mut left = BODY;
                while left > 0 {
                    body.reserve_capacity(left);
                    let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
                    let Some(Ok(room)) = room else { return };
                    let piece = Bytes::from(vec![b'x'; room.min(left)]);
                    left -= piece.len();
                    if body.send_data(piece, false).is_err() {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            });
        }
        while bodies.join_next().await.is_some() {}
        std::io::Result::Ok(())
    };
    let driven = async { connection.await.map_err(failed) };
    either(sends, driven).await
}

/// Result of the future that ends first.
async fn either<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    tokio::select! {
        ended = one => ended,
        ended = other => ended,
    }
}

/// Sends callbacks with a wrong signature at a fixed rate and ignores the responses.
async fn forged(aim: &Aim, mut stream: TcpStream) -> std::io::Result<()> {
    /// 64 connections with this interval send 2,000 per second.
    const EVERY: Duration = Duration::from_millis(32);
    let body = br#"{"id":"evt_1","type":"captured"}"#;
    let request = format!(
        "POST /callbacks/{} HTTP/1.1\r\nhost: x\r\nsandbox-signature: t=1,v1={}\r\n\
         content-length: {}\r\n\r\n",
        aim.account,
        "0".repeat(64),
        body.len()
    );
    let request = [request.as_bytes(), body].concat();
    let (mut read, mut write) = stream.split();
    let sends = async {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            write.write_all(&request).await?;
        }
    };
    let drains = async {
        let mut waste = [0; 4096];
        while read.read(&mut waste).await? > 0 {}
        Ok(())
    };
    either(sends, drains).await
}

/// Creates and starts payments.
async fn hanging(aim: &Aim, mut stream: TcpStream) -> std::io::Result<()> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    loop {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("hanging-{process}-{number}");
        let create = json!({
            "order_id": name, "idempotency_key": name, "amount": "49.90", "currency": "EUR",
            "checkout_mode": "direct", "payment_method": "ideal",
        });
        let created = ask(&mut stream, "/api/v1/payments", &aim.key, &create).await?;
        let start = json!({ "payment_id": created["payment_id"], "payment_method": "ideal" });
        ask(&mut stream, "/api/v1/payments/start", &aim.key, &start).await?;
    }
}

/// Sends a JSON request and returns the response.
async fn ask(
    stream: &mut TcpStream,
    path: &str,
    key: &str,
    body: &Value,
) -> std::io::Result<Value> {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            return Ok(serde_json::from_str(body).unwrap_or_default());
        }
    }
}

async fn flood(kind: Frame, mut stream: TcpStream) -> std::io::Result<()> {
    let reset = |id: u32| {
        let get = [0x82, 0x86, 0x41, 1, b'x', 0x84];
        [frame(1, 0x05, id, &get), frame(3, 0, id, &[0, 0, 0, 8])].concat()
    };
    let post = [0x83, 0x86, 0x41, 1, b'x', 0x84];
    let mut next = 3_u32;
    let mut batch = || -> Vec<u8> {
        let mut piece = || match kind {
            Frame::Ping => frame(6, 0, 0, &[0; 8]),
            Frame::Settings => frame(4, 0, 0, &[]),
            Frame::WindowUpdate => frame(8, 0, 0, &[0, 0, 0, 1]),
            Frame::Priority => frame(2, 0, 1, &[0, 0, 0, 0, 16]),
            Frame::EmptyData => frame(0, 0, 1, &[]),
            Frame::Continuation => frame(9, 0, 1, &[]),
            Frame::Reset => {
                next += 2;
                reset(next)
            }
            Frame::Head => {
                next += 2;
                frame(1, 0x04, next, &post)
            }
            Frame::BareReset => frame(3, 0, 1, &[0, 0, 0, 8]),
            Frame::GoAway => frame(7, 0, 0, &[0; 8]),
            Frame::PushPromise => frame(5, 0x04, 1, &[0, 0, 0, 2, 0x82]),
            Frame::Acknowledged => [frame(6, 1, 0, &[0; 8]), frame(4, 1, 0, &[])].concat(),
            Frame::Unknown => frame(0xbe, 0, 0, &[0; 8]),
        };
        (0..256).flat_map(|_| piece()).collect()
    };
    // Some kinds of frames need an open request.
    let begin = match kind {
        Frame::EmptyData | Frame::BareReset | Frame::PushPromise => frame(1, 0x04, 1, &post),
        Frame::Continuation => frame(1, 0, 1, &post),
        _ => vec![],
    };
    let begin = [PREFACE, &frame(4, 0, 0, &[]), &begin].concat();
    stream.write_all(&begin).await?;
    let (mut read, mut write) = stream.split();
    let sends = async {
        loop {
            write.write_all(&batch()).await?;
            tokio::task::yield_now().await;
        }
    };
    let drains = async {
        let mut waste = [0; 16 << 10];
        while read.read(&mut waste).await? > 0 {}
        Ok(())
    };
    either(sends, drains).await
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head[..], payload].concat()
}
