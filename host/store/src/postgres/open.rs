//! Opening: the address, TLS, the schema, the right key, and no other node.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::TaskTracker;
use url::Url;
use zeroize::Zeroizing;

use crate::postgres::PostgresStore;
use crate::postgres::batches::Batches;
use crate::postgres::database::{Database, Turns, said};
use crate::postgres::node::{Node, Standing};
use crate::postgres::nonces::{self, Counts, Taking};
use crate::postgres::payments::create::{self, Creating};
use crate::postgres::schema;
use crate::postgres::webhooks::claims::Claims;
use crate::rows::schema::{CANARY, MARK};
use crate::rows::seal::{CANARY_TEXT, Marker, MasterKey, Sealer, Secrets, Unopened, fill};

/// Connections for requests.
const REQUESTS: usize = 12;
/// Connections over which creations are committed, and committers; the same for nonces.
const COMMITTERS: usize = 2;
/// Connections for what no request waits for.
const WORKERS: usize = 4;
/// How long a request waits for a connection.
const WAIT: Duration = Duration::from_secs(2);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// For how long a server that is not reached over the network is waited for.
const GONE: Duration = Duration::from_secs(10);
/// What every session begins with. A statement ends before its caller gives it up; what holds locks and says
/// nothing holds up nobody for long.
const SESSION: &str = "-c search_path=kassette -c statement_timeout=5s -c lock_timeout=2s \
    -c idle_in_transaction_session_timeout=1s -c client_encoding=UTF8";

/// What a store is opened with.
pub struct OpenOptions {
    /// The database: `postgres://user:password@host:port/name`. The connection is encrypted and the server's name
    /// and certificate are verified, unless the host is a folder of Unix sockets, or the address says
    /// `sslmode=disable`. `sslrootcert=FILE` names the authorities to trust instead of the public ones.
    /// `isolation=serializable` is for engines whose READ COMMITTED is another; it is right everywhere, and slower.
    pub url: String,
    /// The key that secrets are sealed under.
    pub master: MasterKey,
    /// Serves a database that loses what it acknowledged when its machine stops (`fsync = off`): for tests alone.
    pub volatile: bool,
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address can hold a password.
        f.debug_struct("OpenOptions")
            .field("master", &self.master)
            .finish_non_exhaustive()
    }
}

/// Why a store does not open, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be used.
    #[error("the address of the database cannot be used: {0}")]
    Address(String),
    /// The database cannot be reached, or refused something.
    #[error("{0}")]
    Database(String),
    /// It has no tables yet.
    #[error("the database has no tables of Kassette: run `kassette migrate`")]
    Empty,
    /// Its tables are those of an earlier release.
    #[error(
        "the database has schema {found}, this program needs {}: run `kassette migrate`",
        schema::VERSION
    )]
    Older {
        /// Its version.
        found: i32,
    },
    /// Its tables are those of a later release.
    #[error(
        "the database has schema {found}, this program knows up to {}: run a later release",
        schema::VERSION
    )]
    Newer {
        /// Its version.
        found: i32,
    },
    /// It was made under another master key.
    #[error("the database was sealed under another master key: set the key that it was made with")]
    WrongMasterKey,
    /// What every database has does not read back.
    #[error("the database is damaged ({0}): bring its latest backup back")]
    Damaged(String),
    /// Another node serves it.
    #[error(
        "another node serves the database: stop that one first. One that was killed is given up after 3 s"
    )]
    InUse,
    /// It would lose what it acknowledged.
    #[error(
        "the database runs with `{0} = off`, and would lose payments that it acknowledged: switch it on"
    )]
    NotDurable(&'static str),
}

/// Where the database is, and how it is reached.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    /// None where the connection is not encrypted.
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

impl Target {
    /// Reads an address.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let wrong = |why: String| OpenError::Address(why);
        let mut url =
            Url::parse(text).map_err(|_| wrong("it has to be postgres://user@host/name".into()))?;
        let (mut mode, mut authorities, mut isolation) = (None, None, "read\\ committed");
        let mut others = Vec::new();
        for (name, value) in url.query_pairs() {
            match &*name {
                "isolation" if value == "serializable" => isolation = "serializable",
                "isolation" => return Err(wrong("isolation can be serializable alone".into())),
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => authorities = Some(PathBuf::from(value.into_owned())),
                _ => others.push((name.into_owned(), value.into_owned())),
            }
        }
        url.query_pairs_mut().clear().extend_pairs(&others);
        // The parser's errors name the option, never its value.
        let mut config: Config = url
            .as_str()
            .parse()
            .map_err(|error: tokio_postgres::Error| wrong(said(&error)))?;
        let local = is_local(&config);
        let ssl = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            None if local => SslMode::Disable,
            None | Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(wrong(format!(
                    "sslmode={other} is not known: verify-full or disable"
                )));
            }
        };
        config
            .ssl_mode(ssl)
            .options(format!(
                "{SESSION} -c default_transaction_isolation={isolation}"
            ))
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT)
            .keepalives_idle(GONE)
            .tcp_user_timeout(GONE);
        if config.get_application_name().is_none() {
            config.application_name("kassette");
        }
        let tls = match ssl {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(client_tls(authorities)?)),
        };
        Ok(Self { config, tls })
    }

    #[cfg(test)]
    pub(crate) fn ssl_mode(&self) -> SslMode {
        self.config.get_ssl_mode()
    }

    /// Whether the database is on this machine, behind a Unix socket.
    fn is_local(&self) -> bool {
        is_local(&self.config)
    }

    /// A connection of its own, outside of the pools.
    pub(crate) async fn connect(&self) -> Result<Client, OpenError> {
        let connected = match &self.tls {
            Some(tls) => self
                .config
                .connect(tls.clone())
                .await
                .map(|(client, connection)| {
                    tokio::spawn(connection);
                    client
                }),
            None => self
                .config
                .connect(NoTls)
                .await
                .map(|(client, connection)| {
                    tokio::spawn(connection);
                    client
                }),
        };
        connected.map_err(|error| OpenError::Database(said(&error)))
    }

    fn pool(&self, connections: usize) -> Result<Pool, OpenError> {
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let config = self.config.clone();
        let manager = match &self.tls {
            Some(tls) => Manager::from_config(config, tls.clone(), recycling),
            None => Manager::from_config(config, NoTls, recycling),
        };
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CONNECT))
            .build();
        pool.map_err(|error| OpenError::Database(error.to_string()))
    }
}

fn is_local(config: &Config) -> bool {
    config
        .get_hosts()
        .iter()
        .all(|host| matches!(host, Host::Unix(_)))
}

fn client_tls(authorities: Option<PathBuf>) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let wrong = |error: &dyn fmt::Display| {
                OpenError::Address(format!("sslrootcert {}: {error}", file.display()))
            };
            for each in CertificateDer::pem_file_iter(&file).map_err(|error| wrong(&error))? {
                let each = each.map_err(|error| wrong(&error))?;
                roots.add(each).map_err(|error| wrong(&error))?;
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| OpenError::Address(format!("TLS: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Makes the tables, or brings them to this release's form; a new database is sealed with the master key.
///
/// # Errors
/// [`OpenError`]; what was done until then stays, and another call goes on.
pub async fn migrate(options: &OpenOptions) -> Result<(), OpenError> {
    let client = Target::parse(&options.url)?.connect().await?;
    match version(&client).await? {
        Some(found) if found > schema::VERSION => return Err(OpenError::Newer { found }),
        Some(_) => drop(secrets(&client, &options.master).await?),
        None => {}
    }
    schema::migrate(&client).await?;
    let sealer = Sealer::new(&options.master);
    let drawn = |fault: crate::Fault| OpenError::Database(fault.to_string());
    let mut mark = Zeroizing::new([0_u8; 32]);
    fill(mark.as_mut_slice()).map_err(drawn)?;
    let canary = sealer.seal(CANARY, &CANARY_TEXT).map_err(drawn)?;
    let mark = sealer.seal(MARK, &*mark).map_err(drawn)?;
    let (sql, reader) = (
        "INSERT INTO meta AS m (schema_version, oldest_reader, canary, mark) VALUES ($1, $2, $3, $4)
            ON CONFLICT (single) DO UPDATE SET schema_version = greatest(m.schema_version, $1),
            oldest_reader = greatest(m.oldest_reader, $2)",
        schema::OLDEST_READER,
    );
    let written = client
        .execute(sql, &[&schema::VERSION, &reader, &canary, &mark])
        .await;
    written.map_err(|error| OpenError::Database(said(&error)))?;
    secrets(&client, &options.master).await.map(drop)
}

/// The schema's version; none where there are no tables.
async fn version(client: &Client) -> Result<Option<i32>, OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::Database(said(&error));
    let there = client
        .query_one("SELECT to_regclass('kassette.meta') IS NOT NULL", &[])
        .await;
    if !there.map_err(failed)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client
        .query_opt("SELECT schema_version FROM meta", &[])
        .await
        .map_err(failed)?;
    Ok(row.map(|row| row.get(0)))
}

/// Refuses a database that this program does not read, or that loses what it acknowledges.
async fn check(client: &Client, volatile: bool) -> Result<(), OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::Database(said(&error));
    let found = version(client).await?.ok_or(OpenError::Empty)?;
    if found < schema::VERSION {
        return Err(OpenError::Older { found });
    }
    let row = client
        .query_one("SELECT oldest_reader FROM meta", &[])
        .await
        .map_err(failed)?;
    if row.get::<_, i32>(0) > schema::VERSION {
        return Err(OpenError::Newer { found });
    }
    // An engine that speaks the protocol alone may not know the settings.
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        let row = client
            .query_one("SELECT current_setting($1, true)", &[&setting])
            .await
            .map_err(failed)?;
        if row.get::<_, Option<&str>>(0) == Some("off") && !volatile {
            return Err(OpenError::NotDurable(setting));
        }
    }
    Ok(())
}

/// Tells where a failover would lose what was acknowledged.
async fn warn_of_failovers(client: &Client) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('synchronous_standby_names', true)";
    let row = client
        .query_one(sql, &[])
        .await
        .map_err(|error| OpenError::Database(said(&error)))?;
    if row.get::<_, Option<&str>>(0) == Some("") {
        tracing::warn!(
            "the database names no synchronous standby: a failover can lose payments that were acknowledged"
        );
    }
    Ok(())
}

/// Proves the master key, and reads the key of marks.
async fn secrets(client: &Client, master: &MasterKey) -> Result<Secrets, OpenError> {
    let row = client.query_opt("SELECT canary, mark FROM meta", &[]).await;
    let row = row
        .map_err(|error| OpenError::Database(said(&error)))?
        .ok_or(OpenError::Empty)?;
    let sealer = Sealer::new(master);
    let closed = |unopened| match unopened {
        Unopened::OtherKey => OpenError::WrongMasterKey,
        Unopened::Damaged => OpenError::Damaged("the proof of the master key does not open".into()),
    };
    let canary: String = sealer.open(CANARY, row.get(0)).map_err(closed)?;
    if canary != CANARY_TEXT {
        return Err(OpenError::Damaged(
            "the proof of the master key is another".into(),
        ));
    }
    let mark: Zeroizing<[u8; 32]> = sealer
        .open(MARK, row.get(1))
        .map(Zeroizing::new)
        .map_err(closed)?;
    let marker = Marker::new(&mark).map_err(|fault| OpenError::Damaged(fault.to_string()))?;
    Ok(Secrets { sealer, marker })
}

impl PostgresStore {
    /// Opens a database that has its tables, as the node that serves it.
    ///
    /// # Errors
    /// [`OpenError`]; of another node that serves it, or has ended without a word, after some seconds.
    pub async fn open(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        Self::connect(options, true).await
    }

    /// Opens a database beside the node that serves it, for one command.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn visit(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        Self::connect(options, false).await
    }

    async fn connect(options: &OpenOptions, serves: bool) -> Result<Arc<Self>, OpenError> {
        let target = Target::parse(&options.url)?;
        let client = target.connect().await?;
        check(&client, options.volatile).await?;
        if serves && !target.is_local() {
            warn_of_failovers(&client).await?;
        }
        let secrets = secrets(&client, &options.master).await?;
        let node = if serves {
            Some(Node::take(target.clone()).await?)
        } else {
            None
        };
        let standing = match &node {
            Some(node) => Arc::clone(&node.standing),
            None => Standing::of_a_guest(),
        };
        let database = |connections| -> Result<_, OpenError> {
            Ok(Database {
                turns: Turns::default(),
                pool: target.pool(connections)?,
                standing: Arc::clone(&standing),
            })
        };
        let (requests, workers) = (database(REQUESTS)?, database(WORKERS)?);
        let secrets = Arc::new(secrets);
        let taking = Taking {
            database: database(COMMITTERS)?,
        };
        let creating = Creating {
            database: database(COMMITTERS)?,
            secrets: Arc::clone(&secrets),
        };
        Ok(Arc::new_cyclic(|this| Self {
            requests,
            workers,
            secrets,
            creating: Batches::start(creating, COMMITTERS, create::AT_ONCE),
            taking: Batches::start(taking, COMMITTERS, nonces::AT_ONCE),
            nonces: Counts::default(),
            schedule: ArcSwap::default(),
            claims: Claims::default(),
            node,
            standing,
            under_way: TaskTracker::new(),
            this: Weak::clone(this),
        }))
    }
}
