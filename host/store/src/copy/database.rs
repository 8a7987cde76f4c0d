//! The database that is the source or target of a copy, while nothing else uses it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use deadpool_postgres::Object;
use kassette_domain::audit::Audited;
use kassette_domain::time::Time;
use tokio::runtime::Handle;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::Fault;
use crate::copy::CopyError;
use crate::copy::tables::TABLES;
use crate::mark::CopyState;
use crate::postgres::database::{Arguments, Failure, Tx};
use crate::postgres::open::{self, OpenOptions};
use crate::postgres::statement::Argument;
use crate::postgres::target::Target;
use crate::postgres::{audit, mark};
use crate::rows::seal::Secrets;

/// Maximum number of rows per write: 48 MiB if all have the maximum size.
const AT_ONCE: usize = 512;
/// Fetches a batch of rows.
const FETCHED: &str = "FETCH 256 FROM copied";
/// How long to wait for a killed node to expire: a node without a heartbeat for 5 s is gone.
const WAIT: Duration = Duration::from_secs(6);
const ALIVE: &str =
    "SELECT min(name) FROM node WHERE beat > clock_timestamp() - interval '5 seconds'";
/// Removes expired nodes and ends the sessions of suspended ones: a node that resumes finds another epoch, and
/// stops.
const FENCE: &str =
    "WITH gone AS (DELETE FROM node RETURNING 1), epoch AS (UPDATE directory SET epoch = epoch + 1)
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
        AND pg_has_role(usesysid, 'USAGE') AND application_name = 'kassette' AND pid <> pg_backend_pid()";

/// Values of a row in the order of its table's columns.
pub(crate) type Values = Vec<Argument>;

/// One connection to a database.
pub(crate) struct CopyConnection {
    runtime: Handle,
    client: Object,
    pub(crate) secrets: Secrets,
}

impl CopyConnection {
    /// Connects to a database of this release that is sealed with the same master key.
    pub(crate) fn connect(runtime: Handle, options: &OpenOptions) -> Result<Self, CopyError> {
        let (client, secrets) = runtime.block_on(async {
            let pool = Target::parse(&options.url)?.pool(1, None)?;
            let client = pool.get().await;
            let client = client.map_err(|error| Failure::from(error).fault())?;
            open::check(&client, options.volatile).await?;
            let secrets = open::secrets(&client, &options.master).await?;
            // The session's time-outs are meant for requests.
            let sql = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";
            client.batch_execute(sql).await?;
            Ok::<_, CopyError>((client, secrets))
        })?;
        Ok(Self {
            runtime,
            client,
            secrets,
        })
    }

    /// Executes statements without arguments.
    pub(crate) fn run(&self, sql: &str) -> Result<(), CopyError> {
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }

    /// Executes a statement.
    pub(crate) fn execute(&self, sql: &str, arguments: Arguments<'_>) -> Result<(), CopyError> {
        let done = self.runtime.block_on(self.client.execute(sql, arguments));
        Ok(done.map(drop)?)
    }

    /// Executes a query that returns one row.
    pub(crate) fn one(&self, sql: &str) -> Result<Row, CopyError> {
        Ok(self.runtime.block_on(self.client.query_one(sql, &[]))?)
    }

    /// Calls `read` for every row of a query, fetched in batches. Call within a transaction.
    pub(crate) fn each(
        &self,
        sql: &str,
        mut read: impl FnMut(&Row) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        self.run(&format!("DECLARE copied NO SCROLL CURSOR FOR {sql}"))?;
        loop {
            let rows = self.runtime.block_on(self.client.query(FETCHED, &[]))?;
            if rows.is_empty() {
                return self.run("CLOSE copied");
            }
            rows.iter().try_for_each(&mut read)?;
        }
    }

    /// Reads the database's mark.
    pub(crate) fn mark(&self) -> Result<Option<CopyState>, CopyError> {
        Ok(self.runtime.block_on(mark::read(&self.client))?)
    }

    /// Sets or removes the database's mark.
    pub(crate) fn set_mark(&self, mark: Option<CopyState>) -> Result<(), CopyError> {
        Ok(self.runtime.block_on(mark::write(&self.client, mark))?)
    }

    /// Ensures that no node uses the marked database, and that suspended nodes cannot resume.
    pub(crate) fn fence(&self) -> Result<(), CopyError> {
        let began = Instant::now();
        while let Some(node) = self.one(ALIVE)?.get(0) {
            if began.elapsed() > WAIT {
                return Err(CopyError::Served(node));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let fenced = self.runtime.block_on(self.client.query(FENCE, &[]));
        Ok(fenced.map(drop)?)
    }

    /// Whether the database has no records.
    pub(crate) fn is_empty(&self) -> Result<bool, CopyError> {
        let any: Vec<_> = TABLES
            .iter()
            .map(|(table, _)| format!("EXISTS (SELECT FROM {table})"))
            .collect();
        let row = self.one(&format!("SELECT {}", any.join(" OR ")))?;
        Ok(!row.get::<_, bool>(0))
    }

    /// Deletes the rows of an interrupted copy. Call within a transaction, which fails if another copy is
    /// running.
    pub(crate) fn clear(&self) -> Result<(), CopyError> {
        let mut sql = String::from("SELECT FROM meta FOR UPDATE NOWAIT; DELETE FROM forgotten");
        for (table, _) in TABLES {
            let _ = write!(sql, "; DELETE FROM {table}");
        }
        self.run(&sql)
    }

    /// Appends an audit entry.
    pub(crate) fn audit(&mut self, audited: Audited, now: Time) -> Result<(), CopyError> {
        let Self {
            runtime,
            client,
            secrets,
        } = self;
        runtime.block_on(async {
            let tx = Tx::new(client.transaction().await?, &secrets.sealer);
            let appended = audit::append(&tx, audited, now).await;
            appended.map_err(Failure::fault)?;
            Ok(tx.commit().await.map_err(Failure::fault)?)
        })
    }

    async fn copy_in(
        &self,
        table: &str,
        columns: &str,
        types: &[Type],
        rows: &[Values],
    ) -> Result<(), Error> {
        let sql = format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)");
        let sink = self.client.copy_in(&sql).await?;
        let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, types));
        for row in rows {
            let values = row.iter().map(|value| &**value as &(dyn ToSql + Sync));
            writer.as_mut().write_raw(values).await?;
        }
        writer.finish().await.map(drop)
    }
}

/// Writes rows in batches per table.
pub(crate) struct Writer<'a> {
    pub(crate) database: &'a CopyConnection,
    tables: BTreeMap<&'static str, Table>,
}

struct Table {
    columns: &'static str,
    types: Vec<Type>,
    /// Rows to be written.
    rows: Vec<Values>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(database: &'a CopyConnection) -> Result<Self, CopyError> {
        let types = async |columns, table| {
            let sql = format!("SELECT {columns} FROM {table}");
            let statement = database.client.prepare(&sql).await?;
            let types = statement.columns().iter();
            Ok::<_, CopyError>(types.map(|column| column.type_().clone()).collect())
        };
        let mut tables = BTreeMap::new();
        for (table, columns) in TABLES {
            let waiting = Table {
                columns,
                types: database.runtime.block_on(types(columns, table))?,
                rows: Vec::new(),
            };
            tables.insert(table, waiting);
        }
        Ok(Self { database, tables })
    }

    /// Adds a row of a table.
    pub(crate) fn push(&mut self, table: &'static str, row: Values) -> Result<(), CopyError> {
        let waiting = self.tables.get_mut(table);
        let waiting = waiting.ok_or_else(|| Fault::Unavailable(format!("no table is {table}")))?;
        waiting.rows.push(row);
        match waiting.rows.len() {
            AT_ONCE.. => self.write(table),
            _ => Ok(()),
        }
    }

    fn write(&mut self, name: &str) -> Result<(), CopyError> {
        let Some(table) = self.tables.get_mut(name) else {
            return Ok(());
        };
        let rows = std::mem::take(&mut table.rows);
        let written = self
            .database
            .copy_in(name, table.columns, &table.types, &rows);
        Ok(self.database.runtime.block_on(written)?)
    }

    /// Writes the remaining rows.
    pub(crate) fn finish(mut self) -> Result<(), CopyError> {
        TABLES.iter().try_for_each(|(table, _)| self.write(table))
    }
}
