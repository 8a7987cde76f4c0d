//! Names that resolve to internal addresses: addresses from merchants and shops are reached only through the
//! guarded client.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kassette_domain::connect::{Challenge, Proof, SiteUrl, WebhookPath};
use kassette_domain::key::{Environment, Scope};
use kassette_domain::policy::Policy;
use kassette_domain::webhook::EventFilter;
use kassette_gateway::connect::{ConnectClaim, ConnectError, NewConnectCode, NoControl};
use kassette_http::{Client, Dialing, Guard, Network, NotSent, Resolving, SendError, Trust};
use tokio::net::{TcpListener, TcpStream};

use crate::webhooks::Running;
use crate::world::{World, audited, settings};

/// Every name resolves to one address, and every connection reaches a listener that answers immediately.
struct Inside {
    address: IpAddr,
    trap: SocketAddr,
    dialled: Arc<AtomicUsize>,
}

impl Network for Inside {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(async { Ok(vec![self.address]) })
    }

    fn dial(&self, _: SocketAddr) -> Dialing<'_> {
        self.dialled.fetch_add(1, Ordering::SeqCst);
        Box::pin(TcpStream::connect(self.trap))
    }
}

const ADDRESSES: [&str; 6] = [
    "127.0.0.1",
    "10.0.0.5",
    "169.254.169.254",
    "100.64.0.1",
    "fd00::5",
    "::ffff:10.0.0.5",
];

/// A client on that network, with the number of its connections.
async fn client(address: &str) -> (Client, Arc<AtomicUsize>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dialled = Arc::new(AtomicUsize::new(0));
    let inside = Inside {
        address: address.parse().unwrap(),
        trap: listener.local_addr().unwrap(),
        dialled: Arc::clone(&dialled),
    };
    let client = Client::over(Guard::default(), Arc::new(inside), Trust::Public);
    (client, dialled, listener)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_goes_to_a_name_that_leads_inside() {
    for address in ADDRESSES {
        let (client, dialled, _trap) = client(address).await;
        let run = Running::through(settings(), client).await;
        let url = "https://www.merchant.example/hook".to_owned();
        let (endpoint, _) = run.endpoint_at(url, EventFilter::All).await;
        let id = run.test(endpoint.id).await;
        let blocked = run.attempts(id, 1).await;
        let said = blocked.attempts[0].error.as_deref().unwrap();
        assert!(said.contains("no public address"), "{address}: {said}");
        assert_eq!(dialled.load(Ordering::SeqCst), 0, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_shop_is_asked_whose_name_leads_inside() {
    for address in ADDRESSES {
        let (client, dialled, _trap) = client(address).await;
        let world = World::through(settings(), Policy::default(), client).await;
        let site = world
            .gateway
            .shop_site("https://www.shop.example", &WebhookPath::default())
            .unwrap();
        let issued = issued(&world, site.clone()).await;
        let challenge = Challenge::parse(&"a1".repeat(16)).unwrap();
        let claim = ConnectClaim {
            proof: Proof::make(&issued, &challenge, site.origin()),
            code: issued,
            site,
            webhook_path: WebhookPath::default(),
            challenge,
        };
        let refused = world.gateway.connect(claim).await;
        let not_public = SendError::NotSent(NotSent::NotPublic);
        match refused {
            Err(ConnectError::NoControl(NoControl::NoAnswer(why))) => {
                assert_eq!(why, not_public, "{address}");
            }
            other => panic!("{address}: {other:?}"),
        }
        assert_eq!(dialled.load(Ordering::SeqCst), 0, "{address}");
    }
}

async fn issued(world: &World, site: SiteUrl) -> kassette_domain::secret::Secret {
    let new = NewConnectCode {
        merchant: world.merchant.id,
        environment: Environment::Test,
        site,
        scopes: Scope::MERCHANT.to_vec(),
    };
    let issued = world.gateway.issue_connect_code(new, audited()).await;
    issued.unwrap().shown
}
