//! Connections, and one statement or transaction at a time over them: what is tried again, and what a
//! lost connection means.

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
use crate::rows::seal::fill;

/// Arguments of a statement, as `$1`, `$2`, ...
pub(crate) type Arguments<'a> = &'a [&'a (dyn ToSql + Sync)];
/// A transaction under way.
pub(crate) type Tx<'a> = Transaction<'a>;

/// How often something is tried that collided with another transaction.
const TRIES: u32 = 8;
/// For how long.
const TRIED_FOR: Duration = Duration::from_secs(3);
/// For how long a read is tried again whose connection was lost.
const READ_AGAIN_FOR: Duration = Duration::from_secs(2);
/// Jitter between two tries, at most: 5 ms, doubled with each, up to this.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// How long an answer is waited for. The server's own time-out is shorter, so past this the connection hangs.
const DEADLINE: Duration = Duration::from_secs(10);

/// What is done in one transaction, with everything that it needs.
pub(crate) trait TransactionWork: Send + Sync + 'static {
    /// What it tells its caller.
    type Outcome: Send + 'static;

    /// Whether it changes what requests or deliveries remember: such operations come one after the other, over all
    /// nodes, and have the lock of `directory` from their beginning.
    const CHANGES_DIRECTORY: bool = true;

    /// Reads, and writes what follows. It can be called again, in another transaction.
    fn apply(&self, tx: &Tx<'_>) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;
}

/// Work whose outcome stays with its caller, so that transactions are compiled once and not for each kind of work.
trait AnyWork: Sync {
    fn apply<'a>(&'a self, tx: &'a Tx<'_>) -> WorkFuture<'a>;
}

type WorkFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Work, and the outcome of the try that came last.
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

    /// The outcome of a transaction that was committed.
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

/// Why a statement has not done its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It collided with another transaction: nothing was changed, and another try may do it.
    Collided,
    /// What it asserts of the rows does not hold: nothing was changed, and they have to be read again.
    Stale,
    /// A row that has to be the only one of its kind is there already: nothing was changed. Says which rule.
    Duplicate(String),
    /// The connection was lost before the answer: whether it was done is not known.
    Lost,
    /// There is no database to ask: nothing was changed, and the next statement fares no better.
    Unreachable(Fault),
    /// It took too long, or waited too long for a lock: nothing was changed, and the next statement fares no better.
    Late,
    /// Nothing was changed.
    Fault(Fault),
}

impl Failure {
    /// What the caller is told who tries no more.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Collided | Self::Stale | Self::Late => Fault::Busy,
            Self::Duplicate(what) => Fault::Unavailable(format!("{what} is in use")),
            // As of a disk that hangs: it shows when it is asked again.
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
            // An argument or a column that does not have its type is an error of this program.
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
            // A statement that was prepared before a migration.
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
            // The server refused before it did anything.
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::Unreachable(Fault::Unavailable(
                "the database is read-only: it is a standby, or in recovery".into(),
            )),
            // The server ended the session: it answers nothing that was done.
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
            // Of a new connection, over which nothing else was asked yet.
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

/// Something was waited for in vain.
fn timed_out(waited_for: &'static str) {
    metrics::counter!("kassette_database_timeouts_total", "waited_for" => waited_for).increment(1);
}

/// Leases that ended by time: their nodes did not give them back.
pub(crate) fn count_lapsed(of: &'static str, leases: usize) {
    let leases = u64::try_from(leases).unwrap_or(u64::MAX);
    metrics::counter!("kassette_leases_lapsed_total", "of" => of).increment(leases);
}

/// Tries of something that can collide.
pub(crate) struct Tries {
    began: Instant,
    made: u32,
    /// The answer of one was lost: what is found done may be its doing.
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

    /// Waits before another try, with full jitter. Where there were enough it says that the store is busy; or, where
    /// an answer was lost, that it is not known whether one of them did it.
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
    /// Its pool's in metrics.
    pub(crate) name: &'static str,
    /// Whose turn it is to do a transaction of several statements: see [`Database::transact`].
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) pool: Pool,
    pub(crate) node_state: Arc<NodeState>,
}

impl Database {
    /// A connection, where this node may serve.
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

    /// Rows of one statement that changes nothing.
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
                    // It changes nothing: nothing is in doubt.
                    tries.again(&Failure::Collided).await?;
                }
                Err(failure) => return Err(failure.fault()),
            }
        }
    }

    /// At most one row of one statement that changes nothing.
    pub(crate) async fn read_one(
        &self,
        sql: &str,
        arguments: Arguments<'_>,
    ) -> Result<Option<Row>, Fault> {
        Ok(self.read(sql, arguments).await?.into_iter().next())
    }

    /// Does one statement, a transaction of its own; again where it collided.
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
            // One that hangs, or has prepared what is no longer so, serves no other.
            drop(Object::take(connection));
        }
        done
    }

    /// Does one statement that can be done again where its answer was lost: a second time it changes nothing that
    /// the first has not, or nothing that matters.
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

    /// Writes a row that means nothing.
    pub(crate) async fn probe(&self) -> Result<(), Fault> {
        let sql = "INSERT INTO probe (at) VALUES (clock_timestamp())
            ON CONFLICT (single) DO UPDATE SET at = clock_timestamp()";
        self.repeat(sql, &[]).await.map(drop)
    }

    /// Waits until all that was committed before is wherever commits have to be. What is found done after its answer
    /// was lost may be on this server alone: a server that dies ends its sessions' waits for the standby, and for a
    /// moment others see what they committed. A probe's commit waits anew, and a standby that has it has all before it.
    pub(crate) async fn confirm(&self) -> Result<(), Failure> {
        self.probe().await.map_err(|_| Failure::Lost)
    }

    /// Does a transaction; again, from its beginning, where it collided. One at a time in this process: nearly all of
    /// them end in the audit log, where one waits for the other, and would hold connections meanwhile that others
    /// need. Under SERIALIZABLE they would spoil each other's tries as well. What changes the directory is answered
    /// once no node goes by what was before.
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

    /// Does a transaction once that leaves the directory as it is.
    pub(crate) async fn transact_once<W: TransactionWork>(
        &self,
        work: &W,
    ) -> Result<W::Outcome, Failure> {
        const { assert!(!W::CHANGES_DIRECTORY, "other nodes have to be waited for") };
        let work = WithOutcome::new(work);
        self.attempt(&work, false).await?;
        Ok(work.committed()?)
    }

    /// Does a transaction once; the version of the directory that it has made, where it is of those that do.
    async fn attempt(
        &self,
        work: &dyn AnyWork,
        changes_directory: bool,
    ) -> Result<Option<i64>, Failure> {
        let mut connection = self.connection().await?;
        let applied = in_time(async {
            let tx = connection.transaction().await?;
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
                let committed = in_time(async { Ok(tx.commit().await?) }).await;
                match (&committed, version) {
                    (Ok(()), Some(version)) => self.node_state.directory_is(version),
                    (Err(_), Some(_)) => self.node_state.directory_may_be_another(),
                    (_, None) => {}
                }
                committed.map(|()| version)
            }
            // What was not told to commit is taken back.
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

/// Waits for an answer for as long as one can come. What is given up is never cancelled at the server: it would
/// not tell what became of a commit.
async fn in_time<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let done = tokio::time::timeout(DEADLINE, work).await;
    done.unwrap_or_else(|_| {
        timed_out("answer");
        Err(Failure::Lost)
    })
}

/// Rows of a statement that is prepared once for each connection.
pub(crate) async fn rows(
    client: &impl GenericClient,
    sql: &str,
    arguments: Arguments<'_>,
) -> Result<Vec<Row>, Failure> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, arguments).await?)
}

/// At most one row.
pub(crate) async fn row(
    client: &impl GenericClient,
    sql: &str,
    arguments: Arguments<'_>,
) -> Result<Option<Row>, Failure> {
    Ok(rows(client, sql, arguments).await?.into_iter().next())
}

/// How many rows a statement changed.
pub(crate) async fn execute(
    client: &impl GenericClient,
    sql: &str,
    arguments: Arguments<'_>,
) -> Result<u64, Failure> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, arguments).await?)
}
