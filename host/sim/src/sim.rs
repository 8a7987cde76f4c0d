//! All simulated accounts together, as `kassette sim` and `kassette dev` run them.
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs, io,
    net::SocketAddr,
    path::Path,
    sync::Arc,
};

use axum::{Router, middleware};
use parking_lot::Mutex;
use tokio::{net::TcpSocket, sync::watch, task::JoinSet};

use crate::{
    account::Account,
    books::BookEntry,
    config::{Profile, SimAccount, SimConfig, SimError},
    delivery,
    fault::Fault,
    listener::Listener,
    misbehave,
    payer::{self, Accounts},
    record::{self, Recorder},
    vendor,
};

/// File with the ports, so that links and configured addresses of the last run stay valid.
const ADDRESSES: &str = "addresses.json";

/// Name of the payer pages' listener in that file, which is not a valid account id.
const PAYER: &str = "*payer";

/// Names and values of a callback's headers, and its body.
pub type SignedCallback = (Vec<(&'static str, String)>, String);

/// Running simulators. Dropping this stops them immediately, like a kill; the books stay consistent.
pub struct Sim {
    payer: SocketAddr,
    accounts: Accounts,
    listeners: HashMap<String, Arc<Listener>>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl Sim {
    /// Opens the books, the listeners and the deliveries of all accounts.
    ///
    /// # Errors
    /// If an account's configuration is invalid, the books are damaged or cannot be written, or a listener cannot
    /// be opened.
    pub async fn start(config: SimConfig) -> Result<Self, SimError> {
        let folder = &config.data_dir;
        fs::create_dir_all(folder).map_err(|source| SimError::Books {
            path: folder.clone(),
            source,
        })?;
        check(&config.accounts)?;
        let remembered = remembered(folder);
        let wanted = |name: &str, listen: SocketAddr| {
            let port = remembered.get(name).copied().unwrap_or(0);
            if listen.port() == 0 {
                SocketAddr::new(listen.ip(), port)
            } else {
                listen
            }
        };
        let listen = |address| move |source| SimError::Listen { address, source };
        let address = wanted(PAYER, config.listen);
        let (payer_listener, payer_socket) = Listener::bind(address).map_err(listen(address))?;
        let own_base = format!("http://{}", payer_listener.address());
        let mut ports = BTreeMap::from([(PAYER.to_owned(), payer_listener.address().port())]);

        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut accounts = HashMap::new();
        let mut listeners = HashMap::new();
        let client = delivery::client();
        let any_port = SocketAddr::new(config.listen.ip(), 0);
        for settings in config.accounts {
            let id = settings.provider_id.clone();
            let account = Arc::new(open(settings, &config.clock, folder, &own_base)?);
            let address = wanted(&id, any_port);
            let (listener, socket) = Listener::bind(address).map_err(listen(address))?;
            let listener = Arc::new(listener);
            ports.insert(id.clone(), listener.address().port());
            account.serves_at(listener.address());
            let routes = api(&account, config.record.as_deref())?;
            serve(&mut tasks, &listener, socket, routes, stopping.clone())?;
            tasks.spawn(delivery::run(
                Arc::clone(&account),
                client.clone(),
                stopping.clone(),
            ));
            listeners.insert(id.clone(), listener);
            accounts.insert(id, account);
        }
        let accounts = Arc::new(accounts);
        let payer = payer_listener.address();
        let pages = payer::routes(Arc::clone(&accounts));
        serve(
            &mut tasks,
            &Arc::new(payer_listener),
            payer_socket,
            pages,
            stopping,
        )?;
        remember(folder, &ports)?;
        Ok(Self {
            payer,
            accounts,
            listeners,
            stop,
            tasks: Mutex::new(tasks),
        })
    }

    /// Address of the payer pages.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.payer
    }

    /// Address of an account's API: the module's `base-url` is `http://` and this.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn api_addr(&self, provider_id: &str) -> Result<SocketAddr, SimError> {
        Ok(self.listener(provider_id)?.address())
    }

    /// Configuration of the gateway's account: settings, secrets, methods.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn profile(&self, provider_id: &str) -> Result<Profile, SimError> {
        let account = self.account(provider_id)?;
        let api = format!("http://{}", self.api_addr(provider_id)?);
        Ok(account.vendor.profile(&account.settings, &api))
    }

    /// The payer pages, to be mounted at `public_base` in addition to [`Sim::addr`].
    pub fn payer_routes(&self) -> Router {
        payer::routes(Arc::clone(&self.accounts))
    }

    /// Sets the address of an account's callbacks. Callbacks wait until it is set.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Account`] if the address is not plain http on loopback.
    pub fn set_callback_url(&self, provider_id: &str, url: &str) -> Result<(), SimError> {
        self.account(provider_id)?.set_callback_url(url)
    }

    /// Headers and body of an account's callback, except for the content type. Signed with the account's secret,
    /// or with another one if not `genuine`.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn signed(
        &self,
        provider_id: &str,
        body: &str,
        genuine: bool,
    ) -> Result<SignedCallback, SimError> {
        let account = self.account(provider_id)?;
        let secret = match genuine {
            true => &account.settings.callback_secret,
            false => "not the account's secret",
        };
        let headers = account.vendor.sign(account, secret, body, account.now());
        Ok((headers, account.vendor.sealed(secret, body)))
    }

    /// The books of an account's payments, oldest first.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn books(&self, provider_id: &str) -> Result<Vec<BookEntry>, SimError> {
        Ok(self.account(provider_id)?.entries())
    }

    /// The ids of all accounts, sorted.
    #[must_use]
    pub fn provider_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.accounts.keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// Orders a fault for an account's next `times` calls. [`Fault::Down`] and [`Fault::OddAnswers`] last until
    /// [`Sim::clear_faults`] for every valid `times`. Different faults can be ordered together.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Times`] if the number is 0 or too large, except for [`Fault::Down`].
    pub fn set_fault(&self, provider_id: &str, fault: Fault, times: u32) -> Result<(), SimError> {
        let account = self.account(provider_id)?;
        if fault != Fault::Down && !(1..=Fault::MOST_TIMES).contains(&times) {
            return Err(SimError::Times { fault, times });
        }
        match fault {
            Fault::RefuseConnection => self.listener(provider_id)?.refuse(times),
            _ => account.faults.arm(fault, times),
        }
        Ok(())
    }

    /// Removes all faults, as `{"fault":"none"}` requests.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn clear_faults(&self, provider_id: &str) -> Result<(), SimError> {
        self.account(provider_id)?.faults.clear();
        self.listener(provider_id)?.refuse(0);
        Ok(())
    }

    /// Lets every payment go that an account holds for review, as a person at the vendor would; returns how many.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Books`] if the books cannot be written.
    pub fn release_held(&self, provider_id: &str) -> Result<usize, SimError> {
        self.account(provider_id)?.release_held()
    }

    /// Tells the simulators that a caller was refused a connection to `address`. The system
    /// refuses without telling them, so this is how `refuse-connection` counts its calls;
    /// without it the port opens again by itself after five seconds per call, sixty at most.
    pub fn connection_refused(&self, address: SocketAddr) {
        if let Some(listener) = self
            .listeners
            .values()
            .find(|listener| listener.address() == address)
        {
            listener.refused();
        }
    }

    /// Notifies the simulators that the injected clock was moved. Pending changes that are due or wait for the
    /// clock (`capture-late`) are executed when this returns. Callbacks that are due are sent.
    pub fn clock_moved(&self) {
        for account in self.accounts.values() {
            if let Err(error) = account.ripen_due(true) {
                tracing::error!(%error, "what a simulated vendor has taken in cannot be done");
            }
            account.wake.notify_one();
        }
    }

    /// Time at which an account next confirms or refuses an accepted request. `None` if there is none, or if it
    /// waits for a change of the clock.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn confirms_at(&self, provider_id: &str) -> Result<Option<u64>, SimError> {
        Ok(self.account(provider_id)?.confirms_at())
    }

    /// Stops listening and delivering, and waits for the end of both. Undelivered callbacks are delivered after
    /// the next start.
    pub async fn shutdown(&self) {
        self.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }

    pub(crate) fn account(&self, provider_id: &str) -> Result<&Arc<Account>, SimError> {
        self.accounts
            .get(provider_id)
            .ok_or_else(|| SimError::UnknownAccount(provider_id.to_owned()))
    }

    fn listener(&self, provider_id: &str) -> Result<&Arc<Listener>, SimError> {
        self.listeners
            .get(provider_id)
            .ok_or_else(|| SimError::UnknownAccount(provider_id.to_owned()))
    }
}

/// The modules with simulated providers, the sandbox first.
#[must_use]
pub const fn modules() -> &'static [&'static str] {
    vendor::MODULES
}

/// Checks that ids are unique and safe as file names.
fn check(accounts: &[SimAccount]) -> Result<(), SimError> {
    let mut seen = HashSet::new();
    for SimAccount { provider_id, .. } in accounts {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let refused = |reason: &str| {
            Err(SimError::Account {
                provider_id: provider_id.clone(),
                reason: reason.to_owned(),
            })
        };
        if !(1..=64).contains(&provider_id.len()) || !provider_id.bytes().all(plain) {
            return refused("an id has 1-64 of a-z 0-9 -");
        }
        if !seen.insert(provider_id) {
            return refused("configured twice");
        }
    }
    Ok(())
}

fn open(
    settings: SimAccount,
    clock: &Arc<dyn crate::SimClock>,
    folder: &Path,
    own_base: &str,
) -> Result<Account, SimError> {
    let vendor = vendor::by_module(&settings.module).ok_or_else(|| SimError::Account {
        provider_id: settings.provider_id.clone(),
        reason: format!("no vendor {} is simulated", settings.module),
    })?;
    Account::open(settings, vendor, Arc::clone(clock), folder, own_base)
}

/// The provider's API inside the layer of faults, and optionally the recorder outside of both.
fn api(account: &Arc<Account>, record: Option<&Path>) -> Result<Router, SimError> {
    let routes = Arc::clone(&account.vendor).routes(Arc::clone(account));
    let routes = routes.layer(middleware::from_fn_with_state(
        Arc::clone(account),
        misbehave::layer,
    ));
    // The sandbox has no external documentation to check its requests against.
    let recorded = record.filter(|_| account.settings.module != vendor::SANDBOX);
    let Some(folder) = recorded else {
        return Ok(routes);
    };
    let recorder = Arc::new(Recorder::open(folder, &account.settings.module)?);
    Ok(routes.layer(middleware::from_fn_with_state(recorder, record::layer)))
}

fn serve(
    tasks: &mut JoinSet<()>,
    listener: &Arc<Listener>,
    socket: TcpSocket,
    routes: Router,
    stop: watch::Receiver<bool>,
) -> Result<(), SimError> {
    let address = listener.address();
    let serving = listener
        .open(socket, routes, stop)
        .map_err(|source| SimError::Listen { address, source })?;
    tasks.spawn(serving);
    Ok(())
}

/// The ports of the last run. Empty if the file is missing or unreadable; then only links of the last run become
/// invalid.
fn remembered(folder: &Path) -> BTreeMap<String, u16> {
    let bytes = fs::read(folder.join(ADDRESSES)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn remember(folder: &Path, ports: &BTreeMap<String, u16>) -> Result<(), SimError> {
    let path = folder.join(ADDRESSES);
    let wrote = serde_json::to_vec(ports)
        .map_err(io::Error::from)
        .and_then(|json| kassette_files::write(&path, 0o600, &json));
    wrote.map_err(|source| SimError::Books { path, source })
}
