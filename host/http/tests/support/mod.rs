//! A shop behind TLS and a client with all checks enabled. The name resolves to a public address, and only dialing
//! is redirected to a local listener.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod script;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kassette_http::{
    CertificateDer, Client, Dialing, Guard, HeaderMap, Method, Network, NoAnswer, Request,
    Resolving, Response, SendError, Trust,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

pub const H1: &[u8] = b"http/1.1";
pub const H2: &[u8] = b"h2";
pub const NAME: &str = "shop.example";

pub struct Authority(pub CertifiedIssuer<'static, KeyPair>);

/// A certificate chain and its private key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivatePkcs8KeyDer<'static>);

impl Authority {
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn trusted(&self) -> Trust {
        Trust::Only(vec![self.0.der().clone()])
    }

    /// A certificate for a name, valid from the start of one year to the start of another.
    pub fn signs(&self, name: &str, (from, to): (i32, i32)) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let secret = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![certificate.der().clone()], secret)
    }
}

/// Validity that includes the time of any test run.
pub const GOOD: (i32, i32) = (2000, 4000);

/// Resolves every name to a public address and connects every address to the test server.
pub struct Shop(pub SocketAddr);

impl Network for Shop {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(async { Ok(vec!["93.184.215.14".parse().unwrap()]) })
    }

    fn dial(&self, _: SocketAddr) -> Dialing<'_> {
        Box::pin(TcpStream::connect(self.0))
    }
}

/// A server behind TLS and a client that trusts its authority.
pub struct World {
    pub client: Client,
    /// Number of completed TLS handshakes.
    pub secured: Arc<AtomicUsize>,
}

impl World {
    /// Calls `serve` with every connection after its handshake.
    pub async fn new<F: Future<Output = ()> + Send + 'static>(
        protocols: &[&[u8]],
        serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self {
        let authority = Authority::named("ours");
        let identity = authority.signs(NAME, GOOD);
        Self::with(identity, authority.trusted(), protocols, serve).await
    }

    pub async fn with<F: Future<Output = ()> + Send + 'static>(
        (chain, key): Identity,
        trust: Trust,
        protocols: &[&[u8]],
        serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key.into())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let secured = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&secured);
        let serve = Arc::new(serve);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, serve) = (acceptor.clone(), Arc::clone(&serve));
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        serve(stream).await;
                    }
                });
            }
        });
        Self {
            client: Client::over(Guard::default(), Arc::new(Shop(address)), trust),
            secured,
        }
    }

    pub async fn send(&self, request: Request<'_>) -> Result<Response, SendError> {
        self.client.send(request).await
    }

    pub fn secured(&self) -> usize {
        self.secured.load(Ordering::SeqCst)
    }
}

pub fn post(path: &str) -> Request<'static> {
    let mut headers = HeaderMap::new();
    headers.insert("x-service-event-id", "0123".parse().unwrap());
    Request {
        method: Method::POST,
        url: format!("https://{NAME}{path}").parse().unwrap(),
        headers,
        body: Bytes::from_static(b"{\"a\":1}"),
        deadline: Duration::from_secs(20),
        max_response: 4096,
        hosts: None,
    }
}

/// Sends with a short deadline. Returns the error and asserts that it arrived in time.
pub async fn in_time(world: &World) -> SendError {
    let deadline = Duration::from_millis(400);
    let began = Instant::now();
    let request = Request {
        deadline,
        ..post("/")
    };
    let error = world.send(request).await.unwrap_err();
    let took = began.elapsed();
    assert!(took >= deadline - Duration::from_millis(10), "{took:?}");
    assert!(took < deadline * 20, "{took:?}");
    error
}

pub const NO_ANSWER: SendError = SendError::NoAnswer(NoAnswer::Deadline);
