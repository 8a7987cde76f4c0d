//! Simulated provider accounts and the simulators on their other side.

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

/// Priority of the sandbox's accounts: they rank first wherever others serve a method too.
const SANDBOX_PRIORITY: i32 = 1000;

/// Folder in which the simulators write down every request that they get, for checks against the
/// vendors' own documents.
const RECORDED: &str = "KASSETTE_RECORDED_REQUESTS";

/// What an account and its simulator share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SharedSecrets {
    /// Public half of the API credentials.
    pub(crate) client_id: String,
    /// Secret half.
    pub(crate) client_secret: Secret,
    /// Keys the callbacks' signatures.
    pub(crate) callback_secret: Secret,
}

impl SharedSecrets {
    /// Draws a set.
    ///
    /// # Errors
    /// The operating system's, where it gives no randomness.
    pub(crate) fn draw() -> Result<Self, getrandom::Error> {
        use kassette_domain::key::base62;
        /// Characters of base62, about 190 bits.
        const LENGTH: usize = 32;
        Ok(Self {
            client_id: format!("client_{}", base62(12, getrandom::fill)?),
            client_secret: Secret::new(base62(LENGTH, getrandom::fill)?),
            callback_secret: Secret::new(base62(LENGTH, getrandom::fill)?),
        })
    }

    /// The set that a file holds, so that an account lasts over restarts; drawn and written where there
    /// is none.
    ///
    /// # Errors
    /// A sentence: what is wrong with the file.
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

/// A simulated account to be.
pub(crate) struct PlannedAccount {
    /// The wire's `provider_id`.
    pub(crate) id: String,
    pub(crate) module: &'static str,
    /// Where its money would be.
    pub(crate) environment: Environment,
}

/// The module whose account is there under `serve` too.
pub(crate) const SANDBOX: &str = "sandbox";

impl PlannedAccount {
    /// Those of every module whose vendor is simulated.
    pub(crate) fn all() -> Vec<Self> {
        Self::of_modules(kassette_sim::modules())
    }

    /// Those of some modules, in test and in live.
    pub(crate) fn of_modules(modules: &[&'static str]) -> Vec<Self> {
        let modules = modules.iter();
        let each = modules.flat_map(|module| {
            [Environment::Test, Environment::Live].map(|kind| Self::of(module, kind))
        });
        each.collect()
    }

    /// The account `<module>-test` or `<module>-live`.
    pub(crate) fn of(module: &'static str, environment: Environment) -> Self {
        Self {
            id: format!("{module}-{}", environment.as_str()),
            module,
            environment,
        }
    }
}

/// The module of that name whose vendor is simulated, for `clap`.
///
/// # Errors
/// A sentence that names those there are.
pub(crate) fn simulated_module(name: &str) -> Result<&'static str, String> {
    let known = kassette_sim::modules();
    let found = known.iter().copied().find(|module| *module == name);
    found.ok_or_else(|| format!("no vendor {name} is simulated, only {}", known.join(", ")))
}

/// Where simulators run, and the addresses that payers see.
pub(crate) struct SimulatorSettings {
    /// Where the payer pages listen, loopback.
    pub(crate) listen: SocketAddr,
    /// Folder of the books.
    pub(crate) data_dir: PathBuf,
    /// What payer links begin with; none: the simulator's own listener.
    pub(crate) public_base: Option<String>,
    /// Hosts of those links, where `public_base` is set.
    pub(crate) redirect_hosts: Vec<String>,
}

/// Running simulators with their accounts.
pub(crate) struct Simulators {
    pub(crate) sim: Arc<Sim>,
    /// Their accounts, as another process is told of them.
    pub(crate) described: Vec<SimulatedAccount>,
    /// The same for the gateway's settings.
    pub(crate) accounts: BTreeMap<AccountId, Account>,
}

/// The simulators that a gateway works with.
pub(crate) enum Vendors {
    /// In this process.
    Here(Simulators),
    /// In the process of `dev`, with these accounts.
    Elsewhere(Arc<Elsewhere>, BTreeMap<AccountId, Account>),
}

impl Vendors {
    /// Their accounts.
    pub(crate) const fn accounts(&self) -> &BTreeMap<AccountId, Account> {
        match self {
            Self::Here(simulators) => &simulators.accounts,
            Self::Elsewhere(_, accounts) => accounts,
        }
    }

    /// What is told of connections that were refused.
    pub(crate) fn listeners(&self) -> Listeners {
        match self {
            Self::Here(simulators) => Listeners::Here(Arc::clone(&simulators.sim)),
            Self::Elsewhere(elsewhere, _) => Listeners::Elsewhere(Arc::clone(elsewhere)),
        }
    }
}

/// The simulators' ports: one that is closed cannot count the calls that it refuses.
pub(crate) enum Listeners {
    Here(Arc<Sim>),
    Elsewhere(Arc<Elsewhere>),
}

impl Listeners {
    /// A connection to an address was refused.
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
    /// The simulators'.
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
            described.push(SimulatedAccount::of(planned, profile, api, &redirect_hosts));
        }
        Ok(Self {
            sim: Arc::new(sim),
            accounts: accounts(&described),
            described,
        })
    }

    /// Says where callbacks go: `base` is the origin of a plain loopback listener of the gateway.
    ///
    /// # Errors
    /// The simulators', where the address is not plain http on loopback.
    pub(crate) fn call_back_to(&self, base: &str) -> Result<(), SimError> {
        for id in self.sim.provider_ids() {
            self.sim
                .set_callback_url(&id, &format!("{base}/callbacks/{id}"))?;
        }
        Ok(())
    }
}

/// What the account of a simulator is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SimulatedAccount {
    id: String,
    module: String,
    name: String,
    environment: Environment,
    methods: Vec<String>,
    settings: Vec<(String, String)>,
    secrets: Vec<(String, Secret)>,
    /// Where its API is.
    api: String,
    redirect_hosts: Vec<String>,
}

/// The accounts of simulators, for a gateway's settings.
pub(crate) fn accounts(described: &[SimulatedAccount]) -> BTreeMap<AccountId, Account> {
    let accounts = described.iter().filter_map(SimulatedAccount::account);
    accounts
        .map(|account| (account.id.clone(), account))
        .collect()
}

impl SimulatedAccount {
    fn of(
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
