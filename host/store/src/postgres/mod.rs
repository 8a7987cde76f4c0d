//! The store on PostgreSQL, or on an engine that speaks its protocol.
//!
//! Nothing here needs `LISTEN`, advisory locks or an isolation level above READ COMMITTED, and everything is
//! also correct under SERIALIZABLE. Payments are changed optimistically, each step by one statement. A change
//! of the directory is a transaction that first locks `directory`. The order of locks is always: reference,
//! payment, owner, directory, end of the audit log.
//!
//! Decided 2026-11-27, differing from the first design of this store:
//! - The first node to claim a delivery sends it. There is no lease for the node that queued it, and no node
//!   owns an endpoint, so there is one way to send. Each node has as many connections to a receiver as a single
//!   node has.
//! - Ended deliveries are deleted in batches. The table is not partitioned: partitions would need an owner that
//!   creates them in time.
//! - Changes of the directory and the audit log are interactive transactions: they are rare, and the server
//!   ends a session that is idle in a transaction for a second.
//! - Statements are prepared by name, for speed, so a pooler in transaction mode does not work.
//! - The gateway uses one role. Operators create a read-only role for reports if they need one.
//!
//! | file or folder | holds |
//! |---|---|
//! | `open`, `target` | the master key and requirements on the database; the URL and TLS |
//! | `schema`, `errors` | the tables and their migration; why a store does not open |
//! | `mark` | prevents serving a database that is being copied, or was |
//! | `node`, `membership`, `cluster` | a node: its heartbeats, their meaning, `Cluster` |
//! | `database`, `statement` | statements, transactions and retries; composed statements |
//! | `columns` | reading columns |
//! | `batches` | group commit |
//! | `lists`, `audit` | pages of lists; audit entries |
//! | `payments`, `movements`, `directory`, `nonces`, `routing_log` | the traits of these names |
//! | `webhooks`, `resellers`, `connects`, `upkeep`, `trials` | likewise |
//! | `verify` | verification of a whole database |
//! | `private`, `scratch` | a private server for tests and `dev`; databases for tests |

pub(crate) mod audit;
mod batches;
mod cluster;
pub(crate) mod columns;
mod connects;
pub(crate) mod database;
pub(crate) mod directory;
pub(crate) mod errors;
mod lists;
pub(crate) mod mark;
mod membership;
mod modules;
pub(crate) mod movements;
mod node;
mod nonces;
pub(crate) mod open;
pub(crate) mod payments;
pub mod private;
mod resellers;
mod retention;
mod routing_log;
mod schema;
pub mod scratch;
pub(crate) mod statement;
pub(crate) mod target;
mod trials;
mod upkeep;
mod verify;
pub(crate) mod webhooks;

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use kassette_domain::id::EndpointId;
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::time::Time;
use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use crate::postgres::errors::OpenError;
pub use crate::postgres::open::{OpenOptions, grant, migrate};
pub use crate::postgres::verify::verify;

use crate::postgres::batches::Batches;
use crate::postgres::database::{Database, TransactionWork};
use crate::postgres::node::{Node, NodeState};
use crate::postgres::nonces::{Counts, Taking};
use crate::postgres::payments::create::Creating;
use crate::postgres::webhooks::claims::Claims;
use crate::rows::seal::Secrets;
use crate::{Fault, StoreFuture, StoreHealth, Vitals};

/// The store on PostgreSQL.
pub struct PostgresStore {
    /// Connections for operations that a caller waits for.
    pub(crate) requests: Database,
    /// Connections for workers, so that they do not use up those for requests.
    pub(crate) workers: Database,
    pub(crate) secrets: Arc<Secrets>,
    /// Times at which providers are queried about attempts.
    pub(crate) schedule: ArcSwap<QuerySchedule>,
    /// Whether the ledger uses the server's clock.
    server_clock: bool,
    pub(crate) claims: Claims,
    /// Creations that wait for a group commit.
    creating: Batches<Creating>,
    /// Nonces that wait for a group commit.
    taking: Batches<Taking>,
    nonces: Counts,
    node: Option<Node>,
    pub(crate) node_state: Arc<NodeState>,
    /// Operations in flight: they continue if their callers give up.
    under_way: TaskTracker,
    this: Weak<Self>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Runs an operation to its end, even if its caller gives up: an idle transaction would hold locks.
    pub(crate) fn run_to_end<T, F>(
        &self,
        operation: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) -> StoreFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let this = self.this.upgrade();
        Box::pin(async move {
            let this = this.ok_or(Fault::Stopping)?;
            this.node_state.check()?;
            let under_way = this.under_way.clone();
            let (reply, answer) = oneshot::channel();
            // All operations use one type of task, so that the runtime's code for it is compiled once.
            let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                // The caller may have given up.
                let _gone = reply.send(operation(this).await);
            });
            under_way.spawn(task);
            answer.await.unwrap_or(Err(Fault::Stopping))
        })
    }

    /// Wakes the delivery worker for the endpoints for which a step's statement has queued deliveries.
    pub(crate) fn ring(&self, written: Option<&Row>, now: Time) {
        if let Some(row) = written.filter(|row| row.len() > 1) {
            let endpoints: Vec<_> = row.get::<_, Vec<Uuid>>(1);
            let endpoints: Vec<_> = endpoints
                .into_iter()
                .map(|id| EndpointId::from_bytes(id.into_bytes()))
                .collect();
            self.claims.ring(&endpoints, now);
        }
    }

    /// Runs a transaction to its end.
    pub(crate) fn operate<W: TransactionWork>(&self, work: W) -> StoreFuture<'static, W::Outcome> {
        self.run_to_end(async move |store| store.requests.transact(&work).await)
    }
}

/// Stored form of a time, in milliseconds.
pub(crate) fn millis(at: Time) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// Reads a stored time.
pub(crate) fn time(millis: i64) -> Time {
    Time::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// Stored form of a number.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Stored form of an id.
pub(crate) const fn uuid(id: &[u8; 16]) -> Uuid {
    Uuid::from_bytes(*id)
}

impl StoreHealth for PostgresStore {
    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.requests.probe())
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        Box::pin(async {
            let sql = "SELECT pg_database_size(current_database()), (SELECT max(created_at) FROM payment)";
            let row = self.workers.read_one(sql, &[]).await?;
            let row = row
                .ok_or_else(|| Fault::Unavailable("the database tells nothing of itself".into()))?;
            Ok(Vitals {
                used: u64::try_from(row.get::<_, i64>(0)).unwrap_or_default(),
                free: None,
                reserved: 0,
                newest: row.get::<_, Option<i64>>(1).map(time),
                backed_up: None,
            })
        })
    }

    fn failed(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(self.node_state.failed())
    }

    fn shut_down(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let was_open = self.node_state.close();
            self.under_way.close();
            self.under_way.wait().await;
            if let Some(node) = self.node.as_ref().filter(|_| was_open) {
                node.give_up().await;
            }
            self.requests.pool.close();
            self.workers.pool.close();
            Ok(())
        })
    }
}
