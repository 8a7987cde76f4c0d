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

/// File that remembers the ports, so that links and configured addresses of the last run hold.
const ADDRESSES: &str = "addresses.json";

/// Name of the payer pages' listener in that file; no account can have it.
const PAYER: &str = "*payer";

/// Names and values of a callback's headers, and its body.
pub type SignedCallback = (Vec<(&'static str, String)>, String);

/// Running simulators. Dropping this stops them at once, as a kill would; the books stay whole.
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
    /// Where an account cannot be used as configured, the books are damaged or unwritable, or a
    /// listener cannot be opened.
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

    /// Where the payer pages are served.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.payer
    }

    /// Where an account's API is served: the module's `base-url` is `http://` and this.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn api_addr(&self, provider_id: &str) -> Result<SocketAddr, SimError> {
        Ok(self.listener(provider_id)?.address())
    }

    /// What the gateway's account is made of: settings, secrets, methods.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn profile(&self, provider_id: &str) -> Result<Profile, SimError> {
        let account = self.account(provider_id)?;
        let api = format!("http://{}", self.api_addr(provider_id)?);
        Ok(account.vendor.profile(&account.settings, &api))
    }

    /// The payer pages, to be mounted where `public_base` says besides [`Sim::addr`].
    pub fn payer_routes(&self) -> Router {
        payer::routes(Arc::clone(&self.accounts))
    }

    /// Says where an account's callbacks go. Callbacks wait until this is known.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Account`] where the address is not plain http on
    /// loopback.
    pub fn set_callback_url(&self, provider_id: &str, url: &str) -> Result<(), SimError> {
        self.account(provider_id)?.set_callback_url(url)
    }

    /// How an account's callback with a body is sent: the headers beside its content type, and the body.
    /// Signed with the account's secret, or with another one where it is not `genuine`.
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

    /// What the simulator believes about an account's payments, oldest first.
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

    /// Makes an account misbehave for its next `times` calls ([`Fault::Down`]: until
    /// [`Sim::clear_faults`], whatever `times` says). Different faults stand beside one another.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`]; [`SimError::Times`] where the number is 0 or too large.
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

    /// Back to good manners: what `{"fault":"none"}` asks for.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn clear_faults(&self, provider_id: &str) -> Result<(), SimError> {
        self.account(provider_id)?.faults.clear();
        self.listener(provider_id)?.refuse(0);
        Ok(())
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

    /// Tells the simulators that the injected clock was moved: what vendors have taken in and is due
    /// is done when this returns, what waits for the clock (`capture-late`) too. Callbacks that fall due
    /// goes out.
    pub fn clock_moved(&self) {
        for account in self.accounts.values() {
            if let Err(error) = account.ripen_due(true) {
                tracing::error!(%error, "what a simulated vendor has taken in cannot be done");
            }
            account.wake.notify_one();
        }
    }

    /// When an account next confirms, or refuses, something that it was asked for and has taken in;
    /// none where nothing is, or where it waits for the clock to be moved.
    ///
    /// # Errors
    /// [`SimError::UnknownAccount`].
    pub fn confirms_at(&self, provider_id: &str) -> Result<Option<u64>, SimError> {
        Ok(self.account(provider_id)?.confirms_at())
    }

    /// Stops listening and delivering, and waits until that is so. Callbacks that are not delivered is
    /// delivered after the next start.
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

/// The modules whose vendors are simulated, the sandbox first.
#[must_use]
pub const fn modules() -> &'static [&'static str] {
    vendor::MODULES
}

/// Ids that name files safely, and name one account each.
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

/// The vendor's API with the faults around it, and where it is asked for the recorder around both.
fn api(account: &Arc<Account>, record: Option<&Path>) -> Result<Router, SimError> {
    let routes = Arc::clone(&account.vendor).routes(Arc::clone(account));
    let routes = routes.layer(middleware::from_fn_with_state(
        Arc::clone(account),
        misbehave::layer,
    ));
    // The sandbox is its own vendor: its requests are held against no document.
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

/// The ports of the last run; none where the file is absent or unreadable, which costs only
/// that links of the last run no longer lead here.
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
