//! Simulated provider accounts and their simulators.

mod controls;
mod elsewhere;
mod order;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::secret::Secret;
use kassette_gateway::clock::Clock;
use kassette_gateway::settings::{Account, AccountSecret, Merchants, Terms};
use kassette_sim::{Profile, Sim, SimAccount, SimClock, SimConfig, SimError};
use serde::{Deserialize, Serialize};

pub(crate) use self::controls::{DevControls, MAX_ADVANCE};
pub(crate) use self::elsewhere::{Elsewhere, authorization};
pub(crate) use self::order::{ControlError, Order};

/// Priority of the sandbox's accounts, so that they rank first if other accounts offer a method too.
const SANDBOX_PRIORITY: i32 = 1000;

/// Environment variable with the folder in which simulators record all requests, for comparison with the
/// providers' documentation.
const RECORDED: &str = "KASSETTE_RECORDED_REQUESTS";

/// Secrets shared by an account and its simulator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SharedSecrets {
    /// Public part of the API credentials.
    pub(crate) client_id: String,
    /// Secret part of the API credentials.
    pub(crate) client_secret: Secret,
    /// Key for the signatures of callbacks.
    pub(crate) callback_secret: Secret,
}

impl SharedSecrets {
    /// Generates new secrets.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub(crate) fn draw() -> Result<Self, getrandom::Error> {
        use kassette_domain::key::base62;
        /// In base62 characters, about 190 bits.
        const LENGTH: usize = 32;
        Ok(Self {
            client_id: format!("client_{}", base62(12, getrandom::fill)?),
            client_secret: Secret::new(base62(LENGTH, getrandom::fill)?),
            callback_secret: Secret::new(base62(LENGTH, getrandom::fill)?),
        })
    }

    /// Reads the secrets from a file. Generates and writes them if the file does not exist, so that an account
    /// survives restarts.
    ///
    /// # Errors
    /// A sentence with the problem.
    pub(crate) fn read_or_draw(path: &Path) -> Result<Self, String> {
        if let Ok(bytes) = std::fs::read(path) {
            return serde_json::from_slice(&bytes)
                .map_err(|error| format!("{}: {error}", path.display()));
        }
        let secrets = Self::draw().map_err(|error| error.to_string())?;
        let text = serde_json::to_vec_pretty(&secrets).map_err(|error| error.to_string())?;
        kassette_files::write(path, 0o600, &text)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(secrets)
    }
}

/// A simulated account before its simulator starts.
pub(crate) struct PlannedAccount {
    /// `provider_id` in the API.
    pub(crate) id: String,
    pub(crate) module: &'static str,
    /// Environment of the account.
    pub(crate) environment: Environment,
}

/// Module whose simulated account also exists under `serve`.
pub(crate) const SANDBOX: &str = "sandbox";

impl PlannedAccount {
    /// Accounts of all modules with a simulator.
    pub(crate) fn all() -> Vec<Self> {
        Self::of_modules(kassette_sim::modules())
    }

    /// Accounts of some modules, each in test and in live.
    pub(crate) fn of_modules(modules: &[&'static str]) -> Vec<Self> {
        let modules = modules.iter();
        let each = modules.flat_map(|module| {
            [Environment::Test, Environment::Live].map(|kind| Self::for_module(module, kind))
        });
        each.collect()
    }

    /// The account `<module>-test` or `<module>-live`.
    pub(crate) fn for_module(module: &'static str, environment: Environment) -> Self {
        Self {
            id: format!("{module}-{}", environment.as_str()),
            module,
            environment,
        }
    }
}

/// Finds a module with a simulator by name, for `clap`.
///
/// # Errors
/// A sentence with the known names.
pub(crate) fn simulated_module(name: &str) -> Result<&'static str, String> {
    let known = kassette_sim::modules();
    let found = known.iter().copied().find(|module| *module == name);
    found.ok_or_else(|| format!("no vendor {name} is simulated, only {}", known.join(", ")))
}

/// Addresses and folder of simulators, and the addresses for payers.
pub(crate) struct SimulatorSettings {
    /// Loopback address of the payer pages.
    pub(crate) listen: SocketAddr,
    /// Folder of the simulators' records.
    pub(crate) data_dir: PathBuf,
    /// Base URL of payer links. `None` for the simulators' own listener.
    pub(crate) public_base: Option<String>,
    /// Hosts of payer links if `public_base` is set.
    pub(crate) redirect_hosts: Vec<String>,
}

/// Running simulators with their accounts.
pub(crate) struct Simulators {
    pub(crate) sim: Arc<Sim>,
    /// Accounts for other processes.
    pub(crate) described: Vec<SimulatedAccount>,
    /// Accounts for the gateway's settings.
    pub(crate) accounts: BTreeMap<AccountId, Account>,
}

/// Simulators that a gateway uses.
pub(crate) enum Vendors {
    /// In this process.
    Here(Simulators),
    /// In the parent process, with these accounts.
    Elsewhere(Arc<Elsewhere>, BTreeMap<AccountId, Account>),
}

impl Vendors {
    /// The simulated accounts.
    pub(crate) const fn accounts(&self) -> &BTreeMap<AccountId, Account> {
        match self {
            Self::Here(simulators) => &simulators.accounts,
            Self::Elsewhere(_, accounts) => accounts,
        }
    }

    /// Receiver of reports about refused connections.
    pub(crate) fn listeners(&self) -> Listeners {
        match self {
            Self::Here(simulators) => Listeners::Here(Arc::clone(&simulators.sim)),
            Self::Elsewhere(elsewhere, _) => Listeners::Elsewhere(Arc::clone(elsewhere)),
        }
    }
}

/// The simulators' ports. A closed port cannot count the calls that it refuses, so the caller reports them.
pub(crate) enum Listeners {
    Here(Arc<Sim>),
    Elsewhere(Arc<Elsewhere>),
}

impl Listeners {
    /// Reports a refused connection to an address.
    pub(crate) async fn refused(&self, address: SocketAddr) {
        match self {
            Self::Here(sim) => sim.connection_refused(address),
            Self::Elsewhere(elsewhere) => {
                let order = Order::ConnectionRefused { address };
                if let Err(error) = elsewhere.ask(&order).await {
                    tracing::warn!(%error, "the simulators were not told of a refused connection");
                }
            }
        }
    }
}

impl Simulators {
    /// Starts the simulators of the planned accounts.
    ///
    /// # Errors
    /// Errors of the simulators.
    pub(crate) async fn start(
        planned: &[(PlannedAccount, SharedSecrets)],
        settings: SimulatorSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SimError> {
        let simulated = planned.iter().map(|(planned, secrets)| SimAccount {
            provider_id: planned.id.clone(),
            module: planned.module.to_owned(),
            environment: match planned.environment {
                Environment::Test => kassette_sim::Environment::Test,
                Environment::Live => kassette_sim::Environment::Live,
            },
            client_id: secrets.client_id.clone(),
            api_key: secrets.client_secret.expose().to_owned(),
            callback_secret: secrets.callback_secret.expose().to_owned(),
            callback_url: None,
            public_base: settings.public_base.clone(),
        });
        let sim = Sim::start(SimConfig {
            listen: settings.listen,
            data_dir: settings.data_dir.clone(),
            accounts: simulated.collect(),
            clock: Arc::new(move || clock.now().as_millis()) as Arc<dyn SimClock>,
            record: std::env::var_os(RECORDED).map(Into::into),
        })
        .await?;
        let mut redirect_hosts = settings.redirect_hosts;
        redirect_hosts.push(sim.addr().to_string());
        let mut described = Vec::new();
        for (planned, _) in planned {
            let api = sim.api_addr(&planned.id)?.to_string();
            let profile = sim.profile(&planned.id)?;
            described.push(SimulatedAccount::new(
                planned,
                profile,
                api,
                &redirect_hosts,
            ));
        }
        Ok(Self {
            sim: Arc::new(sim),
            accounts: accounts(&described),
            described,
        })
    }

    /// Sets the target of callbacks. `base` is the origin of a loopback listener of the gateway without TLS.
    ///
    /// # Errors
    /// Errors of the simulators if `base` is not plain http on loopback.
    pub(crate) fn call_back_to(&self, base: &str) -> Result<(), SimError> {
        for id in self.sim.provider_ids() {
            self.sim
                .set_callback_url(&id, &format!("{base}/callbacks/{id}"))?;
        }
        Ok(())
    }
}

/// Serializable description of a simulated account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SimulatedAccount {
    id: String,
    module: String,
    name: String,
    environment: Environment,
    methods: Vec<String>,
    settings: Vec<(String, String)>,
    secrets: Vec<(String, Secret)>,
    /// Address of its API.
    api: String,
    redirect_hosts: Vec<String>,
}

/// Accounts for a gateway's settings. Invalid ones are omitted.
pub(crate) fn accounts(described: &[SimulatedAccount]) -> BTreeMap<AccountId, Account> {
    let accounts = described.iter().filter_map(SimulatedAccount::account);
    accounts
        .map(|account| (account.id.clone(), account))
        .collect()
}

impl SimulatedAccount {
    fn new(
        planned: &PlannedAccount,
        profile: Profile,
        api: String,
        redirect_hosts: &[String],
    ) -> Self {
        let secrets = profile.secrets.into_iter();
        Self {
            id: planned.id.clone(),
            module: planned.module.to_owned(),
            name: profile.name.to_owned(),
            environment: planned.environment,
            methods: profile.methods.iter().map(|&id| id.to_owned()).collect(),
            settings: profile.settings,
            secrets: secrets
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
            api,
            redirect_hosts: redirect_hosts.to_vec(),
        }
    }

    fn account(&self) -> Option<Account> {
        let secret = |(name, value): &(String, Secret)| AccountSecret {
            name: name.clone(),
            values: vec![value.clone()],
            hosts: Vec::new(),
        };
        let priority = if self.module == SANDBOX {
            SANDBOX_PRIORITY
        } else {
            Terms::default().priority
        };
        let terms = || Terms {
            priority,
            ..Terms::default()
        };
        let methods = self.methods.iter().filter_map(|id| MethodId::parse(id));
        Some(Account {
            id: AccountId::parse(&self.id).ok()?,
            module: self.module.clone(),
            name: self.name.clone(),
            environment: self.environment,
            simulated: true,
            enabled: true,
            merchants: Merchants::All,
            methods: methods.map(|method| (method, terms())).collect(),
            verification_note: None,
            verification_url: None,
            settings: self.settings.clone(),
            secrets: self.secrets.iter().map(secret).collect(),
            hosts: vec![self.api.clone()],
            redirect_hosts: self.redirect_hosts.clone(),
        })
    }
}
