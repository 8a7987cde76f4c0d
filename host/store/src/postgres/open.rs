//! Opening a store: URL, TLS, schema, master key, and a name among the nodes.

use std::fmt;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tokio_postgres::Client;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use crate::postgres::PostgresStore;
use crate::postgres::batches::Batches;
use crate::postgres::database::Database;
use crate::postgres::errors::{OpenError, said};
use crate::postgres::mark;
use crate::postgres::node::{Node, NodeState};
use crate::postgres::nonces::{self, Counts, Taking};
use crate::postgres::payments::create::{self, Creating};
use crate::postgres::schema;
use crate::postgres::target::Target;
use crate::postgres::webhooks::claims::Claims;
use crate::rows::schema::{CANARY, MARK};
use crate::rows::seal::{CANARY_TEXT, Marker, MasterKey, Sealer, Secrets, Unopened, fill};

/// Number of connections for requests.
const REQUESTS: usize = 12;
/// Number of connections that commit batches of creations; the same for nonces. With two, batches would be
/// smaller, and the total throughput of several nodes lower.
const COMMITS: usize = 1;
/// Number of connections for background work.
const WORKERS: usize = 4;

/// Options for opening a store.
pub struct OpenOptions {
    /// URL of the database: `postgres://user:password@host:port/name`. The connection is encrypted and the
    /// server's name and certificate are verified, unless the host is a folder of Unix sockets, or the URL
    /// contains `sslmode=disable`. `sslrootcert=FILE` names the authorities to trust instead of the public
    /// ones. `isolation=serializable` is for engines whose READ COMMITTED differs; it is always correct, but
    /// slower.
    pub url: String,
    /// The key that encrypts secrets.
    pub master: MasterKey,
    /// Accepts a database with `fsync = off`, which loses acknowledged data in a crash. For tests only.
    pub volatile: bool,
    /// The name of this node, unique among the nodes of the database.
    pub node: String,
    /// No other node can be running, because the server was started for this one. Rows of killed nodes are then
    /// ignored, and a heartbeat is valid for longer.
    pub alone: bool,
    /// Whether the ledger uses the server's clock, with which this node's clock is compared. False if this
    /// node's clock is simulated.
    pub server_clock: bool,
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL can contain a password.
        f.debug_struct("OpenOptions")
            .field("master", &self.master)
            .finish_non_exhaustive()
    }
}

/// Creates the tables, or migrates them to this release; a new database is sealed with the master key.
///
/// # Errors
/// [`OpenError`]; completed steps persist, and another call continues.
pub async fn migrate(options: &OpenOptions) -> Result<(), OpenError> {
    let client = Target::parse(&options.url)?.connect().await?;
    match version(&client).await? {
        Some(found) if found > schema::VERSION => return Err(newer(found)),
        Some(found) if found < schema::OLDEST => return Err(OpenError::Unauthenticated(found)),
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

/// Grants the role of another URL the rights that serving needs, see [`schema::grant`]. Does nothing if that
/// role is the owner.
///
/// # Errors
/// [`OpenError`]
pub async fn grant(owner: &OpenOptions, serving: &str) -> Result<(), OpenError> {
    let (owner, serving) = (Target::parse(&owner.url)?, Target::parse(serving)?);
    match serving.user() {
        Some(role) if owner.user() != Some(role) => {
            schema::grant(&owner.connect().await?, role).await
        }
        _ => Ok(()),
    }
}

/// Warns if the serving role may change rows that it should only read or append, so that its password would
/// suffice to alter them.
async fn warn_of_rights(client: &Client) -> Result<(), OpenError> {
    let tables = unguarded(client).await?;
    if !tables.is_empty() {
        tracing::warn!(
            "the database user that serves may change or delete rows of {}: set store.owner_url and run `kassette migrate`",
            tables.join(", ")
        );
    }
    Ok(())
}

/// Returns the tables in which this session's user may do what [`schema::WITHHELD`] lists.
pub(crate) async fn unguarded(client: &Client) -> Result<Vec<&'static str>, OpenError> {
    let mut tables = Vec::new();
    for (table, rights) in schema::WITHHELD {
        let sql = "SELECT has_table_privilege('kassette.' || $1, $2)";
        // Any one of the rights suffices.
        if client
            .query_one(sql, &[&table, &rights.join(", ")])
            .await?
            .get(0)
        {
            tables.push(table);
        }
    }
    Ok(tables)
}

const fn newer(found: i32) -> OpenError {
    OpenError::Newer {
        found,
        known: schema::VERSION,
    }
}

/// The schema's version. `None` if there are no tables.
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

/// Refuses a database that this program cannot read, or that loses acknowledged data.
pub(crate) async fn check(client: &Client, volatile: bool) -> Result<(), OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::Database(said(&error));
    let found = version(client).await?.ok_or(OpenError::Empty)?;
    if found < schema::VERSION {
        return Err(OpenError::Older {
            found,
            known: schema::VERSION,
        });
    }
    let row = client
        .query_one("SELECT oldest_reader FROM meta", &[])
        .await
        .map_err(failed)?;
    if row.get::<_, i32>(0) > schema::VERSION {
        return Err(newer(found));
    }
    // Other engines that speak the protocol may not have these settings.
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

/// Warns if a failover could lose acknowledged data.
async fn warn_of_failovers(client: &Client) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('synchronous_standby_names', true), current_setting('synchronous_commit', true)";
    let row = client
        .query_one(sql, &[])
        .await
        .map_err(|error| OpenError::Database(said(&error)))?;
    let loses = "a failover can lose payments that were acknowledged";
    match (row.get(0), row.get(1)) {
        (Some(""), _) => tracing::warn!("the database names no synchronous standby: {loses}"),
        (_, Some("local")) => {
            tracing::warn!(
                "the database has synchronous_commit = local, which waits for no standby: {loses}"
            );
        }
        _ => {}
    }
    Ok(())
}

/// Verifies the master key, and decrypts the key of marks.
pub(crate) async fn secrets(client: &Client, master: &MasterKey) -> Result<Secrets, OpenError> {
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
    /// Opens a migrated database as a serving node.
    ///
    /// # Errors
    /// [`OpenError`]; if another node has the name, after some seconds. A node that ended without removing its
    /// row causes the same wait.
    pub async fn open(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        Self::connect(options, true).await
    }

    /// Opens a database for a single command, next to running nodes.
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
            warn_of_rights(&client).await?;
        }
        let secrets = secrets(&client, &options.master).await?;
        let node = if serves {
            Some(Node::join(target.clone(), options.node.clone(), options.alone).await?)
        } else {
            None
        };
        // After joining: a copy first marks the database, and then checks for nodes.
        if let Err(refused) = mark::check(&client).await {
            if let Some(node) = &node {
                node.give_up().await;
            }
            return Err(refused);
        }
        let node_state = match &node {
            Some(node) => Arc::clone(&node.node_state),
            None => NodeState::of_a_guest(),
        };
        let batched = target.with_generic_plans();
        let secrets = Arc::new(secrets);
        let database = |name, target: &Target, connections| -> Result<_, OpenError> {
            Ok(Database {
                name,
                secrets: Arc::clone(&secrets),
                turn: tokio::sync::Mutex::default(),
                pool: target.pool(connections, Some(node_state.connection_check()))?,
                node_state: Arc::clone(&node_state),
            })
        };
        let requests = database("requests", &target, REQUESTS)?;
        let workers = database("workers", &target, WORKERS)?;
        let taking = Taking {
            database: database("nonces", &batched, COMMITS)?,
        };
        let creating = Creating {
            database: database("creates", &batched, COMMITS)?,
            secrets: Arc::clone(&secrets),
        };
        Ok(Arc::new_cyclic(|this| Self {
            requests,
            workers,
            secrets,
            creating: Batches::start(creating, create::AT_ONCE),
            taking: Batches::start(taking, nonces::AT_ONCE),
            nonces: Counts::default(),
            schedule: ArcSwap::default(),
            server_clock: options.server_clock,
            claims: Claims::default(),
            node,
            node_state,
            under_way: TaskTracker::new(),
            this: Weak::clone(this),
        }))
    }
}
