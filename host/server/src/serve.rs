//! `kassette serve`: puts the parts together and runs them; `dev` uses the same assembly.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use kassette_domain::secret::Secret;
use kassette_gateway::Gateway;
use kassette_gateway::clock::{Clock, SystemClock};
use kassette_gateway::settings::Settings;
use kassette_http::{Client, Guard, NotSent, Request, SendError};
use kassette_runtime::{Outgoing, Runtime, RuntimeConfig, RuntimeError, Sending};
use kassette_sim::{Sim, SimError};
use kassette_store::sled::{MasterKey, OpenError, OpenOptions};
use kassette_store::{Fault, Health as _, SledStore, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, ConfigError, Profile};
use crate::dev::{CredentialsError, DevControls, GuestError, SeedError};
use crate::listen::{ListenError, Listener, tls_acceptor};
use crate::master_key::MasterKeyError;
use crate::ready::Ready;
use crate::simulators::{Place, SANDBOX_TEST, Simulators};
use crate::{admin, api, pages, telemetry};

/// Where the sandbox's payer page stands below the public origin.
const SANDBOX_PATH: &str = "/sandbox";

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    PublicUrl(String),
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error("the master key is not usable: {0}")]
    BadMasterKey(String),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(
        "the store stopped, because what it writes cannot be made safe: {0}; free or repair the disk and start again"
    )]
    StoreFailed(String),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Simulator(#[from] SimError),
    #[error("{0}")]
    SimulatorSecrets(String),
    #[error(transparent)]
    Settings(#[from] kassette_gateway::workers::SettingsRefused),
    #[error(transparent)]
    Guests(#[from] GuestError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Seed(#[from] SeedError),
    #[error("{0} is not a loopback address; dev has demo keys, so it is refused without --expose")]
    Exposed(SocketAddr),
    #[error("the admin listener {0} is not loopback, so it needs admin_tls_cert and admin_tls_key")]
    PlainAdmin(SocketAddr),
    #[error("dev builds modules from source: run it in a clone of the repository")]
    NoWorkspace,
    #[error("{path}: {why}")]
    Folder { path: String, why: String },
    #[error("interrupted")]
    Interrupted,
}

impl ServeError {
    /// A folder or file that cannot be used.
    pub(crate) fn folder(path: &Path, why: impl ToString) -> Self {
        Self::Folder {
            path: path.display().to_string(),
            why: why.to_string(),
        }
    }
}

/// Everything that `serve` and `dev` decide differently.
pub(crate) struct Parts {
    /// Whose rules apply.
    pub(crate) profile: Profile,
    /// What was configured.
    pub(crate) config: Config,
    /// The master key, 32 bytes in base64.
    pub(crate) master: Secret,
    /// Folder of the store.
    pub(crate) data_dir: PathBuf,
    /// Folder of the modules.
    pub(crate) plugin_dir: PathBuf,
    /// Public address.
    pub(crate) listen: SocketAddr,
    /// Operators' address.
    pub(crate) admin_listen: SocketAddr,
    /// Origin of URLs; none: `http://` and the public address.
    pub(crate) public_url: Option<String>,
    /// The clock.
    pub(crate) clock: Arc<dyn Clock>,
    /// Simulated accounts.
    pub(crate) simulators: Option<Simulators>,
    /// The handles of `dev`.
    pub(crate) controls: Option<Arc<DevControls>>,
}

/// A server whose parts stand; nothing is answered before [`Running::begin`].
pub(crate) struct Running {
    gateway: Gateway,
    store: Arc<SledStore>,
    base_url: String,
    admin_url: String,
    listen: SocketAddr,
    listeners: parking_lot::Mutex<Vec<(Listener, Router)>>,
    simulators: Option<Simulators>,
    /// Ends listeners first.
    closing: CancellationToken,
    /// Ends workers once nobody is served any more.
    ending: CancellationToken,
    listening: TaskTracker,
    working: TaskTracker,
    profile: Profile,
    config: Config,
}

/// Serves a configuration until it is told to stop.
pub(crate) async fn run(
    config: Config,
    ready_file: Option<PathBuf>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let public_url = config.main.public_origin().map_err(ServeError::PublicUrl)?;
    let plugin_dir = config.path(&config.main.plugin_dir);
    let data_dir = config.path(&config.main.data_dir);
    for folder in [&config.folder, &plugin_dir] {
        crate::config::refuse_shared(folder)?;
    }
    crate::files::make_private_folder(&data_dir)
        .map_err(|error| ServeError::folder(&data_dir, error))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let simulators = if config.main.sandbox {
        Some(sandbox(&public_url, &data_dir, Arc::clone(&clock)).await?)
    } else {
        None
    };
    let key_file = config
        .main
        .master_key_file
        .as_deref()
        .map(|path| config.path(path));
    let parts = Parts {
        profile: Profile::Serve,
        master: crate::master_key::read(key_file.as_deref())?,
        listen: config.main.listen,
        admin_listen: config.main.admin_listen,
        public_url: Some(public_url),
        plugin_dir: plugin_dir.clone(),
        data_dir,
        clock,
        simulators,
        controls: None,
        config,
    };
    let running = start(parts).await?;
    running.begin();
    if let Some(path) = ready_file {
        let ready = Ready {
            base_url: running.base_url().to_owned(),
            admin_url: running.admin_url(),
            listen: running.listen().to_string(),
            operator_token: None,
            plugin_dir: plugin_dir.display().to_string(),
            merchants: Vec::new(),
            resellers: Vec::new(),
        };
        ready
            .write(&path)
            .map_err(|error| ServeError::folder(&path, error))?;
    }
    running.until(stop).await
}

/// The built-in sandbox: reached by the gateway over loopback, by payers below our own origin.
async fn sandbox(
    public_url: &str,
    data_dir: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Simulators, ServeError> {
    let folder = data_dir.join("simulators");
    crate::files::make_private_folder(&folder)
        .map_err(|error| ServeError::folder(&folder, error))?;
    let secrets = crate::cli::shared_secrets(&folder.join("secrets.json"))
        .map_err(ServeError::SimulatorSecrets)?;
    let host = public_url.trim_start_matches("https://").to_owned();
    let place = Place {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: folder,
        public_base: Some(format!("{public_url}{SANDBOX_PATH}")),
        redirect_hosts: vec![host],
    };
    Ok(Simulators::start(&[(SANDBOX_TEST, secrets)], place, clock).await?)
}

/// Puts the parts together: store, modules, gateway, listeners. Nothing is answered yet.
pub(crate) async fn start(parts: Parts) -> Result<Running, ServeError> {
    let main = &parts.config.main;
    let public = bind(
        parts.listen,
        &parts.config,
        main.tls_cert.as_deref(),
        main.tls_key.as_deref(),
    )
    .await?
    .without_counting(&main.trusted_proxies);
    let operators = bind(
        parts.admin_listen,
        &parts.config,
        main.admin_tls_cert.as_deref(),
        main.admin_tls_key.as_deref(),
    )
    .await?;
    let admin_tls = main.admin_tls_cert.is_some();
    if !operators.address().ip().is_loopback() && !admin_tls && parts.profile == Profile::Serve {
        return Err(ServeError::PlainAdmin(operators.address()));
    }
    let base_url = parts
        .public_url
        .clone()
        .unwrap_or_else(|| origin("http", public.address()));
    let listen = public.address();
    let admin_url = origin(
        if admin_tls { "https" } else { "http" },
        operators.address(),
    );

    let store = open_store(&parts)?;
    let clock = Arc::clone(&parts.clock);
    let runtime = start_runtime(&parts).await?;
    let simulated = parts
        .simulators
        .as_ref()
        .map(|simulators| simulators.accounts.clone());
    let settings = settings(&parts.config, &base_url, parts.profile, simulated.as_ref());
    let gateway = Gateway::new(
        Arc::clone(&store) as Arc<dyn Store>,
        runtime,
        clock,
        settings.clone(),
    );
    gateway.configure(settings).await?;
    gateway.warm_up().await?;

    let state = api::ApiState::new(gateway.clone(), main.trusted_proxies.clone());
    let mut listeners = Vec::new();
    if let Some(simulators) = &parts.simulators {
        // Callbacks of simulators come over loopback, whatever TLS or proxy stands before us.
        let inner = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None).await?;
        simulators.call_back_to(&origin("http", inner.address()))?;
        listeners.push((inner, api::callbacks(state.clone())));
    }
    let payers = pages::PagesState::new(gateway.clone(), main.trusted_proxies.clone())
        .limited_by(state.clone());
    let mut router = api::router(state).merge(pages::router(payers));
    if let (Some(simulators), Profile::Serve) = (&parts.simulators, parts.profile) {
        router = router.nest(SANDBOX_PATH, simulators.sim.payer_routes());
    }
    listeners.push((public, router));
    let hosts = admin_hosts(operators.address(), &main.admin_hosts);
    let closing = CancellationToken::new();
    let operators_router = admin::router(admin::AdminState::new(
        gateway.clone(),
        hosts,
        parts.controls.clone(),
    ))
    .merge(telemetry::router(gateway.clone(), closing.clone()));
    listeners.push((operators, operators_router));
    Ok(Running {
        gateway,
        store,
        base_url,
        admin_url,
        listen,
        listeners: parking_lot::Mutex::new(listeners),
        simulators: parts.simulators,
        closing,
        ending: CancellationToken::new(),
        listening: TaskTracker::new(),
        working: TaskTracker::new(),
        profile: parts.profile,
        config: parts.config,
    })
}

/// Loads every module; compiling blocks, so it is off the workers.
async fn start_runtime(parts: &Parts) -> Result<Arc<Runtime>, ServeError> {
    let clock = Arc::clone(&parts.clock);
    let config = RuntimeConfig::new(&parts.plugin_dir, Arc::new(move || clock.now()));
    let guard = Guard {
        allow_loopback: parts.simulators.is_some(),
    };
    let sim = parts
        .simulators
        .as_ref()
        .map(|simulators| Arc::clone(&simulators.sim));
    let outgoing = WayOut {
        client: Client::new(guard),
        sim,
    };
    tokio::task::spawn_blocking(move || Runtime::start(config, outgoing))
        .await
        .map_err(|_| ServeError::Interrupted)?
        .map_err(ServeError::Runtime)
}

/// The modules' way out. A simulator whose port is closed cannot count the calls that it refuses,
/// so it is told of them.
struct WayOut {
    client: Client,
    sim: Option<Arc<Sim>>,
}

impl Outgoing for WayOut {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        Box::pin(async move {
            let host = request
                .url
                .host_str()
                .and_then(|host| host.parse::<IpAddr>().ok());
            let address = host
                .zip(request.url.port_or_known_default())
                .map(SocketAddr::from);
            let sent = self.client.send(request).await;
            if let (Some(sim), Some(address), Err(SendError::NotSent(NotSent::NoConnection(_)))) =
                (&self.sim, address, &sent)
            {
                sim.connection_refused(address);
            }
            sent
        })
    }
}

fn open_store(parts: &Parts) -> Result<Arc<SledStore>, ServeError> {
    let master = MasterKey::parse(parts.master.expose())
        .map_err(|error| ServeError::BadMasterKey(error.to_string()))?;
    Ok(SledStore::open(&OpenOptions {
        path: parts.data_dir.join("store"),
        master,
        cache_bytes: parts.config.main.store.cache_mib << 20,
    })?)
}

/// The gateway's settings with the simulated accounts beside the configured ones.
fn settings(
    config: &Config,
    public_url: &str,
    profile: Profile,
    simulated: Option<
        &std::collections::BTreeMap<
            kassette_domain::id::AccountId,
            kassette_gateway::settings::Account,
        >,
    >,
) -> Settings {
    let mut settings = config.settings(public_url, profile);
    for (id, account) in simulated.into_iter().flatten() {
        settings
            .accounts
            .entry(id.clone())
            .or_insert_with(|| account.clone());
    }
    settings.plain_loopback |= simulated.is_some();
    settings
}

async fn bind(
    address: SocketAddr,
    config: &Config,
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Result<Listener, ServeError> {
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Some(tls_acceptor(&config.path(certificate), &config.path(key))?)
        }
        _ => None,
    };
    Ok(Listener::bind(address, tls).await?)
}

/// The origin of an address; the one of loopback where it is every address.
fn origin(scheme: &str, address: SocketAddr) -> String {
    let shown = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port()))
        }
        _ => address,
    };
    format!("{scheme}://{shown}")
}

/// Names under which the admin listener answers: a page elsewhere that resolves its own name to
/// our address must not get an answer.
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

impl Running {
    /// The gateway.
    pub(crate) const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Origin of the public listener.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Address of the public listener.
    pub(crate) const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Base of the admin API.
    pub(crate) fn admin_url(&self) -> String {
        format!("{}/admin/v1", self.admin_url)
    }

    /// Starts to answer and to work.
    pub(crate) fn begin(&self) {
        for (listener, router) in self.listeners.lock().drain(..) {
            self.listening
                .spawn(listener.serve(router, self.closing.clone()));
        }
        let (gateway, ending) = (self.gateway.clone(), self.ending.clone());
        self.working
            .spawn(async move { gateway.run_workers(ending.cancelled_owned()).await });
        self.watch_config();
        tracing::info!(base_url = %self.base_url, listen = %self.listen, admin_url = %self.admin_url, "serving");
    }

    /// Takes changed files over while payments flow; what is wrong is said and changes nothing.
    fn watch_config(&self) {
        if !self.config.folder.exists() {
            return;
        }
        let (folder, profile) = (self.config.folder.clone(), self.profile);
        let simulated = self
            .simulators
            .as_ref()
            .map(|simulators| simulators.accounts.clone());
        let (gateway, base_url) = (self.gateway.clone(), self.base_url.clone());
        let (watched, ending) = (folder.clone(), self.ending.clone());
        let reload = move || {
            let (gateway, base_url) = (gateway.clone(), base_url.clone());
            let read = Config::read(&folder, profile)
                .map(|config| settings(&config, &base_url, profile, simulated.as_ref()));
            async move {
                let taken = match read {
                    Ok(settings) => gateway
                        .configure(settings)
                        .await
                        .map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                match taken {
                    Ok(()) => tracing::info!("the configuration was read again"),
                    Err(why) => tracing::error!("the configuration was not taken over: {why}"),
                }
            }
        };
        self.working.spawn(async move {
            if let Err(error) = crate::config::watch(&watched, ending, reload).await {
                tracing::warn!("the configuration is not watched: {error}");
            }
        });
    }

    /// Waits to be told to stop, or for the store to give up; then finishes what is in hand.
    pub(crate) async fn until(self, stop: CancellationToken) -> Result<(), ServeError> {
        let failed = tokio::select! {
            () = stop.cancelled() => None,
            why = self.store.failed() => Some(why),
        };
        self.closing.cancel();
        self.listening.close();
        self.listening.wait().await;
        self.ending.cancel();
        self.working.close();
        self.working.wait().await;
        drop(self.simulators);
        if let Some(why) = failed {
            return Err(ServeError::StoreFailed(why));
        }
        self.gateway.finish().await;
        self.store.shut_down().await?;
        tracing::info!("stopped");
        Ok(())
    }
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
    fn the_admin_listener_answers_under_its_own_names_alone() {
        let hosts = admin_hosts(([127, 0, 0, 1], 8081).into(), &["ops.example".into()]);
        assert!(
            hosts.contains(&"localhost:8081".to_owned())
                && hosts.contains(&"ops.example".to_owned())
        );
        assert!(!hosts.contains(&"evil.example:8081".to_owned()));
    }
}
