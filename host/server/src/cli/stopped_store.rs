//! The store of a stopped server, as command-line options select it.

use std::path::{Path, PathBuf};

use clap::Args;
use kassette_domain::secret::Secret;
use kassette_store::sled::OpenOptions;
use kassette_store::{MasterKey, postgres};

use crate::config::{Config, url_of_environment};
use crate::master_key;

/// File with the master key in the data directory of `dev`.
const DEV_KEY: &str = "master.key";
/// Default folder of the configuration.
const CONFIG: &str = "config";
/// Size of the page cache without a configuration, in bytes.
const CACHE: u64 = 64 << 20;
/// Folder of the store in a data directory.
const STORE: &str = "store";

/// Location of a stopped server's store.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoppedStore {
    /// Configuration folder of the stopped server [default: config].
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    config: Option<PathBuf>,
    /// Data directory of the stopped server; the master key is then KASSETTE_MASTER_KEY or master.key in it.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Parameters for opening a store.
pub(super) enum StoreLocation {
    /// In a data directory.
    Folder(OpenOptions),
    /// In a database.
    Database(postgres::OpenOptions),
}

/// A data directory and its settings.
pub(super) struct DataDir {
    /// The folder.
    pub(super) path: PathBuf,
    /// File with the master key. The environment variable takes precedence.
    pub(super) key_file: Option<PathBuf>,
    cache_bytes: u64,
    database: Option<Secret>,
    owner: Option<Secret>,
}

impl StoppedStore {
    /// Selects the store for commands with other options.
    pub(super) const fn new(config: Option<PathBuf>, data_dir: Option<PathBuf>) -> Self {
        Self { config, data_dir }
    }

    /// Whether the user has given one of the options.
    pub(super) const fn is_named(&self) -> bool {
        self.config.is_some() || self.data_dir.is_some()
    }

    /// The data directory, if the store is in it.
    ///
    /// # Errors
    /// An invalid configuration, or a store in a database.
    pub(super) fn find(&self) -> Result<DataDir, String> {
        let found = self.data_dir()?;
        if found.database.is_some() {
            return Err("this store is a PostgreSQL database: it is backed up, restored and looked after by the \
                        database's own means (config/README.md, \"PostgreSQL\")"
                .into());
        }
        Ok(found)
    }

    /// The data directory. Of a configuration, only `kassette.toml` is read, so that an invalid account does not
    /// prevent a restore.
    ///
    /// # Errors
    /// An invalid configuration.
    fn data_dir(&self) -> Result<DataDir, String> {
        if let Some(path) = &self.data_dir {
            return Ok(DataDir {
                path: path.clone(),
                key_file: Some(path.join(DEV_KEY)),
                cache_bytes: CACHE,
                database: None,
                owner: None,
            });
        }
        let folder = self.config.as_deref().unwrap_or(Path::new(CONFIG));
        let main = Config::read_main(folder).map_err(|error| {
            format!(
                "{error}\nThe store of a stopped server is named with --config or --data-dir; a \
                 running one is asked with an operator token in KASSETTE_OPERATOR_TOKEN"
            )
        })?;
        Ok(DataDir {
            path: folder.join(&main.data_dir),
            key_file: main.master_key_file.map(|file| folder.join(file)),
            cache_bytes: main.store.cache_mib << 20,
            database: main.store.url(),
            owner: main.store.owner_url(),
        })
    }

    /// Path of the data directory, even if the store is a database.
    ///
    /// # Errors
    /// An invalid configuration.
    pub(super) fn folder(&self) -> Result<PathBuf, String> {
        self.data_dir().map(|found| found.path)
    }

    /// Location of the store, in a folder or a database.
    ///
    /// # Errors
    /// An invalid configuration or master key.
    pub(super) fn place(&self) -> Result<StoreLocation, String> {
        let found = self.data_dir()?;
        let key = master_key::read(found.key_file.as_deref());
        let master = parse(&key.map_err(|error| error.to_string())?)?;
        Ok(match &found.database {
            Some(url) => StoreLocation::Database(database(url, master)),
            None => StoreLocation::Folder(found.options(master)),
        })
    }

    /// Location of the store for its owner. For a database with an owner's address, also the address for the
    /// serving role.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub(super) fn owned(&self) -> Result<(StoreLocation, Option<Secret>), String> {
        let found = self.data_dir()?;
        let place = self.place()?;
        Ok(match (place, found.owner) {
            (StoreLocation::Database(serving), Some(owner)) => {
                let owned = database(&owner, serving.master);
                (StoreLocation::Database(owned), found.database)
            }
            (place, _) => (place, None),
        })
    }

    /// The store in the data directory and the database with its owner's address, both with the master key.
    ///
    /// # Errors
    /// An invalid configuration or master key, or no configured database.
    pub(super) fn both(&self) -> Result<(OpenOptions, postgres::OpenOptions), String> {
        let found = self.data_dir()?;
        let url = found.database.clone().or_else(url_of_environment);
        let url = url.ok_or(
            "no database is named: set `store.url`, or KASSETTE_STORE_URL in the environment",
        )?;
        let key = master_key::read(found.key_file.as_deref());
        let master = parse(&key.map_err(|error| error.to_string())?)?;
        let database = database(found.owner.as_ref().unwrap_or(&url), master.clone());
        Ok((found.options(master), database))
    }

    /// Parameters for opening the store in the data directory.
    ///
    /// # Errors
    /// An invalid configuration or master key, or a store in a database.
    pub(super) fn options(&self) -> Result<OpenOptions, String> {
        let found = self.find()?;
        let key = master_key::read(found.key_file.as_deref());
        let key = parse(&key.map_err(|error| error.to_string())?)?;
        Ok(found.options(key))
    }
}

impl DataDir {
    /// Parameters for opening the store with a master key.
    pub(super) fn options(&self, master: MasterKey) -> OpenOptions {
        OpenOptions {
            path: self.path.join(STORE),
            master,
            cache_bytes: self.cache_bytes,
        }
    }
}

/// Parameters for opening a database.
fn database(url: &Secret, master: MasterKey) -> postgres::OpenOptions {
    postgres::OpenOptions {
        url: url.expose().to_owned(),
        master,
        volatile: false,
        node: "command".into(),
        alone: false,
        server_clock: false,
    }
}

/// Parses a master key.
pub(super) fn parse(text: &Secret) -> Result<MasterKey, String> {
    MasterKey::parse(text.expose()).map_err(|error| error.to_string())
}
