//! `Cluster` on PostgreSQL, and the wait of a change until all nodes have adopted it.

use std::time::{Duration, Instant};

use kassette_domain::id::PaymentId;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::columns::payment_id;
use crate::postgres::database::{Arguments, Database};
use crate::postgres::membership::SILENT_NODE_WAIT;
use crate::postgres::node::NodeReport;
use crate::{Cluster, Fault, ModulesInfo, NodeInfo, NodeShare, NodeStatus, StoreFuture, Task};

/// Pause between two reads of the versions that other nodes have adopted.
const LOOK: Duration = Duration::from_millis(20);

const BEHIND: &str =
    "/* node: behind */ SELECT EXISTS (SELECT FROM node WHERE seen < $1 AND incarnation <> $2)";
const NODES: &str = "/* nodes */
    SELECT n.name, n.incarnation, (extract(epoch FROM clock_timestamp() - n.beat) * 1000)::bigint, n.seen,
        d.version - n.seen, n.info
    FROM node n, directory d ORDER BY n.name";
const REVIEWED: &str =
    "/* reviewed */ SELECT payment FROM review ORDER BY payment DESC LIMIT 10000";
/// Also deletes tasks that ended long ago, a few at a time.
const TAKE_TASK: &str = "/* task: take */ WITH over AS (
        DELETE FROM schedule WHERE task <> $1 AND task IN (SELECT task FROM schedule
            WHERE until < clock_timestamp() - make_interval(mins => 1) ORDER BY until LIMIT 8 FOR UPDATE SKIP LOCKED))
    INSERT INTO schedule AS s (task, holder, until)
    VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
    ON CONFLICT (task) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE s.holder = excluded.holder OR s.until <= clock_timestamp()
    RETURNING task";

impl Database {
    /// Waits until all other nodes have adopted a committed version of the directory, or until enough time has
    /// passed that they serve nothing by an earlier one. A node that joins later reads the committed version.
    pub(crate) async fn settle(&self, version: i64) {
        // Excludes this node by its incarnation, because another process may have its name by now.
        let (began, own) = (Instant::now(), self.node_state.incarnation());
        let adopted = async {
            loop {
                let behind = self.read_one(BEHIND, &[&version, &own]).await;
                if let Ok(Some(row)) = behind
                    && !row.get::<_, bool>(0)
                {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(SILENT_NODE_WAIT, adopted)
            .await
            .is_err()
        {
            tracing::warn!(
                waited = ?began.elapsed(),
                "a node has not said in time that it has adopted a change: it serves nothing until it has"
            );
        }
    }
}

impl Cluster for PostgresStore {
    fn nodes(&self) -> StoreFuture<'_, Vec<NodeStatus>> {
        Box::pin(async {
            let found = self.workers.read(NODES, &[]).await?;
            found.iter().map(|row| self.status(row)).collect()
        })
    }

    fn announce(&self, info: NodeInfo) {
        self.node_state.report.lock().info = info;
    }

    fn announce_modules(&self, modules: ModulesInfo) {
        self.node_state.report.lock().modules = modules;
    }

    fn live_nodes(&self) -> u32 {
        self.node_state.live()
    }

    fn demanded(&self) {
        self.node_state.demanded();
    }

    fn share(&self) -> NodeShare {
        self.node_state.share()
    }

    fn reviewed(&self) -> StoreFuture<'_, Option<Vec<PaymentId>>> {
        Box::pin(async {
            let found = self.workers.read(REVIEWED, &[]).await?;
            Ok(Some(found.iter().map(|row| payment_id(row, 0)).collect()))
        })
    }

    fn take_task(&self, task: Task, lease: Duration) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            // Repeating it only extends the lease.
            let (task, lease) = (task.name(), lease.as_secs_f64());
            let about: Arguments<'_> = &[&task, &self.node_state.name, &lease];
            Ok(!self.workers.repeat(TAKE_TASK, about).await?.is_empty())
        })
    }
}

impl PostgresStore {
    fn status(&self, row: &Row) -> Result<NodeStatus, Fault> {
        let name: String = row.get(0);
        let natural = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        let info = row.get::<_, Option<&str>>(5).map(serde_json::from_str);
        let damaged = |_| Fault::Corrupt(format!("what node `{name}` tells of itself"));
        let NodeReport { info, modules } = info.transpose().map_err(damaged)?.unwrap_or_default();
        Ok(NodeStatus {
            incarnation: row.get::<_, i64>(1).cast_unsigned(),
            is_self: name == self.node_state.name,
            beat_age: Duration::from_millis(natural(2)),
            adopted: natural(3),
            lag: natural(4),
            info,
            modules,
            name,
        })
    }
}
