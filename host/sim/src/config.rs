//! What a simulator is started with, and why it may not start.
use std::{fmt, io, net::SocketAddr, path::PathBuf, sync::Arc};

use crate::fault::Fault;

/// The time as the simulators see it. `dev` moves it forward together with the gateway's.
pub trait SimClock: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;
}

impl<F: Fn() -> u64 + Send + Sync + 'static> SimClock for F {
    fn now_ms(&self) -> u64 {
        self()
    }
}

/// Which world an account's money belongs to. Shown on the payer page and by the vendor's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Sandbox money.
    Test,
    /// Live routes; the money is simulated all the same.
    Live,
}

impl Environment {
    /// The wire word: `test` or `live`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Live => "live",
        }
    }
}

/// One simulated account at one simulated vendor, with its own books and secrets.
#[derive(Clone)]
pub struct SimAccount {
    /// The gateway's id of the account: 1-64 of `[a-z0-9-]`. Names its file of books.
    pub provider_id: String,
    /// Which vendor's protocol it speaks: `sandbox`, `stripe`, …
    pub module: String,
    /// Whether the account is for test or live payments.
    pub environment: Environment,
    /// The public half of its API credentials, where the vendor has one.
    pub client_id: String,
    /// The secret half of its API credentials.
    pub api_key: String,
    /// Keys the signatures of its callbacks.
    pub callback_secret: String,
    /// Where its callbacks go, where that is known already: plain http on loopback.
    pub callback_url: Option<String>,
    /// What payer links begin with, as `https://pay.example/sandbox`. None: the address of the
    /// simulator's own payer listener.
    pub public_base: Option<String>,
}

impl fmt::Debug for SimAccount {
    /// Without the secrets.
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

/// What the gateway's account at a simulated vendor is made of, in the words of its module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Shown to payers.
    pub name: &'static str,
    /// The methods that it serves, by their wire ids.
    pub methods: &'static [&'static str],
    /// What the module's description calls settings, by name.
    pub settings: Vec<(String, String)>,
    /// What it calls secrets, by name.
    pub secrets: Vec<(String, String)>,
}

/// Everything [`crate::Sim::start`] needs.
#[derive(Clone)]
pub struct SimConfig {
    /// Where the payer pages are served; port 0 takes the port of the last run where it is free.
    /// The accounts' API listeners take ports of their own on the same address.
    pub listen: SocketAddr,
    /// Folder of the books; created where absent.
    pub data_dir: PathBuf,
    /// The accounts; their ids differ.
    pub accounts: Vec<SimAccount>,
    pub clock: Arc<dyn SimClock>,
    /// Folder in which every request to a real vendor's API is written down, a file for each module,
    /// a JSON object a line: `{"module","method","url","headers","body"}`, the values of secret
    /// headers masked. For checks against the vendors' own documents.
    pub record: Option<PathBuf>,
}

/// Why a simulator does not start or does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A configured value cannot be used.
    #[error("simulated account {provider_id}: {reason}")]
    Account {
        /// The account that it is about.
        provider_id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No account of that id is simulated here.
    #[error("no simulated account {0}")]
    UnknownAccount(String),
    /// That payment is not in the account's books, or not in a state that allows the change.
    #[error("payment {reference}: {reason}")]
    Payment {
        /// The vendor's reference.
        reference: String,
        reason: String,
    },
    /// A fault that ends by itself needs a number of calls from 1 to [`Fault::MOST_TIMES`].
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
    /// The books hold a line that is none of ours, other than a torn last one.
    #[error("books {path}: line {line} is damaged")]
    Damaged {
        /// Their file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The operating system gave no randomness.
    #[error("no randomness: {0}")]
    Randomness(getrandom::Error),
}
