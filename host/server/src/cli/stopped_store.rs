//! The store of a stopped server, as commands name it.

use std::path::{Path, PathBuf};

use clap::Args;
use kassette_domain::secret::Secret;
use kassette_store::sled::OpenOptions;
use kassette_store::{MasterKey, postgres};

use crate::config::{Config, url_of_environment};
use crate::master_key;

/// The master key that `dev` keeps in its data directory.
const DEV_KEY: &str = "master.key";
/// The configuration where none is named.
const CONFIG: &str = "config";
/// Memory for pages where no configuration says how much, bytes.
const CACHE: u64 = 64 << 20;
/// The store's folder in a data directory.
const STORE: &str = "store";

/// Where a stopped server's store is.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoppedStore {
    /// Configuration folder of the stopped server [default: config].
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    config: Option<PathBuf>,
    /// Its data directory; the master key is then KASSETTE_MASTER_KEY or master.key in it.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// A store, as it is opened.
pub(super) enum StoreLocation {
    /// In a data directory.
    Folder(OpenOptions),
    /// In a database.
    Database(postgres::OpenOptions),
}

/// A data directory with what is known about it.
pub(super) struct DataDir {
    /// The folder.
    pub(super) path: PathBuf,
    /// Where its master key is, beside the environment.
    pub(super) key_file: Option<PathBuf>,
    cache_bytes: u64,
    database: Option<Secret>,
}

impl StoppedStore {
    /// The store of a folder, as other commands name it.
    pub(super) const fn of(config: Option<PathBuf>, data_dir: Option<PathBuf>) -> Self {
        Self { config, data_dir }
    }

    /// Whether it was said at all.
    pub(super) const fn is_named(&self) -> bool {
        self.config.is_some() || self.data_dir.is_some()
    }

    /// The data directory, of a store that is in it.
    ///
    /// # Errors
    /// A sentence: what is wrong with the configuration, or that the store is a database.
    pub(super) fn find(&self) -> Result<DataDir, String> {
        let found = self.data_dir()?;
        if found.database.is_some() {
            return Err("this store is a PostgreSQL database: it is backed up, restored and looked after by the \
                        database's own means (config/README.md, \"PostgreSQL\")"
                .into());
        }
        Ok(found)
    }

    /// The data directory. Of a configuration only `kassette.toml` is read: what is wrong with an
    /// account must not stand in the way of a restore.
    ///
    /// # Errors
    /// A sentence: what is wrong with the configuration.
    fn data_dir(&self) -> Result<DataDir, String> {
        if let Some(path) = &self.data_dir {
            return Ok(DataDir {
                path: path.clone(),
                key_file: Some(path.join(DEV_KEY)),
                cache_bytes: CACHE,
                database: None,
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
        })
    }

    /// Where the store is, wherever that is.
    ///
    /// # Errors
    /// A sentence: what is wrong with the configuration or the master key.
    pub(super) fn place(&self) -> Result<StoreLocation, String> {
        let found = self.data_dir()?;
        let key = master_key::read(found.key_file.as_deref());
        let master = parse(&key.map_err(|error| error.to_string())?)?;
        Ok(match &found.database {
            Some(url) => StoreLocation::Database(database(url, master)),
            None => StoreLocation::Folder(found.options(master)),
        })
    }

    /// The store in the data directory and the database, both under the master key.
    ///
    /// # Errors
    /// A sentence: what is wrong with the configuration or the master key, or that no database is named.
    pub(super) fn both(&self) -> Result<(OpenOptions, postgres::OpenOptions), String> {
        let found = self.data_dir()?;
        let url = found.database.clone().or_else(url_of_environment);
        let url = url.ok_or(
            "no database is named: set `store.url`, or KASSETTE_STORE_URL in the environment",
        )?;
        let key = master_key::read(found.key_file.as_deref());
        let master = parse(&key.map_err(|error| error.to_string())?)?;
        let database = database(&url, master.clone());
        Ok((found.options(master), database))
    }

    /// What its store is opened with.
    ///
    /// # Errors
    /// A sentence: what is wrong with the configuration or the master key.
    pub(super) fn options(&self) -> Result<OpenOptions, String> {
        let found = self.find()?;
        let key = master_key::read(found.key_file.as_deref());
        let key = parse(&key.map_err(|error| error.to_string())?)?;
        Ok(found.options(key))
    }
}

impl DataDir {
    /// What its store is opened with under a master key.
    pub(super) fn options(&self, master: MasterKey) -> OpenOptions {
        OpenOptions {
            path: self.path.join(STORE),
            master,
            cache_bytes: self.cache_bytes,
        }
    }
}

/// What a database is opened with.
fn database(url: &Secret, master: MasterKey) -> postgres::OpenOptions {
    postgres::OpenOptions {
        url: url.expose().to_owned(),
        master,
        volatile: false,
        node: "command".into(),
        alone: false,
    }
}

/// A master key from its text.
pub(super) fn parse(text: &Secret) -> Result<MasterKey, String> {
    MasterKey::parse(text.expose()).map_err(|error| error.to_string())
}
