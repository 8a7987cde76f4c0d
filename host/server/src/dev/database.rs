//! The store of `dev`: the data directory's own, or a private PostgreSQL in it.

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

/// The database's name.
const NAME: &str = "kassette";
/// Connections of a node, with some to spare while one takes the place of another.
const PER_NODE: u32 = 40;
/// Connections beside those.
const RESERVED: u32 = 60;
/// Between two looks whether the server still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Where `dev` keeps what it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// In the data directory.
    Sled,
    /// In a PostgreSQL of its own below it, from what is installed.
    Postgres,
    /// In a database that runs already, by its address.
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

/// The PostgreSQL of `dev`.
#[derive(Clone)]
pub(super) struct DevDatabase {
    /// Where `dev` runs it: what it is started with again.
    own: Option<(PrivateOptions, Arc<Mutex<PrivateServer>>)>,
    url: String,
    master: Secret,
}

impl DevDatabase {
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
        let own = Some((options, Arc::new(Mutex::new(server))));
        Self::migrated(own, url, master).await
    }

    /// One that runs already, with the store's tables in it.
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
        let master = master.clone();
        Ok(Self { own, url, master })
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
            is_own: self.own.is_some(),
        }
    }

    pub(super) fn url(&self) -> Secret {
        Secret::new(self.url.clone())
    }

    /// What the ready file says of it.
    pub(super) fn ready(&self) -> ReadyStore {
        ReadyStore {
            pid: self.own.as_ref().map(|(_, server)| server.lock().pid()),
            ..ReadyStore::of(Some(&self.url()))
        }
    }

    /// Starts the server again whenever it ends, and says so in the ready file, where it is `dev`'s to run.
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
    })
}

async fn start(options: PrivateOptions) -> Result<PrivateServer, DevError> {
    let started = tokio::task::spawn_blocking(move || PrivateServer::start(&options)).await;
    Ok(started.map_err(|_| ServeError::Interrupted)??)
}
