//! The store of `dev`: the data directory's own, or a private PostgreSQL in it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use kassette_domain::secret::Secret;
use kassette_store::postgres::private::{PrivateError, PrivateOptions, PrivateServer};
use kassette_store::postgres::{self, OpenOptions};
use kassette_store::{MasterKey, PostgresStore};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::error::DevError;
use super::ready_file::ReadyFile;
use crate::ready::ReadyStore;
use crate::serve::{DatabasePlace, ServeError};

/// The database's name.
const NAME: &str = "kassette";
/// Connections of a node, with some to spare while one takes the place of another.
const PER_NODE: u32 = 40;
/// Connections beside those.
const RESERVED: u32 = 60;
/// Between two looks whether the server still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Where `dev` keeps what it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreKind {
    /// In the data directory.
    #[default]
    Sled,
    /// In a PostgreSQL of its own below it, from what is installed.
    Postgres,
}

/// A PostgreSQL that `dev` runs.
#[derive(Clone)]
pub(super) struct Database {
    options: PrivateOptions,
    server: Arc<Mutex<PrivateServer>>,
    url: String,
    master: Secret,
}

impl Database {
    /// Starts the server of a data directory, with the store's tables in it.
    pub(super) async fn start(
        data_dir: &Path,
        master: &Secret,
        nodes: u8,
    ) -> Result<Self, DevError> {
        let connections = RESERVED + PER_NODE * u32::from(nodes);
        let options = PrivateOptions {
            folder: data_dir.join("postgres"),
            disposable: false,
            settings: vec![format!("max_connections={connections}")],
        };
        let server = start(options.clone()).await?;
        let made = server.make_database(NAME).await;
        made.map_err(|why| {
            DevError::Database(PrivateError::Failed {
                program: "postgres",
                said: why,
            })
        })?;
        let url = server.url(NAME);
        postgres::migrate(&of_store(&url, master)?)
            .await
            .map_err(ServeError::from)?;
        let server = Arc::new(Mutex::new(server));
        Ok(Self {
            options,
            server,
            url,
            master: master.clone(),
        })
    }

    /// Opens the store beside the nodes that serve it.
    pub(super) async fn visit(&self) -> Result<Arc<PostgresStore>, DevError> {
        let options = of_store(&self.url, &self.master)?;
        Ok(PostgresStore::visit(&options)
            .await
            .map_err(ServeError::from)?)
    }

    /// What it is opened with.
    pub(super) fn place(&self) -> DatabasePlace {
        DatabasePlace {
            url: self.url(),
            node: "n1".to_owned(),
            is_own: true,
        }
    }

    pub(super) fn url(&self) -> Secret {
        Secret::new(self.url.clone())
    }

    /// What the ready file says of it.
    pub(super) fn ready(&self) -> ReadyStore {
        ReadyStore {
            pid: Some(self.server.lock().pid()),
            ..ReadyStore::of(Some(&self.url()))
        }
    }

    /// Starts the server again whenever it ends, and says so in the ready file.
    pub(super) async fn keep(self, ready: Arc<ReadyFile>, stop: CancellationToken) {
        while stop
            .run_until_cancelled(tokio::time::sleep(LOOK))
            .await
            .is_some()
        {
            if !self.server.lock().has_ended() {
                continue;
            }
            tracing::warn!("PostgreSQL ended: it is started again");
            match start(self.options.clone()).await {
                Ok(server) => *self.server.lock() = server,
                Err(error) => {
                    tracing::error!("PostgreSQL does not start again: {error}");
                    continue;
                }
            }
            ready.change(|ready| ready.store = self.ready());
        }
    }
}

fn of_store(url: &str, master: &Secret) -> Result<OpenOptions, ServeError> {
    let master = MasterKey::parse(master.expose());
    Ok(OpenOptions {
        url: url.to_owned(),
        master: master.map_err(|error| ServeError::BadMasterKey(error.to_string()))?,
        volatile: false,
        node: "dev".into(),
        alone: false,
    })
}

async fn start(options: PrivateOptions) -> Result<PrivateServer, DevError> {
    let started = tokio::task::spawn_blocking(move || PrivateServer::start(&options)).await;
    Ok(started.map_err(|_| ServeError::Interrupted)??)
}
