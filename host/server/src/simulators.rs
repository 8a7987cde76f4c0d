//! Simulated provider accounts and the simulators on their other side.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::secret::Secret;
use kassette_gateway::clock::Clock;
use kassette_gateway::settings::{Account, AccountSecret, Merchants, Terms};
use kassette_sim::{Sim, SimAccount, SimClock, SimConfig, SimError};
use serde::{Deserialize, Serialize};

/// Priority of the sandbox's accounts: they rank first wherever others serve a method too.
const SANDBOX_PRIORITY: i32 = 1000;

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
}

/// A simulated account to be.
pub(crate) struct Planned {
    /// The wire's `provider_id`.
    pub(crate) id: Cow<'static, str>,
    /// Its module.
    pub(crate) module: &'static str,
    /// Shown to payers.
    pub(crate) name: &'static str,
    /// Where its money would be.
    pub(crate) environment: Environment,
}

/// The sandbox's accounts; the test one is there under `serve` too.
pub(crate) const SANDBOX_TEST: Planned = Planned {
    id: Cow::Borrowed("sandbox-test"),
    module: "sandbox",
    name: "Sandbox",
    environment: Environment::Test,
};
/// For development alone.
pub(crate) const SANDBOX_LIVE: Planned = Planned {
    id: Cow::Borrowed("sandbox-live"),
    module: "sandbox",
    name: "Sandbox",
    environment: Environment::Live,
};

/// Where simulators run and what payers see of them.
pub(crate) struct Place {
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
    /// The simulators.
    pub(crate) sim: Arc<Sim>,
    /// Their accounts, for the gateway's settings.
    pub(crate) accounts: BTreeMap<AccountId, Account>,
}

impl Simulators {
    /// Starts the simulators of the planned accounts.
    ///
    /// # Errors
    /// The simulators'.
    pub(crate) async fn start(
        planned: &[(Planned, SharedSecrets)],
        place: Place,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SimError> {
        let accounts = planned.iter().map(|(planned, secrets)| SimAccount {
            provider_id: planned.id.to_string(),
            module: planned.module.to_owned(),
            environment: match planned.environment {
                Environment::Test => kassette_sim::Environment::Test,
                Environment::Live => kassette_sim::Environment::Live,
            },
            client_id: secrets.client_id.clone(),
            api_key: secrets.client_secret.expose().to_owned(),
            callback_secret: secrets.callback_secret.expose().to_owned(),
            callback_url: None,
            public_base: place.public_base.clone(),
        });
        let sim = Sim::start(SimConfig {
            listen: place.listen,
            data_dir: place.data_dir.clone(),
            accounts: accounts.collect(),
            clock: Arc::new(move || clock.now().as_millis()) as Arc<dyn SimClock>,
        })
        .await?;
        let mut redirect_hosts = place.redirect_hosts;
        redirect_hosts.push(sim.addr().to_string());
        let mut accounts = BTreeMap::new();
        for (planned, secrets) in planned {
            let api = sim.api_addr(&planned.id)?.to_string();
            if let Some(account) = account(planned, secrets, &api, &redirect_hosts) {
                accounts.insert(account.id.clone(), account);
            }
        }
        Ok(Self {
            sim: Arc::new(sim),
            accounts,
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

/// The account of a simulator.
fn account(
    planned: &Planned,
    secrets: &SharedSecrets,
    api: &str,
    redirect_hosts: &[String],
) -> Option<Account> {
    let secret = |name: &str, value: &Secret| AccountSecret {
        name: name.to_owned(),
        values: vec![value.clone()],
        hosts: Vec::new(),
    };
    let terms = || Terms {
        priority: SANDBOX_PRIORITY,
        ..Terms::default()
    };
    Some(Account {
        id: AccountId::parse(&planned.id).ok()?,
        module: planned.module.to_owned(),
        name: planned.name.to_owned(),
        environment: planned.environment,
        simulated: true,
        enabled: true,
        merchants: Merchants::All,
        methods: MethodId::ALL
            .into_iter()
            .map(|method| (method, terms()))
            .collect(),
        verification_note: Some("Simulated: no money moves.".to_owned()),
        verification_url: None,
        settings: vec![("base-url".to_owned(), format!("http://{api}"))],
        secrets: vec![
            secret("client-id", &Secret::new(secrets.client_id.clone())),
            secret("client-secret", &secrets.client_secret),
            secret("callback-secret", &secrets.callback_secret),
        ],
        hosts: vec![api.to_owned()],
        redirect_hosts: redirect_hosts.to_vec(),
    })
}
