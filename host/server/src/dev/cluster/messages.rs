//! What the process of `dev` and its nodes tell each other.
//!
//! A node's standard input has the [`Assignment`], then a [`Move`] for each time that the clock is moved; its end
//! ends the node. Its standard output has [`Serving`], then a [`Moved`] for each of those. Each is a line of JSON.
//! What the simulators are to do for a node it asks over HTTP (`crate::simulators::Elsewhere`).

use std::net::SocketAddr;
use std::path::PathBuf;

use kassette_domain::secret::Secret;
use serde::{Deserialize, Serialize};

use crate::simulators::SimulatedAccount;

/// What a node is started with.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// The process that started it: it ends with that.
    pub(super) parent: u32,
    /// Folder of the configuration.
    pub(super) config: PathBuf,
    /// What is its own.
    pub(super) data_dir: PathBuf,
    /// What all nodes share.
    pub(super) plugin_dir: PathBuf,
    pub(super) compiled_dir: PathBuf,
    pub(super) master: Secret,
    pub(super) database: Secret,
    /// Its own addresses; port 0 draws a free one.
    pub(super) at: Serving,
    /// The balancer's.
    pub(super) base_url: String,
    pub(super) front_admin: SocketAddr,
    /// Simulated accounts.
    pub(super) accounts: Vec<SimulatedAccount>,
    /// Where orders to the simulators are taken, and what they are believed by.
    pub(super) office: SocketAddr,
    pub(super) office_secret: Secret,
    /// How far the clock is ahead of the system's, milliseconds.
    pub(super) ahead: u64,
}

/// Where a node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Serving {
    pub(super) listen: SocketAddr,
    pub(super) admin_listen: SocketAddr,
}

/// The clock is so far ahead of the system's now, milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Move {
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) ahead: u64,
}

/// What was due then is done, or was not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) number: u64,
    pub(super) failed: Option<String>,
}
