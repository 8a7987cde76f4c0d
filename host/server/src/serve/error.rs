//! Reasons why the server cannot start.

use std::net::SocketAddr;
use std::path::Path;

use kassette_runtime::RuntimeError;
use kassette_sim::SimError;
use kassette_store::Fault;
use kassette_store::{postgres, sled};
use rustix::process::{Resource, getrlimit};

use super::rates_file::RatesRefused;
use crate::config::ConfigError;
use crate::listen::ListenError;
use crate::master_key::MasterKeyError;

/// Reason why the server cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Rates(#[from] RatesRefused),
    #[error("{0}")]
    PublicUrl(String),
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error("the master key is not usable: {0}")]
    BadMasterKey(String),
    #[error(transparent)]
    Store(#[from] sled::OpenError),
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("the store stopped, because {0}")]
    StoreFailed(String),
    #[error("{error}{}", address_space(.error))]
    Runtime { error: RuntimeError },
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Simulator(#[from] SimError),
    #[error("{0}")]
    SimulatorSecrets(String),
    #[error("{0}")]
    Bundle(String),
    #[error("{0}")]
    Settings(String),
    #[error(
        "other nodes serve the database, and the built-in sandbox keeps its books in one process: set `sandbox = false`"
    )]
    SandboxOfOne,
    #[error("the admin listener {0} is not loopback, so it needs admin_tls_cert and admin_tls_key")]
    PlainAdmin(SocketAddr),
    #[error("{path}: {why}")]
    Folder { path: String, why: String },
    #[error(
        "this process may open {files} files and needs {least}: raise the limit (LimitNOFILE, ulimit -n)"
    )]
    TooFewFiles { files: u64, least: u64 },
    #[error("interrupted")]
    Interrupted,
}

/// Advice if the runtime's memory reservations do not fit into the process's address space.
fn address_space(error: &RuntimeError) -> String {
    let limit = getrlimit(Resource::As).current;
    match (error, limit) {
        (RuntimeError::Engine(_), Some(limit)) => format!(
            "; this process may have {} MiB of address space and needs about a terabyte of it, which takes no memory: lift the limit (ulimit -v unlimited, LimitAS=infinity)",
            limit >> 20
        ),
        _ => String::new(),
    }
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
