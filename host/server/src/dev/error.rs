//! Reasons why `dev` cannot start.

use std::net::SocketAddr;

use kassette_sim::SimError;
use kassette_store::postgres::private::PrivateError;

use super::credentials::CredentialsError;
use super::guests::GuestError;
use super::seed::SeedError;
use crate::config::ConfigError;
use crate::master_key::MasterKeyError;
use crate::serve::ServeError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error(transparent)]
    Simulator(#[from] SimError),
    #[error(transparent)]
    Guests(#[from] GuestError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Seed(#[from] SeedError),
    #[error(transparent)]
    Database(#[from] PrivateError),
    #[error("{0} is not a loopback address; dev has demo keys, so it is refused without --expose")]
    Exposed(SocketAddr),
    #[error("the demo shop cannot listen for its events: {0}")]
    NoReceiver(std::io::Error),
    #[error("several nodes need a store that they share: add --store postgres")]
    NoSharedStore,
    #[error("a node does not start: {0}")]
    NoNode(String),
    #[error("dev builds modules from source: run it in a clone of the repository")]
    NoWorkspace,
}
