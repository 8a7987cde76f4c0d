//! Creates a server from its options: store, modules, gateway and listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::secret::Secret;
use kassette_gateway::Gateway;
use kassette_gateway::clock::Clock;
use kassette_http::{Client, Guard};
use kassette_runtime::{
    Acceptance, CacheConfig, MacKey, Runtime, RuntimeConfig, RuntimeError, VersionsConfig,
};
use kassette_store::{
    Fault, Listed, MasterKey, Paging, PostgresStore, SledStore, Store, postgres, sled,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::announced::Announced;
use super::certificates::{Certificate, Pair};
use super::ecb::Ecb;
use super::outgoing::{ClockWatch, ModuleClient};
use super::rates_file::RatesFile;
use super::reload::Reloader;
use super::settings::{open_files, settings};
use super::{Running, SANDBOX_PATH, ServeError};
use crate::config::{self, Config, MainFile, Profile};
use crate::listen::{Caps, HandedOver, Listener, within_limit};
use crate::proxies::Proxies;
use crate::simulators::{DevControls, Vendors};
use crate::status::{Facts, Reporter};
use crate::{admin, api, docs, pages, telemetry};

/// Options that differ between `serve` and `dev`.
pub(crate) struct ServerOptions {
    /// Rules that the configuration is checked against.
    pub(crate) profile: Profile,
    pub(crate) config: Config,
    /// Opened before anything else writes to its folder, so that a rejected store leaves the folder unchanged.
    pub(crate) store: OpenStore,
    /// Folder of the store.
    pub(crate) data_dir: PathBuf,
    /// Folder of compiled modules. Nodes on the same machine may share it.
    pub(crate) compiled_dir: PathBuf,
    /// Folder of the modules.
    pub(crate) plugin_dir: PathBuf,
    /// Address of the public listener.
    pub(crate) listen: SocketAddr,
    /// Address of the admin listener.
    pub(crate) admin_listen: SocketAddr,
    /// Sockets that replace binding to these addresses.
    pub(crate) sockets: HandedOver,
    /// Origin of public URLs. `None` for `http://` and the public address.
    pub(crate) public_url: Option<String>,
    /// The load balancer of `dev`.
    pub(crate) front: Option<BalancerAddress>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Simulated accounts.
    pub(crate) simulators: Option<Vendors>,
    /// Control interfaces of `dev`.
    pub(crate) controls: Option<Arc<DevControls>>,
    /// Modules that serve slots for which the plugin folder and uploads have none.
    pub(crate) bundled: BTreeMap<Slot, Vec<u8>>,
}

/// A load balancer that is not part of the configuration.
pub(crate) struct BalancerAddress {
    /// Addresses whose `X-Forwarded-For` is trusted.
    pub(crate) proxies: Proxies,
    /// Address of its listener for operators.
    pub(crate) admin_listen: SocketAddr,
}

/// Creates store, modules, gateway and listeners. No requests are served yet.
pub(crate) async fn start(mut options: ServerOptions) -> Result<Running, ServeError> {
    let sockets = std::mem::take(&mut options.sockets);
    let bundled = std::mem::take(&mut options.bundled);
    let main = &options.config.main;
    let (public_caps, admin_caps) = within_limit(main.limits.caps(), Caps::operators());
    if let Some(files) = open_files().filter(|files| *files < LEAST_FILES) {
        return Err(ServeError::TooFewFiles {
            files,
            least: LEAST_FILES,
        });
    }
    let certificate = |listener, pair: Option<Pair>| {
        pair.map(|pair| Certificate::begin(listener, pair, options.profile))
            .transpose()
    };
    let public_certificate = certificate("public", Pair::public(&options.config))?;
    let admin_certificate = certificate("admin", Pair::admin(&options.config))?;
    let front = options.front.as_ref();
    let proxies = front.map_or(&main.trusted_proxies, |front| &front.proxies);
    let public = bind(options.listen, sockets.public, public_certificate.as_ref())
        .await?
        .without_counting(proxies)
        .idle_for(main.limits.idle())
        .capped(public_caps);
    let admin_tls = admin_certificate.is_some();
    let operators = bind(
        options.admin_listen,
        sockets.admin,
        admin_certificate.as_ref(),
    )
    .await?
    .capped(admin_caps);
    if !operators.address().ip().is_loopback() && !admin_tls && options.profile == Profile::Serve {
        return Err(ServeError::PlainAdmin(operators.address()));
    }
    let base_url = options
        .public_url
        .clone()
        .unwrap_or_else(|| origin("http", public.address()));
    let (listen, admin_listen) = (public.address(), operators.address());
    let admin_url = origin(
        if admin_tls { "https" } else { "http" },
        operators.address(),
    );

    let store = Arc::clone(&options.store.store);
    let clock = Arc::clone(&options.clock);
    let runtime = start_runtime(&options, bundled).await?;
    if runtime.slots().is_empty() {
        tracing::warn!(
            plugin.folder = %options.plugin_dir.display(),
            "there are no modules, so nothing can be paid: {} is empty, and only the program of a release \
             brings modules along; put some there",
            options.plugin_dir.display(),
        );
    }
    let simulated = options
        .simulators
        .as_ref()
        .map(|simulators| simulators.accounts().clone());
    let mut own_origins = own_origins(&base_url, [public.address(), operators.address()]);
    own_origins.push(admin_url.clone());
    let inner = match &options.simulators {
        // Simulators send callbacks over loopback, without the TLS or the proxy of the public address.
        Some(Vendors::Here(simulators)) => {
            let inner = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None).await?;
            let inner_url = origin("http", inner.address());
            simulators.call_back_to(&inner_url)?;
            own_origins.push(inner_url);
            Some(inner)
        }
        Some(Vendors::Elsewhere(..)) | None => None,
    };
    let settings = settings(
        &options.config,
        &base_url,
        &own_origins,
        options.profile,
        simulated.as_ref(),
    );
    let gateway = Gateway::new(Arc::clone(&store), runtime, clock, settings.clone());
    gateway.join_modules().await?;
    let configured = gateway.configure(settings).await;
    configured.map_err(|refused| {
        ServeError::Settings(config::refusal(&options.config.folder, &refused))
    })?;
    let rates_file = RatesFile::begin(&options.config, options.profile, gateway.clone())?;
    let ecb_address = watch::Sender::new(main.rates.ecb(options.profile));
    let ecb = Ecb::begin(
        gateway.clone(),
        Client::new(config::guard(options.profile)).through(main.outgoing.proxy()),
        ecb_address.subscribe(),
        options.data_dir.join("eurofxref-daily.xml"),
    );
    gateway.warm_up().await?;

    let state = api::ApiState::new(gateway.clone(), proxies.clone(), main.limits.in_hand);
    let mut listeners = Vec::new();
    if let Some(inner) = inner {
        listeners.push((inner, api::callbacks(state.clone())));
    }
    let payers = pages::PagesState::new(gateway.clone(), proxies.clone()).limited_by(state.clone());
    let mut router = api::router(state.clone())
        .merge(pages::router(payers))
        .merge(docs::router(&state));
    if let (Some(Vendors::Here(simulators)), Profile::Serve) =
        (&options.simulators, options.profile)
    {
        let sandbox = Router::new().nest(SANDBOX_PATH, simulators.sim.payer_routes());
        router = router.merge(api::limited(sandbox, &state));
    }
    listeners.push((public, router));
    let mut hosts = admin_hosts(operators.address(), &main.admin_hosts);
    hosts.extend(
        front
            .into_iter()
            .flat_map(|front| admin_hosts(front.admin_listen, &[])),
    );
    let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
    let is_local = operators.address().ip().is_loopback();
    let facts = Arc::new(Facts::default());
    let reporter = Reporter::new(gateway.clone(), Arc::clone(&facts), telemetry::version());
    let reporter = Arc::new(reporter);
    let admin_state = admin::AdminState::new(gateway.clone(), hosts, options.controls.clone())
        .metrics_open(is_local)
        .reporting(Arc::clone(&reporter));
    let health = telemetry::router(
        gateway.clone(),
        Arc::clone(&facts),
        stopping.clone(),
        closing.clone(),
    );
    let health = admin::with_metrics_guarded(health, &admin_state);
    let operators_router = admin::router(admin_state).merge(health);
    listeners.push((operators, operators_router));
    let announced = Announced::new(
        gateway.clone(),
        listen.to_string(),
        admin_listen.to_string(),
    );
    announced.configured(&options.config.folder);
    let announced = Arc::new(announced);
    let certificates = [public_certificate, admin_certificate];
    for certificate in certificates.iter().flatten() {
        certificate.show_in(&facts, gateway.clock().now());
    }
    let reloader = Reloader::new(
        (&options.config, options.profile),
        certificates.into_iter().flatten().collect(),
        (rates_file, ecb_address),
        gateway.clone(),
        (base_url.clone(), own_origins),
        simulated,
        (Arc::clone(&announced), facts),
    );
    Ok(Running {
        gateway,
        store,
        base_url,
        admin_url,
        listen,
        admin_listen,
        listeners: parking_lot::Mutex::new(listeners),
        simulators: options.simulators,
        reloader: Arc::new(reloader),
        reporter,
        data_dir: options.data_dir,
        announced,
        ecb: parking_lot::Mutex::new(Some(ecb)),
        stopping,
        closing,
        ending: CancellationToken::new(),
        listening: TaskTracker::new(),
        working: TaskTracker::new(),
    })
}

/// Maximum time for the checks of a module before it serves for the first time.
const QUESTIONS: Duration = Duration::from_secs(2);
/// Minimum limit of open files, which leaves enough for the store besides all incoming and outgoing connections.
pub(crate) const LEAST_FILES: u64 = 1024;

/// Loads all modules. Compilation blocks, so it does not run on the async workers.
async fn start_runtime(
    options: &ServerOptions,
    bundled: BTreeMap<Slot, Vec<u8>>,
) -> Result<Arc<Runtime>, ServeError> {
    let clock = Arc::clone(&options.clock);
    let mut config = RuntimeConfig::new(&options.plugin_dir, Arc::new(move || clock.now()));
    config.compiler = crate::compiler::child();
    config.refuse_shared = options.profile == Profile::Serve;
    config.signing_keys = options.config.main.plugins.keys.clone();
    config.answer_cache_bytes = options.config.main.plugins.remembered_mib << 20;
    let acceptance: Acceptance = Arc::new(|module| kassette_kit::accept(module, QUESTIONS));
    let judged = options.config.main.plugins.check_before_use;
    let acceptance = judged.then_some(acceptance);
    config.versions = Some(versions(options).await?);
    config.cache = Some(CacheConfig::new(
        options.compiled_dir.clone(),
        options.store.cache_key.clone(),
    ));
    // The account decides: the runtime allows requests to loopback only for simulated accounts.
    let guard = Guard {
        allow_loopback: true,
    };
    let outgoing = ModuleClient {
        client: Client::new(guard)
            .through(options.config.main.outgoing.proxy())
            .reaching(Vec::new(), &options.config.provider_authorities),
        simulators: options.simulators.as_ref().map(Vendors::listeners),
        clock_watch: ClockWatch::new(Arc::clone(&options.clock)),
    };
    let start = move || Runtime::start_with(config, outgoing, acceptance, bundled);
    tokio::task::spawn_blocking(start)
        .await
        .map_err(|_| ServeError::Interrupted)?
        .map_err(|error| ServeError::Runtime { error })
}

/// Storage of module versions. For slots whose history is not authentic, the audit log provides the version.
async fn versions(options: &ServerOptions) -> Result<VersionsConfig, ServeError> {
    let folder = options.data_dir.join(MODULES_DIR);
    let mut versions = VersionsConfig::new(folder, options.store.history_key.clone());
    let unauthentic = versions.unauthentic().map_err(RuntimeError::Versions);
    let unauthentic = unauthentic.map_err(|error| ServeError::Runtime { error })?;
    if !unauthentic.is_empty() {
        let slots = unauthentic.into_iter().collect();
        versions.audited = audited_versions(&*options.store.store, slots).await?;
    }
    Ok(versions)
}

/// For each slot, the version that the newest entry of the audit log about it names.
async fn audited_versions(
    store: &dyn Store,
    mut slots: BTreeSet<Slot>,
) -> Result<BTreeMap<Slot, Digest>, Fault> {
    let mut audited = BTreeMap::new();
    let mut cursor = None;
    loop {
        let paging = Paging { limit: 100, cursor };
        let Listed::Page(page) = store.audit_log(paging).await? else {
            return Ok(audited);
        };
        for entry in page.items {
            if let Some((slot, digest)) = entry.audited.served_version()
                && slots.remove(&slot)
            {
                audited.extend(digest.map(|digest| (slot, digest)));
            }
        }
        cursor = page.next;
        if cursor.is_none() || slots.is_empty() {
            return Ok(audited);
        }
    }
}

/// Folder of module versions in the data directory.
pub(crate) const MODULES_DIR: &str = "modules";

/// Derivation purpose of the key for module histories.
pub(crate) const HISTORY_PURPOSE: &str = "module histories";

/// A database, and whether it was started only for this process.
pub(crate) struct DatabasePlace {
    pub(crate) url: Secret,
    /// Name of this node among the nodes that serve the database.
    pub(crate) node: String,
    pub(crate) is_own: bool,
    /// Whether the ledger uses the database server's clock. False in `dev`, which has a clock of its own.
    pub(crate) server_clock: bool,
}

/// A store, and the keys that authenticate compiled modules and histories of slots.
pub(crate) struct OpenStore {
    store: Arc<dyn Store>,
    cache_key: MacKey,
    history_key: MacKey,
}

impl OpenStore {
    /// Opens the store of a data directory, or the database if one is given, with a master key of 32 bytes in
    /// base64.
    pub(crate) async fn open(
        data_dir: &Path,
        database: Option<DatabasePlace>,
        master: &Secret,
        main: &MainFile,
    ) -> Result<Self, ServeError> {
        let master = MasterKey::parse(master.expose())
            .map_err(|error| ServeError::BadMasterKey(error.to_string()))?;
        let cache_key = MacKey::from_bytes(master.derive("compiled modules"));
        let history_key = MacKey::from_bytes(master.derive(HISTORY_PURPOSE));
        let store: Arc<dyn Store> = match database {
            Some(database) => {
                let options = postgres::OpenOptions {
                    url: database.url.expose().to_owned(),
                    master,
                    volatile: false,
                    node: database.node,
                    alone: database.is_own,
                    server_clock: database.server_clock,
                };
                PostgresStore::open(&options).await?
            }
            None => SledStore::open(&sled::OpenOptions {
                path: data_dir.join("store"),
                master,
                cache_bytes: main.store.cache_mib << 20,
            })?,
        };
        Ok(Self {
            store,
            cache_key,
            history_key,
        })
    }
}

/// The public origin, and the same host with the listeners' ports, which may be reachable without the proxy.
fn own_origins(public_url: &str, listeners: [SocketAddr; 2]) -> Vec<String> {
    let mut own = vec![public_url.to_owned()];
    if let Ok(mut url) = url::Url::parse(public_url) {
        for listener in listeners {
            if url.set_port(Some(listener.port())).is_ok() {
                own.push(url.to_string());
            }
        }
    }
    own
}

/// Creates a listener on the passed socket, or else on the address.
async fn bind(
    address: SocketAddr,
    socket: Option<TcpListener>,
    certificate: Option<&Certificate>,
) -> Result<Listener, ServeError> {
    let tls = certificate.map(Certificate::tls);
    let Some(socket) = socket else {
        return Ok(Listener::bind(address, tls).await?);
    };
    let listener = Listener::over(socket, tls)?;
    tracing::info!(
        "the service manager hands over a socket on {}; {address} is not listened on",
        listener.address()
    );
    Ok(listener)
}

/// Origin of an address. Uses loopback if the address is unspecified (all interfaces).
pub(crate) fn origin(scheme: &str, address: SocketAddr) -> String {
    let shown = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port()))
        }
        _ => address,
    };
    format!("{scheme}://{shown}")
}

/// Host names that the admin listener accepts. A foreign page that resolves its own name to this address (DNS
/// rebinding) must not get a response.
fn admin_hosts(address: SocketAddr, configured: &[String]) -> Vec<String> {
    let port = address.port();
    let mut hosts = vec![
        address.to_string(),
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
    ];
    hosts.extend(configured.iter().cloned());
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_one_that_can_be_opened() {
        assert_eq!(
            origin("http", ([0, 0, 0, 0], 80).into()),
            "http://127.0.0.1:80"
        );
        assert_eq!(
            origin("https", ([192, 0, 2, 1], 8443).into()),
            "https://192.0.2.1:8443"
        );
    }

    #[test]
    fn no_event_goes_to_an_address_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kassette.toml");
        std::fs::write(file, "admin_hosts = [\"ops.example\"]").unwrap();
        let config = Config::read(folder.path(), Profile::Serve).unwrap();
        let listeners = [8443, 9443].map(|port| ([0, 0, 0, 0], port).into());
        let given = own_origins("https://pay.example", listeners);
        let settings = settings(&config, "https://pay.example", &given, Profile::Serve, None);
        assert_eq!(
            settings.webhooks.own_origins,
            [
                "https://pay.example",
                "https://pay.example:8443/",
                "https://pay.example:9443/",
                "https://ops.example"
            ]
        );
    }

    #[test]
    fn the_admin_listener_answers_under_its_own_names_alone() {
        let hosts = admin_hosts(([127, 0, 0, 1], 8081).into(), &["ops.example".into()]);
        assert!(
            hosts.contains(&"localhost:8081".to_owned())
                && hosts.contains(&"ops.example".to_owned())
        );
        assert!(!hosts.contains(&"evil.example:8081".to_owned()));
    }
}
