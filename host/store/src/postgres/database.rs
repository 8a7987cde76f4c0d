//! Connections, and single statements and transactions over them: which are retried, and what a lost connection
//! means.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{GenericClient, HookError, Object, Pool, PoolError, Transaction};
use parking_lot::Mutex;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::Fault;
use crate::postgres::errors::said;
use crate::postgres::node::NodeState;
use crate::rows::seal::{Sealer, Secrets, fill};

/// Arguments of a statement, as `$1`, `$2`, ...
pub(crate) type Arguments<'a> = &'a [&'a (dyn ToSql + Sync)];
/// An open transaction.
pub(crate) struct Tx<'a> {
    transaction: Transaction<'a>,
    sealer: &'a Sealer,
}

impl<'a> Tx<'a> {
    pub(crate) const fn new(transaction: Transaction<'a>, sealer: &'a Sealer) -> Self {
        Self {
            transaction,
            sealer,
        }
    }

    pub(crate) async fn commit(self) -> Result<(), Failure> {
        Ok(self.transaction.commit().await?)
    }

    /// Authenticates rows.
    pub(crate) const fn sealer(&self) -> &Sealer {
        self.sealer
    }
}

/// A connection or transaction that executes statements.
pub(crate) trait Session {
    type Client: GenericClient;

    fn client(&self) -> &Self::Client;
}

impl Session for Object {
    type Client = Self;

    fn client(&self) -> &Self {
        self
    }
}

impl<'a> Session for Tx<'a> {
    type Client = Transaction<'a>;

    fn client(&self) -> &Transaction<'a> {
        &self.transaction
    }
}

/// Maximum number of tries after collisions with other transactions.
const TRIES: u32 = 8;
/// Maximum duration of all tries.
const TRIED_FOR: Duration = Duration::from_secs(3);
/// How long a read is retried after its connection was lost.
const READ_AGAIN_FOR: Duration = Duration::from_secs(2);
/// Upper limit of the jitter between two tries, which starts at 10 ms and doubles with each try.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time to wait for an answer. The server's own time-out is shorter, so after this the connection
/// hangs.
const DEADLINE: Duration = Duration::from_secs(10);

/// The work of one transaction, with all its input.
pub(crate) trait TransactionWork: Send + Sync + 'static {
    /// The result for the caller.
    type Outcome: Send + 'static;

    /// Whether the work changes data that requests or deliveries cache. Such transactions run one after the
    /// other across all nodes, because they lock `directory` from the start.
    const CHANGES_DIRECTORY: bool = true;

    /// Reads and writes rows. May be called again in another transaction.
    fn apply(&self, tx: &Tx<'_>) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;
}

/// Work that stores its outcome itself, so that transactions are compiled once and not for each kind of work.
trait AnyWork: Sync {
    fn apply<'a>(&'a self, tx: &'a Tx<'_>) -> WorkFuture<'a>;
}

type WorkFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Work, and the outcome of the last try.
struct WithOutcome<'a, W: TransactionWork> {
    work: &'a W,
    outcome: Mutex<Option<W::Outcome>>,
}

impl<'a, W: TransactionWork> WithOutcome<'a, W> {
    fn new(work: &'a W) -> Self {
        Self {
            work,
            outcome: Mutex::default(),
        }
    }

    /// The outcome, after the transaction was committed.
    fn committed(self) -> Result<W::Outcome, Fault> {
        self.outcome.into_inner().ok_or(Fault::Stopping)
    }
}

impl<W: TransactionWork> AnyWork for WithOutcome<'_, W> {
    fn apply<'a>(&'a self, tx: &'a Tx<'_>) -> WorkFuture<'a> {
        Box::pin(async move {
            let outcome = self.work.apply(tx).await?;
            *self.outcome.lock() = Some(outcome);
            Ok(())
        })
    }
}

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The statement collided with another transaction: nothing was changed, and a retry may succeed.
    Collided,
    /// An assertion about the rows does not hold: nothing was changed, and they must be read again.
    Stale,
    /// A unique constraint is violated: nothing was changed. Contains the constraint's name.
    Duplicate(String),
    /// The connection was lost before the answer: the outcome is unknown.
    Lost,
    /// The database cannot be reached: nothing was changed, and another attempt would fail too.
    Unreachable(Fault),
    /// The statement took too long or waited too long for a lock: nothing was changed, and a retry would fare
    /// no better.
    Late,
    /// Nothing was changed.
    Fault(Fault),
}

impl Failure {
    /// The fault for a caller that does not retry.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Collided | Self::Stale | Self::Late => Fault::Busy,
            Self::Duplicate(what) => Fault::Unavailable(format!("{what} is in use")),
            // The outcome is unknown, as with a disk that hangs; the next request shows it.
            Self::Lost => Fault::Stopping,
            Self::Unreachable(fault) | Self::Fault(fault) => fault,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            // Wrong types of arguments or columns are errors of this program, not lost connections.
            if error.is_closed()
                || std::error::Error::source(&error).is_some_and(|of| of.is::<std::io::Error>())
            {
                return Self::Lost;
            }
            tracing::error!(%error, "a statement is wrong");
            return Self::Fault(Fault::Unavailable(format!("a statement is wrong: {error}")));
        };
        let class = code.code().get(..2).unwrap_or_default();
        match code {
            &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Self::Collided
            }
            &SqlState::DIVISION_BY_ZERO => Self::Stale,
            &SqlState::UNIQUE_VIOLATION => {
                let rule = error.as_db_error().and_then(|error| error.constraint());
                Self::Duplicate(rule.unwrap_or("a key").to_owned())
            }
            // The statement was prepared before a migration.
            &SqlState::FEATURE_NOT_SUPPORTED if error.to_string().contains("cached plan") => {
                Self::Collided
            }
            &SqlState::LOCK_NOT_AVAILABLE => {
                timed_out("lock");
                Self::Late
            }
            &SqlState::QUERY_CANCELED => {
                timed_out("statement");
                Self::Late
            }
            // The server refused the statement before it did anything.
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::Unreachable(Fault::Unavailable(
                "the database is read-only: it is a standby, or in recovery".into(),
            )),
            // The server ended the session and does not report whether the statement took effect.
            _ if class == "08" || code.code().starts_with("57P") || class == "25" => Self::Lost,
            _ => {
                let said = said(&error);
                tracing::error!(
                    error = said,
                    sqlstate = code.code(),
                    "the database refused a statement"
                );
                Self::Fault(match class {
                    "XX" => Fault::Corrupt(said),
                    _ => Fault::Unavailable(said),
                })
            }
        }
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::Unreachable(match error {
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
                timed_out("connection");
                Fault::Busy
            }
            // A new connection failed before it sent any other statement.
            PoolError::PostCreateHook(HookError::Backend(_)) => return Self::Collided,
            PoolError::PostCreateHook(HookError::Message(why)) => {
                Fault::Unavailable(format!("the database cannot be reached: {why}"))
            }
            PoolError::Closed => Fault::Stopping,
            PoolError::Backend(error) => Fault::Unavailable(said(&error)),
            error => Fault::Unavailable(format!("the database cannot be reached: {error}")),
        })
    }
}

/// Counts a wait that timed out.
fn timed_out(waited_for: &'static str) {
    metrics::counter!("kassette_database_timeouts_total", "waited_for" => waited_for).increment(1);
}

/// Counts leases that expired because their nodes did not release them.
pub(crate) fn count_lapsed(of: &'static str, leases: usize) {
    let leases = u64::try_from(leases).unwrap_or(u64::MAX);
    metrics::counter!("kassette_leases_lapsed_total", "of" => of).increment(leases);
}

/// Tries of an operation that can collide.
pub(crate) struct Tries {
    began: Instant,
    made: u32,
    /// The answer of a try was lost, so a result found later may come from that try.
    pub(crate) lost: bool,
}

impl Tries {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            made: 0,
            lost: false,
        }
    }

    /// Waits before the next try, with full jitter. After too many tries, returns `Busy`, or `Stopping` if an
    /// answer was lost and it is unknown whether a try succeeded.
    pub(crate) async fn again(&mut self, failure: &Failure) -> Result<(), Fault> {
        self.made += 1;
        self.lost |= matches!(failure, Failure::Lost);
        metrics::counter!("kassette_database_retries_total").increment(1);
        if self.made >= TRIES || self.began.elapsed() > TRIED_FOR {
            return Err(match self.lost {
                true => Failure::Lost.fault(),
                false => Fault::Busy,
            });
        }
        let most = MAX_PAUSE.min(Duration::from_millis(5 << self.made));
        let mut random = [0; 2];
        fill(&mut random)?;
        tokio::time::sleep(most * u32::from(u16::from_be_bytes(random)) / u32::from(u16::MAX))
            .await;
        Ok(())
    }
}

/// A pool of connections for one kind of work.
pub(crate) struct Database {
    /// The pool's name in metrics.
    pub(crate) name: &'static str,
    /// Serializes transactions of several statements, see [`Database::transact`].
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) pool: Pool,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) node_state: Arc<NodeState>,
}

impl Database {
    /// Authenticates rows.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.secrets.sealer
    }

    /// A connection from the pool, if this node may serve.
    async fn connection(&self) -> Result<Object, Failure> {
        self.node_state.check().map_err(Failure::Unreachable)?;
        let began = Instant::now();
        loop {
            let connection = self.pool.get().await?;
            self.node_state.check().map_err(Failure::Unreachable)?;
            if Object::metrics(&connection).created >= self.node_state.connected() {
                let waited = began.elapsed().as_secs_f64();
                metrics::histogram!("kassette_database_wait_seconds", "pool" => self.name)
                    .record(waited);
                return Ok(connection);
            }
            drop(Object::take(connection));
        }
    }

    /// Executes a statement that changes nothing, and returns its rows.
    pub(crate) async fn read(
        &self,
        sql: &str,
        arguments: Arguments<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let (began, mut tries) = (Instant::now(), Tries::new());
        loop {
            match self.once(sql, arguments).await {
                Ok(rows) => return Ok(rows),
                Err(Failure::Lost) if began.elapsed() >= READ_AGAIN_FOR => {
                    return Err(Fault::Unavailable(
                        "the connection to the database was lost".into(),
                    ));
                }
                Err(Failure::Lost | Failure::Collided) => {
                    // A read leaves nothing in doubt.
                    tries.again(&Failure::Collided).await?;
                }
                Err(failure) => return Err(failure.fault()),
            }
        }
    }

    /// The same for at most one row.
    pub(crate) async fn read_one(
        &self,
        sql: &str,
        arguments: Arguments<'_>,
    ) -> Result<Option<Row>, Fault> {
        Ok(self.read(sql, arguments).await?.into_iter().next())
    }

    /// Executes one statement as its own transaction, and retries collisions.
    pub(crate) async fn write(
        &self,
        sql: &str,
        arguments: Arguments<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let mut tries = Tries::new();
        loop {
            match self.once(sql, arguments).await {
                Err(failure @ Failure::Collided) => tries.again(&failure).await?,
                done => return done,
            }
        }
    }

    async fn once(&self, sql: &str, arguments: Arguments<'_>) -> Result<Vec<Row>, Failure> {
        let connection = self.connection().await?;
        let done = in_time(rows(&connection, sql, arguments)).await;
        if matches!(
            done,
            Err(Failure::Lost | Failure::Collided | Failure::Unreachable(_))
        ) {
            // A connection that hangs, or has outdated prepared statements, is not used again.
            drop(Object::take(connection));
        }
        done
    }

    /// Executes a statement that can be repeated after its answer was lost: the second execution changes
    /// nothing else that matters.
    pub(crate) async fn repeat(
        &self,
        sql: &str,
        arguments: Arguments<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let mut tries = Tries::new();
        loop {
            match self.once(sql, arguments).await {
                Err(failure @ (Failure::Lost | Failure::Collided)) => tries.again(&failure).await?,
                done => return done.map_err(Failure::fault),
            }
        }
    }

    /// Writes a row without meaning.
    pub(crate) async fn probe(&self) -> Result<(), Fault> {
        let sql = "INSERT INTO probe (at) VALUES (clock_timestamp())
            ON CONFLICT (single) DO UPDATE SET at = clock_timestamp()";
        self.repeat(sql, &[]).await.map(drop)
    }

    /// Waits until all earlier commits are replicated as configured. A result found after its answer was lost
    /// may be on this server only: when a server shuts down, sessions stop waiting for the standby, and other
    /// sessions briefly see their commits. The probe's commit waits for the standby again, and a standby that
    /// has it also has all earlier commits.
    pub(crate) async fn confirm(&self) -> Result<(), Failure> {
        self.probe().await.map_err(|_| Failure::Lost)
    }

    /// Executes a transaction and retries it from the start after a collision. One at a time per process:
    /// nearly all transactions append to the audit log and would wait there for each other while holding
    /// connections, or collide under SERIALIZABLE. A change of the directory returns once no node uses the
    /// previous version.
    pub(crate) async fn transact<W: TransactionWork>(&self, work: &W) -> Result<W::Outcome, Fault> {
        let work = WithOutcome::new(work);
        self.transact_any(&work, W::CHANGES_DIRECTORY).await?;
        work.committed()
    }

    async fn transact_any(&self, work: &dyn AnyWork, changes_directory: bool) -> Result<(), Fault> {
        let turn = self.turn.lock().await;
        let mut tries = Tries::new();
        let version = loop {
            match self.attempt(work, changes_directory).await {
                Ok(version) => break version,
                Err(failure @ (Failure::Collided | Failure::Stale)) => {
                    tries.again(&failure).await?
                }
                Err(failure) => return Err(failure.fault()),
            }
        };
        drop(turn);
        if let Some(version) = version {
            self.settle(version).await;
        }
        Ok(())
    }

    /// Executes a transaction that does not change the directory, without retries.
    pub(crate) async fn transact_once<W: TransactionWork>(
        &self,
        work: &W,
    ) -> Result<W::Outcome, Failure> {
        const { assert!(!W::CHANGES_DIRECTORY, "other nodes have to be waited for") };
        let work = WithOutcome::new(work);
        self.attempt(&work, false).await?;
        Ok(work.committed()?)
    }

    /// Executes a transaction once. Returns the new version of the directory if it changes the directory,
    /// otherwise `None`.
    async fn attempt(
        &self,
        work: &dyn AnyWork,
        changes_directory: bool,
    ) -> Result<Option<i64>, Failure> {
        let mut connection = self.connection().await?;
        let applied = in_time(async {
            let tx = Tx::new(connection.transaction().await?, self.sealer());
            let version = if changes_directory {
                let sql = "UPDATE directory SET version = version + 1 RETURNING version";
                row(&tx, sql, &[]).await?.map(|row| row.get(0))
            } else {
                None
            };
            work.apply(&tx).await?;
            Ok((tx, version))
        });
        let done = match applied.await {
            Ok((tx, version)) => {
                let committed = in_time(tx.commit()).await;
                match (&committed, version) {
                    (Ok(()), Some(version)) => self.node_state.directory_is(version),
                    (Err(_), Some(_)) => self.node_state.directory_may_be_another(),
                    (_, None) => {}
                }
                committed.map(|()| version)
            }
            // Without a COMMIT the server rolls back.
            Err(Failure::Lost) => Err(Failure::Collided),
            Err(failure) => Err(failure),
        };
        if matches!(
            done,
            Err(Failure::Lost | Failure::Collided | Failure::Unreachable(_))
        ) {
            drop(Object::take(connection));
        }
        done
    }
}

/// Waits for an answer for at most [`DEADLINE`]. The statement is not cancelled at the server: that would not
/// reveal the outcome of a commit.
async fn in_time<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let done = tokio::time::timeout(DEADLINE, work).await;
    done.unwrap_or_else(|_| {
        timed_out("answer");
        Err(Failure::Lost)
    })
}

/// Executes a statement that is prepared once per connection, and returns its rows.
pub(crate) async fn rows(
    session: &impl Session,
    sql: &str,
    arguments: Arguments<'_>,
) -> Result<Vec<Row>, Failure> {
    let client = session.client();
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, arguments).await?)
}

/// The same for at most one row.
pub(crate) async fn row(
    session: &impl Session,
    sql: &str,
    arguments: Arguments<'_>,
) -> Result<Option<Row>, Failure> {
    Ok(rows(session, sql, arguments).await?.into_iter().next())
}

/// Executes a statement; returns the number of changed rows.
pub(crate) async fn execute(
    session: &impl Session,
    sql: &str,
    arguments: Arguments<'_>,
) -> Result<u64, Failure> {
    let client = session.client();
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, arguments).await?)
}
