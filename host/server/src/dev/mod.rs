//! `kassette dev`: everything on one machine, from source, with simulated providers.
//!
//! [`PROFILE`] describes the differences from `serve`.

mod cluster;
mod credentials;
mod database;
mod demo;
mod error;
mod guests;
mod ready_file;
mod receiver;
mod seed;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Profile};
use crate::listen::HandedOver;
use crate::ready::{Ready, ReadyNode, ReadyStore};
use crate::serve::{self, OpenStore, Running, ServeError, ServerOptions};
use crate::signals::Signals;
use crate::simulators::{DevControls, Vendors, simulated_module};

pub(crate) use self::cluster::{NODE, node};
#[cfg(test)]
pub(crate) use self::credentials::Credentials;
use self::database::{DevDatabase, StoreKind};
use self::demo::Demo;
use self::error::DevError;
use self::ready_file::ReadyFile;

/// Log filter: without the lines about loaded modules, audit entries and the server's own start, so that the first
/// steps stay the last thing on the screen, followed by lines about payments and events. `RUST_LOG` takes precedence.
pub(crate) const LOG_FILTER: &str = "info,kassette_runtime::runtime=warn,kassette_store::rows::audit=warn,kassette_server::serve=warn";

/// Differences from `serve`, for the person at the terminal.
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
    /// Address of the public API and the pages; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address for operators.
    #[arg(long, default_value = "127.0.0.1:8081")]
    admin_listen: SocketAddr,
    /// Folder of the store, the keys and the simulators' data.
    #[arg(long, default_value = "data")]
    data_dir: PathBuf,
    /// Folder of the configuration; by default the repository's.
    #[arg(long)]
    config: Option<PathBuf>,
    /// File that is written when requests are served.
    #[arg(long)]
    ready_file: Option<PathBuf>,
    /// Store of payments: `sled`, a private `postgres` server, or a running database as
    /// `postgres://user@host/name`.
    #[arg(long, default_value = "sled")]
    store: StoreKind,
    /// Number of gateway processes behind a load balancer; more than one needs PostgreSQL.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    nodes: u8,
    /// Build only missing modules and do not watch sources.
    #[arg(long)]
    no_watch: bool,
    /// Simulate only the providers of these modules, separated by commas, and build only their modules; by default
    /// all.
    #[arg(long, value_delimiter = ',', value_parser = simulated_module)]
    simulate: Vec<&'static str>,
    /// Allow listen addresses that are not loopback: demo keys and simulators become reachable.
    #[arg(long)]
    expose: bool,
}

impl DevArgs {
    /// Modules whose providers are simulated.
    fn simulated(&self) -> &[&'static str] {
        if self.simulate.is_empty() {
            kassette_sim::modules()
        } else {
            &self.simulate
        }
    }
}

/// Folders of data and modules.
struct Folders {
    data: PathBuf,
    plugins: PathBuf,
}

/// Runs until a signal to stop.
pub(crate) async fn run(args: DevArgs, signals: Signals) -> Result<(), DevError> {
    for address in [args.listen, args.admin_listen] {
        if !address.ip().is_loopback() && !args.expose {
            return Err(DevError::Exposed(address));
        }
    }
    if args.nodes > 1 && args.store == StoreKind::Sled {
        return Err(DevError::NoSharedStore);
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
    let database = match &args.store {
        StoreKind::Sled => None,
        StoreKind::Postgres => Some(DevDatabase::start(&data_dir, &master, args.nodes).await?),
        StoreKind::At(url) => Some(DevDatabase::at(url, &master).await?),
    };
    let guests = guests::Guests::new(&root, &plugin_dir, &data_dir, args.simulated());
    let only_missing = args.no_watch;
    let build = async move {
        let build = move || guests.build(only_missing).map(|()| guests);
        let built = tokio::task::spawn_blocking(build).await;
        Ok::<_, DevError>(built.map_err(|_| ServeError::Interrupted)??)
    };
    let watch = |guests: guests::Guests, stop: CancellationToken| {
        if args.no_watch {
            return;
        }
        tokio::spawn(async move {
            if let Err(error) = guests.watch(stop).await {
                tracing::warn!("sources are not watched: {error}");
            }
        });
    };
    if let (Some(database), true) = (&database, args.nodes > 1) {
        let guests = build.await?;
        watch(guests, signals.stop.stop_requested.clone());
        let folders = Folders {
            data: data_dir,
            plugins: plugin_dir,
        };
        return cluster::run(&args, config, folders, master, database.clone(), signals).await;
    }
    let place = database.as_ref().map(DevDatabase::place);
    let store = OpenStore::open(&data_dir, place, &master, &config.main).await?;
    let guests = build.await?;
    let (running, mut ready) = assemble(&args, (config, store), &data_dir, &plugin_dir).await?;
    running.begin();
    if let Some(database) = &database {
        ready.store = database.ready();
    }
    announce(&ready);
    let ready = ReadyFile::write(args.ready_file.as_deref(), ready)?;
    let ending = CancellationToken::new();
    let kept =
        database.map(|database| tokio::spawn(database.keep(Arc::new(ready), ending.clone())));
    watch(guests, signals.stop.stop_requested.clone());
    let ended = running.until(signals).await;
    // At this point, the store has closed its connections.
    ending.cancel();
    if let Some(kept) = kept {
        let _ = kept.await;
    }
    Ok(ended?)
}

/// Assembles the server and adds the demo data to its store.
async fn assemble(
    args: &DevArgs,
    (config, store): (Config, OpenStore),
    data_dir: &Path,
    plugin_dir: &Path,
) -> Result<(Running, Ready), DevError> {
    let (demo, simulators) = Demo::start(args.simulated(), data_dir).await?;
    let clock = Arc::clone(&demo.clock);
    let controls = DevControls::Here {
        clock: Arc::clone(&clock),
        sim: Arc::clone(&simulators.sim),
    };
    let options = ServerOptions {
        profile: Profile::Dev,
        store,
        data_dir: data_dir.to_owned(),
        compiled_dir: data_dir.join("compiled"),
        plugin_dir: plugin_dir.to_owned(),
        listen: args.listen,
        admin_listen: args.admin_listen,
        sockets: HandedOver::default(),
        public_url: None,
        front: None,
        clock,
        simulators: Some(Vendors::Here(simulators)),
        controls: Some(Arc::new(controls)),
        bundled: std::collections::BTreeMap::new(),
        config,
    };
    let running = serve::start(options).await?;
    let seeded = demo.seed(running.gateway().store().as_ref()).await?;
    let ready = Ready {
        base_url: running.base_url().to_owned(),
        admin_url: running.admin_url(),
        listen: running.listen().to_string(),
        operator_token: Some(seeded.operator_token),
        plugin_dir: plugin_dir.display().to_string(),
        merchants: vec![seeded.merchant],
        resellers: seeded.reseller.into_iter().collect(),
        nodes: vec![ReadyNode::only(running.base_url(), running.admin_url())],
        store: ReadyStore::from_url(None),
    };
    Ok((running, ready))
}

/// Prints the first steps.
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

/// Prints a text for the person at the terminal.
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
