//! `kassette dev`: everything on one machine, from source, with simulated vendors.
//!
//! It differs from `serve` only by the profile that it prints: see [`PROFILE`].

mod credentials;
mod database;
mod error;
mod guests;
mod receiver;
mod seed;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use kassette_domain::delegation::DelegationStatus;
use kassette_gateway::clock::AdjustableClock;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Profile};
use crate::listen::HandedOver;
use crate::ready::{Ready, ReadyMerchant, ReadyNode, ReadyReseller, ReadyStore};
use crate::serve::{self, OpenStore, Running, ServeError, ServerOptions};
use crate::signals::Signals;
use crate::simulators::{
    DevControls, PlannedAccount, SimulatorSettings, Simulators, simulated_module,
};

pub(crate) use self::credentials::Credentials;
use self::database::{Database, StoreKind};
use self::error::DevError;
use self::seed::SeedError;

/// What `dev` sets otherwise than `serve`, for people.
const PROFILE: &str = "\
  profile dev: rates for all 21 currencies; the demo merchant approved for live;
  rate limits of 10,000/s; methods that a policy does not name enabled in live too;
  loopback and plain http allowed for simulated accounts, webhooks, shops and return URLs; simulated accounts in
  live; the demo merchant's webhook endpoint at a receiver that prints a line per event;
  one plugin release published where the configuration has no releases/;
  a master key and demo keys drawn into the data directory";

/// The options of `kassette dev`.
#[derive(Args, Debug)]
pub(crate) struct DevArgs {
    /// Where the public API and the pages listen; port 0 draws a free one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where operators connect.
    #[arg(long, default_value = "127.0.0.1:8081")]
    admin_listen: SocketAddr,
    /// The store, the keys and the simulators' books.
    #[arg(long, default_value = "data")]
    data_dir: PathBuf,
    /// The configuration folder; the repository's own where it is not said.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Written once requests are served.
    #[arg(long)]
    ready_file: Option<PathBuf>,
    /// Where payments are kept.
    #[arg(long, value_enum, default_value_t)]
    store: StoreKind,
    /// Build only missing modules and watch no sources.
    #[arg(long)]
    no_watch: bool,
    /// Simulate only these modules' vendors, and build only their modules, separated by commas;
    /// all where it is not said.
    #[arg(long, value_delimiter = ',', value_parser = simulated_module)]
    simulate: Vec<&'static str>,
    /// Allow listen addresses that are not loopback: demo keys and simulators become reachable.
    #[arg(long)]
    expose: bool,
}

impl DevArgs {
    /// The modules whose vendors are simulated.
    fn simulated(&self) -> &[&'static str] {
        if self.simulate.is_empty() {
            kassette_sim::modules()
        } else {
            &self.simulate
        }
    }
}

/// Runs until it is told to stop.
pub(crate) async fn run(args: DevArgs, signals: Signals) -> Result<(), DevError> {
    for address in [args.listen, args.admin_listen] {
        if !address.ip().is_loopback() && !args.expose {
            return Err(DevError::Exposed(address));
        }
    }
    let root = guests::workspace_root().ok_or(DevError::NoWorkspace)?;
    let data_dir = absolute(&args.data_dir)?;
    let plugin_dir = data_dir.join("plugins");
    for folder in [&data_dir, &plugin_dir] {
        crate::files::make_private_folder(folder)
            .map_err(|error| ServeError::folder(folder, error))?;
    }
    say(&format!("Kassette {} (dev)", env!("CARGO_PKG_VERSION")));
    let folder = args.config.clone().unwrap_or_else(|| root.join("config"));
    let config = Config::read(&folder, Profile::Dev)?;
    let master = crate::master_key::read_or_draw(&data_dir.join("master.key"))?;
    let database = match args.store {
        StoreKind::Sled => None,
        StoreKind::Postgres => Some(Database::start(&data_dir, &master).await?),
    };
    let place = database.as_ref().map(Database::place);
    let store = OpenStore::open(&data_dir, place, &master, &config.main).await?;
    let guests = guests::Guests::new(&root, &plugin_dir, &data_dir, args.simulated());
    let only_missing = args.no_watch;
    let guests = tokio::task::spawn_blocking(move || guests.build(only_missing).map(|()| guests))
        .await
        .map_err(|_| ServeError::Interrupted)??;
    let (running, mut ready) = assemble(&args, (config, store), &data_dir, &plugin_dir).await?;
    running.begin();
    if let Some(database) = &database {
        ready.store = database.ready();
    }
    if let Some(path) = &args.ready_file {
        ready
            .write(path)
            .map_err(|error| ServeError::folder(path, error))?;
    }
    announce(&ready);
    let ending = CancellationToken::new();
    let kept = database.map(|database| {
        tokio::spawn(database.keep(ready, args.ready_file.clone(), ending.clone()))
    });
    if !args.no_watch {
        let stop = signals.stop.told.clone();
        tokio::spawn(async move {
            if let Err(error) = guests.watch(stop).await {
                tracing::warn!("sources are not watched: {error}");
            }
        });
    }
    let ended = running.until(signals).await;
    // The store has given its connections back by now.
    ending.cancel();
    if let Some(kept) = kept {
        let _ = kept.await;
    }
    Ok(ended?)
}

/// Assembles the server and seeds its store.
async fn assemble(
    args: &DevArgs,
    (config, store): (Config, OpenStore),
    data_dir: &Path,
    plugin_dir: &Path,
) -> Result<(Running, Ready), DevError> {
    let planned = PlannedAccount::of_modules(args.simulated());
    let ids: Vec<&str> = planned.iter().map(|planned| planned.id.as_str()).collect();
    let mut credentials = Credentials::load(data_dir, &ids)?;
    let clock = Arc::new(AdjustableClock::new());
    let planned: Vec<_> = planned
        .into_iter()
        .filter_map(|planned| {
            credentials
                .simulator(&planned.id)
                .map(|shared| (planned, shared))
        })
        .collect();
    let settings = SimulatorSettings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: data_dir.join("simulators"),
        public_base: None,
        redirect_hosts: Vec::new(),
    };
    let simulators = Simulators::start(&planned, settings, Arc::clone(&clock) as _).await?;
    let controls = Arc::new(DevControls::new(
        Arc::clone(&clock),
        Arc::clone(&simulators.sim),
    ));
    let options = ServerOptions {
        profile: Profile::Dev,
        store,
        data_dir: data_dir.to_owned(),
        plugin_dir: plugin_dir.to_owned(),
        listen: args.listen,
        admin_listen: args.admin_listen,
        sockets: HandedOver::default(),
        public_url: None,
        clock,
        simulators: Some(simulators),
        controls: Some(controls),
        bundled: std::collections::BTreeMap::new(),
        config,
    };
    let running = serve::start(options).await?;
    let gateway = running.gateway();
    let (store, now) = (gateway.store().as_ref(), gateway.clock().now());
    let merchant = seed::seed(store, &credentials, now).await?;
    let mut webhook = None;
    if let Some(demo) = &mut credentials.webhook {
        let receiver = receiver::Receiver::bind(demo.port)
            .await
            .map_err(DevError::NoReceiver)?;
        demo.port = Some(receiver.port());
        let id = seed::endpoint(store, merchant.id, demo, receiver.url(), now).await?;
        webhook = Some((id.to_string(), demo.secret.expose().to_owned()));
        receiver.begin(demo.secret.clone(), Arc::clone(gateway.clock()));
    }
    let mut resellers = Vec::new();
    if let Some(demo) = &credentials.reseller {
        let reseller = seed::reseller(store, merchant.id, demo, now).await?;
        let delegation = store.delegation(reseller.id, merchant.id).await;
        let delegation = delegation.map_err(SeedError::from)?;
        let authorized = delegation
            .filter(|delegation| delegation.status() == DelegationStatus::Authorized)
            .map(|delegation| delegation.merchant.0);
        resellers.push(ReadyReseller {
            reseller_id: reseller.id.0,
            test_key: demo.test_key.expose().to_owned(),
            live_key: demo.live_key.expose().to_owned(),
            authorized_merchant_ids: authorized.into_iter().collect(),
        });
    }
    credentials.save(data_dir)?;
    let (webhook_endpoint_id, webhook_secret) = webhook.unzip();
    let ready = Ready {
        base_url: running.base_url().to_owned(),
        admin_url: running.admin_url(),
        listen: running.listen().to_string(),
        operator_token: Some(credentials.operator_token.expose().to_owned()),
        plugin_dir: plugin_dir.display().to_string(),
        merchants: vec![ReadyMerchant {
            merchant_id: merchant.id.0,
            name: merchant.name.clone(),
            test_key: credentials.test_key.expose().to_owned(),
            live_key: credentials.live_key.expose().to_owned(),
            verified_domain: seed::DOMAIN.to_owned(),
            webhook_endpoint_id,
            webhook_secret,
        }],
        resellers,
        nodes: vec![ReadyNode::only(running.base_url(), running.admin_url())],
        store: ReadyStore::of(None),
    };
    Ok((running, ready))
}

/// Tells a newcomer what to do next.
fn announce(ready: &Ready) {
    let key = ready
        .merchants
        .first()
        .map_or("", |merchant| merchant.test_key.as_str());
    let base = &ready.base_url;
    say(PROFILE);
    say(&format!(
        "
  API      {base}/api/v1
  OpenAPI  {base}/openapi.json
  Admin    {}
  Modules  {}
  Keys     test {key}
           live {}
           reseller {}
           operator {}

Try it:

  curl -s {base}/api/v1/payments -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{{\"order_id\":\"order-1\",\"idempotency_key\":\"order-1-a\",\"amount\":\"49.90\",\"currency\":\"EUR\"}}'

and open its checkout_url. Giving money back needs a key that may: `kassette key create --merchant-id 1
--environment test --scope payments:refund`. A shop on this machine: `kassette domain create --merchant-id 1
--domain localhost`, then return URLs such as http://localhost:3000/thanks are taken. Ctrl-C stops.",
        ready.admin_url,
        ready.plugin_dir,
        ready.merchants.first().map_or("", |merchant| merchant.live_key.as_str()),
        ready.resellers.first().map_or("", |reseller| reseller.test_key.as_str()),
        ready.operator_token.as_deref().unwrap_or_default(),
    ));
}

/// Speaks to the person at the terminal.
#[expect(
    clippy::print_stdout,
    reason = "this is what the person at the terminal reads"
)]
fn say(text: &str) {
    println!("{text}");
}

fn absolute(path: &Path) -> Result<PathBuf, ServeError> {
    std::path::absolute(path).map_err(|error| ServeError::folder(path, error))
}
