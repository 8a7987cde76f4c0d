//! Deliveries that end because of their endpoint: deleted, or disabled for too long.

use kassette_domain::id::EndpointId;
use kassette_domain::time::Time;
use kassette_domain::webhook::HELD_BACK_MOST;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::PostgresStore;
use crate::postgres::database::{Failure, Tx, row};
use crate::postgres::{millis, time, uuid};
use crate::{Fault, Swept};

/// Maximum number of deliveries that one statement ends, queues again or makes due.
pub(super) const PAGE: i64 = 256;

/// Ends the first `$3` pending deliveries of `$1` that are due by `$2`.
macro_rules! end {
    ($status:literal, $unless:literal) => {
        concat!(
            "/* deliveries: end */
            WITH page AS MATERIALIZED (
                SELECT id FROM delivery WHERE endpoint = $1 AND status = 0 AND next_at <= $2
                ORDER BY next_at, id LIMIT $3 FOR UPDATE),
            ended AS (
                UPDATE delivery d SET status = ",
            $status,
            ", next_at = NULL, leased_until = 0 FROM page p
                WHERE d.id = p.id AND ",
            $unless,
            " RETURNING 1)
            SELECT count(*) FROM ended"
        )
    };
}

const CANCEL: &str = end!("3", "NOT EXISTS (SELECT FROM endpoint e WHERE e.id = $1)");
const EXHAUST: &str = end!(
    "2",
    "EXISTS (SELECT FROM endpoint e WHERE e.id = $1 AND NOT e.enabled)"
);

/// Cancels one page of deliveries that wait for a deleted endpoint; returns how many.
pub(crate) async fn cancel(tx: &Tx<'_>, endpoint: EndpointId) -> Result<u64, Failure> {
    let of = uuid(endpoint.as_bytes());
    let found = row(tx, CANCEL, &[&of, &i64::MAX, &PAGE]).await?;
    Ok(count(&one(found)?, 0))
}

impl PostgresStore {
    /// Ends a page of deliveries of an endpoint that is deleted, or has been disabled for too long.
    pub(crate) async fn sweep_endpoint(
        &self,
        endpoint: EndpointId,
        now: Time,
    ) -> Result<Swept, Fault> {
        let of = uuid(endpoint.as_bytes());
        let mut swept = Swept {
            cancelled: 0,
            exhausted: 0,
            next: None,
        };
        let sql = "/* endpoint: held */ SELECT enabled FROM endpoint WHERE id = $1";
        let found = self.workers.read_one(sql, &[&of]).await?;
        let enabled: Option<bool> = found.map(|found| found.get(0));
        let (end, by, count) = match enabled {
            None => (CANCEL, i64::MAX, &mut swept.cancelled),
            Some(false) => (
                EXHAUST,
                millis(now.before(HELD_BACK_MOST)),
                &mut swept.exhausted,
            ),
            Some(true) => {
                swept.next = self.first_waiting(of).await?;
                return Ok(swept);
            }
        };
        let mut found = self.workers.repeat(end, &[&of, &by, &PAGE]).await?;
        *count = self::count(&one(found.pop())?, 0);
        let first = self.first_waiting(of).await?;
        swept.next = match enabled {
            None => first.map(|_| now),
            Some(_) => first.map(|at| at.after(HELD_BACK_MOST).max(now)),
        };
        Ok(swept)
    }

    /// Due time of the first delivery that waits for an endpoint.
    async fn first_waiting(&self, endpoint: Uuid) -> Result<Option<Time>, Fault> {
        let sql = "/* deliveries: first */ SELECT next_at FROM delivery
            WHERE endpoint = $1 AND status = 0 ORDER BY next_at, id LIMIT 1";
        let found = self.workers.read_one(sql, &[&endpoint]).await?;
        Ok(found.map(|found| time(found.get(0))))
    }
}

/// The row of a statement that always returns one.
pub(super) fn one(found: Option<Row>) -> Result<Row, Fault> {
    found.ok_or_else(|| Fault::Unavailable("a statement has answered nothing".into()))
}

pub(super) fn count(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}
