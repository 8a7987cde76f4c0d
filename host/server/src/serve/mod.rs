//! `kassette serve`: runs a configuration; `dev` uses the same assembly.
//!
//! | File | Content |
//! |---|---|
//! | `announced` | information about this node for other nodes |
//! | `assembly` | creates store, modules, gateway and listeners from the options |
//! | `running` | serves, runs workers, drains and stops |
//! | `settings` | settings of the gateway from a configuration |
//! | `reload` | applies changed files, automatically and on SIGHUP |
//! | `certificates`, `rates_file`, `file_watch` | watched files: the listeners' certificates, exchange rates |
//! | `ecb` | fetches the European Central Bank's exchange rates |
//! | `systemd` | notifications to systemd |
//! | `unattended` | records changes of modules without an operator's request in the audit log |
//! | `outgoing` | sends the modules' requests to providers |
//! | `error` | reasons why the server cannot start |

mod announced;
mod assembly;
mod certificates;
mod ecb;
mod error;
mod file_watch;
mod outgoing;
mod rates_file;
mod reload;
mod running;
mod settings;
mod systemd;
mod unattended;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kassette_domain::key::Environment;
use kassette_gateway::clock::{Clock, SystemClock};

use crate::config::{Config, Profile, start_problems};
use crate::listen::HandedOver;
use crate::ready::{Ready, ReadyNode, ReadyStore};
use crate::signals::Signals;
use crate::simulators::{
    PlannedAccount, SANDBOX, SharedSecrets, SimulatorSettings, Simulators, Vendors,
};

#[cfg(test)]
pub(crate) use assembly::LEAST_FILES;
pub(crate) use assembly::{
    BalancerAddress, DatabasePlace, HISTORY_PURPOSE, MODULES_DIR, OpenStore, ServerOptions, origin,
    start,
};
pub(crate) use error::ServeError;
pub(crate) use running::Running;
#[cfg(test)]
pub(crate) use settings::FEW_FILES;

/// Path of the sandbox's payer page below the public origin.
const SANDBOX_PATH: &str = "/sandbox";

/// Serves a configuration until the process is asked to stop.
pub(crate) async fn run(
    config: Config,
    ready_file: Option<PathBuf>,
    sockets: HandedOver,
    signals: Signals,
) -> Result<(), ServeError> {
    if let Some(problem) = start_problems(&config).into_iter().next() {
        return Err(problem.into());
    }
    let public_url = config.main.public_origin().map_err(ServeError::PublicUrl)?;
    let plugin_dir = config.path(&config.main.plugin_dir);
    let data_dir = config.path(&config.main.data_dir);
    crate::files::make_private_folder(&data_dir)
        .map_err(|error| ServeError::folder(&data_dir, error))?;
    let key_file = config
        .main
        .master_key_file
        .as_deref()
        .map(|path| config.path(path));
    let master = crate::master_key::read(key_file.as_deref())?;
    let database = config.main.store.url();
    let kind = ReadyStore::from_url(database.as_ref());
    let database = database.map(|url| DatabasePlace {
        url,
        node: config.main.store.node(),
        is_own: false,
        server_clock: true,
    });
    let store = OpenStore::open(&data_dir, database, &master, &config.main).await?;
    if plugin_dir.starts_with(&data_dir) {
        crate::files::make_private_folder(&plugin_dir)
            .map_err(|error| ServeError::folder(&plugin_dir, error))?;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let simulators = if config.main.sandbox {
        let sandbox = sandbox(&public_url, &data_dir, Arc::clone(&clock)).await?;
        Some(Vendors::Here(sandbox))
    } else {
        None
    };
    let options = ServerOptions {
        profile: Profile::Serve,
        store,
        listen: config.main.listen,
        admin_listen: config.main.admin_listen,
        sockets,
        public_url: Some(public_url),
        front: None,
        plugin_dir: plugin_dir.clone(),
        compiled_dir: data_dir.join("compiled"),
        data_dir,
        clock,
        simulators,
        controls: None,
        bundled: crate::bundle::modules().map_err(ServeError::Bundle)?,
        config,
    };
    let running = start(options).await?;
    // The sandbox keeps its state in this process, so other nodes would not know its payments.
    if running.simulators.is_some() && running.store.live_nodes() > 1 {
        let _ = running.store.shut_down().await;
        return Err(ServeError::SandboxOfOne);
    }
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
            nodes: vec![ReadyNode::only(running.base_url(), running.admin_url())],
            store: kind,
        };
        ready
            .write(&path)
            .map_err(|error| ServeError::folder(&path, error))?;
    }
    running.until(signals).await
}

/// The built-in sandbox. The gateway reaches it over loopback, payers below the gateway's own origin.
async fn sandbox(
    public_url: &str,
    data_dir: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Simulators, ServeError> {
    let folder = data_dir.join("simulators");
    crate::files::make_private_folder(&folder)
        .map_err(|error| ServeError::folder(&folder, error))?;
    let secrets = SharedSecrets::read_or_draw(&folder.join("secrets.json"))
        .map_err(ServeError::SimulatorSecrets)?;
    let host = public_url.trim_start_matches("https://").to_owned();
    let settings = SimulatorSettings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: folder,
        public_base: Some(format!("{public_url}{SANDBOX_PATH}")),
        redirect_hosts: vec![host],
    };
    let planned = PlannedAccount::for_module(SANDBOX, Environment::Test);
    Ok(Simulators::start(&[(planned, secrets)], settings, clock).await?)
}
