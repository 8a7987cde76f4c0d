//! Messages between the process of `dev` and its nodes.
//!
//! A node's standard input carries the [`Assignment`], followed by a [`Move`] for each move of the clock. The node
//! ends when its input ends. Its standard output carries [`Serving`], followed by a [`Moved`] for each move. Every
//! message is a line of JSON. Orders to the simulators use HTTP (`crate::simulators::Elsewhere`).

use std::net::SocketAddr;
use std::path::PathBuf;

use kassette_domain::secret::Secret;
use serde::{Deserialize, Serialize};

use crate::simulators::SimulatedAccount;

/// Parameters of a node.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// Process that started the node. The node ends with it.
    pub(super) parent: u32,
    /// Folder of the configuration.
    pub(super) config: PathBuf,
    /// Folder for the node's own data.
    pub(super) data_dir: PathBuf,
    /// Folders that all nodes share.
    pub(super) plugin_dir: PathBuf,
    pub(super) compiled_dir: PathBuf,
    pub(super) master: Secret,
    pub(super) database: Secret,
    /// The node's addresses. Port 0 selects a free port.
    pub(super) at: Serving,
    /// Origin and admin address of the balancer.
    pub(super) base_url: String,
    pub(super) front_admin: SocketAddr,
    /// Simulated accounts.
    pub(super) accounts: Vec<SimulatedAccount>,
    /// Address that accepts orders to the simulators, and the secret that authenticates them.
    pub(super) office: SocketAddr,
    pub(super) office_secret: Secret,
    /// Difference of the clock from the system's, in milliseconds.
    pub(super) ahead: u64,
}

/// Addresses of a node's listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Serving {
    pub(super) listen: SocketAddr,
    pub(super) admin_listen: SocketAddr,
}

/// A move of the clock to `ahead` milliseconds before the system's time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Move {
    /// Number of the move, starting at 1.
    pub(super) number: u64,
    pub(super) ahead: u64,
}

/// Result of a move: the work that became due is done, or failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) number: u64,
    pub(super) failed: Option<String>,
}
