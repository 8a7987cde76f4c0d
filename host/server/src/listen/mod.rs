//! Listeners: sockets, TLS, timeouts, connection caps, and a shutdown that completes requests in flight.

mod connection;
mod descriptors;
mod frames;
mod handed_over;
mod head;
mod tls;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use kassette_runtime::MAX_MODULE_BYTES;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

pub(crate) use self::connection::IDLE;
use self::connection::{Peer, Timeouts, Wait};
pub(crate) use self::descriptors::within_limit;
pub(crate) use self::handed_over::{HandedOver, handed_over};
pub(crate) use self::tls::{Tls, certificates, tls_acceptor};
use crate::proxies::{Proxies, subscriber};
use crate::web::budget::ByteBudget;

/// Limits that `config/README.md` documents, for the test that compares them.
#[cfg(test)]
pub(crate) mod documented_limits {
    pub(crate) use super::connection::{
        HEAD_BYTES, LEAST_TAKEN, OVER_BUDGET_STREAMS, PACE, REQUEST_BYTES, SPARE, SPARE_PER_SECOND,
        Timeouts,
    };
    pub(crate) use super::descriptors::OTHERS;
}

/// Maximum numbers of concurrent connections and bytes of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    /// Connections in total. Each uses a descriptor and some kilobytes.
    pub(crate) overall: usize,
    /// Connections from one address, which also never gets more than are free. Enough for a plugin host or a
    /// proxy, but not for a flood. Trusted proxies are not counted, because they carry many clients.
    pub(crate) per_address: usize,
    /// Bytes of requests and responses in flight per address, in addition to a small allowance per connection.
    pub(crate) bytes_per_address: usize,
    /// Bytes of requests and responses in flight in total. Requests without a verified credential may use half of
    /// them.
    pub(crate) bytes: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            overall: 8192,
            per_address: 2048,
            bytes_per_address: 4 << 20,
            bytes: 64 << 20,
        }
    }
}

impl Caps {
    /// Caps of the admin listener: some operators, their scripts, and monitoring.
    pub(crate) const fn operators() -> Self {
        Self {
            overall: 512,
            per_address: 256,
            // Two of the largest modules. Uploads are processed one after the other.
            bytes_per_address: 2 * MAX_MODULE_BYTES,
            bytes: 4 * MAX_MODULE_BYTES,
        }
    }

    /// Lowers both connection caps to at most `most`.
    fn at_most(self, most: usize) -> Self {
        Self {
            overall: self.overall.min(most),
            per_address: self.per_address.min(most),
            ..self
        }
    }
}

/// Time that requests in flight may take after the server received the signal to stop.
const DRAIN: Duration = Duration::from_secs(25);
/// Maximum number of connections that wait to be accepted. Sized for bursts. The kernel uses a lower
/// `net.core.somaxconn` instead.
const BACKLOG: u32 = 4096;
/// Pause after `accept` fails for lack of descriptors, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Reason why a listener cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// The address is in use, or not an address of this machine.
    #[error("cannot listen on {address}: {source}; choose another address or stop what holds it")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
    /// The service manager's socket cannot be used.
    #[error("cannot listen on the socket that was handed over: {0}")]
    HandedOver(io::Error),
    /// The certificate or key cannot be used.
    #[error("cannot use {path} for TLS: {why}")]
    Tls { path: String, why: String },
}

/// A bound socket, with TLS if it is configured.
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    uncounted: Proxies,
    caps: Caps,
    times: Timeouts,
}

impl Listener {
    /// Binds to an address. Port 0 selects a free port.
    pub(crate) async fn bind(address: SocketAddr, tls: Option<Tls>) -> Result<Self, ListenError> {
        let bind = |source| ListenError::Bind { address, source };
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }
        .map_err(bind)?;
        // Connections of the previous process may still be in TIME_WAIT after a restart.
        socket.set_reuseaddr(true).map_err(bind)?;
        socket.bind(address).map_err(bind)?;
        Self::on(socket.listen(BACKLOG).map_err(bind)?, tls).map_err(bind)
    }

    /// Uses a socket that was [passed](handed_over) by the service manager.
    pub(crate) fn over(
        socket: std::net::TcpListener,
        tls: Option<Tls>,
    ) -> Result<Self, ListenError> {
        let socket = TcpListener::from_std(socket);
        let listener = socket.and_then(|socket| Self::on(socket, tls));
        listener.map_err(ListenError::HandedOver)
    }

    fn on(socket: TcpListener, tls: Option<Tls>) -> io::Result<Self> {
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            tls,
            uncounted: Proxies::default(),
            caps: Caps::default(),
            times: Timeouts::USUAL,
        })
    }

    /// Sets the connection caps.
    pub(crate) const fn capped(mut self, caps: Caps) -> Self {
        self.caps = caps;
        self
    }

    /// Sets the idle timeout.
    pub(crate) const fn idle_for(mut self, idle: Duration) -> Self {
        self.times.idle = idle;
        self
    }

    /// Exempts connections from these addresses from the cap per address and from pauses after rejections.
    pub(crate) fn without_counting(mut self, proxies: &Proxies) -> Self {
        self.uncounted = proxies.clone();
        self
    }

    /// Address that the listener is bound to, with the actual port.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then completes requests in flight for at most 25 s.
    pub(crate) async fn serve(self, router: Router, stop: CancellationToken) {
        let graceful = GracefulShutdown::new();
        let slots = ConnectionSlots::new(self.caps);
        let budget = ByteBudget::new(self.caps.bytes_per_address, self.caps.bytes);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.socket.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(error = %error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let counted = !self.uncounted.trust(peer.ip());
            let address = counted.then(|| subscriber(peer.ip()));
            let Some(slot) = slots.enter(address) else {
                metrics::counter!("kassette_connections_refused_total").increment(1);
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (router, watcher, tls) = (router.clone(), graceful.watcher(), self.tls.clone());
            let mut times = self.times;
            if !counted {
                // A proxy's connections carry many clients.
                times.pause = Duration::ZERO;
            }
            let peer = Peer {
                address: peer,
                proxies: self.uncounted.clone(),
                connection: budget.connection(),
                stop: stop.clone(),
            };
            tokio::spawn(async move {
                match tls {
                    None => connection::run(stream, peer, router, watcher, times).await,
                    Some(tls) => {
                        let shake = tls.acceptor().accept(stream);
                        match tokio::time::timeout(times.head, shake).await {
                            Ok(Ok(stream)) => {
                                connection::run(stream, peer, router, watcher, times).await;
                            }
                            Ok(Err(_)) => {}
                            Err(_) => drop(connection::late(Wait::Head)),
                        }
                    }
                }
                drop(slot);
            });
        }
        drop(self.socket);
        if tokio::time::timeout(DRAIN, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(
                "connections were still busy after {} s and are closed",
                DRAIN.as_secs()
            );
        }
    }
}

/// The occupied slots for connections, in total and by address.
#[derive(Clone)]
struct ConnectionSlots {
    caps: Caps,
    taken: Arc<Mutex<SlotsTaken>>,
}

#[derive(Default)]
struct SlotsTaken {
    overall: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's slot, which is released on drop.
struct ConnectionSlot {
    slots: ConnectionSlots,
    address: Option<IpAddr>,
}

impl ConnectionSlots {
    fn new(caps: Caps) -> Self {
        Self {
            caps,
            taken: Arc::default(),
        }
    }

    /// Returns a slot for a connection. `None` if there is none. With `address: None`, it is not counted by
    /// address. An address may occupy at most as many slots as are free, so flooding addresses always leave some
    /// for another address.
    fn enter(&self, address: Option<IpAddr>) -> Option<ConnectionSlot> {
        let mut taken = self.taken.lock();
        let free = self.caps.overall.saturating_sub(taken.overall);
        if free == 0 {
            return None;
        }
        if let Some(address) = address {
            let held = taken.by_address.get(&address).copied().unwrap_or_default();
            if held >= self.caps.per_address.min(free) {
                return None;
            }
            taken.by_address.insert(address, held + 1);
        }
        taken.overall += 1;
        let slots = self.clone();
        Some(ConnectionSlot { slots, address })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.overall = taken.overall.saturating_sub(1);
        let Some(address) = self.address else {
            return;
        };
        if let Some(held) = taken.by_address.get_mut(&address) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::for_tests;
    use crate::web::marks::PauseReading;
    use axum::Extension;
    use axum::routing::{get, post};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    /// Timeouts that no test reaches, except for the tested one.
    const PATIENT: Timeouts = Timeouts {
        head: Duration::from_secs(600),
        body: Duration::from_secs(600),
        idle: Duration::from_secs(600),
        write: Duration::from_secs(600),
        linger: Duration::from_secs(600),
        pause: Duration::from_secs(600),
    };
    const SOON: Duration = Duration::from_millis(50);
    /// Size of a response that the system's buffers cannot hold completely, in bytes. Two fit into an address's
    /// budget.
    const LARGE: usize = 12 << 20;

    async fn server(
        times: Timeouts,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        served(times, &Proxies::default(), None).await
    }

    async fn served(
        times: Timeouts,
        proxies: &Proxies,
        tls: Option<Tls>,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), tls).await;
        let listener = listener.unwrap().without_counting(proxies);
        let caps = Caps {
            bytes_per_address: LARGE * 5 / 2,
            bytes: LARGE * 10,
            ..Caps::default()
        };
        let listener = Listener { times, ..listener }.capped(caps);
        let address = listener.address();
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/echo", post(|body: String| async { body }))
            .route("/deaf", post(|| async { "no" }))
            .route("/late", get(late))
            .route("/long", get(long))
            .route("/full", get(|| async { (Extension(PauseReading), "full") }))
            .route("/large", get(|| async { "x".repeat(LARGE) }));
        let stop = CancellationToken::new();
        let task = tokio::spawn(listener.serve(router, stop.clone()));
        (address, stop, task)
    }

    /// Responds after a multiple of [`SOON`].
    async fn late() -> &'static str {
        tokio::time::sleep(SOON * 8).await;
        "late"
    }

    /// Number of pieces of a streamed response.
    const PIECES: u32 = 24;

    async fn long() -> axum::body::Body {
        let pieces = futures_util::stream::iter(0..PIECES);
        axum::body::Body::from_stream(futures_util::StreamExt::then(pieces, async |number| {
            tokio::time::sleep(SOON).await;
            Ok::<_, io::Error>(format!("piece {number}\n"))
        }))
    }

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    /// An HTTP/2 frame.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    fn ping() -> Vec<u8> {
        frame(6, 0, 0, &[0; 8])
    }

    fn settings() -> Vec<u8> {
        frame(4, 0, 0, &[])
    }

    /// A complete `GET` request in one frame.
    fn get_frame(stream: u8, path: &str) -> Vec<u8> {
        let length = u8::try_from(path.len()).unwrap();
        let fields = [&[0x82, 0x86, 0x41, 1, b'x', 0x44, length], path.as_bytes()].concat();
        frame(1, 0x05, stream, &fields)
    }

    async fn http2(address: SocketAddr, begin: &[&[u8]]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&begin.concat()).await.unwrap();
        stream
    }

    /// Sends pings until the connection is closed.
    async fn ping_to_the_end(mut stream: impl AsyncWrite + Unpin) {
        let pings = async {
            while stream.write_all(&ping()).await.is_ok() && stream.flush().await.is_ok() {
                tokio::time::sleep(SOON / 10).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), pings).await;
        ended.expect("the connection is closed");
    }

    /// Reads until the response's data has arrived.
    async fn read_until(stream: &mut TcpStream, end: &[u8]) {
        let mut read = Vec::new();
        while !read.windows(end.len()).any(|part| part == end) {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "closed");
        }
    }

    #[tokio::test]
    async fn http2_that_does_not_come_to_a_request_is_cut_off() {
        let (recorder, measured) = for_tests();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let head = SOON;
        let (address, _stop, _task) = server(Timeouts { head, ..PATIENT }).await;
        for begin in [&b"PRI "[..], &PREFACE[..20], PREFACE] {
            let stream = http2(address, &[begin]).await;
            let ended = tokio::time::timeout(Duration::from_secs(60), rest_of(stream)).await;
            ended.expect("the connection is closed");
        }
        ping_to_the_end(http2(address, &[PREFACE, &settings()]).await).await;
        assert!(
            measured
                .render()
                .contains("timed_out_total{waited_for=\"head\"} 4")
        );
    }

    /// A listener's certificate, and a client that trusts it.
    fn identity() -> (Tls, TlsConnector) {
        let made = rcgen::generate_simple_self_signed(["pay.example".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pem = |kind: &str, der: &[u8]| {
            let file = folder.path().join(kind);
            let text = STANDARD.encode(der);
            let text = format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
            std::fs::write(&file, text).unwrap();
            file
        };
        let certificate = pem("CERTIFICATE", made.cert.der());
        let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let acceptor = tls_acceptor(&certificate, &key).unwrap();
        (Tls::new(acceptor), TlsConnector::from(Arc::new(config)))
    }

    async fn over_tls(
        connector: &TlsConnector,
        address: SocketAddr,
        begin: &[&[u8]],
    ) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("pay.example").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(&begin.concat()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_connection_that_comes_to_no_request_is_cut_off_over_tls_too() {
        let (recorder, measured) = for_tests();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let (tls, connector) = identity();
        let times = Timeouts {
            head: SOON * 20,
            ..PATIENT
        };
        let (address, _stop, _task) = served(times, &Proxies::default(), Some(tls)).await;
        let mut held = Vec::new();
        for begin in [
            &b""[..],
            b"PRI ",
            &PREFACE[..20],
            b"GET / HTTP/1.1\r\nhost:",
            &[PREFACE, &settings()].concat(),
        ] {
            held.push(rest_of(over_tls(&connector, address, &[begin]).await));
        }
        let silent = rest_of(TcpStream::connect(address).await.unwrap());
        let all = async { tokio::join!(futures_util::future::join_all(held), silent) };
        let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
        ended.expect("the connections are closed");
        let counted = "timed_out_total{waited_for=\"head\"} 6";
        assert!(measured.render().contains(counted), "{}", measured.render());
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_ends_its_connection_over_tls_too() {
        let (recorder, measured) = for_tests();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let (tls, connector) = identity();
        let times = Timeouts {
            write: SOON,
            linger: SOON,
            ..PATIENT
        };
        let (address, _stop, _task) = served(times, &Proxies::default(), Some(tls)).await;
        let head = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
        let unread = over_tls(&connector, address, &[head]).await;
        for window in [0, 1] {
            let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, window]);
            let begin = [PREFACE, &window, &get_frame(1, "/large")];
            ping_to_the_end(over_tls(&connector, address, &begin).await).await;
        }
        let all = async {
            while !measured.render().contains("{waited_for=\"answer\"} 3") {
                tokio::time::sleep(SOON / 10).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
        ended.expect("the connections are closed");
        assert!(rest_of(unread).await.len() < LARGE);
    }

    #[tokio::test]
    async fn pings_do_not_keep_an_http2_connection_without_requests() {
        let (recorder, measured) = for_tests();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let idle = SOON * 12;
        let (address, _stop, _task) = server(Timeouts { idle, ..PATIENT }).await;
        let mut stream = http2(address, &[PREFACE, &settings()]).await;
        let began = std::time::Instant::now();
        // Each request restarts the timeout.
        for number in (1..).step_by(2) {
            stream.write_all(&get_frame(number, "/")).await.unwrap();
            read_until(&mut stream, b"hello").await;
            if began.elapsed() > idle * 2 {
                break;
            }
            tokio::time::sleep(idle / 8).await;
        }
        ping_to_the_end(stream).await;
        assert!(
            measured
                .render()
                .contains("timed_out_total{waited_for=\"request\"} 1")
        );
    }

    #[tokio::test]
    async fn an_http2_answer_that_is_not_taken_ends_its_connection() {
        let (recorder, measured) = for_tests();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let write = SOON;
        let (address, _stop, _task) = server(Timeouts { write, ..PATIENT }).await;
        // With a window for a part of it, the whole response is passed to the connection.
        for (path, window) in [("/", 0), ("/large", 0), ("/large", 1)] {
            let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, window]);
            let begin = [PREFACE, &window, &get_frame(1, path)];
            ping_to_the_end(http2(address, &begin).await).await;
        }
        assert!(
            measured
                .render()
                .contains("timed_out_total{waited_for=\"answer\"} 3")
        );
    }

    #[tokio::test]
    async fn an_http2_answer_that_is_taken_a_byte_at_a_time_ends_its_connection() {
        let write = SOON;
        let (address, _stop, _task) = server(Timeouts { write, ..PATIENT }).await;
        let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]);
        let begin = [PREFACE, &window, &get_frame(1, "/large")];
        let (mut read, mut send) = http2(address, &begin).await.into_split();
        // Each received byte makes room for the next one.
        let one_more = frame(8, 0, 1, &[0, 0, 0, 1]);
        let trickles = async {
            let (mut byte, mut taken) = ([0; 256], 0);
            loop {
                match read.read(&mut byte).await {
                    Ok(0) | Err(_) => return taken,
                    Ok(count) => taken += count,
                }
                tokio::time::sleep(SOON / 4).await;
                if send.write_all(&one_more).await.is_err() {
                    return taken;
                }
            }
        };
        let taken = tokio::time::timeout(Duration::from_secs(60), trickles).await;
        let taken = taken.expect("it ends");
        assert!(taken < 16 << 10, "{taken} bytes were taken");
    }

    #[tokio::test]
    async fn a_stop_does_not_wait_for_who_takes_no_answer() {
        let linger = SOON;
        let (address, stop, task) = server(Timeouts { linger, ..PATIENT }).await;
        let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]);
        let begin = [PREFACE, &window, &get_frame(1, "/large")];
        let mut stream = http2(address, &begin).await;
        read_until(&mut stream, b"x").await;
        stop.cancel();
        let ended = tokio::time::timeout(DRAIN / 2, task).await;
        ended.expect("it ends").unwrap();
    }

    /// Sends a request for a large response and returns its status line, without reading more.
    async fn large(address: SocketAddr, from: u8) -> (String, TcpStream) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, from], 0).into()).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut line = vec![0; 12];
        stream.read_exact(&mut line).await.unwrap();
        (String::from_utf8(line).unwrap(), stream)
    }

    #[tokio::test]
    async fn an_address_holds_no_more_answers_than_its_bytes_and_others_are_answered() {
        let (address, _stop, _task) = server(PATIENT).await;
        let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]);
        let begin = [PREFACE, &window, &get_frame(1, "/large")];
        // Repeats until the server has noticed that previous peers have disconnected.
        let taken = async |from| while large(address, from).await.0 != "HTTP/1.1 200" {};
        for (version, (from, other)) in [(1, (5, 6)), (2, (1, 2))] {
            let unread = match version {
                1 => large(address, from).await.1,
                _ => {
                    let mut stream = http2(address, &begin).await;
                    read_until(&mut stream, b"x").await;
                    stream
                }
            };
            let (second, _unread) = large(address, from).await;
            assert_eq!(second, "HTTP/1.1 200");
            let (refused, mut stream) = large(address, from).await;
            assert_eq!(refused, "HTTP/1.1 503");
            read_until(&mut stream, b"retry-after").await;
            let mut small = TcpStream::connect(address).await.unwrap();
            ask(&mut small, "hello").await;
            taken(other).await;
            drop(unread);
            taken(from).await;
        }
    }

    #[tokio::test]
    async fn a_flood_of_frames_is_read_slowly_before_and_after_a_request() {
        /// Exceeds the allowance by one and a half seconds.
        const PINGS: usize = 304;
        let (address, _stop, _task) = server(PATIENT).await;
        for begin in [vec![], get_frame(1, "/")] {
            let began = std::time::Instant::now();
            let begin = [PREFACE, &settings(), &begin, &ping().repeat(PINGS)].concat();
            let mut stream = http2(address, &[&begin]).await;
            // A response to a ping has the length of a ping.
            let mut answers = vec![0; ping().len() * PINGS];
            stream.read_exact(&mut answers).await.unwrap();
            stream.write_all(&get_frame(3, "/full")).await.unwrap();
            read_until(&mut stream, b"full").await;
            assert!(began.elapsed() >= Duration::from_secs(1));
        }
    }

    #[tokio::test]
    async fn an_http2_answer_that_takes_us_long_is_waited_for() {
        let (address, _stop, _task) = server(Timeouts {
            idle: SOON,
            write: SOON,
            head: SOON,
            ..PATIENT
        })
        .await;
        let mut stream = http2(address, &[PREFACE, &settings(), &get_frame(1, "/late")]).await;
        read_until(&mut stream, b"late").await;
    }

    #[tokio::test]
    async fn a_request_is_answered_and_the_connection_kept() {
        let (address, stop, task) = server(PATIENT).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        for _ in 0..2 {
            ask(&mut stream, "hello").await;
        }
        stop.cancel();
        task.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn who_was_refused_is_heard_again_after_a_pause() {
        let pause = Duration::from_millis(300);
        let (address, _stop, _task) = server(Timeouts { pause, ..PATIENT }).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let began = std::time::Instant::now();
        ask_for("/full", &mut stream, "full").await;
        ask(&mut stream, "hello").await;
        assert!(began.elapsed() >= pause);
        // Other connections do not wait.
        let (address, _stop, _task) = server(PATIENT).await;
        let mut refused = TcpStream::connect(address).await.unwrap();
        ask_for("/full", &mut refused, "full").await;
        let mut other = TcpStream::connect(address).await.unwrap();
        ask(&mut other, "hello").await;
        ask(&mut other, "hello").await;
    }

    #[tokio::test]
    async fn who_speaks_for_everybody_is_not_made_to_wait() {
        let proxies = Proxies::try_from(vec!["127.0.0.1".to_owned()]).unwrap();
        let (address, _stop, _task) = served(PATIENT, &proxies, None).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        ask_for("/full", &mut stream, "full").await;
        ask(&mut stream, "hello").await;
    }

    #[tokio::test]
    async fn a_head_that_never_ends_is_cut_off() {
        let (address, _stop, _task) = server(Timeouts {
            head: SOON,
            ..PATIENT
        })
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        assert!(!rest_of(stream).await.contains("200"));
        // A connection without any data is also closed.
        let silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(rest_of(silent).await, "");
        // The timeout starts with the head's first byte, and further bytes do not prolong it.
        let mut second = TcpStream::connect(address).await.unwrap();
        ask(&mut second, "hello").await;
        let trickle = async {
            while second.write_all(b"G").await.is_ok() {
                tokio::time::sleep(SOON / 10).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), trickle)
            .await
            .unwrap();
    }

    /// Reads until the peer closes the connection.
    async fn rest_of(mut stream: impl AsyncRead + Unpin) -> String {
        let mut rest = Vec::new();
        // The connection may be reset instead of closed.
        let _ = stream.read_to_end(&mut rest).await;
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Sends a request for `/` and reads the response.
    async fn ask(stream: &mut TcpStream, answer: &str) {
        ask_for("/", stream, answer).await;
    }

    /// Sends a request and reads the response.
    async fn ask_for(path: &str, stream: &mut TcpStream, answer: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = vec![0; 512];
        let length = stream.read(&mut read).await.unwrap();
        assert!(String::from_utf8_lossy(&read[..length]).ends_with(answer));
    }

    /// The handler does not read the body, and the client sends all of it before it reads the response.
    #[tokio::test]
    async fn an_answer_is_seen_by_who_sends_more_than_is_read() {
        const LENGTH: usize = 64 << 20;
        let (address, _stop, _task) = server(PATIENT).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..LENGTH >> 20 {
            stream.write_all(&[b'x'; 1 << 20]).await.unwrap();
        }
        let answer = rest_of(stream).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("no"));
    }

    #[tokio::test]
    async fn who_sends_without_end_is_not_listened_to_without_end() {
        let (address, stop, task) = server(Timeouts {
            linger: SOON,
            ..PATIENT
        })
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        while stream.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_may_take_longer_to_make_than_a_connection_may_be_idle() {
        let idle = SOON * 8;
        let (address, _stop, _task) = server(Timeouts { idle, ..PATIENT }).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let asked = b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(asked).await.unwrap();
        // The idle timeout starts at the end of the response and then closes the connection.
        let read = rest_of(stream).await;
        let last = format!("piece {}", PIECES - 1);
        assert!(read.contains(&last), "{read}");
        assert!(read.ends_with("0\r\n\r\n"), "{read}");
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_and_a_used_one_kept() {
        let idle = Duration::from_millis(300);
        let (address, _stop, _task) = server(Timeouts { idle, ..PATIENT }).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let began = std::time::Instant::now();
        // Each request restarts the timeout, so that the connection lives longer than the timeout.
        while began.elapsed() < idle * 2 {
            ask(&mut stream, "hello").await;
            tokio::time::sleep(idle / 10).await;
        }
        assert_eq!(rest_of(stream).await, "");
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_cut_off() {
        let (address, _stop, _task) = server(Timeouts {
            body: SOON,
            ..PATIENT
        })
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc";
        stream.write_all(head).await.unwrap();
        let answer = rest_of(stream).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_is_given_up() {
        let (address, stop, task) = server(Timeouts {
            write: SOON,
            ..PATIENT
        })
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        // The server ends after its last connection. This connection is still writing.
        stop.cancel();
        tokio::time::timeout(DRAIN / 2, task)
            .await
            .unwrap()
            .unwrap();
        assert!(rest_of(stream).await.len() < LARGE);
    }

    #[test]
    fn an_address_has_a_bounded_number_of_places_and_one_more_finds_some() {
        let caps = Caps {
            overall: 16,
            per_address: 5,
            ..Caps::default()
        };
        let slots = ConnectionSlots::new(caps);
        let fill = |last| {
            let address = Some(IpAddr::from([192, 0, 2, last]));
            std::iter::from_fn(|| slots.enter(address)).collect::<Vec<_>>()
        };
        let floods: Vec<_> = (1..=4).map(fill).collect();
        let held: Vec<_> = floods.iter().map(Vec::len).collect();
        assert_eq!(held, [5, 5, 3, 2]);
        // Uncounted connections use the remaining slots.
        let proxied: Vec<_> = std::iter::from_fn(|| slots.enter(None)).collect();
        assert_eq!(proxied.len(), 1);
        assert!(fill(5).is_empty());
        drop((floods, proxied));
        assert_eq!(fill(5).len(), 5);
        let taken = slots.taken.lock();
        assert!(taken.overall == 0 && taken.by_address.is_empty());
    }
}
