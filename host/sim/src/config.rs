//! Configuration of a simulator, and its errors.
use std::{fmt, io, net::SocketAddr, path::PathBuf, sync::Arc};

use crate::fault::Fault;

/// The simulators' clock. `dev` moves it forward together with the gateway's.
pub trait SimClock: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;
}

impl<F: Fn() -> u64 + Send + Sync + 'static> SimClock for F {
    fn now_ms(&self) -> u64 {
        self()
    }
}

/// Environment of an account. Shown on the payer page and by the provider's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Sandbox money.
    Test,
    /// Live routes; the money is simulated nevertheless.
    Live,
}

impl Environment {
    /// The wire value: `test` or `live`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Live => "live",
        }
    }
}

/// One simulated account at one simulated provider, with its own books and secrets.
#[derive(Clone)]
pub struct SimAccount {
    /// The gateway's id of the account: 1-64 of `[a-z0-9-]`. Names its file of books.
    pub provider_id: String,
    /// The provider whose protocol it uses: `sandbox`, `stripe`, …
    pub module: String,
    /// Whether the account is for test or live payments.
    pub environment: Environment,
    /// The public half of its API credentials, if the provider has one.
    pub client_id: String,
    /// The secret half of its API credentials.
    pub api_key: String,
    /// Key of the signatures of its callbacks.
    pub callback_secret: String,
    /// Address of its callbacks: plain http on loopback. `None` if it is not known yet.
    pub callback_url: Option<String>,
    /// Prefix of payer links, as `https://pay.example/sandbox`. `None`: the address of the simulator's own payer
    /// listener.
    pub public_base: Option<String>,
}

impl fmt::Debug for SimAccount {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimAccount")
            .field("provider_id", &self.provider_id)
            .field("module", &self.module)
            .field("environment", &self.environment)
            .field("callback_url", &self.callback_url)
            .field("public_base", &self.public_base)
            .finish_non_exhaustive()
    }
}

/// Configuration of the gateway's account at a simulated provider, in the terms of its module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name shown to payers.
    pub name: &'static str,
    /// Wire ids of the supported methods.
    pub methods: &'static [&'static str],
    /// Settings of the module's description, by name.
    pub settings: Vec<(String, String)>,
    /// Secrets of the module's description, by name.
    pub secrets: Vec<(String, String)>,
}

/// Configuration for [`crate::Sim::start`].
#[derive(Clone)]
pub struct SimConfig {
    /// Address of the payer pages. Port 0 uses the port of the last run if it is free. The accounts' API listeners
    /// use other ports of the same address.
    pub listen: SocketAddr,
    /// Folder of the books; created if missing.
    pub data_dir: PathBuf,
    /// The accounts, with distinct ids.
    pub accounts: Vec<SimAccount>,
    pub clock: Arc<dyn SimClock>,
    /// Folder in which every request to a real provider's API is recorded: one file per module, one JSON object
    /// per line, `{"module","method","url","headers","body"}`, with masked values of secret headers. For checks
    /// against the providers' documentation.
    pub record: Option<PathBuf>,
}

/// Error of a simulator.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A configured value is invalid.
    #[error("simulated account {provider_id}: {reason}")]
    Account {
        /// Id of the account.
        provider_id: String,
        /// Description of the problem.
        reason: String,
    },
    /// No account with this id is simulated here.
    #[error("no simulated account {0}")]
    UnknownAccount(String),
    /// The payment is not in the account's books, or its state does not allow the change.
    #[error("payment {reference}: {reason}")]
    Payment {
        /// The provider's reference.
        reference: String,
        reason: String,
    },
    /// A temporary fault needs a number of calls from 1 to [`Fault::MOST_TIMES`].
    #[error("fault {fault} for {times} calls: must be 1 to {}", Fault::MOST_TIMES)]
    Times { fault: Fault, times: u32 },
    /// A listener could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    /// The books could not be read or written.
    #[error("books {path}: {source}")]
    Books {
        /// Their file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The books contain a line in an unknown format, other than an incomplete last one.
    #[error("books {path}: line {line} is damaged")]
    Damaged {
        /// Their file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The operating system provided no randomness.
    #[error("no randomness: {0}")]
    Randomness(getrandom::Error),
}
