//! The store on PostgreSQL, or an engine that speaks its protocol.
//!
//! Nothing here needs `LISTEN`, advisory locks or an isolation above READ COMMITTED, and all of it is right under
//! SERIALIZABLE too. Payments are changed optimistically, each step by one statement; what changes the directory
//! is a transaction that first takes the lock of `directory`. Locks are taken in one order everywhere: reference,
//! payment, owner, directory, the end of the audit log.
//!
//! Decided 2026-11-27, where the first design of this store said otherwise:
//! - The node that asks first claims a delivery. It is not leased to the node that queued it, and no endpoint belongs
//!   to a node: so there is one way to send. Each node has as many connections to a receiver as one that serves alone.
//! - Deliveries that are over are deleted in batches. Their table has no partitions, which would need an owner that
//!   makes the next one in time.
//! - Changes of the directory and of the audit log are interactive transactions: they are rare, and the server ends a
//!   session that says nothing within one for a second.
//! - Statements are prepared by name, for speed. So a pooler in transaction mode is not for it.
//! - The gateway has one role. A role that reads for reports is the operator's to make.
//!
//! | file or folder | holds |
//! |---|---|
//! | `open`, `target` | the master key, what a database has to be; the address and TLS |
//! | `schema`, `errors` | the tables and their migration; why a store does not open |
//! | `mark` | that nothing may be served from a database that is being copied, or was |
//! | `node`, `membership`, `cluster` | a node among others: its beats, what they mean, `Cluster` |
//! | `database`, `statement` | statements and transactions, and what is tried again; a statement out of parts |
//! | `columns` | columns of rows, read |
//! | `batches` | what is committed together |
//! | `lists`, `audit` | pages of lists; lines of the audit log |
//! | `payments`, `directory`, `nonces`, `routing_log` | the traits of these names |
//! | `webhooks`, `resellers`, `connects`, `upkeep`, `trials` | likewise |
//! | `verify` | a database is read through |
//! | `private`, `scratch` | a server of one's own, for tests and `dev`; databases for tests |

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
pub use crate::postgres::open::{OpenOptions, migrate};
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
    /// Connections for what a caller waits for.
    pub(crate) requests: Database,
    /// Connections for workers, so that they never take a request's.
    pub(crate) workers: Database,
    pub(crate) secrets: Arc<Secrets>,
    /// When providers are asked about attempts.
    pub(crate) schedule: ArcSwap<QuerySchedule>,
    pub(crate) claims: Claims,
    /// Creations that wait to be committed together.
    creating: Batches<Creating>,
    /// Nonces likewise.
    taking: Batches<Taking>,
    nonces: Counts,
    node: Option<Node>,
    pub(crate) node_state: Arc<NodeState>,
    /// Operations under way: they go on where their callers have given up.
    under_way: TaskTracker,
    this: Weak<Self>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Does an operation to its end, even where its caller gives up: a transaction that stands still holds locks.
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
            // One type of task for all operations, so that the runtime's part in it is compiled once.
            let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                // The caller may be gone.
                let _gone = reply.send(operation(this).await);
            });
            under_way.spawn(task);
            answer.await.unwrap_or(Err(Fault::Stopping))
        })
    }

    /// Tells who delivers of the endpoints that a step's statement has queued something for.
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

    /// Does a transaction to its end.
    pub(crate) fn operate<W: TransactionWork>(&self, work: W) -> StoreFuture<'static, W::Outcome> {
        self.run_to_end(async move |store| store.requests.transact(&work).await)
    }
}

/// Milliseconds, as they are stored.
pub(crate) fn millis(at: Time) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// A time as it was stored.
pub(crate) fn time(millis: i64) -> Time {
    Time::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// A number, as it is stored.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An id, as it is stored.
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
