//! Size of each provider module and cost of its calls, for the table in providers/README.md.
//!
//! ```sh
//! cargo bench -p kassette --bench provider-modules
//! ```
//!
//! Each module runs as in a server, with a new instance per call, against its vendor's simulator in this process.
//! The time that a call waits for the network is subtracted, so the work of the module and its host remains.
//! Callbacks are signed by the simulator and report a paid payment.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use kassette_domain::id::AttemptId;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::provider::{CallbackRequest, PayerAction, Started, Verb};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_http::{Client, Guard, Request};
use kassette_runtime::{
    AccountAccess, OpenedModule, Outgoing, ProviderModule, RuntimeConfig, Sending, Workbench,
};
use kassette_sim::{Environment, Sim, SimAccount, SimConfig};
use tokio::sync::mpsc;

/// Time of all calls.
const NOW: Time = Time::from_secs(1_800_000_000);
/// Number of measured calls of each kind.
const CALLS: usize = 400;
/// Number of calls before them, for tokens, connections and caches.
const WARMING: usize = 20;

/// The guarded client, with the time spent waiting for it and its number of requests.
#[derive(Clone)]
struct Watched {
    client: Client,
    waited_ns: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

impl Outgoing for Watched {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        Box::pin(async move {
            let began = Instant::now();
            let answer = self.client.send(request).await;
            let waited = u64::try_from(began.elapsed().as_nanos()).unwrap();
            self.waited_ns.fetch_add(waited, Ordering::Relaxed);
            self.requests.fetch_add(1, Ordering::Relaxed);
            answer
        })
    }
}

impl Watched {
    /// Duration of a call without the network, its number of requests, and its result.
    async fn measure<T>(&self, call: impl Future<Output = T>) -> (Duration, u64, T) {
        let read = || {
            let waited = self.waited_ns.load(Ordering::Relaxed);
            (waited, self.requests.load(Ordering::Relaxed))
        };
        let ((waited, sent), began) = (read(), Instant::now());
        let answer = call.await;
        let took = began.elapsed();
        let (waited_then, sent_then) = read();
        let network = Duration::from_nanos(waited_then - waited);
        (took.saturating_sub(network), sent_then - sent, answer)
    }
}

/// Measured calls of one kind.
#[derive(Default)]
struct Calls {
    took: Vec<Duration>,
    /// Requests of the last call. Earlier ones may have fetched a token.
    requests: u64,
}

impl Calls {
    fn add(&mut self, took: Duration, requests: u64) {
        self.took.push(took);
        self.requests = requests;
    }

    /// The median without the warm-up, and the number of requests.
    fn told(mut self) -> String {
        let mut took = self.took.split_off(WARMING.min(self.took.len()));
        took.sort_unstable();
        let median = took[took.len() / 2].as_micros();
        format!("{median} µs | {}", self.requests)
    }
}

#[tokio::main]
async fn main() {
    println!(
        "| Module | File | Machine code | Memory of a call | `start` | Requests | `callback` | Requests |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for module in kassette_sim::modules() {
        println!("{}", row(module).await);
    }
}

/// The table row of a module.
async fn row(module: &'static str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (callback_url, mut letters) = letter_box().await;
    let id = format!("{module}-test");
    let sim = Sim::start(SimConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: folder.path().to_owned(),
        accounts: vec![SimAccount {
            provider_id: id.clone(),
            module: module.into(),
            environment: Environment::Test,
            client_id: "clientOfTheExample".into(),
            api_key: "secretOfTheExample".into(),
            callback_secret: "newsOfTheExample".into(),
            callback_url: Some(callback_url),
            public_base: None,
        }],
        clock: Arc::new(|| NOW.as_millis()),
        record: None,
    });
    let sim = sim.await.unwrap();
    let watched = Watched {
        client: Client::new(Guard {
            allow_loopback: true,
        }),
        waited_ns: Arc::default(),
        requests: Arc::default(),
    };
    let guest = kassette_build::guest(&format!("provider.{module}"));
    let bytes = std::fs::read(&guest.path).unwrap();
    let config = RuntimeConfig::new(PathBuf::new(), Arc::new(|| NOW));
    let opened = Workbench::new(config, watched.clone()).unwrap();
    let opened = opened.open(&bytes).unwrap();
    let OpenedModule::Provider(provider) = &opened.module else {
        panic!("{module} is no provider's");
    };
    let access = access(provider, &sim, &id);
    let method = sim.profile(&id).unwrap().methods[0];
    let mut starts = Calls::default();
    let mut action = None;
    for number in 0..WARMING + CALLS {
        let attempt = attempt(method, number);
        let (took, sent, outcome) = watched.measure(provider.start(&access, &attempt)).await;
        let Ok(Started::Open(open)) = outcome.result else {
            panic!("{module}: {outcome:?}");
        };
        starts.add(took, sent);
        action = Some(open.action);
    }
    pay(action.unwrap()).await;
    let letter = letters.recv().await.unwrap();
    let mut callbacks = Calls::default();
    for _ in 0..WARMING + CALLS {
        let (took, sent, read) = watched.measure(provider.callback(&access, &letter)).await;
        assert!(matches!(read, Ok(Ok(_))), "{module}: {read:?}");
        callbacks.add(took, sent);
    }
    format!(
        "| `{module}` | {} kB | {} kB | {} KiB | {} | {} |",
        bytes.len() / 1000,
        opened.code_bytes / 1000,
        opened.memory_bytes / 1024,
        starts.told(),
        callbacks.told(),
    )
}

/// URL for a simulator's callbacks, and a channel that receives them.
async fn letter_box() -> (String, mpsc::UnboundedReceiver<CallbackRequest>) {
    let (sender, letters) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/callbacks", listener.local_addr().unwrap());
    let take = move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let headers = headers.iter().map(|(name, value)| {
            let value = value.to_str().unwrap_or_default();
            (name.as_str().to_owned(), value.to_owned())
        });
        let path = uri.path().trim_start_matches("/callbacks");
        let _ = sender.send(CallbackRequest {
            verb: Verb::Post,
            path: path.to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            body: body.to_vec(),
        });
    };
    let routes = Router::new().fallback(take);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, letters)
}

/// The account as `kassette dev` would configure it.
fn access(module: &ProviderModule, sim: &Sim, id: &str) -> AccountAccess {
    let api = sim.api_addr(id).unwrap().to_string();
    let profile = sim.profile(id).unwrap();
    let mut access = kassette_kit::account(module.description(), &api, &[]).unwrap();
    access.account.now = NOW;
    access.account.settings = profile.settings;
    access.plain_loopback = true;
    access.redirect_hosts = vec![sim.addr().to_string().parse().unwrap()];
    for secret in &mut access.secrets {
        let known = profile
            .secrets
            .iter()
            .find(|(name, _)| *name == secret.name);
        secret.values = known
            .map(|(_, value)| Secret::new(value.clone()))
            .into_iter()
            .collect();
    }
    access.secrets.retain(|secret| !secret.values.is_empty());
    access
}

fn attempt(method: &str, number: usize) -> kassette_domain::provider::AttemptFacts {
    let method = MethodId::parse(method).unwrap();
    let currency = match method.as_str() {
        "upi_imps" => "INR",
        "interac" => "CAD",
        "cash_app" | "venmo" => "USD",
        _ => "EUR",
    };
    let due = Money {
        amount: Minor(4990),
        currency: Currency::parse(currency).unwrap(),
    };
    let mut attempt = kassette_kit::attempt(method, due);
    let number = u128::try_from(number).unwrap() + (1 << 100);
    attempt.id = AttemptId::from_bytes(number.to_be_bytes());
    attempt.payer.email = Some(Secret::new("ann@example.com".to_owned()));
    attempt
}

/// Approves a payment on the vendor's page.
async fn pay(action: PayerAction) {
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .unwrap();
    let request = match &action {
        PayerAction::Redirect(url) => http.get(url),
        PayerAction::Post { url, fields } => http.post(url).form(fields),
        PayerAction::Show(shown) => http.get(shown.link.as_ref().unwrap()),
        PayerAction::Ask(asked) => panic!("{asked:?}"),
    };
    let page = request.send().await.unwrap();
    let url = page.url().clone();
    let page = page.text().await.unwrap();
    let form = page.split("<form").nth(1).expect("a form to press");
    let action = url.join(&attribute(form, "action")).unwrap();
    let hidden = form.split("<input").skip(1).map(|tag| {
        let value = attribute(tag, "value");
        (attribute(tag, "name"), value)
    });
    let mut fields: Vec<(String, String)> = hidden.collect();
    fields.push(("outcome".into(), "approve".into()));
    let paid = http.post(action).form(&fields).send().await.unwrap();
    assert_eq!(paid.status().as_u16(), 303);
}

/// An attribute of the first tag of a fragment. Empty if it is missing.
fn attribute(tag: &str, name: &str) -> String {
    let tag = tag.split('>').next().unwrap();
    let value = tag.split(&format!(" {name}=\"")).nth(1).unwrap_or_default();
    let value = value.split('"').next().unwrap_or_default();
    value.replace("&amp;", "&").replace("&#38;", "&")
}
