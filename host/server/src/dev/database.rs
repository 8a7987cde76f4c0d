//! The store of `dev`: sled in the data directory, a private PostgreSQL server in it, or a given database.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

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

/// Name of the database.
const NAME: &str = "kassette";
/// Role that serves the database and owns nothing.
const SERVING: &str = "kassette_serving";
/// Connections per node, including some for a restart that overlaps.
const PER_NODE: u32 = 40;
/// Other connections.
const RESERVED: u32 = 60;
/// Interval of checks whether the server still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Kind of the store of `dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// sled in the data directory.
    Sled,
    /// A private PostgreSQL server in the data directory, from the installed programs.
    Postgres,
    /// A running database, by its address.
    At(Secret),
}

impl FromStr for StoreKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sled" => Ok(Self::Sled),
            "postgres" => Ok(Self::Postgres),
            url if url.starts_with("postgres://") => Ok(Self::At(Secret::new(url))),
            _ => Err("it has to be sled, postgres or postgres://user@host/name"),
        }
    }
}

/// The PostgreSQL database of `dev`.
#[derive(Clone)]
pub(super) struct DevDatabase {
    /// The private server and its options for a restart. `None` for a given database.
    own: Option<(PrivateOptions, Arc<Mutex<PrivateServer>>)>,
    /// Address for the owner.
    url: String,
    /// Address for the serving role, if that is a different role.
    serving: Option<String>,
    master: Secret,
}

impl DevDatabase {
    /// Starts the private server of a data directory and creates the store's tables.
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
        let refused = |why| {
            DevError::Database(PrivateError::Failed {
                program: "postgres",
                said: why,
            })
        };
        server.make_database(NAME).await.map_err(refused)?;
        server.make_role(SERVING).await.map_err(refused)?;
        let url = server.url(NAME);
        let serving = server.url_of(SERVING, NAME);
        let own = Some((options, Arc::new(Mutex::new(server))));
        let migrated = Self::migrated(own, url, master).await?;
        postgres::grant(&of_store(&migrated.url, master)?, &serving)
            .await
            .map_err(ServeError::from)?;
        Ok(Self {
            serving: Some(serving),
            ..migrated
        })
    }

    /// Uses a running database and creates the store's tables.
    pub(super) async fn at(url: &Secret, master: &Secret) -> Result<Self, DevError> {
        Self::migrated(None, url.expose().to_owned(), master).await
    }

    async fn migrated(
        own: Option<(PrivateOptions, Arc<Mutex<PrivateServer>>)>,
        url: String,
        master: &Secret,
    ) -> Result<Self, DevError> {
        postgres::migrate(&of_store(&url, master)?)
            .await
            .map_err(ServeError::from)?;
        Ok(Self {
            own,
            url,
            serving: None,
            master: master.clone(),
        })
    }

    /// Opens the store in addition to the nodes that serve it.
    pub(super) async fn visit(&self) -> Result<Arc<PostgresStore>, DevError> {
        let options = of_store(&self.url, &self.master)?;
        Ok(PostgresStore::visit(&options)
            .await
            .map_err(ServeError::from)?)
    }

    /// Parameters for opening the store.
    pub(super) fn place(&self) -> DatabasePlace {
        DatabasePlace {
            url: self.serving(),
            node: "n1".to_owned(),
            is_own: self.own.is_some(),
            server_clock: false,
        }
    }

    /// Address for nodes.
    pub(super) fn serving(&self) -> Secret {
        Secret::new(self.serving.clone().unwrap_or_else(|| self.url.clone()))
    }

    pub(super) fn url(&self) -> Secret {
        Secret::new(self.url.clone())
    }

    /// Entry of the store in the ready file.
    pub(super) fn ready(&self) -> ReadyStore {
        ReadyStore {
            pid: self.own.as_ref().map(|(_, server)| server.lock().pid()),
            ..ReadyStore::from_url(Some(&self.url()))
        }
    }

    /// Restarts the private server whenever it ends, and updates the ready file. Returns immediately for a given
    /// database.
    pub(super) async fn keep(self, ready: Arc<ReadyFile>, stop: CancellationToken) {
        let Some((options, server)) = &self.own else {
            return;
        };
        while stop
            .run_until_cancelled(tokio::time::sleep(LOOK))
            .await
            .is_some()
        {
            if !server.lock().has_ended() {
                continue;
            }
            tracing::warn!("PostgreSQL ended: it is started again");
            match start(options.clone()).await {
                Ok(started) => *server.lock() = started,
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
        server_clock: false,
    })
}

async fn start(options: PrivateOptions) -> Result<PrivateServer, DevError> {
    let started = tokio::task::spawn_blocking(move || PrivateServer::start(&options)).await;
    Ok(started.map_err(|_| ServeError::Interrupted)??)
}
