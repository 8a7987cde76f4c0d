//! Events over TLS, HTTP/2 and HTTP/1.1, from the transaction to the receiver and into the log.
//!
//! All guards are active: the receiver's name resolves to a public address, and only the connection leads to
//! a listener on this machine, which has a certificate of the test's own authority.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kassette_domain::event::EventType;
use kassette_domain::id::EventId;
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::merchant::Merchant;
use kassette_domain::webhook::{DeliveryStatus, EventFilter, sign};
use kassette_gateway::clock::Clock as _;
use kassette_gateway::settings::TestHost;
use kassette_gateway::webhooks::{EndpointError, NewEndpoint, NotADestination};
use kassette_http::{CertificateDer, Client, Dialing, Guard, Network, Refused, Resolving, Trust};
use kassette_store::NewMerchant;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

use crate::webhooks::Running;
use crate::world::{audited, settings};

const NAME: &str = "www.merchant.example";
/// A name in the operator's own network.
const INNER: &str = "staging.internal";
const H1: &[u8] = b"http/1.1";
const H2: &[u8] = b"h2";

/// A request as it arrived.
struct Heard {
    version: Version,
    target: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Heard {
    fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().unwrap().to_str().unwrap();
        assert!(values.next().is_none(), "{name} twice");
        value
    }
}

/// A merchant's server behind TLS.
struct Secured {
    address: SocketAddr,
    authority: CertificateDer<'static>,
    heard: Arc<Mutex<Vec<Heard>>>,
    /// Number of the next requests that are answered 500.
    refuses: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Secured {
    async fn speaking(protocols: &[&[u8]]) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new([NAME, INNER].map(str::to_owned)).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(4000, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let secret = PrivatePkcs8KeyDer::from(key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret.into())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secured = Self {
            address: listener.local_addr().unwrap(),
            authority: authority.der().clone(),
            heard: Arc::default(),
            refuses: Arc::default(),
            connections: Arc::default(),
        };
        let (heard, refuses) = (Arc::clone(&secured.heard), Arc::clone(&secured.refuses));
        let connections = Arc::clone(&secured.connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                let (heard, refuses) = (Arc::clone(&heard), Arc::clone(&refuses));
                let connections = Arc::clone(&connections);
                tokio::spawn(async move {
                    // A client that does not trust the certificate closes the connection.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        connections.fetch_add(1, Ordering::SeqCst);
                        serve(stream, heard, refuses).await;
                    }
                });
            }
        });
        secured
    }

    /// A client on a network where every name is this server's and its authority is trusted.
    fn client(&self) -> Client {
        self.client_that_trusts(Trust::Only(vec![self.authority.clone()]))
    }

    fn client_that_trusts(&self, trust: Trust) -> Client {
        Client::over(Guard::default(), Arc::new(Shop(self.address)), trust)
    }
}

/// Every name resolves to a public address, and every connection reaches the test's server.
struct Shop(SocketAddr);

impl Network for Shop {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(async { Ok(vec!["93.184.215.14".parse().unwrap()]) })
    }

    fn dial(&self, _: SocketAddr) -> Dialing<'_> {
        Box::pin(TcpStream::connect(self.0))
    }
}

/// Every name resolves to one address, and every connection reaches the test's server.
struct Inside {
    address: IpAddr,
    server: SocketAddr,
    dialled: Arc<AtomicUsize>,
}

impl Network for Inside {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(async { Ok(vec![self.address]) })
    }

    fn dial(&self, _: SocketAddr) -> Dialing<'_> {
        self.dialled.fetch_add(1, Ordering::SeqCst);
        Box::pin(TcpStream::connect(self.server))
    }
}

/// A world in which events of test payments may go to both names, which resolve to one address. Also returns
/// the number of connections.
async fn inside(server: &Secured, address: &str) -> (Running, Arc<AtomicUsize>) {
    let mut settings = settings();
    let host = |name: &str| TestHost {
        host: name.parse().unwrap(),
        owners: vec![KeyOwner::Merchant(kassette_domain::id::MerchantId(1))],
    };
    settings.webhooks.test_hosts = [INNER, NAME].map(host).into();
    settings.webhooks.test_authorities = vec![server.authority.clone()];
    let dialled = Arc::new(AtomicUsize::new(0));
    let inside = Inside {
        address: address.parse().unwrap(),
        server: server.address,
        dialled: Arc::clone(&dialled),
    };
    let client = Client::over(Guard::default(), Arc::new(inside), Trust::Public);
    (Running::through(settings, client).await, dialled)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_inner_host_gets_the_events_of_test_payments_alone() {
    let server = Secured::speaking(&[H2, H1]).await;
    let (run, dialled) = inside(&server, "10.0.0.5").await;
    for name in [INNER, NAME] {
        let url = format!("https://{name}/hook");
        let (endpoint, _) = run.endpoint_at(url, EventFilter::All).await;
        let delivered = run.attempts(run.test(endpoint.id).await, 1).await;
        assert_eq!(delivered.status, DeliveryStatus::Delivered, "{delivered:?}");
    }
    let reached = dialled.load(Ordering::SeqCst);
    let live = async |name: &str| {
        let new = NewEndpoint {
            owner: KeyOwner::Merchant(run.world.merchant.id),
            environment: Environment::Live,
            url: format!("https://{name}/hook"),
            event_types: EventFilter::All,
            created_by: kassette_domain::webhook::EndpointCreator::System,
        };
        run.world.gateway.create_endpoint(new, audited()).await
    };
    let refused = live(INNER).await;
    let inner = NotADestination::Refused(Refused::InnerName);
    assert!(
        matches!(&refused, Err(EndpointError::Destination(why)) if *why == inner),
        "{refused:?}"
    );
    // A name that looks public is blocked at its address, although a connection to it is open.
    let endpoint = live(NAME).await.unwrap().endpoint;
    let other = "https://other.example/hook".to_owned();
    let (other, _) = run.endpoint_at(other, EventFilter::All).await;
    for endpoint in [endpoint.id, other.id] {
        let blocked = run.attempts(run.test(endpoint).await, 1).await;
        let said = blocked.attempts[0].error.as_deref().unwrap();
        assert!(said.contains("no public address"), "{said}");
    }
    assert_eq!(dialled.load(Ordering::SeqCst), reached);
    assert_eq!(server.heard.lock().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_inner_host_is_for_its_merchants_alone_and_what_it_answers_is_not_kept() {
    let server = Secured::speaking(&[H1]).await;
    let (run, dialled) = inside(&server, "10.0.0.5").await;
    let (endpoint, _) = run
        .endpoint_at(format!("https://{INNER}/hook"), EventFilter::All)
        .await;
    let delivered = run.attempts(run.test(endpoint.id).await, 1).await;
    assert_eq!(delivered.attempts[0].status, Some(200), "{delivered:?}");
    assert_eq!(delivered.attempts[0].response, None);
    let reached = dialled.load(Ordering::SeqCst);

    let merchant = Merchant {
        name: "Another shop".into(),
        ..run.world.merchant.clone()
    };
    let (new, now) = (NewMerchant { merchant }, run.world.clock.now());
    let other = run.world.store.create_merchant(new, audited(), now).await;
    let owner = KeyOwner::Merchant(other.unwrap().id);
    let of_other = async |name: &str| {
        let new = NewEndpoint {
            owner,
            environment: Environment::Test,
            url: format!("https://{name}/hook"),
            event_types: EventFilter::All,
            created_by: kassette_domain::webhook::EndpointCreator::System,
        };
        run.world.gateway.create_endpoint(new, audited()).await
    };
    let refused = of_other(INNER).await;
    let inner = NotADestination::Refused(Refused::InnerName);
    assert!(
        matches!(&refused, Err(EndpointError::Destination(why)) if *why == inner),
        "{refused:?}"
    );
    // A name that looks public is blocked at its address.
    let endpoint = of_other(NAME).await.unwrap().endpoint;
    let blocked = run.attempts(run.test(endpoint.id).await, 1).await;
    let said = blocked.attempts[0].error.as_deref().unwrap();
    assert!(said.contains("no public address"), "{said}");
    assert_eq!(dialled.load(Ordering::SeqCst), reached);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_host_leads_to_private_networks_and_nowhere_else_inside() {
    let server = Secured::speaking(&[H1]).await;
    for (address, is_reached) in [
        ("192.168.7.9", true),
        ("172.16.0.1", true),
        ("fd12:3456::5", true),
        ("93.184.215.14", true),
        ("127.0.0.1", false),
        ("::1", false),
        ("169.254.169.254", false),
        ("fe80::1", false),
        ("fd00:ec2::254", false),
        ("100.100.100.200", false),
        ("0.0.0.0", false),
        ("::ffff:10.0.0.5", false),
    ] {
        let (run, dialled) = inside(&server, address).await;
        let url = format!("https://{INNER}/hook");
        let (endpoint, _) = run.endpoint_at(url, EventFilter::All).await;
        let tried = run.attempts(run.test(endpoint.id).await, 1).await;
        let reached = dialled.load(Ordering::SeqCst) > 0;
        assert_eq!(reached, is_reached, "{address}: {tried:?}");
        let delivered = tried.status == DeliveryStatus::Delivered;
        assert_eq!(delivered, is_reached, "{address}: {tried:?}");
    }
}

/// Serves HTTP in the negotiated version.
async fn serve(
    stream: TlsStream<TcpStream>,
    heard: Arc<Mutex<Vec<Heard>>>,
    refuses: Arc<AtomicUsize>,
) {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let service = service_fn(move |request: Request<Incoming>| {
        let (heard, refuses) = (Arc::clone(&heard), Arc::clone(&refuses));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            heard.lock().push(Heard {
                version: head.version,
                target: head.uri.path_and_query().unwrap().to_string(),
                headers: head.headers,
                body,
            });
            let less = |left: usize| left.checked_sub(1);
            let refused = refuses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
            let mut answer = Response::new(Full::new(Bytes::from_static(b"ok")));
            *answer.status_mut() = if refused.is_ok() { 500 } else { 200 }.try_into().unwrap();
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = TokioIo::new(stream);
    // The connection ends when the client closes it.
    if is_h2 {
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = http.serve_connection(stream, service).await;
    } else {
        let http = hyper::server::conn::http1::Builder::new();
        let _ = http.serve_connection(stream, service).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_over_http_2_and_over_http_1_behind_tls() {
    const EVENTS: usize = 40;
    for (protocols, version) in [
        (&[H2, H1][..], Version::HTTP_2),
        (&[H1][..], Version::HTTP_11),
    ] {
        let server = Secured::speaking(protocols).await;
        let run = Running::through(settings(), server.client()).await;
        let url = format!("https://{NAME}/hook?shop=1");
        let only = EventFilter::only(&[EventType::PaymentPending]);
        let (endpoint, secret) = run.endpoint_at(url, only).await;
        let (payment, _) = run.world.waiting().await;
        let mut ids = vec![run.all().await.remove(0).id];
        for _ in 1..EVENTS {
            ids.push(run.test(endpoint.id).await);
        }
        for id in ids {
            let delivered = run.attempts(id, 1).await;
            assert_eq!(delivered.status, DeliveryStatus::Delivered, "{delivered:?}");
            assert_eq!(delivered.attempts[0].status, Some(200));
            assert_eq!(delivered.attempts[0].response.as_deref(), Some("ok"));
        }
        let heard = server.heard.lock();
        assert_eq!(heard.len(), EVENTS);
        for each in heard.iter() {
            assert_eq!((each.version, &*each.target), (version, "/hook?shop=1"));
            assert_eq!(each.header("content-type"), "application/json");
            let event = EventId::parse(each.header("x-service-event-id")).unwrap();
            let timestamp = each.header("x-service-timestamp").parse().unwrap();
            let expected = sign(&secret, timestamp, event, &each.body);
            assert_eq!(each.header("x-service-signature"), expected);
        }
        let of_payment = format!("\"payment_id\":\"{payment}\"");
        let of_payment = |each: &&Heard| {
            let body = String::from_utf8_lossy(&each.body);
            body.contains(&of_payment)
        };
        assert_eq!(heard.iter().filter(of_payment).count(), 1);
        // Connections are reused, and carry concurrent requests if possible.
        let connections = server.connections.load(Ordering::SeqCst);
        // A connection that was idle for five seconds is not reused, which can happen on a slow machine.
        let most = if version == Version::HTTP_2 { 4 } else { 16 };
        assert!(connections <= most, "{connections} connections");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_failed_over_http_2_comes_again_signed_anew() {
    let server = Secured::speaking(&[H2]).await;
    let run = Running::through(settings(), server.client()).await;
    let url = format!("https://{NAME}/hook");
    let (endpoint, secret) = run.endpoint_at(url, EventFilter::All).await;
    server.refuses.store(1, Ordering::SeqCst);
    let id = run.test(endpoint.id).await;
    let failed = run.attempts(id, 1).await;
    assert_eq!(failed.status, DeliveryStatus::Pending);
    assert_eq!(failed.attempts[0].status, Some(500));
    run.later(10).await;
    let delivered = run.attempts(id, 2).await;
    assert_eq!(delivered.status, DeliveryStatus::Delivered);
    let heard = server.heard.lock();
    let [first, second] = &heard[..] else {
        panic!("{} requests", heard.len())
    };
    assert_eq!(first.body, second.body);
    let event = EventId::parse(first.header("x-service-event-id")).unwrap();
    let times: Vec<u64> = [first, second]
        .map(|each| each.header("x-service-timestamp").parse().unwrap())
        .into();
    assert!(times[1] >= times[0] + 5, "{times:?}");
    for (each, time) in [first, second].into_iter().zip(times) {
        let expected = sign(&secret, time, event, &each.body);
        assert_eq!(each.header("x-service-signature"), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_whose_authority_nobody_trusts_hears_nothing() {
    let server = Secured::speaking(&[H2, H1]).await;
    let client = server.client_that_trusts(Trust::Public);
    let run = Running::through(settings(), client).await;
    let url = format!("https://{NAME}/hook");
    let (endpoint, _) = run.endpoint_at(url, EventFilter::All).await;
    let id = run.test(endpoint.id).await;
    let failed = run.attempts(id, 1).await;
    assert_eq!(failed.status, DeliveryStatus::Pending);
    let said = failed.attempts[0].error.as_deref().unwrap();
    assert!(said.contains("unknown authority"), "{said}");
    assert!(server.heard.lock().is_empty());
}
