//! Listeners: sockets, TLS, time-outs, connection caps, a shutdown that finishes what is in hand.

mod connection;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

/// Most connections of one listener at once. Each holds a descriptor and some kilobytes; the
/// usual descriptor limit is raised to fit at start.
pub(crate) const MAX_CONNECTIONS: usize = 8192;
/// Most connections from one address at once: a plug-in host or a proxy fits, a flood does not.
/// Trusted proxies are not counted, because they speak for everybody.
pub(crate) const MAX_PER_ADDRESS: usize = 2048;
/// How long the TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests in hand may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(25);
/// Pause after `accept` failed for want of descriptors, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a listener cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}; choose another address or stop what holds it")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("cannot use {path} for TLS: {why}")]
    Tls {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

/// A bound socket, with TLS where it is configured.
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    uncounted: Arc<Vec<IpAddr>>,
    head: Duration,
}

impl Listener {
    /// Binds; port 0 draws a free one.
    pub(crate) async fn bind(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
    ) -> Result<Self, ListenError> {
        let bind = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(bind)?;
        let address = socket.local_addr().map_err(bind)?;
        Ok(Self {
            socket,
            address,
            tls,
            uncounted: Arc::default(),
            head: connection::HEAD,
        })
    }

    /// Does not count the connections of these addresses against the cap per address.
    pub(crate) fn without_counting(mut self, proxies: &[IpAddr]) -> Self {
        self.uncounted = Arc::new(proxies.to_vec());
        self
    }

    /// The address that it really listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then finishes what is in hand, 25 s at most.
    pub(crate) async fn serve(self, router: Router, stop: CancellationToken) {
        let graceful = GracefulShutdown::new();
        let overall = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let addresses = Addresses::default();
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
            let counted = !self.uncounted.contains(&peer.ip());
            let Some(place) = addresses.enter(peer.ip(), &overall, counted) else {
                metrics::counter!("kassette_connections_refused_total").increment(1);
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (router, watcher, tls) = (router.clone(), graceful.watcher(), self.tls.clone());
            let head = self.head;
            tokio::spawn(async move {
                match tls {
                    None => connection::run(stream, peer, router, watcher, head).await,
                    Some(tls) => {
                        let shaken = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
                        if let Ok(Ok(stream)) = shaken {
                            connection::run(stream, peer, router, watcher, head).await;
                        }
                    }
                }
                drop(place);
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

/// How many connections each address has.
#[derive(Clone, Default)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection's place; given back on drop.
struct Place {
    addresses: Option<(Addresses, IpAddr)>,
    _overall: OwnedSemaphorePermit,
}

impl Addresses {
    fn enter(&self, address: IpAddr, overall: &Arc<Semaphore>, counted: bool) -> Option<Place> {
        let permit = Arc::clone(overall).try_acquire_owned().ok()?;
        if !counted {
            return Some(Place {
                addresses: None,
                _overall: permit,
            });
        }
        let mut held = self.0.lock();
        let count = held.entry(address).or_insert(0);
        if *count >= MAX_PER_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Place {
            addresses: Some((self.clone(), address)),
            _overall: permit,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((addresses, address)) = &self.addresses else {
            return;
        };
        let mut held = addresses.0.lock();
        if let Some(count) = held.get_mut(address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                held.remove(address);
            }
        }
    }
}

/// Reads certificate chain and key (PEM) into an acceptor that offers HTTP/2 and HTTP/1.1.
pub(crate) fn tls_acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ListenError> {
    let refuse = |path: &Path, why: String| ListenError::Tls {
        path: path.display().to_string(),
        why,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(certificate, error.to_string()))?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(key, error.to_string()))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| refuse(certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    async fn server(
        head: Duration,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = Listener {
            head,
            ..Listener::bind(([127, 0, 0, 1], 0).into(), None)
                .await
                .unwrap()
        };
        let address = listener.address();
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/echo", post(|body: String| async { body }));
        let stop = CancellationToken::new();
        let task = tokio::spawn(listener.serve(router, stop.clone()));
        (address, stop, task)
    }

    #[tokio::test]
    async fn a_request_is_answered_and_the_connection_kept() {
        let (address, stop, task) = server(connection::HEAD).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        for _ in 0..2 {
            stream
                .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                .await
                .unwrap();
            let mut read = vec![0; 512];
            let length = stream.read(&mut read).await.unwrap();
            assert!(String::from_utf8_lossy(&read[..length]).ends_with("hello"));
        }
        stop.cancel();
        task.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_head_that_never_ends_is_cut_off() {
        let (address, _stop, _task) = server(Duration::from_millis(50)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest).await;
        assert!(read.is_err() || !String::from_utf8_lossy(&rest).contains("200"));
    }

    #[test]
    fn an_address_has_a_bounded_number_of_places() {
        let (addresses, overall) = (
            Addresses::default(),
            Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        );
        let address: IpAddr = [192, 0, 2, 1].into();
        let places: Vec<_> = (0..MAX_PER_ADDRESS)
            .map(|_| addresses.enter(address, &overall, true).unwrap())
            .collect();
        assert!(addresses.enter(address, &overall, true).is_none());
        assert!(addresses.enter(address, &overall, false).is_some());
        drop(places);
        assert!(addresses.enter(address, &overall, true).is_some());
        assert!(addresses.0.lock().len() <= 1);
    }
}
